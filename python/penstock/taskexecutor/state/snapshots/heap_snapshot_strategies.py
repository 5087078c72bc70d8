"""Snapshot strategies of the heap backend: full and incremental.

A table notes the epoch of each entry's last change.  Incremental snapshots compare it with the
epochs of the tables when an earlier snapshot was opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.taskexecutor.state.snapshots.heap_snapshot import HeapKeyedSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        KeyedBase,
        KeyedSnapshot,
        KeyGrouping,
    )
    from penstock.taskexecutor.state.heap import StateTable


class HeapContent(NamedTuple):
    """The tables of a backend.

    Attributes:
        states: Tables by the names of states.
        timers: Tables by the names of timer services.
        grouping: The key groups of the keys.
    """

    states: dict[str, StateTable]
    timers: dict[str, StateTable]
    grouping: KeyGrouping

    @property
    def tables(self) -> tuple[StateTable, ...]:
        """All tables."""
        return (*self.states.values(), *self.timers.values())


class HeapSnapshotStrategy(Protocol):
    """Opens the snapshots of one backend."""

    def open(
        self, content: HeapContent, checkpoint_id: int, base: KeyedBase | None
    ) -> KeyedSnapshot:
        """Open a snapshot.

        Args:
            content: The tables as they are now.
            checkpoint_id: The checkpoint, which later ones may be based on.
            base: The part of an earlier checkpoint that need not be serialised again, or None.
        """


class FullSnapshots:
    """Each snapshot contains everything."""

    def open(
        self, content: HeapContent, checkpoint_id: int, base: KeyedBase | None
    ) -> KeyedSnapshot:
        """Open a snapshot of all key groups."""
        del checkpoint_id, base
        return HeapKeyedSnapshot(*content)


class IncrementalSnapshots:
    """A snapshot leaves out key groups unchanged since its base."""

    def __init__(self) -> None:
        """Start without an earlier snapshot."""
        self._epochs: dict[int, dict[StateTable, int]] = {}

    def open(
        self, content: HeapContent, checkpoint_id: int, base: KeyedBase | None
    ) -> KeyedSnapshot:
        """Open a snapshot of the changed key groups, or of all without a base."""
        kept: Collection[int] = ()
        both = content.tables
        for table in both:
            table.note_changes(*content.grouping.arguments)
        if base is not None and base.checkpoint_id in self._epochs:
            since = self._epochs[base.checkpoint_id]
            changed = {
                group for table in both for group in table.changed_groups(since.get(table, 0))
            }
            kept = base.keep(changed)
            self._epochs = {
                id_: of for id_, of in self._epochs.items() if id_ >= base.checkpoint_id
            }
        snapshot = HeapKeyedSnapshot(*content, kept)
        self._epochs[checkpoint_id] = snapshot.epochs
        return snapshot
