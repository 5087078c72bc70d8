"""The content of a heap backend at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.state.sliced_parts import SlicedParts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.taskexecutor.state.heap import StateTable, TableSnapshot
    from penstock.taskexecutor.state.keyed_state_backend import KeyGrouping
    from penstock.taskexecutor.state.sliced_parts import SlicedPart
    from penstock.taskexecutor.state.snapshot_contents import (
        DatabaseFolder,
        KeyedStates,
    )


class HeapKeyedSnapshot:
    """The content of a heap backend at one moment."""

    def __init__(
        self,
        tables: dict[str, StateTable],
        timers: dict[str, StateTable],
        grouping: KeyGrouping,
        kept: Collection[int] = (),
    ) -> None:
        """Opens a snapshot of each table.

        Args:
            tables: Those of states.
            timers: Those of timers.
            grouping: How keys are in key groups.
            kept: The key groups that are left out.
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
        self._left = SlicedParts(
            table for _, table in (*self._states.values(), *self._timers.values())
        )

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: An entry cannot be serialised.
        """
        return self._left.advance(deadline_ns)

    def close(self) -> None:
        """Gives it up."""
        self._left.close()

    @property
    def is_empty(self) -> bool:
        """Return whether there are neither states nor timers."""
        return not self._states and not self._timers

    def database_files(self) -> DatabaseFolder | None:
        """None: there is no database."""
        return None

    def follow_up(self) -> SlicedPart | None:
        """None: nothing is left to be done."""
        return None

    def database_states(self) -> Mapping[str, Any]:
        """Nothing: there is no database."""
        return {}

    def release(self) -> None:
        """Do nothing: ``states`` belongs to its readers."""

    def states(self) -> tuple[KeyedStates, KeyedStates]:
        """Keyed states and timers, once ``advance`` has given True; once, by any thread."""
        return taken(self._states), taken(self._timers)


def taken(tables: Mapping[str, tuple[str, TableSnapshot]]) -> KeyedStates:
    """Return the serialised contents of tables' snapshots; callable once."""
    return {
        name: (kind, {group: table.entries.take(group) for group in table.entries.key_groups()})
        for name, (kind, table) in tables.items()
    }
