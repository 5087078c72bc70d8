"""HeapKeyedStateBackend: the keyed state of one operator, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError
from penstock.taskexecutor.state.backends.table_keyed_state_backend import TableKeyedStateBackend
from penstock.taskexecutor.state.heap import StateTable
from penstock.taskexecutor.state.snapshots.changelog import HeapKeyedLog, TableChanges
from penstock.taskexecutor.state.snapshots.heap_snapshot_strategies import (
    FullSnapshots,
    HeapContent,
    HeapSnapshotStrategy,
    IncrementalSnapshots,
)
from penstock.taskexecutor.time.processing_time import wall_clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.expressions.evaluation import Evaluation
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        KeyedBase,
        KeyedSnapshot,
        KeyGrouping,
        LogBase,
    )
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        DatabaseFiles,
        KeyedStates,
        LogSegment,
    )


class HeapKeyedStateBackend(TableKeyedStateBackend):
    """All keyed states of one operator, in memory."""

    keeps_elements = False

    def __init__(
        self,
        clock_ms: Callable[[], int] = wall_clock_ms,
        evaluation: Evaluation | None = None,
        *,
        is_incremental: bool = False,
    ) -> None:
        """Create a backend without states.

        Args:
            clock_ms: The clock for times to live, in ms.
            evaluation: Decides which folding functions are evaluated; None calls them all.
            is_incremental: Whether snapshots may leave out unchanged key groups.
        """
        super().__init__(clock_ms, evaluation)
        self._snapshots: HeapSnapshotStrategy = (
            IncrementalSnapshots() if is_incremental else FullSnapshots()
        )

    def _new_table(self, name: str, kind: str) -> StateTable:
        return StateTable(name, kind)

    def _open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | None
    ) -> KeyedSnapshot:
        return self._snapshots.open(
            HeapContent(self._tables, self._timers, grouping), checkpoint_id, base
        )

    @property
    def logged_tables(self) -> tuple[StateTable, ...]:
        """All tables."""
        return (*self._tables.values(), *self._timers.values())

    def _open_log(
        self,
        grouping: KeyGrouping,
        checkpoint_id: int,
        base: LogBase,
        since: Mapping[StateTable, int],
    ) -> KeyedSnapshot:
        del checkpoint_id, base
        return HeapKeyedLog(
            TableChanges(self._tables, grouping, since),
            TableChanges(self._timers, grouping, since),
        )

    def restore(
        self,
        keyed: KeyedStates,
        timers: KeyedStates,
        key_groups: range,
        keys: KeyReader,
        files: tuple[DatabaseFiles, ...] = (),
        log: tuple[LogSegment, ...] = (),
    ) -> None:
        """Restore tables; see `TableKeyedStateBackend`.

        Raises:
            CorruptStreamError: The entries are malformed.
            InvalidProgramError: Their type differs from the declared one, or they are database
                files.
        """
        if files:
            raise InvalidProgramError(
                "an incremental checkpoint of the state backend rocksdb can only be restored "
                "with it: take a savepoint to change to another state backend"
            )
        self.restore_tables(keyed, timers, key_groups, keys, log)
