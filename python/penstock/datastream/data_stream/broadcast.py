"""BroadcastStream, and a stream that is connected to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import MissingMethods
from penstock.datastream.data_stream.connected import add_two_input
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.stream import DataStream, TypeArgument, type_argument
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.graph import operators
from penstock.graph.transformations import (
    BroadcastStateTransformation,
    KeyedBroadcastStateTransformation,
)

if TYPE_CHECKING:
    from penstock.datastream.state import MapStateDescriptor


class BroadcastStream(MissingMethods):
    """A stream whose records every subtask receives, with the states that it fills."""

    def __init__(
        self,
        input_stream: DataStream[Any],
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        """Use `DataStream.broadcast`."""
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def __repr__(self) -> str:
        return f"<BroadcastStream of {self.input_stream!r}>"


class BroadcastConnectedStream(MissingMethods):
    """A stream connected to a broadcast stream."""

    def __init__(
        self,
        non_broadcast_stream: DataStream[Any],
        broadcast_stream: BroadcastStream,
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        """Use `DataStream.connect`."""
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def __repr__(self) -> str:
        parts = f"{self.non_broadcast_stream!r} and {self.broadcast_stream!r}"
        return f"<BroadcastConnectedStream of {parts}>"

    def process(
        self,
        func: BroadcastProcessFunction[Any, Any, Any]
        | KeyedBroadcastProcessFunction[Any, Any, Any, Any],
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Convert each record to any number of results, with broadcast state.

        Args:
            func: A KeyedBroadcastProcessFunction beside a keyed stream, else a
                BroadcastProcessFunction.
            output_type: The type of the results.
        """
        keyed = isinstance(self.non_broadcast_stream, KeyedStream)
        wanted = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        check_function(func, wanted, "BroadcastConnectedStream.process", or_callable=False)
        kind = operators.KeyedBroadcastProcess if keyed else operators.BroadcastProcess
        method = "keyed_broadcast_process" if keyed else "broadcast_process"
        name = "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast"
        key_selector, key_type = self.non_broadcast_stream._keys()
        return add_two_input(
            KeyedBroadcastStateTransformation if keyed else BroadcastStateTransformation,
            self.non_broadcast_stream,
            self.broadcast_stream.input_stream,
            name,
            kind(shipped(func, method)),
            type_argument(output_type, method),
            key_selector,
            None,
            key_type,
        )
