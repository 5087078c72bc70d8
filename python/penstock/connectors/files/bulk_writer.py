"""The writer of FileSink's bulk formats: parts that end with each checkpoint."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.connectors.files.buckets import BucketAssigner
from penstock.connectors.files.part_stream import PartStream
from penstock.connectors.files.writer import FileSinkOperator
from penstock.errors import FormatError
from penstock.formats.bulk_writers import ColumnWriter, ColumnWriters
from penstock.formats.misfit import meant_for, note_place

if TYPE_CHECKING:
    from penstock.common.serialization import BulkWriter
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class BulkFileSinkOperator(FileSinkOperator):
    """Passes records to the bulk writer of their bucket's part.

    A checkpoint cannot store the state of a bulk writer, so each checkpoint ends all parts, as in
    Flink.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.FileSink) -> None:
        """Create the operator of one subtask."""
        super().__init__(context, descriptor)
        self.factory = descriptor.bulk_writer_factory
        self.writers: dict[str, tuple[BulkWriter, PartStream]] = {}
        #: Whether batches are written as columns: other assigners need the single records.
        self.takes_batches = (
            isinstance(self.factory, ColumnWriters) and type(self.assigner) is BucketAssigner
        )
        #: The number of batches written as columns.
        self.batches = 0

    def open(self) -> None:
        """Check the folder and register the metric."""
        super().open()
        if self.context.evaluation.has_columns:
            self.context.metric_group().gauge("numBatchesInColumns", lambda: self.batches)

    def process(self, value: Any, timestamp: int) -> None:
        """Write a record."""
        now_ms = self.now()
        bucket = self.assigner.get_bucket_id(value, timestamp if self.by_event_time else now_ms)
        writer = self._writer(bucket, now_ms)
        try:
            writer.add_element(value)
        except FormatError as error:
            note_place(error, self.parts[bucket].final_path)
            raise

    def process_batch(self, batch: Any) -> None:
        """Write the records of a batch, as columns if the format supports them."""
        if self.takes_batches:
            now_ms = self.now()
            writer = self._writer(self.assigner.get_bucket_id(None, now_ms), now_ms)
            if isinstance(writer, ColumnWriter) and writer.add_batch(batch):
                self.batches += 1
                return
        super().process_batch(batch)

    def _writer(self, bucket: str, now_ms: int) -> BulkWriter:
        """Return the writer of a bucket's part, after ending a part that is full."""
        found = self.writers.get(bucket)
        if found is not None and self.parts[bucket].size_bytes > self.limit_bytes:
            self._end_part(bucket)
            found = None
        if found is None:
            part = self.parts[bucket] = self._new_part(bucket, now_ms)
            stream = PartStream(part, now_ms)
            found = self.writers[bucket] = (self.factory.create(stream), stream)
        writer, stream = found
        stream.now_ms = now_ms
        return writer

    def close(self) -> None:
        """Abandon the open parts."""
        while self.writers:
            writer, stream = self.writers.popitem()[1]
            stream.is_given_up = True
            # The data is discarded, so that errors in it do not matter.
            with suppress(Exception):
                writer.abandon()
        super().close()

    def _end_part(self, bucket: str) -> None:
        writer, _ = self.writers[bucket]
        with meant_for(self.parts[bucket].final_path):
            writer.finish()
        del self.writers[bucket]
        super()._end_part(bucket)
