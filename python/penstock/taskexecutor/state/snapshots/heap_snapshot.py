"""The content of a heap backend at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedParts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.taskexecutor.state.backends.keyed_state_backend import KeyGrouping
    from penstock.taskexecutor.state.heap import StateTable, TableSnapshot
    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFolder,
        KeyedStates,
    )


class MemorySnapshot(SlicedParts):
    """A `KeyedSnapshot` of a backend without a database."""

    def database_files(self) -> DatabaseFolder | None:
        """Return None: there is no database."""
        return None

    def follow_up(self) -> SlicedPart | None:
        """Return None: no work remains."""
        return None

    def database_states(self) -> Mapping[str, object]:
        """Return no states: there is no database."""
        return {}

    def release(self) -> None:
        """Do nothing: ``states`` belongs to its readers."""


class HeapKeyedSnapshot(MemorySnapshot):
    """The content of a heap backend at one moment."""

    def __init__(
        self,
        tables: dict[str, StateTable],
        timers: dict[str, StateTable],
        grouping: KeyGrouping,
        kept: Collection[int] = (),
    ) -> None:
        """Open a snapshot of each table.

        Args:
            tables: The tables of states.
            timers: The tables of timers.
            grouping: The assignment of keys to key groups.
            kept: The key groups to leave out.
        """
        self.epochs: dict[StateTable, int] = {}

        def opened(of: dict[str, StateTable]) -> dict[str, tuple[str, TableSnapshot]]:
            snapshots = {}
            for name, table in of.items():
                snapshot = table.open_snapshot(*grouping.arguments, kept)
                self.epochs[table] = snapshot.epoch
                snapshots[name] = (table.kind, snapshot)
            return snapshots

        self._states = opened(tables)
        self._timers = opened(timers)
        super().__init__(table for _, table in (*self._states.values(), *self._timers.values()))

    @property
    def is_empty(self) -> bool:
        """Return whether there are neither states nor timers."""
        return not self._states and not self._timers

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Return keyed states and timers after ``advance`` returned True; once, in any thread."""
        return taken(self._states), taken(self._timers)


def taken(tables: Mapping[str, tuple[str, TableSnapshot]]) -> KeyedStates:
    """Return the serialised contents of tables' snapshots; callable once."""
    return {
        name: (kind, {group: table.entries.take(group) for group in table.entries.key_groups()})
        for name, (kind, table) in tables.items()
    }
