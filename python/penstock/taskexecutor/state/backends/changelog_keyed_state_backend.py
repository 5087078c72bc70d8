"""ChangelogKeyedStateBackend: another backend, and the log of its changes (internals M66).

Unlike Flink's, it does not forward each access to log it.  The delegate's tables note the epoch of
each entry's last change, and its database the rows that are written: so the operator uses the
delegate, a record costs nothing, and an entry that changes often is logged once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedStateBackend, LogBase
from penstock.taskexecutor.state.snapshots.changelog import forget_removals, note_removals

if TYPE_CHECKING:
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        KeyedBase,
        KeyedSnapshot,
        KeyGrouping,
    )
    from penstock.taskexecutor.state.backends.table_keyed_state_backend import (
        TableKeyedStateBackend,
    )
    from penstock.taskexecutor.state.heap import StateTable
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFiles,
        KeyedStates,
        LogSegment,
    )


class ChangelogKeyedStateBackend(KeyedStateBackend):
    """A backend whose snapshots are logs of changes since earlier ones, or full ones.

    `ChangelogStates` and `PeriodicMaterialization` choose what a snapshot continues, and when it is
    full.
    """

    def __init__(self, delegate: TableKeyedStateBackend) -> None:
        """Create a backend with the states of another one, which has none yet."""
        self._delegate = delegate
        #: By snapshot from which later logs may continue: the epochs of the tables.
        self._epochs: dict[int, dict[StateTable, int]] = {}

    @property
    def states(self) -> TableKeyedStateBackend:
        """The delegate, which the operator uses itself."""
        return self._delegate

    @property
    def is_unused(self) -> bool:
        """Return whether a snapshot would be empty: no state or timers were opened."""
        return self._delegate.is_unused

    def open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | LogBase | None = None
    ) -> KeyedSnapshot:
        """Open a log of the changes since a `LogBase`, else a full snapshot for logs to continue.

        The snapshot is full, too, if the delegate no longer knows the changes.
        """
        snapshot = None
        if isinstance(base, LogBase):
            self._epochs = {id_: of for id_, of in self._epochs.items() if id_ in base.needed}
            since = self._epochs[base.snapshot_id]
            snapshot = self._delegate.open_log(grouping, checkpoint_id, base, since)
        tables = self._delegate.logged_tables
        if snapshot is None:
            note_removals(tables)
            snapshot = self._delegate.open_snapshot(grouping, checkpoint_id)
        self._epochs[checkpoint_id] = {table: table.epoch for table in tables}
        for table in tables:
            forget_removals(table, self._epochs.values())
        return snapshot

    def restore(
        self,
        keyed: KeyedStates,
        timers: KeyedStates,
        key_groups: range,
        keys: KeyReader,
        files: tuple[DatabaseFiles, ...],
        log: tuple[LogSegment, ...],
    ) -> None:
        """Restore the delegate's entries, which then apply the log."""
        self._delegate.restore(keyed, timers, key_groups, keys, files, log)

    def dispose(self) -> None:
        """Release all state of the delegate."""
        self._delegate.dispose()
