"""Bases of relational operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.columns.record_batches import batch_bytes, batch_of_bytes
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP, StreamOperator
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer, arrow_schema
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.two_input import MultipleInputOperator

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: A record of an exchange: the text of a key, and the bytes of a batch.
_Exchanged = tuple[str, bytes]


class Counters:
    """Counts of processed rows and batches, shown as metrics."""

    def __init__(self, context: OperatorContext) -> None:
        """Register the counts as metrics."""
        self.rows = 0
        self.batches = 0
        group = context.metric_group()
        group.gauge("numRowsInColumns", lambda: self.rows)
        group.gauge("numBatches", lambda: self.batches)


class ExchangedBatches:
    """Mixin of operators whose batches come from exchanges by key.

    Attributes:
        exchanged: By input, the positions of the columns by which batches were partitioned.
        input_schemas: By input, the Arrow schema of its batches.
    """

    exchanged: tuple[tuple[int, ...], ...] = ()
    input_schemas: tuple[Any, ...]

    def rows_of_keys(
        self, input_number: int, value: _Exchanged, is_own: Callable[[object], bool]
    ) -> _Exchanged | None:
        """Return the rows of a record of the exchange whose keys satisfy a predicate.

        A record that was in flight when the job had another parallelism may have rows of several
        subtasks.

        Args:
            input_number: The input of the record.
            value: The record: a key and the bytes of a batch.
            is_own: The predicate of a record, which reads the key alone.

        Returns:
            A record of these rows, or None if there are none.
        """
        batch = batch_of_bytes(value[1], self.input_schemas[input_number])
        texts = key_texts(batch, self.exchanged[input_number])
        mask = [is_own((text, b"")) for text in texts]
        if all(mask):
            return value if is_own(value) else (texts[0], value[1])
        own = batch.filter(pa.array(mask, pa.bool_()))
        return (texts[mask.index(True)], batch_bytes(own)) if own.num_rows else None


class RelationalOperator(StreamOperator):
    """An operator with one input of batches."""

    def __init__(self, context: OperatorContext) -> None:
        """Create the operator."""
        super().__init__()
        self.counters = Counters(context)

    def process(self, value: Any, timestamp: int) -> None:
        """Process one batch."""
        del timestamp
        self.counters.rows += value.num_rows
        self.counters.batches += 1
        if value.num_rows:
            self.process_columns(value)

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch that has rows."""
        raise NotImplementedError(type(self).__name__ + ".process_columns")

    def emit(self, batch: pa.RecordBatch | None) -> None:
        """Emit a batch unless it is empty or None."""
        if batch is not None and batch.num_rows:
            self.output.collect(batch, MIN_TIMESTAMP)


class KeyedRelationalOperator(ExchangedBatches, RelationalOperator):
    """An operator whose batches come from an exchange by key, as pairs of a key and bytes."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        *,
        has_kinds: bool,
        is_updating: bool,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The columns of the output.
            has_kinds: Whether batches of the input have row kinds.
            is_updating: Whether batches of the output have row kinds.
        """
        super().__init__(context)
        self.input_schema = arrow_schema(input, has_kinds=has_kinds)
        self.input_schemas = (self.input_schema,)
        self.width = len(input)
        self.changes = ChangeBuffer(output, has_kinds=is_updating)
        #: Those of an operator in the same task, which has the same keys.
        self.batches_not_exchanged = 0
        context.metric_group().gauge("numBatchesNotExchanged", lambda: self.batches_not_exchanged)

    def process(self, value: Any, timestamp: int) -> None:
        """Process the record of an exchange, or a batch of an operator with the same exchange."""
        if isinstance(value, pa.RecordBatch):
            self.batches_not_exchanged += 1
            batch = pa.RecordBatch.from_arrays(value.columns, schema=self.input_schema)
        else:
            batch = batch_of_bytes(value[1], self.input_schema)
        super().process(batch, timestamp)

    def flush(self) -> None:
        """Emit the changes that were collected."""
        self.emit(self.changes.take())

    def process_watermark(self, timestamp: int) -> None:
        """Emit the watermark; before the final one, emit the last rows."""
        if timestamp == MAX_TIMESTAMP:
            self.emit_final()
        self.output.emit_watermark(timestamp)

    def emit_final(self) -> None:
        """Emit the rows that the end of the input makes final."""


class TwoInputRelationalOperator(ExchangedBatches, MultipleInputOperator):
    """An operator with two keyed inputs of batches."""

    def __init__(
        self,
        context: OperatorContext,
        inputs: tuple[Schema, Schema],
        output: Schema,
        *,
        has_kinds: tuple[bool, bool],
        is_updating: bool,
    ) -> None:
        """Create the operator; see `KeyedRelationalOperator`."""
        super().__init__(None, (self._take_left, self._take_right))
        self.counters = Counters(context)
        self.input_schemas = tuple(
            arrow_schema(schema, has_kinds=kinds)
            for schema, kinds in zip(inputs, has_kinds, strict=True)
        )
        self.widths = tuple(len(schema) for schema in inputs)
        self.changes = ChangeBuffer(output, has_kinds=is_updating)
        self.ended = [False, False]

    def _take_left(self, value: object, timestamp: int) -> None:
        del timestamp
        self._take(0, value)

    def _take_right(self, value: object, timestamp: int) -> None:
        del timestamp
        self._take(1, value)

    def _take(self, side: int, value: Any) -> None:
        batch = batch_of_bytes(value[1], self.input_schemas[side])
        self.counters.rows += batch.num_rows
        self.counters.batches += 1
        self.take_batch(side, batch)

    def take_batch(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side and emit the changes."""
        self.process_side(side, batch)
        self.flush()

    def process_side(self, side: int, batch: pa.RecordBatch) -> None:
        """Process a batch of one side: 0 is left, 1 is right."""
        raise NotImplementedError(type(self).__name__ + ".process_side")

    def process_watermark(self, timestamp: int) -> None:
        """Emit the watermark of both inputs; see `KeyedRelationalOperator`."""
        if timestamp == MAX_TIMESTAMP:
            self.emit_final()
        self.output.emit_watermark(timestamp)

    def emit_final(self) -> None:
        """Emit the rows that the end of the inputs makes final."""

    def flush(self) -> None:
        """Emit the changes that were collected."""
        batch = self.changes.take()
        if batch is not None:
            self.output.collect(batch, MIN_TIMESTAMP)
