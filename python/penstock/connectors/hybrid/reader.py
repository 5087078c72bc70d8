"""Operator that reads several sources one after the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from penstock.connectors.hybrid.splits import HybridSplit, PartEvent, Signal
from penstock.graph import operators
from penstock.rpc.messages import (
    AcknowledgeCheckpointEvent,
    AddSplits,
    ReaderRegistration,
    SourceEvent,
)
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MORE_AVAILABLE,
    Output,
    SourceOperator,
    StreamOperator,
)
from penstock.taskexecutor.sources.source_watermarks import SourceWithWatermarks, with_watermarks
from penstock.taskexecutor.sources.split_source import SplitSource, send_to_coordinator
from penstock.taskexecutor.sources.split_state import Share, SplitState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.common.watermark_strategy import WatermarkStrategy
    from penstock.rpc.messages import FromCoordinator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.operators.watermarks import WatermarkEmitter


def create_hybrid_source(
    context: OperatorContext, descriptor: operators.HybridSource
) -> StreamOperator:
    """Create the operator that reads the sources in order.

    If one of them is enumerated, each has its own watermarks, as those of its splits.
    """
    from penstock.taskexecutor.operators.registry import create_operator

    parts: list[tuple[OperatorContext, Any]] = []
    is_enumerated = descriptor.enumerating is not None
    strategy = descriptor.watermark_strategy
    for number, of_part in enumerate(descriptor.sources):
        part_context = context.with_descriptor(of_part)
        if isinstance(of_part, operators.SplitSource):
            parts.append((part_context, EnumeratedPart(number, of_part.function, strategy)))
            continue
        if is_enumerated:
            part_context = context.with_descriptor(replace(of_part, watermark_strategy=strategy))
        part = create_operator(part_context)
        assert isinstance(part, SourceOperator), f"{type(of_part).__name__} is no source"
        assert isinstance(_split_state(part), SplitState), f"{type(of_part).__name__}: no splits"
        parts.append((part_context, part))
    whole = HybridSource(parts, is_enumerated=is_enumerated)
    return whole if is_enumerated else with_watermarks(context, descriptor, whole)


def _split_state(part: Any) -> Any:
    """Return the object that stores a source's splits: the source without its watermarks."""
    return part.source if isinstance(part, SourceWithWatermarks) else part


class EnumeratedPart(SplitSource):
    """A PythonSource of a hybrid source, which exchanges events with its own enumerator.

    Attributes:
        splits: The splits of the restored snapshot.
        checkpoint_id: The current checkpoint.
    """

    looks_for_splits = False
    checkpoint_id = 0

    def __init__(self, number: int, source: Any, strategy: WatermarkStrategy | None) -> None:
        """Create the source with this number."""
        super().__init__(source, strategy)
        self.number = number
        self.splits: list[Any] = []

    def restored_splits(self) -> list[Any]:
        """Return the splits of the restored snapshot."""
        return self.splits

    def remaining_splits(self) -> list[Any]:
        """Return the splits that are not read to their end."""
        return self._reader().snapshot_state(self.checkpoint_id)

    def taken_here(self) -> Iterable[Any]:
        """Return nothing: the enumerator stores the splits."""
        return ()

    def register(self) -> None:
        """Register the reader with the enumerator."""
        self._tell(Signal.REGISTERED)

    def request_split(self) -> None:
        """Request a split from the enumerator."""
        self._tell(Signal.SPLIT_WANTED)

    def send_event(self, event: Any) -> None:
        """Send plain data to the enumerator."""
        self._tell((event,))

    def handle_part_event(self, event: Any) -> None:
        """Pass an event of the enumerator to the reader."""
        if event is Signal.NO_MORE_SPLITS:
            self._reader().notify_no_more_splits()
        else:
            self._reader().handle_source_events(event[0])

    def give_way(self) -> WatermarkEmitter:
        """Close the source; return its watermark emitter for the next source."""
        self.close()
        assert self.outputs is not None, "opened"
        return self.outputs.emitter

    def _tell(self, event: Any) -> None:
        data = self.serializer.serialize(PartEvent(self.number, event))
        send_to_coordinator(self.context, SourceEvent, data)


