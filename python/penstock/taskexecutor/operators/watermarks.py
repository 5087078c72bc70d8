"""Assigns timestamps and emits watermarks as a WatermarkStrategy says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.common.timestamps import timestamp_of
from penstock.common.watermark_generator import (
    BoundedOutOfOrdernessWatermarks,
    WatermarkOutput,
)
from penstock.taskexecutor.compiled import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Output,
    StreamOperator,
    TimestampsOperator,
    open_function,
)
from penstock.taskexecutor.time.first_event_times import ask_about_seconds
from penstock.taskexecutor.time.quiet_time import QuietTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.columns.column_batch import ColumnBatch
    from penstock.common.watermark_strategy import WatermarkStrategy
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_watermarks(context: OperatorContext, descriptor: operators.Watermarks) -> StreamOperator:
    """Create the operator of ``assign_timestamps_and_watermarks``."""
    return WatermarksOperator(context, descriptor.strategy)


class WatermarkEmitter(WatermarkOutput):
    """Forwards advancing watermarks and changes of idleness."""

    def __init__(self, output: Output, looks_at: Callable[[int], None] | None = None) -> None:
        """Create an emitter for ``output``.

        Args:
            output: Receives the watermarks.
            looks_at: Called with one of the first event times.
        """
        self._output = output
        self._looks_at = looks_at
        self.watermark = MIN_TIMESTAMP
        self.idle = False

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark if it is later than the last one."""
        reached = timestamp_of(timestamp, "emit_watermark")
        if reached <= self.watermark:
            return
        if self._looks_at is not None:
            self.begin(reached)
        self.watermark = reached
        self.mark_active()
        self._output.emit_watermark(reached)

    def mark_idle(self) -> None:
        """Announce idleness once."""
        if not self.idle:
            self.idle = True
            self._output.emit_status(True)

    def mark_active(self) -> None:
        """Announce activity once."""
        if self.idle:
            self.idle = False
            self._output.emit_status(False)

    def begin(self, first_ms: int) -> None:
        """Check one of the first event times; later calls do nothing."""
        looks_at, self._looks_at = self._looks_at, None
        if looks_at is not None:
            looks_at(first_ms)


class FinalWatermarkEmitter(WatermarkEmitter):
    """Forwards only the final watermark: bounded execution has no event time before its end."""

    def emit_watermark(self, timestamp: int) -> None:
        """Emit the final watermark."""
        reached = timestamp_of(timestamp, "emit_watermark")
        if reached == MAX_TIMESTAMP:
            super().emit_watermark(reached)
        elif reached > MIN_TIMESTAMP:
            self.begin(reached)

    def mark_idle(self) -> None:
        """Do nothing."""


def new_emitter(context: OperatorContext, output: Output) -> WatermarkEmitter:
    """Return the watermark emitter for the job's execution mode."""
    kind = FinalWatermarkEmitter if context.is_batch else WatermarkEmitter
    return kind(output, partial(ask_about_seconds, context))


class _KeptTimestamps:
    """Timestamps batches whose records keep their timestamps."""

    def stamped(self, batch: ColumnBatch) -> ColumnBatch:
        """Return the batch."""
        return batch


