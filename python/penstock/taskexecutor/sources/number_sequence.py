"""A range of integers, one contiguous part for each subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.loop import NumberSequenceSource, StreamOperator
from penstock.taskexecutor.sources.source_watermarks import with_watermarks

if TYPE_CHECKING:
    from penstock.taskexecutor.operator_context import OperatorContext


def create_number_sequence_source(context: OperatorContext) -> StreamOperator:
    """The part of this subtask; the first subtasks have one number more if they must."""
    arguments = context.descriptor.arguments
    first, last = part_of_range(
        arguments["start"],
        arguments["end"],
        context.environment.subtask,
        context.environment.parallelism,
    )
    return with_watermarks(context, NumberSequenceSource(first, last))


def part_of_range(start: int, end: int, index: int, parts: int) -> tuple[int, int]:
    """First and last number of one of several parts of ``start`` to ``end``, all inclusive."""
    size, larger = divmod(max(0, end - start + 1), parts)
    first = start + index * size + min(index, larger)
    return first, first + size - (0 if index < larger else 1)
