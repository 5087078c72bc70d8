"""Operators with two inputs behind two streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.datastream.annotations import Annotation, of_all, of_results
from penstock.datastream.data_stream.type_arguments import type_argument
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.graph.transformations import (
    BroadcastStateTransformation,
    KeyedBroadcastStateTransformation,
)

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.data_stream.type_arguments import TypeArgument
    from penstock.graph.transformations import TwoInputTransformation

#: For each call that adds an operator: the function's method, and whether it yields many results.
_RESULTS: Final = {
    "co_map": ("map", False),
    "co_flat_map": ("flat_map", True),
    "co_process": ("process_element", True),
    "keyed_co_process": ("process_element", True),
}


def two_inputs(
    transformation_class: type[TwoInputTransformation],
    streams: tuple[StreamSettings, StreamSettings],
    name: str,
    operator: operators.OperatorDescriptor,
    output_type: TypeInformation | None,
    key_selectors: tuple[Any, Any],
    key_type: TypeInformation | None,
) -> TwoInputTransformation:
    """Return an operator with two inputs."""
    first, second = streams
    return transformation_class(
        first.transformation,
        second.transformation,
        name,
        operator,
        output_type,
        first._environment.get_parallelism(),
        key_selector1=key_selectors[0],
        key_selector2=key_selectors[1],
        key_type=key_type,
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


def check_same_type(stream: StreamSettings, other: StreamSettings) -> None:
    """Check that two streams can be united.

    Raises:
        InvalidProgramError: They have different types.
    """
    one, another = stream.get_type(), other.get_type()
    if one != another:
        raise InvalidProgramError(f"Cannot union streams of different types: {one} and {another}")


def annotation_of_both(function: Any, method: str) -> Annotation:
    """Return the annotation that a function's methods for both streams share.

    Args:
        function: The function.
        method: The call that adds the operator, such as "co_map".
    """
    called, elements = _RESULTS[method]
    return of_all(of_results(function, f"{called}{side}", elements=elements) for side in (1, 2))


def beside_broadcast(
    streams: tuple[StreamSettings, StreamSettings],
    function: Any,
    output_type: TypeArgument,
    *,
    keyed: bool,
) -> TwoInputTransformation:
    """Return the operator of a function with broadcast state.

    Args:
        streams: The stream that is not broadcast, and the one that is.
        function: The function.
        output_type: The type of the results.
        keyed: Whether the first stream is keyed.
    """
    kind = operators.KeyedBroadcastProcess if keyed else operators.BroadcastProcess
    method = "keyed_broadcast_process" if keyed else "broadcast_process"
    key_selector, key_type = streams[0]._keys()
    return two_inputs(
        KeyedBroadcastStateTransformation if keyed else BroadcastStateTransformation,
        streams,
        "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast",
        kind(shipped(function, method)),
        type_argument(output_type, method),
        (key_selector, None),
        key_type,
    )
