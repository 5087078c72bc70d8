"""The outputs of a split reader: one for each split, and one for the reader as a whole.

Each has its own watermark generator.  The slowest split that is not idle determines the reader's
watermark, as soon as it is assigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.timestamps import timestamp_of
from penstock.common.watermark_generator import (
    BoundedOutOfOrdernessWatermarks,
    IngestionTimeWatermarks,
    NoWatermarksGenerator,
    WatermarkOutput,
)
from penstock.connectors.split_source import ReaderOutput, SourceOutput
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, Output, open_function
from penstock.taskexecutor.operators.watermarks import FinalWatermarkEmitter, WatermarkEmitter
from penstock.taskexecutor.time.quiet_time import QuietTime

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.common.watermark_generator import WatermarkGenerator
    from penstock.common.watermark_strategy import WatermarkStrategy
    from penstock.datastream.output_tag import OutputTag
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

_MAIN: Final = None

#: Generators that at most record the largest timestamp for a record.
_LOOKING_AT_TIMESTAMPS_ALONE: Final = frozenset(
    {BoundedOutOfOrdernessWatermarks, IngestionTimeWatermarks, NoWatermarksGenerator}
)


class WatermarkMultiplexer:
    """Combines the watermarks of a reader's outputs into one.

    Splits hold each other back.  The output of the reader as a whole is separate: a watermark that
    it emits counts at once, as in Flink.
    """

    def __init__(self, emitter: WatermarkEmitter) -> None:
        """Create a multiplexer that emits to ``emitter``."""
        self._emitter = emitter
        self._splits: dict[str, _Part] = {}
        self._main: _Part | None = None
        #: The watermark of splits that have ended.
        self.ended = _Ended()
        self.watermark = emitter.watermark
        #: Whether a split's watermark has advanced, or a split was removed; the reader resets it.
        self.has_moved = False

    def add(self, name: str | None) -> _Part:
        """Return the part of a new output; a split holds the others back from now on.

        Args:
            name: The split; None for the reader as a whole.
        """
        part = _Part(self)
        if name is None:
            self._main = part
        else:
            self._splits[name] = part
        self._emitter.mark_active()
        return part

    def remove(self, name: str | None) -> None:
        """Forget an output.

        Event time advances with the next `update`: the split that replaces an ended one is often
        added before that, and then holds the others back.
        """
        if name is None:
            self._main = None
        elif (part := self._splits.pop(name, None)) is not None:
            self.ended.emit_watermark(part.watermark)
            self.has_moved = True

    def watermarks(self) -> dict[str, int]:
        """Return the watermarks of the splits, by their names."""
        return {name: part.watermark for name, part in self._splits.items()}

    def update(self) -> None:
        """Emit the watermark and the idleness that follow from the outputs."""
        active = [part.watermark for part in self._splits.values() if not part.idle]
        main = self._main
        if main is not None and not main.idle:
            self._emitter.mark_active()
            self._advance(main.watermark)
        elif active:
            self._emitter.mark_active()
        elif self._splits or main is not None:
            self._emitter.mark_idle()
        if active:
            self._advance(min(active))
        elif not self._splits:
            self._advance(self.ended.watermark)

    def _advance(self, timestamp: int) -> None:
        if timestamp > self.watermark:
            self.watermark = timestamp
            self._emitter.emit_watermark(timestamp)


class _Part(WatermarkOutput):
    """The watermark and idleness of one output."""

    def __init__(self, multiplexer: WatermarkMultiplexer) -> None:
        self._multiplexer = multiplexer
        self.watermark = MIN_TIMESTAMP
        self.idle = False

    def emit_watermark(self, timestamp: int) -> None:
        """Advance the output's watermark."""
        reached = timestamp_of(timestamp, "emit_watermark")
        if reached > self.watermark or self.idle:
            self.watermark = max(reached, self.watermark)
            self.idle = False
            self._multiplexer.has_moved = True
            self._multiplexer.update()

    def mark_idle(self) -> None:
        """Mark the output idle: event time does not wait for it."""
        if not self.idle:
            self.idle = True
            self._multiplexer.update()

    def mark_active(self) -> None:
        """Mark the output active."""
        if self.idle:
            self.idle = False
            self._multiplexer.update()


