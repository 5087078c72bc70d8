"""Operators with two inputs behind two streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.graph import operators
    from penstock.graph.transformations import TwoInputTransformation


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
