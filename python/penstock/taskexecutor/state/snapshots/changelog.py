"""The changes of tables as segments of a log, and the replay of the log (internals M66).

A segment reads the values of changed entries when it is cut, not at each change: see
`penstock.taskexecutor.state.backends.changelog_keyed_state_backend`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import SerializationError
from penstock.taskexecutor.state.heap import KeyGroupEntries
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.removals import RemovalsSnapshot
from penstock.taskexecutor.state.snapshots.heap_snapshot import MemorySnapshot
from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedParts
from penstock.taskexecutor.state.snapshots.snapshot_contents import (
    CHANGED,
    REMOVED,
    entries_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping
    from penstock.taskexecutor.state.heap import StateTable, TableSnapshot
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        KeyedStates,
        LogSegment,
    )


class TableChanges(SlicedParts):
    """Changes of some tables since an earlier snapshot of them was opened.

    Attributes:
        is_empty: Whether there is no table.
    """

    def __init__(
        self,
        tables: Mapping[str, StateTable],
        grouping: KeyGrouping,
        since: Mapping[StateTable, int],
    ) -> None:
        """Open a snapshot of each table and of the keys removed from it.

        Args:
            tables: The tables, which note removals from now on.
            grouping: The assignment of keys to key groups.
            since: The epochs of the earlier snapshot; a table without one is written whole.
        """
        self.is_empty = not tables
        self._parts: dict[str, tuple[str, TableSnapshot | RemovalsSnapshot]] = {}
        note_removals(tables.values())
        for name, table in tables.items():
            epoch = since.get(table, 0)
            changed = table.open_snapshot(*grouping.arguments, (), epoch)
            assert table.removals is not None, "the table notes removals"
            removed = RemovalsSnapshot(
                table.removals.since(epoch),
                KeyGroupEntries(*grouping.arguments, table.kind == "timer"),
            )
            self._parts[CHANGED + name] = table.kind, changed
            self._parts[REMOVED + name] = table.kind, removed
        super().__init__(part for _, part in self._parts.values())

    def states(self) -> KeyedStates:
        """Return a segment's contents after ``advance`` returned True; once, in any thread."""
        taken: KeyedStates = {}
        for name, (kind, part) in self._parts.items():
            groups = {group: part.entries.take(group) for group in part.entries.key_groups()}
            if groups:
                taken[name] = kind, groups
        return taken


class HeapKeyedLog(MemorySnapshot):
    """Changes of a heap backend since an earlier snapshot: a `KeyedSnapshot`."""

    def __init__(self, states: TableChanges, timers: TableChanges) -> None:
        """Create a log of the changes of states and timers."""
        self._states = states
        self._timers = timers
        super().__init__((states, timers))

    @property
    def is_empty(self) -> bool:
        """Return whether there are neither states nor timers."""
        return self._states.is_empty and self._timers.is_empty

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Return a segment's contents after ``advance`` returned True; once, in any thread."""
        return self._states.states(), self._timers.states()


def note_removals(tables: Iterable[StateTable]) -> None:
    """Make tables note removals before a snapshot that a log may continue.

    Removals before the first such snapshot are not noted: no checkpoint contains these keys, and a
    job without checkpoints would collect them forever.
    """
    for table in tables:
        table.note_removals()


def forget_removals(table: StateTable, since: Iterable[Mapping[StateTable, int]]) -> None:
    """Drop a table's removals that precede all of some snapshots, given their epochs."""
    assert table.removals is not None, "the table notes removals"
    table.removals.forget(min(of.get(table, 0) for of in since))


def replay(
    segment: LogSegment,
    state_table: Callable[[str, str], StateTable],
    timer_table: Callable[[str, str], StateTable],
    key_groups: range,
    keys: KeyReader,
) -> None:
    """Apply a segment to tables that have the state at which it begins.

    Args:
        segment: The segment.
        state_table: Opens the table of a state, given its name and kind.
        timer_table: The same for timers.
        key_groups: The key groups of this subtask.
        keys: Maps a key to its identity in state.

    Raises:
        CorruptStreamError: The segment is not what was serialised.
    """
    states = [(state_table, *item) for item in segment.keyed.items()]
    states += [(timer_table, *item) for item in segment.timers.items()]
    # Removals first: a key that was removed and set again is in both.
    for wanted in (REMOVED, CHANGED):
        for opened, name, (kind, groups) in states:
            if not name.startswith(wanted):
                continue
            table = opened(name.removeprefix(wanted), kind)
            try:
                for group, data in groups.items():
                    if group in key_groups:
                        if wanted == REMOVED:
                            _remove(table, data, keys)
                        else:
                            table.load(data, keys)
            except SerializationError as error:
                name_state(error, name.removeprefix(wanted))
                raise


def _remove(table: StateTable, data: bytes, keys: KeyReader) -> None:
    namespaces: set[Any] = set()
    for namespace, key, of_timer in entries_of(data):
        identity = keys.identity(key)
        if table.kind == "timer" and not (of_timer is None and type(identity) is not tuple):
            identity = identity, of_timer
        table.map(namespace).remove(identity)
        namespaces.add(namespace)
    for namespace in namespaces:
        table.drop_if_empty(namespace)
