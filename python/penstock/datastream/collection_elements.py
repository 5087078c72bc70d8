"""The elements of a collection on their way into the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.typeinfo import Types
from penstock.errors import InvalidProgramError, SerializationError
from penstock.user_location import user_location

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

#: The types that cut numbers, by their bits.
_NARROW: Final = ((Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32))


def encoded_elements(collection: Any, declared: TypeInformation | None) -> list[bytes]:
    """Encodes what `from_collection` was given, so that what does not fit fails in that call.

    As in PyFlink, whole numbers of 64 bits are cut to the bits of a smaller type.

    Raises:
        InvalidProgramError: The collection is none.
        SerializationError: An element does not fit the type; names its position.
    """
    from penstock.network.codec import codec_for

    if isinstance(collection, (str, bytes)) or not hasattr(collection, "__iter__"):
        raise InvalidProgramError(f"from_collection takes a list of elements, got {collection!r}")
    encode = codec_for(declared).encode

    def encoded(element: Any) -> bytes:
        try:
            return encode(element)
        except SerializationError:
            return encode(_narrowed(element, declared))

    elements: list[bytes] = []
    try:
        elements.extend(map(encoded, collection))
    except SerializationError as error:
        raise SerializationError(
            f"from_collection: element {len(elements)}: {error}; mend it or the type\n"
            f"  at {user_location()}"
        ) from error
    return elements


def _narrowed(value: Any, declared: TypeInformation | None) -> Any:
    """The value with the numbers of 64 bits in it cut to the bits of their types."""
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        fields = declared.get_field_types()
        if isinstance(value, tuple) and len(fields) == len(value):
            return tuple(map(_narrowed, value, fields))
    elif isinstance(declared, (BasicArrayTypeInfo, ListTypeInfo, PrimitiveArrayTypeInfo)):
        if isinstance(value, list):
            return [_narrowed(element, declared.element_type) for element in value]
    elif type(value) is int and -(1 << 63) <= value < 1 << 63:
        for narrow, bits in _NARROW:
            if declared == narrow:
                half = 1 << bits - 1
                return (value + half) % (2 * half) - half
    return value
