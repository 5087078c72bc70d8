"""Snapshot of one operator, and its redistribution over other subtasks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.list_blocks import list_blocks
from penstock.taskexecutor.state.snapshots.snapshot_contents import (
    DatabaseFiles,
    EncodedValues,
    KeyedStates,
    LogSegment,
    entries_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedSnapshot
    from penstock.taskexecutor.state.backends.operator_backend import OperatorStatesSnapshot
    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshots.snapshot_contents import DatabaseFolder

#: Upper bound of the bytes in front of a serialised value.
_BLOCK_HEAD_BYTES: Final = 16

_FOREVER_NS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class OperatorSnapshot:
    """The state of one operator in one subtask; immutable.

    Attributes:
        checkpoint_id: The checkpoint that it belongs to.
        keyed: The keyed states; `entries` decodes them.
        timers: As ``keyed``, by the number of the timer service in the order of creation, a slash,
            and ``event`` or ``processing``.
        lists: Operator state that is split when the parallelism changes, by name.
        union_lists: Operator state that every subtask restores as a whole, by name.
        broadcast: Operator state that is the same in all subtasks, by name: lists of some items
            each.
        raw_keyed: Bytes that the function wrote, by key group.
        raw_operator: Bytes that the function wrote, by partition; redistributed like ``lists``.
        types: The declared types of the states; see `DeclaredTypes`.
        files: Databases that hold keyed states, instead of ``keyed``.
        log: Later changes of keyed states and timers, in order.
        database: Descriptions of a database's states, if only its changes are here.
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

    def entries(self, name: str) -> dict[int, list[tuple[object, object, object]]]:
        """Return the entries of a keyed state by key group, as (namespace, key, value)."""
        _, groups = self.keyed[name]
        return {group: list(entries_of(data)) for group, data in groups.items()}


class RunningSnapshot:
    """The state of one operator at one moment, while it is being serialised in slices.

    All methods but ``finished`` run in the task's thread.

    Attributes:
        checkpoint_id: The checkpoint that it belongs to.
    """

    def __init__(
        self,
        operator: OperatorSnapshot,
        keyed: KeyedSnapshot | None,
        states: OperatorStatesSnapshot,
    ) -> None:
        """Create a snapshot from its parts.

        Args:
            operator: The part that is serialised already: raw state of functions.
            keyed: The keyed states and timers; None if there never were any.
            states: The operator states.
        """
        self.checkpoint_id = operator.checkpoint_id
        self._operator = operator
        self._keyed = keyed
        self._states = states

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left.

        Raises:
            Exception: A value cannot be serialised.
        """
        try:
            return self._states.advance(deadline_ns) and (
                self._keyed is None or self._keyed.advance(deadline_ns)
            )
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Discard the snapshot."""
        self._states.close()
        if self._keyed is not None:
            self._keyed.close()

    def is_little(self, limit_bytes: int) -> bool:
        """Return whether it has no keyed state and at most ``limit_bytes`` when serialised."""
        if self._operator.raw_keyed or not (self._keyed is None or self._keyed.is_empty):
            return False
        blocks = [*self._operator.raw_operator, *self._states.blocks()]
        return sum(map(len, blocks)) + _BLOCK_HEAD_BYTES * len(blocks) <= limit_bytes

    def follow_up(self) -> SlicedPart | None:
        """Return the backend's later work in slices, once ``advance`` has returned True."""
        return None if self._keyed is None else self._keyed.follow_up()

    def database_files(self) -> DatabaseFolder | None:
        """Return the keyed state as database files, at the end, or None."""
        return None if self._keyed is None else self._keyed.database_files()

    def release(self) -> None:
        """Release the contents, which are no longer read; any thread."""
        if self._keyed is not None:
            self._keyed.release()

    def finished(self) -> OperatorSnapshot:
        """Return the snapshot after ``advance`` returned True; once, in any thread.

        Its keyed states are readable until ``release``.
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
    """Serialise a whole snapshot at once."""
    while not running.advance(_FOREVER_NS):
        pass
    snapshot = running.finished()
    keyed: KeyedStates = {
        name: (kind, dict(groups)) for name, (kind, groups) in snapshot.keyed.items()
    }
    running.release()
    return replace(snapshot, keyed=keyed)


def redistribute(snapshots: Sequence[OperatorSnapshot], parallelism: int) -> list[OperatorSnapshot]:
    """Redistribute the snapshots of one checkpoint over another number of subtasks.

    All subtasks get the keyed state and restore the key groups that they own.  Lists are
    concatenated and cut into blocks whose lengths differ by at most one; the subtasks with the
    longer blocks rotate from state to state.  With the old parallelism they stay where they are.

    Args:
        snapshots: The snapshots of the old subtasks, in order.
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
    """Return the lists of each new subtask, and the subtask that the next surplus starts at."""
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
    """Return the raw partitions of each new subtask; the surplus starts at ``start``."""
    if parallelism == len(snapshots):
        return [old.raw_operator for old in snapshots]
    partitions = [partition for old in snapshots for partition in old.raw_operator]
    blocks, _ = list_blocks(len(partitions), parallelism, start)
    return [tuple(partitions[position] for position in block) for block in blocks]


def _united_lists(snapshots: Sequence[OperatorSnapshot]) -> dict[str, EncodedValues]:
    """Return the lists that every new subtask restores as a whole."""
    lists = [old.union_lists for old in snapshots]
    return {name: _joined(lists, name) for name in _names(iter(lists))}


def _joined(states: Sequence[Mapping[str, EncodedValues]], name: str) -> EncodedValues:
    return EncodedValues(
        [block for state in states if name in state for block in state[name].blocks]
    )


def _names(states: Iterator[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(states)))


def _merged(states: Sequence[KeyedStates]) -> KeyedStates:
    merged: dict[str, tuple[str, dict[int, bytes]]] = {}
    for old in states:
        for name, (kind, groups) in old.items():
            merged.setdefault(name, (kind, {}))[1].update(groups)
    return dict(merged)
