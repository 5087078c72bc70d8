"""What a checkpoint holds of one operator, and how it is spread over other subtasks."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

KeyedEntries = dict[str, tuple[str, dict[int, list[tuple[Any, Any, Any]]]]]
"""Name of a keyed state → its kind and, by key group, (namespace, key, value)."""

TimersOfGroup = dict[str, list[tuple[int, Any, Any]]]
"""``event`` and ``processing`` → (time, key, namespace)."""


@dataclass(frozen=True)
class OperatorSnapshot:
    """The state of one operator in one subtask; nothing in it changes any more.

    Attributes:
        checkpoint_id: The checkpoint that it is for.
        keyed: The keyed states.
        timers: By key group, of each timer service in the order of their creation.
        lists: Operator state that is split when the parallelism changes, by name.
        union_lists: Operator state of which every subtask gets all, by name.
        broadcast: Operator state that is the same in all subtasks, by name.
        raw_keyed: What the function wrote by key group.
        raw_operator: What the function wrote in partitions; spread as ``lists`` are.
    """

    checkpoint_id: int
    keyed: KeyedEntries = field(default_factory=dict)
    timers: tuple[dict[int, TimersOfGroup], ...] = ()
    lists: Mapping[str, list[Any]] = field(default_factory=dict)
    union_lists: Mapping[str, list[Any]] = field(default_factory=dict)
    broadcast: Mapping[str, dict[Any, Any]] = field(default_factory=dict)
    raw_keyed: Mapping[int, bytes] = field(default_factory=dict)
    raw_operator: tuple[bytes, ...] = ()


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
        keyed=_merged_keyed(snapshots),
        timers=_merged_timers(snapshots),
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
) -> tuple[list[dict[str, list[Any]]], int]:
    """The lists of each new subtask, and the subtask that gets the next surplus."""
    if parallelism == len(snapshots):
        return [dict(old.lists) for old in snapshots], 0
    lists: list[dict[str, list[Any]]] = [{} for _ in range(parallelism)]
    start = 0
    for name in _names(old.lists for old in snapshots):
        elements = [value for old in snapshots for value in old.lists.get(name, ())]
        for subtask, block in enumerate(_blocks(elements, parallelism, start)):
            lists[subtask][name] = block
        start = (start + len(elements)) % parallelism
    return lists, start


def _spread_raw(
    snapshots: Sequence[OperatorSnapshot], parallelism: int, start: int
) -> list[tuple[bytes, ...]]:
    """The raw partitions of each new subtask; ``start`` gets the surplus."""
    if parallelism == len(snapshots):
        return [old.raw_operator for old in snapshots]
    partitions = [partition for old in snapshots for partition in old.raw_operator]
    return [tuple(block) for block in _blocks(partitions, parallelism, start)]


def _united_lists(snapshots: Sequence[OperatorSnapshot]) -> dict[str, list[Any]]:
    """The lists of which every new subtask gets all."""
    return {
        name: [value for old in snapshots for value in old.union_lists.get(name, ())]
        for name in _names(old.union_lists for old in snapshots)
    }


def _names(states: Iterator[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(itertools.chain.from_iterable(states)))


def _blocks(elements: list[Any], parallelism: int, start: int) -> list[list[Any]]:
    base, more = divmod(len(elements), parallelism)
    blocks: list[list[Any]] = [[] for _ in range(parallelism)]
    position = 0
    for index in range(parallelism):
        end = position + base + (index < more)
        blocks[(start + index) % parallelism] = elements[position:end]
        position = end
    return blocks


def _merged_keyed(snapshots: Sequence[OperatorSnapshot]) -> KeyedEntries:
    merged: KeyedEntries = {}
    for old in snapshots:
        for name, (kind, groups) in old.keyed.items():
            merged.setdefault(name, (kind, {}))[1].update(groups)
    return merged


def _merged_timers(snapshots: Sequence[OperatorSnapshot]) -> tuple[dict[int, TimersOfGroup], ...]:
    services = max(len(old.timers) for old in snapshots)
    merged: list[dict[int, TimersOfGroup]] = [{} for _ in range(services)]
    for old in snapshots:
        for service, groups in zip(merged, old.timers, strict=False):
            service.update(groups)
    return tuple(merged)
