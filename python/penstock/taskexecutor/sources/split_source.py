"""PythonSource: a reader of the splits that its enumerator at the driver assigns."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.common.calls.coroutines import refuse_coroutines
from penstock.common.configuration import Configuration
from penstock.common.exception_deadline import repr_in_time
from penstock.common.typeinfo import Types
from penstock.connectors.split_source import InputStatus, SourceReader, SourceReaderContext
from penstock.datastream.state import ListStateDescriptor
from penstock.rpc.messages import (
    AcknowledgeCheckpointEvent,
    AddSplits,
    FromCoordinator,
    NoMoreSplits,
    ReaderRegistration,
    RequestSplit,
    SourceEvent,
    WatermarkAlignment,
)
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    SourceOperator,
    StreamOperator,
)
from penstock.taskexecutor.operators.watermarks import new_emitter
from penstock.taskexecutor.sources.alignment import AlignedReader, AlignedSplits
from penstock.taskexecutor.sources.source_wait import SourceWait
from penstock.taskexecutor.sources.split_outputs import ReaderOutputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.common.watermark_strategy import WatermarkStrategy
    from penstock.datastream.functions.checkpointed import StateSnapshotContext
    from penstock.graph import operators
    from penstock.metrics.metricbase import MetricGroup
    from penstock.rpc.messages import ToCoordinator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.watermarks import WatermarkEmitter


#: Time after which a step stops polling: watermarks are emitted between two steps.
_STEP_NS: Final = 10_000_000

_READER_STATE: Final = ListStateDescriptor("SourceReaderState", Types.PICKLED_BYTE_ARRAY())


def create_split_source(
    context: OperatorContext, descriptor: operators.SplitSource
) -> StreamOperator:
    """Create the operator of the PythonSource that is the descriptor's function."""
    del context
    return SplitSource(descriptor.function, descriptor.watermark_strategy)


class _ReaderContext(SourceReaderContext):
    def __init__(self, source: SplitSource) -> None:
        self._source = source

    def get_index_of_subtask(self) -> int:
        """Return the reader's subtask, from 0."""
        return self._source.context.environment.subtask

    def current_parallelism(self) -> int:
        """Return the parallelism of the source."""
        return self._source.context.environment.parallelism

    def metric_group(self) -> MetricGroup:
        """Return the group in which the reader registers its metrics."""
        group: MetricGroup = self._source.context.runtime_context.get_metrics_group()
        return group

    def get_configuration(self) -> Configuration:
        """Return the job's configuration."""
        return Configuration.from_dict(dict(self._source.context.environment.configuration))

    def send_split_request(self) -> None:
        """Request a split from the enumerator."""
        self._source.request_split()

    def send_source_event_to_coordinator(self, source_event: object) -> None:
        """Send plain data to the enumerator."""
        self._source.send_event(source_event)


def send_to_coordinator(
    context: OperatorContext, kind: Callable[..., ToCoordinator], *fields: object
) -> None:
    """Send a source's message to its coordinator."""
    environment = context.environment
    environment.send_to_coordinator(
        kind(environment.job_id, environment.attempt_id, context.config.id, *fields)
    )


