"""PythonSink: drives the writer that the sink creates, and forwards its committables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.coroutines import refuse_coroutines
from penstock.common.typeinfo import Types
from penstock.connectors.committer import (
    END_OF_INPUT,
    CommittableSummary,
    CommittableWithLineage,
    SupportsCommitter,
)
from penstock.connectors.writer_sink import (
    CommittingSinkWriter,
    SinkWriter,
    StatefulSinkWriter,
    SupportsWriterState,
)
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import SinkError
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, StreamOperator
from penstock.taskexecutor.sinks.init_context import SinkInitContext

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: The name of the writers' state in checkpoints, as in Flink.
WRITER_STATE = "writer_raw_states"


def create_sink_writer(
    context: OperatorContext, descriptor: operators.SinkWriter
) -> StreamOperator:
    """Create the writer operator of the PythonSink that is the descriptor's function."""
    del context
    return SinkWriterOperator(descriptor.function)


class _ElementContext(SinkWriter.Context):
    def __init__(self) -> None:
        self.element_timestamp = MIN_TIMESTAMP
        self.watermark = MIN_TIMESTAMP

    def current_watermark(self) -> int:
        """Return the current watermark, in ms."""
        return self.watermark

    def timestamp(self) -> int | None:
        """Return the record's timestamp in ms, or None."""
        return None if self.element_timestamp == MIN_TIMESTAMP else self.element_timestamp


class CommittableEmitter(StreamOperator):
    """An operator that emits committables at every barrier and at the end of the input."""

    def __init__(self) -> None:
        """Create an operator whose input has not ended."""
        super().__init__()
        self.has_ended = False

    def flush(self, *, end_of_input: bool) -> None:
        """Write the buffered records."""
        raise NotImplementedError(type(self).__name__ + ".flush")

    def prepare_commit(self) -> Iterable[object] | None:
        """Return the committables since the last call; None for a sink that does not commit."""
        raise NotImplementedError(type(self).__name__ + ".prepare_commit")

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        """Write the records before the barrier, and emit their committables."""
        if not self.has_ended:
            self.flush(end_of_input=False)
            self._emit(checkpoint_id)

    def finish(self) -> None:
        """Write the buffered records, and emit their committables."""
        self.has_ended = True
        self.flush(end_of_input=True)
        self._emit(END_OF_INPUT)

    def _emit(self, checkpoint_id: int) -> None:
        prepared = self.prepare_commit()
        if prepared is None:
            return
        committables = list(prepared)
        environment = self.context.environment
        subtask = environment.subtask
        self.output.collect(
            CommittableSummary(subtask, environment.parallelism, checkpoint_id, len(committables)),
            MIN_TIMESTAMP,
        )
        for committable in committables:
            self.output.collect(
                CommittableWithLineage(committable, checkpoint_id, subtask), MIN_TIMESTAMP
            )


class SinkWriterOperator(CommittableEmitter):
    """Passes records to a writer and flushes it at barriers and at the end of the input."""

    def __init__(self, sink: Any) -> None:
        """Create the operator of a PythonSink."""
        super().__init__()
        self.sink = sink
        self.writer: Any = None
        self.state: Any = None
        self.restored_checkpoint_id: int | None = None
        self.element_context = _ElementContext()

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the state of a sink whose writers have state."""
        self.restored_checkpoint_id = context.get_restored_checkpoint_id()
        if isinstance(self.sink, SupportsWriterState):
            descriptor = ListStateDescriptor(WRITER_STATE, Types.PICKLED_BYTE_ARRAY())
            self.state = context.get_operator_state_store().get_list_state(descriptor)

    def open(self) -> None:
        """Create the writer."""
        self.writer = self._make_writer()

    def process(self, value: object, timestamp: int) -> None:
        """Write a record."""
        self.element_context.element_timestamp = timestamp
        self.writer.write(value, self.element_context)

    def process_all(self, values: Iterable[object], timestamp: int) -> None:
        """Write records of one timestamp."""
        self.element_context.element_timestamp = timestamp
        write, context = self.writer.write, self.element_context
        for value in values:
            try:
                write(value, context)
            except BaseException:
                self.note_failure()  # the iterator of values raises here, too
                raise

    def process_watermark(self, timestamp: int) -> None:
        """Advance the event time of the input."""
        self.element_context.watermark = timestamp
        self.writer.write_watermark(timestamp)
        self.output.emit_watermark(timestamp)

    def flush(self, *, end_of_input: bool) -> None:
        """Flush the writer."""
        self.writer.flush(end_of_input)

    def prepare_commit(self) -> Iterable[object] | None:
        """Return the writer's committables, or None without a committer."""
        if not isinstance(self.sink, SupportsCommitter):
            return None
        committables: Iterable[Any] = self.writer.prepare_commit()
        return committables

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the writer's state."""
        if self.state is not None:
            self.state.update(self.writer.snapshot_state(context.get_checkpoint_id()))

    def close(self) -> None:
        """Close the writer."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.close()

    def _make_writer(self) -> Any:
        sink = self.sink
        context = SinkInitContext(self.context, self.restored_checkpoint_id)
        if self.state is not None and self.restored_checkpoint_id is not None:
            writer, maker = sink.restore_writer(context, self.state.get()), "restore_writer"
        else:
            writer, maker = sink.create_writer(context), "create_writer"
        refuse_coroutines(writer, maker)
        for wanted, kind in (
            (SupportsCommitter, CommittingSinkWriter),
            (SupportsWriterState, StatefulSinkWriter),
        ):
            if isinstance(sink, wanted) and not isinstance(writer, kind):
                msg = (
                    f"{type(sink).__name__} is a {wanted.__name__}, so {maker} must return a "
                    f"{kind.__name__}, got {writer!r}"
                )
                raise SinkError(msg)
        return writer
