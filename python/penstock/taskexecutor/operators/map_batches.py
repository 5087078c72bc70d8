"""Calls of user functions with batches of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.columns.batch_functions import BatchFunction
from penstock.columns.batch_schema import batch_schema, inexact_field
from penstock.columns.column_batch import ColumnBatch
from penstock.columns.keyed_columns import keyed_columns
from penstock.errors import FormatError
from penstock.expressions.functions import bound_function
from penstock.formats.arrow_types import arrow_library
from penstock.network import key_of
from penstock.taskexecutor.compiled import FunctionOperator

if TYPE_CHECKING:
    from penstock.columns.batch_fields import BatchFields
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: Maximum number of single records that are gathered.
_MOST_RECORDS: Final = 4096

#: Longest wait of a record for others, in ms.
_WAIT_MS: Final = 50


def create_map_batches(
    context: OperatorContext, descriptor: operators.MapBatches
) -> MapBatchesOperator:
    """Create the operator that calls the function of this subtask."""
    return MapBatchesOperator(context, descriptor)


class MapBatchesOperator(FunctionOperator):
    """Calls a function with each batch that arrives.

    Single records are gathered until there are some thousands, until one has waited for a while,
    and before every watermark and barrier.
    """

    takes_batches = True

    def __init__(self, context: OperatorContext, descriptor: operators.MapBatches) -> None:
        """Start without records."""
        function: Any = descriptor.function
        batches = BatchFunction(function, descriptor.frame, descriptor.result_type, "map_batches")
        super().__init__(function, batches)
        self.batches = batches
        self.fields: BatchFields = descriptor.fields
        self.schema = batch_schema(self.fields.declared)
        self.processing_time = context.processing_time
        self.keys: Any = context.key_reader() if self.fields.added else None
        self.key_columns = None
        if self.keys is not None and inexact_field(self.fields.declared) is None:
            key_type: Any = context.config.key_type
            self.key_columns = keyed_columns(
                context.evaluation,
                bound_function(context.config.key_selectors[0], "get_key"),
                key_type,
                None,
                self.fields.key,
                context.config.input_types[:1],
            )
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
        if batch.declared != self.fields.declared or batch.data.schema != self.schema:
            super().process_batch(batch)
            return
        self.flush()
        self._call(batch, None)

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
        try:
            data = self.fields.data(values)
        except FormatError as error:
            raise FormatError(f"{self.context.name}: {error}") from None
        batch = ColumnBatch(data, self.fields.declared, pa.array(timestamps, pa.int64()))
        self._call(batch, values)

    def _on_time(self, timestamp: int) -> None:
        del timestamp
        self.is_timed = False
        self.flush()

    def _call(self, batch: ColumnBatch, values: list[Any] | None) -> None:
        """Call the function with a batch; ``values`` are its records, None to create them."""
        done = False
        try:
            if self.keys is not None:
                batch = self._with_keys(batch, values)
            result = self.batches(batch)
            if len(result):
                self.output.collect_batch(result)
            done = True
        finally:
            if not done:
                self.note_failure()

    def _with_keys(self, batch: ColumnBatch, values: list[Any] | None) -> ColumnBatch:
        """Return a batch with the columns of the keys."""
        fields = self.fields
        keyed = None if self.key_columns is None else self.key_columns.of(batch)
        if keyed is not None:
            data = fields.joined(batch.data, [keyed.keys[at] for at in fields.added])
        else:
            read = self.keys.read
            records = batch.rows() if values is None else values
            keys = [fields.values_of_key(key_of(read(value))) for value in records]
            data = fields.with_added(batch.data, keys)
        return batch.with_columns(data, fields.row_type)
