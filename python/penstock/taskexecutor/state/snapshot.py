"""Snapshot of one operator, and its redistribution over other subtasks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.list_blocks import list_blocks
from penstock.taskexecutor.state.snapshot_contents import (
    DatabaseFiles,
    EncodedValues,
    KeyedStates,
    LogSegment,
    entries_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.taskexecutor.state.keyed_state_backend import KeyedSnapshot
    from penstock.taskexecutor.state.operator_backend import OperatorStatesSnapshot
    from penstock.taskexecutor.state.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshot_contents import DatabaseFolder

#: The most bytes in front of a serialised value.
_BLOCK_HEAD_BYTES: Final = 16

_FOREVER_NS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class OperatorSnapshot:
    """The state of one operator in one subtask; nothing in it changes any more.

    Attributes:
        checkpoint_id: The checkpoint that it is for.
        keyed: The keyed states; `entries` gives their content.
        timers: As ``keyed``, those of each timer service by its number in the order of creation,
            a slash, and ``event`` or ``processing``.
        lists: Operator state that is split when the parallelism changes, by name.
        union_lists: Operator state of which every subtask gets all, by name.
        broadcast: Operator state that is the same in all subtasks, by name: lists of some of its
            items each.
        raw_keyed: What the function wrote by key group.
        raw_operator: What the function wrote in partitions; spread as ``lists`` are.
        types: The declared types of the states; see `DeclaredTypes`.
        files: Databases that hold keyed states, in place of ``keyed``.
        log: What has changed since in keyed states and timers, in order.
        database: What describes the states of a database, where only changes of it are here.
    """

    checkpoint_id: int
    keyed: KeyedStates = field(default_factory=dict)
    timers: KeyedStates = field(default_factory=dict)
    lists: Mapping[str, EncodedValues] = field(default_factory=dict)
    union_lists: Mapping[str, EncodedValues] = field(default_factory=dict)
    broadcast: Mapping[str, EncodedValues] = field(default_factory=dict)
    raw_keyed: Mapping[int, bytes] = field(default_factory=dict)
    raw_operator: tuple[bytes, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    files: tuple[DatabaseFiles, ...] = ()
    log: tuple[LogSegment, ...] = ()
    database: Mapping[str, Any] = field(default_factory=dict)

    def entries(self, name: str) -> dict[int, list[tuple[Any, Any, Any]]]:
        """The entries of a keyed state by key group, as (namespace, key, value)."""
        _, groups = self.keyed[name]
        return {group: list(entries_of(data)) for group, data in groups.items()}


class RunningSnapshot:
    """The state of one operator at one moment, while it is being serialised in slices.

    All methods but ``finished`` run in the task's thread.

    Attributes:
        checkpoint_id: The checkpoint that it is for.
    """

    def __init__(
        self,
        operator: OperatorSnapshot,
        keyed: KeyedSnapshot | None,
        states: OperatorStatesSnapshot,
    ) -> None:
        """Begins.

        Args:
            operator: What is serialised already: what functions wrote raw.
            keyed: The keyed states and the timers; None where there never were any.
            states: Those that belong to no key.
        """
        self.checkpoint_id = operator.checkpoint_id
        self._operator = operator
        self._keyed = keyed
        self._states = states

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: Something cannot be serialised.
        """
        try:
            return self._states.advance(deadline_ns) and (
                self._keyed is None or self._keyed.advance(deadline_ns)
            )
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Gives it up."""
        self._states.close()
        if self._keyed is not None:
            self._keyed.close()

    def is_little(self, limit_bytes: int) -> bool:
        """Return whether, serialised, it has no keyed state and at most so many bytes."""
        if self._operator.raw_keyed or not (self._keyed is None or self._keyed.is_empty):
            return False
        blocks = [*self._operator.raw_operator, *self._states.blocks()]
        return sum(map(len, blocks)) + _BLOCK_HEAD_BYTES * len(blocks) <= limit_bytes

    def follow_up(self) -> SlicedPart | None:
        """Return the backend's later work in slices, once ``advance`` has returned True."""
        return None if self._keyed is None else self._keyed.follow_up()

    def database_files(self) -> DatabaseFolder | None:
        """The keyed state as files of a database, at the end; None where there is none."""
        return None if self._keyed is None else self._keyed.database_files()

    def release(self) -> None:
        """Release the snapshot: its contents are no longer read; any thread."""
        if self._keyed is not None:
            self._keyed.release()

    def finished(self) -> OperatorSnapshot:
        """The snapshot, once ``advance`` has given True; to be asked for once, by any thread.

        Its keyed states may be read until ``release``.
        """
        keyed, timers = ({}, {}) if self._keyed is None else self._keyed.states()
        states, operator = self._states.states(), self._operator
        return OperatorSnapshot(
            checkpoint_id=operator.checkpoint_id,
            raw_keyed=operator.raw_keyed,
            raw_operator=operator.raw_operator,
            types=operator.types,
            keyed=keyed,
            timers=timers,
            database={} if self._keyed is None else self._keyed.database_states(),
            lists=states.lists,
            union_lists=states.union_lists,
            broadcast=states.broadcast,
        )


