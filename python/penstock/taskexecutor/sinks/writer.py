"""PythonSink: drives the writer that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.configuration import Configuration
from penstock.common.coroutines import refuse_coroutines
from penstock.datastream.connectors.writer_sink import SinkWriter, WriterInitContext
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, StreamOperator

if TYPE_CHECKING:
    from penstock.taskexecutor.task.operator_context import OperatorContext


def create_sink_writer(context: OperatorContext) -> StreamOperator:
    """Writes with the writer of the PythonSink that is the descriptor's function."""
    return SinkWriterOperator(context.descriptor.function)


class _InitContext(WriterInitContext):
    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def get_index_of_subtask(self) -> int:
        """The writer's subtask, from 0."""
        return self._context.environment.subtask

    def get_number_of_parallel_subtasks(self) -> int:
        """The number of writers."""
        return self._context.environment.parallelism

    def get_attempt_number(self) -> int:
        """How often the subtask was started before, from 0."""
        return self._context.environment.attempt_number

    def current_processing_time(self) -> int:
        """The time of the machine's clock in ms."""
        return self._context.processing_time.now()

    def metric_group(self) -> Any:
        """Where the writer registers its metrics."""
        return self._context.runtime_context.get_metrics_group()

    def get_configuration(self) -> Configuration:
        """The job's configuration."""
        return Configuration.from_dict(dict(self._context.environment.configuration))


class _ElementContext(SinkWriter.Context):
    def __init__(self) -> None:
        self.element_timestamp = MIN_TIMESTAMP
        self.watermark = MIN_TIMESTAMP

    def current_watermark(self) -> int:
        """The event time reached, in ms."""
        return self.watermark

    def timestamp(self) -> int | None:
        """The element's timestamp in ms, None when it has none."""
        return None if self.element_timestamp == MIN_TIMESTAMP else self.element_timestamp


class SinkWriterOperator(StreamOperator):
    """Gives elements to a writer and flushes it at the end of the input."""

    def __init__(self, sink: Any) -> None:
        """Creates the operator of a PythonSink."""
        super().__init__()
        self.sink = sink
        self.writer: Any = None
        self.element_context = _ElementContext()

    def open(self) -> None:
        """Makes the writer."""
        try:
            self.writer = self.sink.create_writer(_InitContext(self.context))
            refuse_coroutines(self.writer, "create_writer")
        except BaseException as error:
            self.failed_with = error
            raise

    def process(self, value: Any, timestamp: int) -> None:
        """Writes an element."""
        self.element_context.element_timestamp = timestamp
        try:
            self.writer.write(value, self.element_context)
        except BaseException as error:
            self.failed_with = error
            raise

    def process_watermark(self, timestamp: int) -> None:
        """Event time of the input has advanced."""
        self.element_context.watermark = timestamp
        try:
            self.writer.write_watermark(timestamp)
        except BaseException as error:
            self.failed_with = error
            raise
        self.output.emit_watermark(timestamp)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:  # noqa: ARG002
        """Writes what came before the barrier."""
        self.writer.flush(False)

    def finish(self) -> None:
        """Writes what is kept."""
        try:
            self.writer.flush(True)
        except BaseException as error:
            self.failed_with = error
            raise

    def close(self) -> None:
        """Closes the writer."""
        writer, self.writer = self.writer, None
        if writer is not None:
            try:
                writer.close()
            except BaseException as error:
                self.failed_with = error
                raise