class _Ended(WatermarkOutput):
    """The watermark of ended splits: it counts if no split is left."""

    def __init__(self) -> None:
        self.watermark = MIN_TIMESTAMP

    def emit_watermark(self, timestamp: int) -> None:
        """Record the watermark of a split that has ended."""
        self.watermark = max(self.watermark, timestamp_of(timestamp, "emit_watermark"))

    def mark_idle(self) -> None:
        """Do nothing: ended splits are neither idle nor active."""

    def mark_active(self) -> None:
        """Do nothing: ended splits are neither idle nor active."""


class _Output(SourceOutput):
    """One output: timestamps, a generator, and its part of the watermark."""

    def __init__(self, reader: ReaderOutputs, name: str | None) -> None:
        self._reader = reader
        self._part = reader.multiplexer.add(name)
        self._generator = None if reader.strategy is None else reader.new_generator()
        #: Whether one of several records of the same timestamp is enough for the generator.
        self._takes_one_for_all = (
            self._generator is None or type(self._generator) in _LOOKING_AT_TIMESTAMPS_ALONE
        )
        self._had_events = False
        self._quiet_s = 0.0

    @property
    def watermark(self) -> int:
        """Watermark of this output, in ms."""
        return self._part.watermark

    def collect(self, record: object, timestamp: int | None = None) -> None:
        """Emit a record."""
        reader = self._reader
        at = MIN_TIMESTAMP if timestamp is None else timestamp_of(timestamp, "collect")
        if reader.extract is not None:
            at = timestamp_of(reader.extract(record, at), reader.giver)
        if self._part.idle:
            self._part.mark_active()
        reader.output.collect(record, at)
        reader.last_at = at
        if self._generator is not None:
            self._generator.on_event(record, at, self._part)
            self._had_events = True

    def collect_all(self, records: Sequence[object], timestamp: int | None = None) -> None:
        """Emit records of one timestamp."""
        reader = self._reader
        if reader.extract is not None or not self._takes_one_for_all:
            for record in records:
                self.collect(record, timestamp)
        elif records:
            at = MIN_TIMESTAMP if timestamp is None else timestamp_of(timestamp, "collect_all")
            if self._part.idle:
                self._part.mark_active()
            reader.output.collect_all(records, at)
            reader.last_at = at
            if self._generator is not None:
                self._generator.on_event(records[-1], at, self._part)
                self._had_events = True

    def collect_side(self, output_tag: OutputTag, value: object) -> None:
        """Emit a record to a side output."""
        self._reader.collect_side(output_tag, value)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark."""
        self._part.emit_watermark(timestamp)

    def mark_idle(self) -> None:
        """Mark this output idle: event time does not wait for it."""
        self._part.mark_idle()

    def mark_active(self) -> None:
        """Mark this output active."""
        self._part.mark_active()

    def on_interval(self, passed_s: float) -> None:
        """Let the generator emit, or mark the output idle after its timeout.

        Args:
            passed_s: Time since the last interval during which the output could emit.
        """
        self._quiet_s = 0.0 if self._had_events else self._quiet_s + passed_s
        self._had_events = False
        timeout_s = self._reader.idle_timeout_s
        if timeout_s is not None and self._quiet_s >= timeout_s:
            self._part.mark_idle()
        else:
            self.emit_periodic()

    def emit_periodic(self) -> None:
        """Let the generator emit."""
        self.emit_last(self._part)

    def emit_last(self, output: WatermarkOutput) -> None:
        """Let the generator emit to ``output``."""
        if self._generator is not None:
            self._generator.on_periodic_emit(output)


def _watermark_of(item: tuple[str | None, _Output]) -> int:
    return item[1].watermark


class ReaderOutputs(ReaderOutput):
    """Outputs of a reader.

    Attributes:
        strategy: The source's WatermarkStrategy, or None.
        output: Receives the records.
        emitter: Emits the watermark of the reader.
        extract: Returns the timestamp of a record; None without an assigner.
        giver: The user's function behind ``extract``.
        idle_timeout_s: Time without records after which an output is idle, or None.
        last_at: Timestamp of the last record since `take_last`, or None.
    """

    def __init__(
        self,
        context: OperatorContext,
        strategy: WatermarkStrategy | None,
        output: Output,
        emitter: WatermarkEmitter | None = None,
    ) -> None:
        """Create the outputs of one reader.

        Args:
            context: The source's context.
            strategy: Its WatermarkStrategy, or None.
            output: Receives the records.
            emitter: Emits the reader's watermark; perhaps that of the source read before.
        """
        self.strategy: Any = strategy
        self.output = output
        self.extract: Any = None
        self.giver: Any = None
        self.idle_timeout_s: float | None = None
        self.last_at: int | None = None
        assigner = None if strategy is None else strategy.timestamp_assigner
        if assigner is not None:
            open_function(assigner, context)
            self.giver = assigner.extract_timestamp
            self.extract = context.evaluation.without_call(
                self.giver, 2, (context.timestamped_type,)
            )
        if strategy is not None and strategy.idle_timeout_ms is not None:
            self.idle_timeout_s = strategy.idle_timeout_ms / 1000
        if emitter is None:
            emitter = (FinalWatermarkEmitter if context.is_batch else WatermarkEmitter)(output)
        self.emitter = emitter
        self.multiplexer = WatermarkMultiplexer(emitter)
        self._outputs: dict[str | None, _Output] = {}
        self._quiet_time = QuietTime(context.input_clock)
        self._without_outputs_s = 0.0
        self._held: frozenset[str | None] = frozenset()

    def take_last(self) -> int | None:
        """Return the timestamp of the last record since the last call; None if there is none."""
        last, self.last_at = self.last_at, None
        return last

    def new_generator(self) -> WatermarkGenerator:
        """Return a watermark generator for one output."""
        generator: WatermarkGenerator = self.strategy.create_watermark_generator()
        return generator

    @property
    def watermark(self) -> int:
        """The last watermark emitted, in ms."""
        return self.multiplexer.watermark

    @property
    def is_idle(self) -> bool:
        """Return whether all outputs are idle."""
        return self.emitter.idle

    def collect(self, record: object, timestamp: int | None = None) -> None:
        """Emit a record that belongs to no split."""
        self._main().collect(record, timestamp)

    def collect_all(self, records: Sequence[object], timestamp: int | None = None) -> None:
        """Emit records of one timestamp that belong to no split."""
        self._main().collect_all(records, timestamp)

    def collect_side(self, output_tag: OutputTag, value: object) -> None:
        """Emit a record to a side output."""
        self.output.collect_side(output_tag.tag_id, value, MIN_TIMESTAMP)

    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark of the reader as a whole."""
        self._main().emit_watermark(timestamp)

    def mark_idle(self) -> None:
        """Mark the reader idle: event time does not wait for it."""
        self._main().mark_idle()

    def mark_active(self) -> None:
        """Mark the reader active."""
        self._main().mark_active()

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """Return the output of a split; the same one until it is released."""
        found = self._outputs.get(split_id)
        if found is None:
            found = self._outputs[split_id] = _Output(self, split_id)
        return found

    def release_output_for_split(self, split_id: str) -> None:
        """Forget the output of a split; the next interval emits the resulting watermark.

        If no split is left by then, event time advances to the watermark of the ended ones.  In
        Flink, records since the last interval do not count, and windows of an endless source wait
        until it has a split again.
        """
        output = self._outputs.pop(split_id, None)
        if output is not None:
            self.multiplexer.remove(split_id)
            output.emit_last(self.multiplexer.ended)

    def on_interval(self, *, is_held: bool = False, held: Collection[str] = ()) -> None:
        """Let the generators emit, and mark outputs idle after their timeout.

        A reader without splits becomes idle after the same time.

        Args:
            is_held: Whether alignment prevents the reader from emitting.
            held: Splits that alignment prevents from emitting.
        """
        passed_s = self._quiet_time.passed_s(is_held=is_held)
        before, self._held = self._held, frozenset(held)
        was_held = before | self._held
        # Splits that are behind first: if all become idle at once, the watermarks of the others
        # count.
        for name, output in sorted(self._outputs.items(), key=_watermark_of):
            output.on_interval(0.0 if name in was_held else passed_s)
        self.multiplexer.update()
        if self._outputs:
            self._without_outputs_s = 0.0
            return
        self._without_outputs_s += passed_s
        if self.idle_timeout_s is not None and self._without_outputs_s >= self.idle_timeout_s:
            self.emitter.mark_idle()

    def emit_periodic(self) -> None:
        """Let the generators emit."""
        for output in list(self._outputs.values()):
            output.emit_periodic()
        self.multiplexer.update()

    def _main(self) -> _Output:
        found = self._outputs.get(_MAIN)
        if found is None:
            found = self._outputs[_MAIN] = _Output(self, _MAIN)
        return found
