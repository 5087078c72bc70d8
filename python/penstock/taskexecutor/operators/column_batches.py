"""Conversion of records to Arrow record batches for a table of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import FormatError
from penstock.formats.arrow_types import arrow_library, arrow_schema, columns_of
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, StreamOperator

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Number of rows in a full batch.
_BATCH_ROWS: Final = 8192


def create_column_batches(
    context: OperatorContext, descriptor: operators.ColumnBatches
) -> StreamOperator:
    """Create the operator that gathers the records of this subtask."""
    del context
    return ColumnBatches(descriptor)


class ColumnBatches(StreamOperator):
    """Emits a batch when it is full, before each checkpoint, and at the end of the input.

    So the operator has no state, and records behind a barrier are in batches behind it.
    """

    def __init__(self, descriptor: operators.ColumnBatches) -> None:
        """Start with an empty batch."""
        super().__init__()
        self.row_type = descriptor.row_type
        self.schema = arrow_schema(descriptor.row_type)
        self.names = descriptor.row_type.get_field_names()
        self.is_single = descriptor.is_single
        self.rows: list[Any] = []

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        del timestamp
        if self.is_single:
            self.rows.append((value,))
        else:
            try:
                self.rows.append(field_values(value, self.names))
            except Misfit as misfit:
                raise FormatError(f"{self.context.name}: {misfit}") from None
        if len(self.rows) >= _BATCH_ROWS:
            self._emit()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Flush before the barrier of a checkpoint."""
        self._emit()

    def finish(self) -> None:
        """Flush pending output at the end of the input."""
        self._emit()

    def _emit(self) -> None:
        rows, self.rows = self.rows, []
        if not rows:
            return
        pa = arrow_library("a table of results")
        batch = columns_of(rows, self.row_type, self.schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        self.output.collect(sink.getvalue().to_pybytes(), MIN_TIMESTAMP)
