"""MultipleConnectedStreams: any number of streams that one function processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.common.calls.missing_methods import MissingMethods
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.data_stream.two_inputs import common_key_type
from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared, type_argument
from penstock.datastream.functions.function import check_function
from penstock.datastream.functions.multiple_input import (
    KeyedMultipleInputProcessFunction,
    MultipleInputProcessFunction,
)
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph.transformations import (
    KeyedMultipleInputTransformation,
    MultipleInputTransformation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.basic_types import TypeInformation
    from penstock.datastream.data_stream.typed_functions import ProcessesInputs

OUT = TypeVar("OUT")


class MultipleConnectedStreams(MissingMethods):
    """Several streams of any types, with or without keys (beyond PyFlink)."""

    def __init__(self, *streams: DataStream[Any]) -> None:
        """Connect streams; a stream's number is its position, from 0.

        Raises:
            InvalidProgramError: There are none, some are not streams, or only some are keyed.
        """
        given: Sequence[Any] = streams
        if not given or not all(isinstance(stream, DataStream) for stream in given):
            raise InvalidProgramError(f"MultipleConnectedStreams takes DataStreams, got {given!r}")
        self.streams = streams
        self._keyed = isinstance(streams[0], KeyedStream)
        if any(isinstance(stream, KeyedStream) != self._keyed for stream in streams):
            raise InvalidProgramError("connect keyed streams or streams without keys, not both")

    @overload
    def process(
        self, func: ProcessesInputs[object], output_type: TypeInformation[OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self, func: ProcessesInputs[OUT], output_type: Undeclared = None
    ) -> DataStream[OUT]: ...

    def process(
        self, func: ProcessesInputs[Any], output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Convert each record to any number of results, with timestamps and, if keyed, state."""
        first, where = self.streams[0], "MultipleConnectedStreams.process"
        parallelism = first.get_execution_environment().get_parallelism()
        wanted = KeyedMultipleInputProcessFunction if self._keyed else MultipleInputProcessFunction
        check_function(func, wanted, where, or_callable=False)
        kind = (
            operators.KeyedMultipleInputProcess if self._keyed else operators.MultipleInputProcess
        )
        operator = kind(shipped(func, where), num_inputs=len(self.streams))
        declared = type_argument(output_type, where)
        if not self._keyed:
            plain = MultipleInputTransformation(
                "Multiple Input Process", operator, declared, parallelism
            )
            for stream in self.streams:
                plain.add_input(stream.transformation)
            return first._add(plain)
        _, key_type = first._keys()
        keyed = KeyedMultipleInputTransformation(
            "Keyed Multiple Input Process", operator, declared, parallelism, key_type=key_type
        )
        for stream in self.streams:
            selector, type_of_keys = stream._keys()
            common_key_type(key_type, type_of_keys)
            keyed.add_input(stream.transformation, selector)
        return first._add(keyed)