class WatermarksOperator(TimestampsOperator):
    """Timestamps each record and lets the strategy's generator emit watermarks.

    The generator is called every auto-watermark interval and at the end of the input.  Watermarks
    of the input are ignored, except the last one, which marks the end of the input.

    If records are further apart than the interval, each advances event time for a while.  That
    includes the last one, though the end of the input follows it at once.
    """

    def __init__(self, context: OperatorContext, strategy: WatermarkStrategy) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            strategy: A WatermarkStrategy.
        """
        super().__init__()
        self.interval_ms = context.execution_config.get_auto_watermark_interval()
        self.processing_time = context.processing_time
        self.new_generator = strategy.create_watermark_generator
        generator: Any = self.new_generator()
        self.generator = generator
        self.assigner = strategy.timestamp_assigner
        self.periodic = strategy.emits_periodically or strategy.idle_timeout_ms is not None
        self.idle_timeout_ms = strategy.idle_timeout_ms
        self.tracks_maximum = type(self.generator) is BoundedOutOfOrdernessWatermarks
        self.quiet_s = 0.0
        #: Whether alignment stops the source from emitting; always false for an operator.
        self.is_held: Callable[[], bool] = lambda: False
        self.at_rest = False
        self.is_stopped = False
        if self.tracks_maximum:
            self.max_timestamp = generator._max_timestamp

    def open(self) -> None:
        """Open the operator."""
        is_batch = self.context.is_batch
        self.emitter = new_emitter(self.context, self.output)
        open_function(self.assigner, self.context)
        if self.assigner is not None:
            self.extract = self.assigner.extract_timestamp
            self.expression = self.context.evaluation.expression(
                self.extract, 2, (self.context.timestamped_type,)
            )
            if self.expression is not None and self.tracks_maximum:
                from penstock._native.records.stamped_records import stamped_records

                # Only the exchange reads the records.
                self.stamped = stamped_records(self.output, self.expression)
        if self.tracks_maximum:
            self.columns = self._over_columns()
        self.on_event = self.generator.on_event
        self.quiet_time = QuietTime(self.context.input_clock)
        if self.periodic and self.interval_ms > 0 and not is_batch:
            self._schedule()

    def _over_columns(self) -> Any:
        """Return the object that timestamps batches; None if records are processed one by one."""
        evaluation = self.context.evaluation
        if self.assigner is None:
            return _KeptTimestamps() if evaluation.has_columns else None
        types = (self.context.timestamped_type,)
        return evaluation.over_columns(evaluation.program(self.extract, 2, types))

    def begin_split(self) -> None:
        """Start another split of a source, with its own generator."""
        self.generator = self.new_generator()
        self.on_event = self.generator.on_event
        if self.tracks_maximum:
            self.max_timestamp = self.generator._max_timestamp
        self.quiet_s = 0.0
        if self.idle:
            self.mark_active()

    def mark_active(self) -> None:
        """Announce activity, as a record arrived while the operator was idle."""
        self.idle = False
        self.emitter.mark_active()

    def process_watermark(self, timestamp: int) -> None:
        """Process the final watermark; ignore others."""
        if timestamp == MAX_TIMESTAMP:
            if self.at_rest:
                self._emit_periodic()
            if self.tracks_maximum:
                self.emitter.begin(self.max_timestamp)
            self.emitter.emit_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Ignore the input's idleness: the operator's own strategy decides."""

    def finish(self) -> None:
        """Emit the generator's last watermark."""
        self._emit_periodic()

    def stop(self) -> None:
        """Stop emitting: another source continues with the emitter."""
        self.is_stopped = True

    def _emit_periodic(self) -> None:
        if self.tracks_maximum:
            self.generator._max_timestamp = self.max_timestamp
        self.generator.on_periodic_emit(self.emitter)

    def _schedule(self) -> None:
        self.processing_time.register(
            self.processing_time.now() + self.interval_ms, self._on_interval
        )

    def _on_interval(self, timestamp: int) -> None:
        del timestamp
        if self.is_stopped:
            return
        before = self.emitter.watermark
        if self._is_quiet():
            self.idle = True
            self.emitter.mark_idle()
        else:
            self._emit_periodic()
        self.at_rest = MIN_TIMESTAMP < before == self.emitter.watermark
        self._schedule()

    def _is_quiet(self) -> bool:
        if self.idle_timeout_ms is None:
            return False
        self.quiet_s += self.quiet_time.passed_s(is_held=self.is_held())
        if self.had_events:
            self.had_events = False
            self.quiet_s = 0.0
            return False
        return bool(self.quiet_s * 1000 >= self.idle_timeout_ms)
