"""Calls of user functions with batches of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_functions import BatchFunction
from penstock.columns.batch_schema import fields_of
from penstock.columns.column_batch import ColumnBatch
from penstock.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.common.typeinfo import Types
from penstock.errors import FormatError
from penstock.formats.arrow_types import arrow_library, columns_of
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit
from penstock.taskexecutor.compiled import FunctionOperator

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.task.operator_context import OperatorContext

#: Maximum number of single records that are gathered.
_MOST_RECORDS: Final = 4096

#: Longest wait of a record for others, in ms.
_WAIT_MS: Final = 50


def create_map_batches(
    context: OperatorContext, descriptor: operators.MapBatches
) -> MapBatchesOperator:
    """Create the operator that calls the function of this subtask."""
    function: Any = descriptor.function
    return MapBatchesOperator(
        function,
        BatchFunction(function, descriptor.frame, descriptor.declared, descriptor.result_type),
        context.processing_time,
    )


class MapBatchesOperator(FunctionOperator):
    """Calls a function with each batch that arrives.

    Single records are gathered until there are some thousands, until one has waited for a while,
    and before every watermark and barrier.
    """

    takes_batches = True

    def __init__(self, user_function: object, batches: BatchFunction, processing_time: Any) -> None:
        """Start without records.

        Args:
            user_function: The function, or an object that is opened and closed.
            batches: Calls the function.
            processing_time: The operator's clock and timers.
        """
        super().__init__(user_function, batches)
        self.batches = batches
        self.processing_time = processing_time
        self.values: list[Any] = []
        self.timestamps: list[int] = []
        self.is_timed = False

    def process(self, value: object, timestamp: int) -> None:
        """Process a record."""
        self.values.append(value)
        self.timestamps.append(timestamp)
        if len(self.values) >= _MOST_RECORDS:
            self.flush()
        elif not self.is_timed:
            self.is_timed = True
            self.processing_time.register(self.processing_time.now() + _WAIT_MS, self._on_time)

    def process_batch(self, batch: ColumnBatch) -> None:
        """Process the records of a batch."""
        if batch.declared != self.batches.declared or batch.data.schema != self.batches.schema:
            super().process_batch(batch)
            return
        self.flush()
        self._call(batch)

    def process_watermark(self, timestamp: int) -> None:
        """Process a watermark of the input."""
        self.flush()
        super().process_watermark(timestamp)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Flush before the barrier of a checkpoint."""
        self.flush()

    def finish(self) -> None:
        """Flush pending output at the end of the input."""
        self.flush()

    def flush(self) -> None:
        """Call the function with the gathered records."""
        if not self.values:
            return
        values, self.values = self.values, []
        timestamps, self.timestamps = self.timestamps, []
        pa = arrow_library("map_batches")
        declared = self.batches.declared
        names, types = zip(*fields_of(declared), strict=True)
        has_fields = isinstance(declared, (RowTypeInfo, TupleTypeInfo))
        try:
            rows = [field_values(v, list(names)) if has_fields else (v,) for v in values]
        except Misfit as misfit:
            raise FormatError(f"{self.context.name}: {misfit}") from None
        row_type = Types.ROW_NAMED(list(names), list(types))
        data = columns_of(rows, row_type, self.batches.schema)
        self._call(ColumnBatch(data, declared, pa.array(timestamps, pa.int64())))

    def _on_time(self, timestamp: int) -> None:
        del timestamp
        self.is_timed = False
        self.flush()

    def _call(self, batch: ColumnBatch) -> None:
        done = False
        try:
            result = self.batches(batch)
            if len(result):
                self.output.collect_batch(result)
            done = True
        finally:
            if not done:
                self.note_failure()
