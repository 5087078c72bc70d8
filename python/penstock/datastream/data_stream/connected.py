"""ConnectedStreams: two streams that one function processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.former_keywords import former_keywords
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.calls.names import checked_name
from penstock.datastream.annotations import NOTHING, Annotation, of_all, of_results
from penstock.datastream.data_stream.keyed import KeyedStream
from penstock.datastream.data_stream.stream import DataStream, TypeArgument, type_argument
from penstock.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph.transformations import TwoInputTransformation

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.operators import TwoInputStreamOperator


#: For each call that adds an operator: the function's method, and whether it yields many results.
_RESULTS: Final = {
    "co_map": ("map", False),
    "co_flat_map": ("flat_map", True),
    "co_process": ("process_element", True),
    "keyed_co_process": ("process_element", True),
}


class ConnectedStreams(MissingMethods):
    """Two streams of any types, with or without keys."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.stream1!r} and {self.stream2!r}>"

    def __init__(self, stream1: DataStream[Any], stream2: DataStream[Any]) -> None:
        """Connect two streams; use `DataStream.connect`."""
        self.stream1 = stream1
        self.stream2 = stream2

    @former_keywords(key_type_info="key_type")
    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: TypeArgument = None,
    ) -> ConnectedStreams:
        """Partition both streams by key: one subtask receives all records of a key.

        Args:
            key_selector1: A function that returns the key of a record of the first stream.
            key_selector2: A function that returns the key of a record of the second stream.
            key_type: The type of both streams' keys.
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type),
            self.stream2.key_by(key_selector2, key_type),
        )

    def map(self, func: CoMapFunction, output_type: TypeArgument = None) -> DataStream[Any]:
        """Convert each record to one result; None is not emitted."""
        check_function(func, CoMapFunction, "ConnectedStreams.map", or_callable=False)
        return self._two_input(operators.CoMap, "co_map", "Co-Map", func, output_type)

    def flat_map(
        self, func: CoFlatMapFunction, output_type: TypeArgument = None
    ) -> DataStream[Any]:
        """Convert each record to any number of results."""
        check_function(func, CoFlatMapFunction, "ConnectedStreams.flat_map", or_callable=False)
        return self._two_input(operators.CoFlatMap, "co_flat_map", "Co-Flat Map", func, output_type)

    def process(
        self,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Convert each record to any number of results, with timestamps, and state if keyed.

        A CoProcessFunction works on keyed streams, too; it has no method for timers.
        """
        if self._is_keyed():
            plain = isinstance(func, CoProcessFunction)
            wanted = CoProcessFunction if plain else KeyedCoProcessFunction
            check_function(func, wanted, "process of keyed streams", or_callable=False)
            return self._two_input(
                operators.KeyedCoProcess, "keyed_co_process", "Keyed Co-Process", func, output_type
            )
        check_function(func, CoProcessFunction, "ConnectedStreams.process", or_callable=False)
        return self._two_input(operators.CoProcess, "co_process", "Co-Process", func, output_type)

    def transform(
        self, name: str, output_type: TypeArgument, operator: TwoInputStreamOperator
    ) -> DataStream[Any]:
        """Add a custom operator with two inputs (beyond PyFlink).

        Args:
            name: The name of the operator.
            output_type: The type of the results; by default any Python value.
            operator: The operator; each subtask runs a copy.  If both streams are keyed it has
                keyed state and timers.

        Raises:
            WrongArgumentError: The operator is not a `TwoInputStreamOperator`.
            InvalidProgramError: The operator cannot be pickled, only one of the streams is keyed,
                or the name cannot be sent.
        """
        from penstock.datastream.operators import TwoInputStreamOperator

        where = "ConnectedStreams.transform"
        check_function(operator, TwoInputStreamOperator, where, or_callable=False)
        return self._connected(
            checked_name("an operator", name),
            operators.Transform(shipped(operator, where)),
            type_argument(output_type, where),
        )

    def _is_keyed(self) -> bool:
        keyed = [isinstance(stream, KeyedStream) for stream in (self.stream1, self.stream2)]
        if keyed[0] != keyed[1]:
            raise InvalidProgramError("connect two keyed streams or two without keys, not one each")
        return keyed[0]

    def _two_input(
        self,
        kind: type[operators.FunctionDescriptor],
        method: str,
        name: str,
        func: Any,
        output_type: TypeArgument,
    ) -> DataStream[Any]:
        called, elements = _RESULTS[method]
        annotation = of_all(
            of_results(func, f"{called}{side}", elements=elements) for side in (1, 2)
        )
        return self._connected(
            name, kind(shipped(func, method)), type_argument(output_type, method), annotation
        )

    def _connected(
        self,
        name: str,
        operator: operators.OperatorDescriptor,
        output_type: TypeInformation | None,
        annotation: Annotation = NOTHING,
    ) -> DataStream[Any]:
        self._is_keyed()
        selector1, key_type1 = self.stream1._keys()
        selector2, key_type2 = self.stream2._keys()
        return add_two_input(
            TwoInputTransformation,
            self.stream1,
            self.stream2,
            name,
            operator,
            output_type,
            selector1,
            selector2,
            common_key_type(key_type1, key_type2),
            annotation,
        )


def add_two_input(
    transformation_class: type[TwoInputTransformation],
    stream1: DataStream[Any],
    stream2: DataStream[Any],
    name: str,
    operator: operators.OperatorDescriptor,
    output_type: TypeInformation | None,
    key_selector1: Any = None,
    key_selector2: Any = None,
    key_type: TypeInformation | None = None,
    annotation: Annotation = NOTHING,
) -> DataStream[Any]:
    """Add an operator with two inputs to the program."""
    environment = stream1.get_execution_environment()
    return stream1._add(
        transformation_class(
            stream1.transformation,
            stream2.transformation,
            name,
            operator,
            output_type,
            environment.get_parallelism(),
            key_selector1=key_selector1,
            key_selector2=key_selector2,
            key_type=key_type,
        ),
        annotation if output_type is None else NOTHING,
    )


def common_key_type(
    first: TypeInformation | None, second: TypeInformation | None
) -> TypeInformation | None:
    """Return the key type that two streams share.

    Raises:
        InvalidProgramError: The key types differ.
    """
    if first != second:
        raise InvalidProgramError(
            f"connected streams must have the same key type, got {first} and {second}"
        )
    return first
