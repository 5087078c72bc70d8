"""Partitionings that a program defines: by its own function, or as broadcast state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.typeinfo import Types
from penstock.datastream.functions import KeySelector, Partitioner
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.datastream.state import MapStateDescriptor
from penstock.errors import InvalidProgramError
from penstock.expressions.computed import computed, result_type
from penstock.graph.partitioners import PartitionerSpec

if TYPE_CHECKING:
    from penstock.datastream.data_stream.settings import StreamSettings


def custom_partitioner(
    stream: StreamSettings, partitioner: Any, key_selector: Any
) -> PartitionerSpec:
    """Return the partitioning of `DataStream.partition_custom`."""
    selector = stream._function(key_selector, "partition_custom")
    types = [result_type(selector, None), Types.INT()]
    function = computed(partitioner, "partition_custom", types, wanted="integer")
    check_function(function, Partitioner, "partition_custom", or_callable=True)
    check_function(selector, KeySelector, "partition_custom", or_callable=True)
    return PartitionerSpec(
        "CUSTOM",
        key_selector=shipped(selector, "partition_custom"),
        function=shipped(function, "partition_custom"),
    )


def broadcast_states(descriptors: list[Any]) -> list[MapStateDescriptor]:
    """Check the descriptors of `DataStream.broadcast` and return them.

    Raises:
        InvalidProgramError: A descriptor is not a MapStateDescriptor.
    """
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            raise InvalidProgramError(f"broadcast takes MapStateDescriptors, got {descriptor!r}")
    return descriptors


class BroadcastStream(MissingMethods):
    """A stream whose records every subtask receives, with the states that it fills."""

    def __init__(
        self,
        input_stream: StreamSettings,
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        """Use `DataStream.broadcast`."""
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def __repr__(self) -> str:
        return f"<BroadcastStream of {self.input_stream!r}>"
