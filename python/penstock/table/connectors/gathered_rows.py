"""Batches of the rows that arrive together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from penstock.datastream.operators import OneInputStreamOperator
from penstock.table.connectors.batches import BATCH_ROWS, record_batch
from penstock.table.plan.nodes import UPDATE_BEFORE

if TYPE_CHECKING:
    from penstock.datastream.operators import OperatorServices
    from penstock.table.formats.row_format import KindedRow
    from penstock.table.types import RowType


class GatheredRows(OneInputStreamOperator, ABC):
    """Converts records to rows, and emits a batch of all that arrived in one turn of the task.

    No row waits for another: a batch leaves as soon as no more input is at hand, and before a
    watermark, a barrier or the end of the input.  The old and the new row of an update that a
    source emits one after the other are in one batch.

    Args:
        row_type: The type of the rows.
        with_kinds: Whether batches have a column of row kinds.
    """

    def __init__(self, row_type: RowType, *, with_kinds: bool) -> None:
        self._row_type = row_type
        self._with_kinds = with_kinds
        self._rows: list[KindedRow] = []
        self._is_timed = False

    @abstractmethod
    def row_of(self, value: Any, timestamp: int | None) -> KindedRow:
        """Return the kind and the values of a record.

        Args:
            value: The record.
            timestamp: Its timestamp in ms, or None.
        """

    def setup(self, services: OperatorServices) -> None:
        """Find the clock of the task."""
        super().setup(services)
        self._clock = self.get_processing_time_service()

    def process_element(self, value: Any, timestamp: int | None) -> None:
        """Add a record to the batch."""
        kind, row = self.row_of(value, timestamp)
        self._rows.append((kind, row))
        if len(self._rows) >= BATCH_ROWS and kind != UPDATE_BEFORE:
            self._emit()
        elif not self._is_timed:
            # A timer that is due runs after the input at hand, before the task waits for more.
            self._is_timed = True
            self._clock.register_timer(self._clock.get_current_processing_time(), self._on_turn)

    def process_watermark(self, timestamp: int) -> None:
        """Emit a watermark behind the rows."""
        self._emit()
        super().process_watermark(timestamp)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Emit a change of idleness behind the rows."""
        self._emit()
        super().process_watermark_status(idle=idle)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Emit the rows before the barrier of a checkpoint."""
        self._emit()

    def finish(self) -> None:
        """Emit the last rows."""
        self._emit()

    def _on_turn(self, timestamp: int) -> None:
        del timestamp
        self._is_timed = False
        self._emit()

    def _emit(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self.output.collect(record_batch(rows, self._row_type, with_kinds=self._with_kinds))
