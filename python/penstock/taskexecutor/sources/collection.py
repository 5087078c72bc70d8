"""The records of a collection shipped with the job."""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, Any

from penstock.serialization.type_serializer import JobTypeSerializer
from penstock.taskexecutor.compiled import IteratorSource, StreamOperator
from penstock.taskexecutor.sources.source_watermarks import with_watermarks
from penstock.taskexecutor.sources.split_state import Share, SplitBySplit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


def create_collection_source(
    context: OperatorContext, descriptor: operators.CollectionSource
) -> StreamOperator:
    """Create the source; the first subtask emits every record, in order."""
    serializer = JobTypeSerializer[Any](descriptor.element_type)
    source = CollectionSource(descriptor.elements, serializer.deserialize)
    return with_watermarks(context, descriptor, source)


class CollectionSource(SplitBySplit, IteratorSource):
    """Emits decoded records; a split is a first position, and ends with the last record."""

    measure = "Records"

    def __init__(self, elements: Sequence[bytes], decode: Callable[[bytes], object]) -> None:
        """Create the source of encoded records."""
        super().__init__(iter(()))
        self.elements = elements
        self.decode = decode
        self.left = iter(elements)

    def divide(self, share: Share) -> list[int]:
        """Return everything for the first subtask."""
        return [0] if share.number == 0 else []

    def begin(self, split: int) -> None:
        """Continue with the record at this position."""
        self.left = iter(self.elements[split:])
        self.iterator = map(self.decode, self.left)

    def size(self, split: int) -> int:
        """Return the number of records from a position on."""
        return len(self.elements) - split

    def rest(self) -> int:
        """Return the position of the next record."""
        return len(self.elements) - length_hint(self.left)