def serialised(running: RunningSnapshot) -> OperatorSnapshot:
    """The whole of a snapshot at once."""
    while not running.advance(_FOREVER_NS):
        pass
    snapshot = running.finished()
    keyed: KeyedStates = {
        name: (kind, dict(groups)) for name, (kind, groups) in snapshot.keyed.items()
    }
    running.release()
    return replace(snapshot, keyed=keyed)


def redistribute(snapshots: Sequence[OperatorSnapshot], parallelism: int) -> list[OperatorSnapshot]:
    """The snapshots of one checkpoint for another number of subtasks.

    Keyed state is given to all; a subtask restores the key groups that it owns.  Lists are laid
    end to end and cut into blocks that differ by one element at most, and the subtasks that get
    more rotate from state to state.  With the old parallelism they stay where they are.

    Args:
        snapshots: One of each old subtask, in their order.
        parallelism: The number of new subtasks.
    """
    lists, start = _spread_lists(snapshots, parallelism)
    raw_operator = _spread_raw(snapshots, parallelism, start)
    merged = replace(
        snapshots[0],
        keyed=_merged([old.keyed for old in snapshots]),
        timers=_merged([old.timers for old in snapshots]),
        union_lists=_united_lists(snapshots),
        raw_keyed={group: data for old in snapshots for group, data in old.raw_keyed.items()},
    )
    return [
        replace(
            merged,
            lists=lists[subtask],
            raw_operator=raw_operator[subtask],
            broadcast=snapshots[subtask % len(snapshots)].broadcast,
        )
        for subtask in range(parallelism)
    ]


def _spread_lists(
    snapshots: Sequence[OperatorSnapshot], parallelism: int
) -> tuple[list[dict[str, EncodedValues]], int]:
    """The lists of each new subtask, and the subtask that gets the next surplus."""
    if parallelism == len(snapshots):
        return [dict(old.lists) for old in snapshots], 0
    lists: list[dict[str, EncodedValues]] = [{} for _ in range(parallelism)]
    start = 0
    for name in _names(old.lists for old in snapshots):
        elements = _joined([old.lists for old in snapshots], name).blocks
        blocks, start = list_blocks(len(elements), parallelism, start)
        for subtask, block in enumerate(blocks):
            lists[subtask][name] = EncodedValues(elements[position] for position in block)
    return lists, start


def _spread_raw(
    snapshots: Sequence[OperatorSnapshot], parallelism: int, start: int
) -> list[tuple[bytes, ...]]:
    """The raw partitions of each new subtask; ``start`` gets the surplus."""
    if parallelism == len(snapshots):
        return [old.raw_operator for old in snapshots]
    partitions = [partition for old in snapshots for partition in old.raw_operator]
    blocks, _ = list_blocks(len(partitions), parallelism, start)
    return [tuple(partitions[position] for position in block) for block in blocks]


def _united_lists(snapshots: Sequence[OperatorSnapshot]) -> dict[str, EncodedValues]:
    """The lists of which every new subtask gets all."""
    lists = [old.union_lists for old in snapshots]
    return {name: _joined(lists, name) for name in _names(iter(lists))}


def _joined(states: Sequence[Mapping[str, EncodedValues]], name: str) -> EncodedValues:
    return EncodedValues(
        [block for state in states if name in state for block in state[name].blocks]
    )


def _names(states: Iterator[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(states)))


def _merged(states: Sequence[KeyedStates]) -> KeyedStates:
    merged: dict[str, tuple[str, dict[int, bytes]]] = {}
    for old in states:
        for name, (kind, groups) in old.items():
            merged.setdefault(name, (kind, {}))[1].update(groups)
    return dict(merged)