class HybridSource(SplitState, SourceOperator):
    """Opens a source when the previous one has ended; each subtask switches by itself.

    A split is the number of a source with one of its splits; sources that are not opened yet have
    whole shares.
    """

    def __init__(
        self, parts: list[tuple[OperatorContext, Any]], *, is_enumerated: bool = False
    ) -> None:
        """Store the sources and their contexts.

        Args:
            parts: The sources: each is an `EnumeratedPart` or has a `SplitState`.
            is_enumerated: Whether one of them is an `EnumeratedPart`.
        """
        super().__init__()
        self.parts = parts
        self.states = [_split_state(part) for _, part in parts]
        self.is_enumerated = is_enumerated
        self.looks_for_splits = any(state.looks_for_splits for state in self.states)
        self.current = 0
        self.cancelled = False
        self.serializer: TypeSerializer[Any] = TypeSerializer()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set up all sources with the same output."""
        super().setup(context, output)
        for part_context, part in self.parts:
            part.setup(part_context, output)

    def divide(self, share: Share) -> list[tuple[int, Any]]:
        """Return the same share of every source without an enumerator."""
        return [
            (number, share)
            for number, state in enumerate(self.states)
            if not isinstance(state, EnumeratedPart)
        ]

    def open(self) -> None:
        """Open the first source."""
        splits = self.divided()
        for number, source in enumerate(self.states):
            if self.next_split is not None:
                source.next_split = self.next_split
            source.splits = [split for part, split in splits if part == number]
            source.taken = {found for part, found in self.taken if part == number}
        if self.is_enumerated:
            send_to_coordinator(self.context, ReaderRegistration)
        self.parts[0][1].open()

    def snapshot_state(self, context: Any) -> None:
        """Store the splits that are not read to the end."""
        current = self.states[self.current]
        if isinstance(current, EnumeratedPart):
            current.checkpoint_id = context.get_checkpoint_id()
        super().snapshot_state(context)
        if self.is_enumerated:
            checkpoint_id = context.get_checkpoint_id()
            send_to_coordinator(self.context, AcknowledgeCheckpointEvent, checkpoint_id)

    def remaining_splits(self) -> list[tuple[int, Any]]:
        """Return the rest of the current source, and all later sources."""
        current = self.states[self.current]
        splits = [(self.current, split) for split in current.remaining_splits()]
        for number in range(self.current + 1, len(self.parts)):
            splits.extend((number, split) for split in self.states[number].splits)
        return splits

    def taken_here(self) -> Iterable[tuple[int, Any]]:
        """Return the splits that the sources have found."""
        for number, source in enumerate(self.states):
            for found in source.taken_here():
                yield number, found

    def emit_next(self, limit: int) -> int:
        """Emit records of the current source, or switch to the next one."""
        source = self.parts[self.current][1]
        status: int = source.emit_next(limit)
        if status != END_OF_DATA or self.cancelled or self.current + 1 == len(self.parts):
            return status
        emitter: WatermarkEmitter | None = None
        if hasattr(source, "give_way"):
            emitter = source.give_way()
        else:
            source.close()
        # The next source may have metrics with the same names.
        self.parts[self.current][0].runtime_context.get_metrics_group().withdraw()
        self.current += 1
        if self.next_split is not None:
            self.next_split()
        following = self.parts[self.current][1]
        if emitter is not None:
            emitter.mark_active()
            following.former_emitter = emitter
        following.open()
        if self.cancelled:  # another thread may have cancelled the former source
            following.cancel()
        return MORE_AVAILABLE

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Handle a message of the coordinator, in the task's thread."""
        if isinstance(message, AddSplits):
            splits: list[HybridSplit] = [
                self.serializer.deserialize(split) for split in message.splits
            ]
            for number, group in groupby(splits, lambda split: split.part):
                self._enumerated(number).add_splits([split.split for split in group])
        elif isinstance(message, SourceEvent):
            event: PartEvent = self.serializer.deserialize(message.event)
            self._enumerated(event.part).handle_part_event(event.event)
        else:
            self.parts[self.current][1].handle_operator_event(message)

    def finish(self) -> None:
        """Emit the remaining records of the last source."""
        self.parts[self.current][1].finish()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the current source."""
        self.parts[self.current][1].notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the current source."""
        self.parts[self.current][1].notify_checkpoint_aborted(checkpoint_id)

    def wait_available(self, timeout_ms: int) -> None:
        """Wait for the current source."""
        self.parts[self.current][1].wait_available(timeout_ms)

    def wakeup(self) -> None:
        """End a wait; called from another thread."""
        self.parts[self.current][1].wakeup()

    def cancel(self) -> None:
        """End the current source early; the later ones are not opened."""
        self.cancelled = True
        self.parts[self.current][1].cancel()

    def close(self) -> None:
        """Close the current source and the later ones, which hold resources even if unopened."""
        self.parts[self.current][1].close()
        for source in self.states[self.current + 1 :]:
            source.close()

    def _enumerated(self, number: int) -> EnumeratedPart:
        """Return the source with a number, the receiver of a message."""
        return cast("EnumeratedPart", self.states[number])
