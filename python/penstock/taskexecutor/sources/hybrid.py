"""Several sources, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MORE_AVAILABLE,
    Output,
    SourceOperator,
    StreamOperator,
)
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.split_state import Share, SplitState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.graph import operators
    from penstock.taskexecutor.task.operator_context import OperatorContext


def create_hybrid_source(
    context: OperatorContext, descriptor: operators.HybridSource
) -> StreamOperator:
    """Reads the sources in their order."""
    from penstock.taskexecutor.operators.registry import create_operator

    parts: list[tuple[OperatorContext, Any]] = []
    for of_part in descriptor.sources:
        part_context = context.with_descriptor(of_part)
        part = create_operator(part_context)
        assert isinstance(part, SourceOperator), f"{type(of_part).__name__} is no source"
        assert isinstance(part, SplitState), f"{type(of_part).__name__} has no splits"
        parts.append((part_context, part))
    return with_watermarks(context, descriptor, HybridSource(parts))


class HybridSource(SplitState, SourceOperator):
    """Opens a source when the one before it has ended; each subtask switches by itself.

    A split is the number of a source and a split of that; a source that is not opened yet has
    whole shares.
    """

    def __init__(self, parts: list[tuple[OperatorContext, Any]]) -> None:
        """Keeps the sources, which have a `SplitState` each, and their contexts."""
        super().__init__()
        self.parts = parts
        self.looks_for_splits = any(part.looks_for_splits for _, part in parts)
        self.current = 0
        self.cancelled = False

    def setup(self, context: OperatorContext, output: Output) -> None:
        """All sources have the same output."""
        super().setup(context, output)
        for part_context, part in self.parts:
            part.setup(part_context, output)

    def divide(self, share: Share) -> list[tuple[int, Any]]:
        """The same share of every source."""
        return [(number, share) for number in range(len(self.parts))]

    def open(self) -> None:
        """Opens the first source."""
        splits = self.divided()
        for number, (_, source) in enumerate(self.parts):
            source.next_split = self.next_split
            source.splits = [split for part, split in splits if part == number]
            source.taken = {found for part, found in self.taken if part == number}
        self.parts[0][1].open()

    def remaining_splits(self) -> list[tuple[int, Any]]:
        """What is left of the current source, and all of those behind it."""
        current = self.parts[self.current][1]
        splits = [(self.current, split) for split in current.remaining_splits()]
        for number in range(self.current + 1, len(self.parts)):
            splits.extend((number, split) for split in self.parts[number][1].splits)
        return splits

    def taken_here(self) -> Iterable[tuple[int, Any]]:
        """What the sources have found."""
        for number, (_, source) in enumerate(self.parts):
            for found in source.taken_here():
                yield number, found

    def emit_next(self, limit: int) -> int:
        """Emits elements of the current source, or goes on to the next one."""
        source = self.parts[self.current][1]
        status: int = source.emit_next(limit)
        if status != END_OF_DATA or self.cancelled or self.current + 1 == len(self.parts):
            return status
        source.close()
        self.current += 1
        if self.next_split is not None:
            self.next_split()
        self.parts[self.current][1].open()
        return MORE_AVAILABLE

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint is complete."""
        self.parts[self.current][1].notify_checkpoint_complete(checkpoint_id)

    def wait_available(self, timeout_ms: int) -> None:
        """Waits for the current source."""
        self.parts[self.current][1].wait_available(timeout_ms)

    def wakeup(self) -> None:
        """Ends a wait from another thread."""
        self.parts[self.current][1].wakeup()

    def cancel(self) -> None:
        """Ends the current source early, and thereby all."""
        self.cancelled = True
        self.parts[self.current][1].cancel()

    def close(self) -> None:
        """Closes the current source and those behind it, which hold something unopened too."""
        for _, source in self.parts[self.current :]:
            source.close()
