"""Partitioning of a stream: the choice of the subtask that receives each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from penstock.common.typeinfo import Types
from penstock.datastream.data_stream.settings import StreamSettings
from penstock.datastream.functions import KeySelector, Partitioner
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.datastream.state import MapStateDescriptor
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import computed, result_type
from penstock.graph.partitioners import PartitionerSpec
from penstock.graph.transformations import PartitionTransformation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.datastream.data_stream.broadcast import BroadcastStream
    from penstock.datastream.data_stream.stream import DataStream

T = TypeVar("T")


class StreamPartitioning(StreamSettings, Generic[T]):
    """Methods of `DataStream` that choose the subtask that receives each record."""

    def shuffle(self) -> DataStream[T]:
        """Distribute records at random."""
        return self._partitioned(PartitionerSpec("SHUFFLE"))

    def rebalance(self) -> DataStream[T]:
        """Distribute records in turn over all subtasks."""
        return self._partitioned(PartitionerSpec("REBALANCE"))

    def rescale(self) -> DataStream[T]:
        """Distribute the records of each subtask in turn over a part of the next subtasks."""
        return self._partitioned(PartitionerSpec("RESCALE"))

    def forward(self) -> DataStream[T]:
        """Send records to the subtask with the same number."""
        return self._partitioned(PartitionerSpec("FORWARD"))

    def global_(self) -> DataStream[T]:
        """Send all records to the first subtask (beyond PyFlink)."""
        return self._partitioned(PartitionerSpec("GLOBAL"))

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream | DataStream[T]:
        """Send each record to all subtasks; with descriptors, as broadcast state.

        Raises:
            InvalidProgramError: A descriptor is not a MapStateDescriptor.
        """
        from penstock.datastream.data_stream.broadcast import BroadcastStream

        partitioned = self._partitioned(PartitionerSpec("BROADCAST"))
        if broadcast_state_descriptor is None:
            return partitioned
        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        for descriptor in cast("list[Any]", descriptors):
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidProgramError(
                    f"broadcast takes MapStateDescriptors, got {descriptor!r}"
                )
        return BroadcastStream(partitioned, descriptors)

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int | Sequence[int]],
        key_selector: KeySelector | Callable[[T], Any],
    ) -> DataStream[T]:
        """Distribute records by a function that selects the subtask.

        Args:
            partitioner: A function of a key and the downstream parallelism that returns the number
                of the subtask; beyond PyFlink, it may return several in a list or tuple.
            key_selector: A function that returns the key of a record.
        """
        selector = self._stream()._function(key_selector, "partition_custom")
        types = [result_type(selector, None), Types.INT()]
        function = computed(partitioner, "partition_custom", types, wanted="integer")
        check_function(function, Partitioner, "partition_custom", or_callable=True)
        check_function(selector, KeySelector, "partition_custom", or_callable=True)
        return self._partitioned(
            PartitionerSpec(
                "CUSTOM",
                key_selector=shipped(selector, "partition_custom"),
                function=shipped(function, "partition_custom"),
            )
        )

    def _partitioned(self, partitioner: PartitionerSpec) -> DataStream[T]:
        from penstock.datastream.data_stream.stream import DataStream

        return DataStream(
            self._environment, PartitionTransformation(self._transformation, partitioner)
        )
