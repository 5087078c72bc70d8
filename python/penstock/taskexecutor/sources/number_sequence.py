"""A range of integers, one contiguous part for each subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import NumberSequenceSource, StreamOperator
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.split_state import Share, SplitBySplit

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_number_sequence_source(
    context: OperatorContext, descriptor: operators.NumberSequenceSource
) -> StreamOperator:
    """Create the source of this subtask's part; the first subtasks may get one number more."""
    source = DividedNumberSequence(descriptor.start, descriptor.end)
    return with_watermarks(context, descriptor, source)


class DividedNumberSequence(SplitBySplit, NumberSequenceSource):
    """Emits ranges of the sequence; a split is the first and the last number of a range."""

    measure = "Records"

    def __init__(self, first: int, last: int) -> None:
        """Create the source of a whole sequence; a subtask reads a share of it."""
        super().__init__(0, -1)
        self.whole = first, last

    def divide(self, share: Share) -> list[tuple[int, int]]:
        """Return the range of a share, if it is not empty."""
        first, last = part_of_range(*self.whole, share.number, share.of)
        return [(first, last)] if first <= last else []

    def begin(self, split: tuple[int, int]) -> None:
        """Continue with this range."""
        self.next, self.end = split

    def size(self, split: tuple[int, int]) -> int:
        """Return the size of a range."""
        return split[1] - split[0] + 1

    def place(self, split: tuple[int, int]) -> int:
        """Return the first number of a range."""
        return split[0]

    def rest(self) -> tuple[int, int]:
        """Return the rest of the range."""
        return self.next, self.end


def part_of_range(start: int, end: int, index: int, parts: int) -> tuple[int, int]:
    """Return the first and last number of one of several parts of a range, all inclusive."""
    size, larger = divmod(max(0, end - start + 1), parts)
    first = start + index * size + min(index, larger)
    return first, first + size - (0 if index < larger else 1)