class SplitSource(SourceOperator):
    """Drives a reader, and communicates with the source's coordinator."""

    def __init__(self, source: Any, strategy: WatermarkStrategy | None) -> None:
        """Create the operator of a PythonSource."""
        super().__init__()
        self.source = source
        self.strategy = strategy
        self.serializer: TypeSerializer[Any] = TypeSerializer()
        self.reader: SourceReader[Any] | None = None
        self.outputs: ReaderOutputs | None = None
        self.wait = SourceWait()
        self.awaited: Future[Any] | None = None
        self.alignment: AlignedReader | None = None
        self.aligned_splits: AlignedSplits | None = None
        #: Emitter of the source that was read before this one, if there was one.
        self.former_emitter: WatermarkEmitter | None = None

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the reader's splits."""
        checkpoint_id = context.get_checkpoint_id()
        splits = self._reader().snapshot_state(checkpoint_id)
        self.context.operator_state.list_state(_READER_STATE).update(splits)
        send_to_coordinator(self.context, AcknowledgeCheckpointEvent, checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the reader of a complete checkpoint."""
        self._reader().notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the reader of an aborted checkpoint."""
        self._reader().notify_checkpoint_aborted(checkpoint_id)

    def open(self) -> None:
        """Create the reader, restore its splits, and register it."""
        context = self.context
        strategy = self.strategy
        emitter = self.former_emitter or new_emitter(context, self.output)
        self.outputs = ReaderOutputs(context, strategy, self.output, emitter)
        self.reader = self.source.create_reader(_ReaderContext(self))
        refuse_coroutines(self.reader, "create_reader")
        restored = self.restored_splits()
        if restored:
            self.add_splits(restored)
        # Before the start, which may already send messages.
        self.register()
        self._reader().start()
        interval_ms = context.execution_config.get_auto_watermark_interval()
        if strategy is not None and interval_ms > 0:
            self._repeat(interval_ms, self._on_interval)
        alignment = getattr(strategy, "alignment", None)
        if alignment is not None:
            self.alignment = AlignedReader(
                context,
                alignment,
                lambda: cast("ReaderOutputs", self.outputs).watermark,
                lambda: cast("ReaderOutputs", self.outputs).is_idle,
            )
            self.alignment.start()
            self.aligned_splits = AlignedSplits(context, self.reader)

    def emit_next(self, limit: int) -> int:
        """Poll up to ``limit`` times without blocking, until a mail arrives or time is over."""
        if self.wait.cancelled:
            return END_OF_DATA
        reader, outputs = self._reader(), cast("ReaderOutputs", self.outputs)
        ends_ns = time.monotonic_ns() + _STEP_NS
        for _ in range(limit):
            if self.alignment is not None and not self.alignment.may_read:
                return NOTHING_AVAILABLE
            status = reader.poll_next(outputs)
            if self.aligned_splits is not None:
                self._align_splits()
            if status is InputStatus.END_OF_INPUT:
                outputs.emit_periodic()
                return END_OF_DATA
            if status is InputStatus.NOTHING_AVAILABLE:
                return NOTHING_AVAILABLE
            if status is not InputStatus.MORE_AVAILABLE:
                name = type(reader).__name__
                raise TypeError(
                    f"{name}.poll_next must return an InputStatus: {repr_in_time(status)}"
                )
            # The task chose the limit by the time of earlier polls, but this one may have taken
            # seconds, since it calls the operators behind the source.  Mails and timers wait.
            if self.wait.takes_wakeup() or time.monotonic_ns() > ends_ns:
                break
        return MORE_AVAILABLE

    def wait_available(self, timeout_ms: int) -> None:
        """Block until the reader has more, a message arrived, or the time is over."""
        if self.alignment is None or self.alignment.may_read:
            future = self._reader().is_available()
            if future is not None:
                if future.done():
                    return
                if future is not self.awaited:
                    self.awaited = future
                    future.add_done_callback(lambda _: self.wait.wakeup())
        self.wait.wait(timeout_ms)

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Handle a message of the coordinator, in the task's thread."""
        reader = self._reader()
        match message:
            case AddSplits():
                self.add_splits([self.serializer.deserialize(split) for split in message.splits])
            case NoMoreSplits():
                reader.notify_no_more_splits()
            case SourceEvent():
                reader.handle_source_events(self.serializer.deserialize(message.event))
            case WatermarkAlignment() if self.alignment is not None:
                self.alignment.handle(message)
                cast("ReaderOutputs", self.outputs).multiplexer.has_moved = True
                self._align_splits()

    def add_splits(self, splits: list[object]) -> None:
        """Hand splits to the reader.

        Their outputs exist before the reader emits to them: a split that has emitted nothing yet
        holds the watermark back.
        """
        outputs = cast("ReaderOutputs", self.outputs)
        for split in splits:
            # A split without an id has no output of its own.
            if hasattr(split, "split_id"):
                outputs.create_output_for_split(split.split_id())
        self._reader().add_splits(splits)

    def restored_splits(self) -> list[object]:
        """Return the splits of the restored snapshot."""
        found: list[Any] = self.context.operator_state.list_state(_READER_STATE).get()
        return found

    def register(self) -> None:
        """Register the reader at the enumerator."""
        send_to_coordinator(self.context, ReaderRegistration)

    def request_split(self) -> None:
        """Request a split from the enumerator."""
        send_to_coordinator(self.context, RequestSplit)

    def send_event(self, event: object) -> None:
        """Send plain data to the enumerator."""
        send_to_coordinator(self.context, SourceEvent, self.serializer.serialize(event))

    def finish(self) -> None:
        """Report the end of the reader, so that its alignment group does not wait for it."""
        if self.alignment is not None:
            self.alignment.finish()

    def wakeup(self) -> None:
        """End a wait; any thread."""
        self.wait.wakeup()

    def cancel(self) -> None:
        """End the source early; any thread."""
        self.wait.cancel()

    def close(self) -> None:
        """Close the reader."""
        if self.alignment is not None:
            self.alignment.stop()
        reader, self.reader = self.reader, None
        try:
            if reader is not None:
                reader.close()
        finally:
            self.wait.close()

    def _reader(self) -> SourceReader[Any]:
        assert self.reader is not None, "opened"
        return self.reader

    def _on_interval(self) -> None:
        is_held = self.alignment is not None and not self.alignment.may_read
        held = () if self.aligned_splits is None else self.aligned_splits.paused
        cast("ReaderOutputs", self.outputs).on_interval(is_held=is_held, held=held)
        self._align_splits()

    def _align_splits(self) -> None:
        """Pause and resume splits if a watermark or the limit has moved."""
        if self.alignment is None or self.aligned_splits is None:
            return
        multiplexer = cast("ReaderOutputs", self.outputs).multiplexer
        if multiplexer.has_moved:
            multiplexer.has_moved = False
            self.aligned_splits.align(multiplexer.watermarks(), self.alignment.limit)

    def _repeat(self, interval_ms: int, action: Callable[[], object]) -> None:
        timers = self.context.processing_time

        def run(_: int) -> None:
            if self.reader is None:  # another source is being read
                return
            action()
            timers.register(timers.now() + interval_ms, run)

        timers.register(timers.now() + interval_ms, run)
