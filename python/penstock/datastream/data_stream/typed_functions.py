"""Shapes of functions by which type checkers infer the type of the records that they emit.

A function class needs no type parameters: the annotations of its method are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

IN = TypeVar("IN", contravariant=True)
OUT = TypeVar("OUT", covariant=True)


class Maps(Protocol[IN, OUT]):
    """A MapFunction."""

    def map(self, value: IN, /) -> OUT:
        """Return the record to emit."""
        ...


class FlatMaps(Protocol[IN, OUT]):
    """A FlatMapFunction."""

    def flat_map(self, value: IN, /) -> Iterable[OUT]:
        """Return the records to emit."""
        ...


class Processes(Protocol[IN, OUT]):
    """A ProcessFunction or KeyedProcessFunction."""

    def process_element(self, value: IN, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit."""
        ...


class Aggregates(Protocol[IN, OUT]):
    """An AggregateFunction."""

    def add(self, value: IN, accumulator: Any, /) -> Any:
        """Return the accumulator after adding one more record."""
        ...

    def get_result(self, accumulator: Any, /) -> OUT:
        """Return the result of an accumulator."""
        ...


class ProcessesWindow(Protocol[IN, OUT]):
    """A ProcessWindowFunction."""

    def process(self, key: Any, context: Any, elements: Iterable[IN], /) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""
        ...


class ProcessesAll(Protocol[IN, OUT]):
    """A ProcessAllWindowFunction."""

    def process(self, context: Any, elements: Iterable[IN], /) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""
        ...


class AppliesWindow(Protocol[IN, OUT]):
    """A WindowFunction."""

    def apply(self, key: Any, window: Any, inputs: Iterable[IN], /) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""
        ...


class AppliesAll(Protocol[IN, OUT]):
    """An AllWindowFunction."""

    def apply(self, window: Any, inputs: Iterable[IN], /) -> Iterable[OUT]:
        """Return the records to emit when the window fires."""
        ...


class MapsPartition(Protocol[IN, OUT]):
    """A MapPartitionFunction."""

    def map_partition(self, values: Iterable[IN], /) -> Iterable[OUT] | None:
        """Return the records to emit for a partition."""
        ...


class AsyncInvokes(Protocol[IN, OUT]):
    """An AsyncFunction."""

    async def async_invoke(self, value: IN, /) -> Sequence[OUT]:
        """Return the records to emit."""
        ...


class CoGroups(Protocol[OUT]):
    """A CoGroupFunction without a parameter for the key and window."""

    def co_group(self, first: list[Any], second: list[Any], /) -> Iterable[OUT]:
        """Return the records to emit for a key and window."""
        ...


class ProcessesBroadcast(Protocol[OUT]):
    """A BroadcastProcessFunction or KeyedBroadcastProcessFunction."""

    def process_element(self, value: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the stream that is not broadcast."""
        ...

    def process_broadcast_element(self, value: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a broadcast record."""
        ...


class ProcessesInputs(Protocol[OUT]):
    """A MultipleInputProcessFunction or KeyedMultipleInputProcessFunction."""

    def process_element(self, input_number: int, value: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a record of one of the streams."""
        ...


class Joins(Protocol[OUT]):
    """A JoinFunction."""

    def join(self, first: Any, second: Any, /) -> OUT:
        """Return the record to emit for a pair."""
        ...


class JoinsByTime(Protocol[OUT]):
    """A ProcessJoinFunction."""

    def process_element(self, left: Any, right: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a pair."""
        ...


class CoMaps(Protocol[OUT]):
    """A CoMapFunction."""

    def map1(self, value: Any, /) -> OUT:
        """Return the record to emit for a record of the first stream."""
        ...

    def map2(self, value: Any, /) -> OUT:
        """Return the record to emit for a record of the second stream."""
        ...


class CoFlatMaps(Protocol[OUT]):
    """A CoFlatMapFunction."""

    def flat_map1(self, value: Any, /) -> Iterable[OUT]:
        """Return the records to emit for a record of the first stream."""
        ...

    def flat_map2(self, value: Any, /) -> Iterable[OUT]:
        """Return the records to emit for a record of the second stream."""
        ...


class CoProcesses(Protocol[OUT]):
    """A CoProcessFunction or KeyedCoProcessFunction."""

    def process_element1(self, value: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the first stream."""
        ...

    def process_element2(self, value: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a record of the second stream."""
        ...


class ProcessesMatch(Protocol[OUT]):
    """A PatternProcessFunction."""

    def process_match(self, match: Any, ctx: Any, /) -> Iterable[OUT] | None:
        """Return the records to emit for a match."""
        ...
