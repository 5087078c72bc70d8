"""Encoding of a collection's elements for the job."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from penstock.common.typeinfo import PickledBytesTypeInfo, Types
from penstock.datastream.collection_conversion import Misfit, conversion_to
from penstock.datastream.data_frames import elements_of
from penstock.errors import InvalidProgramError, SerializationError
from penstock.user_location import user_location, without_own_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.common.typeinfo import TypeInformation

#: Types with the one class whose values need no conversion.
_AS_THEY_ARE: Final = (
    (Types.BOOLEAN(), bool),
    (Types.INT(), int),
    (Types.LONG(), int),
    (Types.DOUBLE(), float),
    (Types.FLOAT(), float),
    (Types.STRING(), str),
)


def listed_elements(collection: Any, declared: TypeInformation | None) -> list[Any]:
    """Return the elements of the argument of `from_collection`.

    Raises:
        InvalidProgramError: The collection cannot be iterated.
    """
    collection = elements_of(collection, declared)
    if not hasattr(collection, "__iter__"):
        raise InvalidProgramError(f"from_collection takes a list of elements, got {collection!r}")
    return list(collection)


def encoded_elements(collection: Any, declared: TypeInformation | None) -> list[bytes]:
    """Encode the argument of `from_collection`, so that invalid elements fail in that call.

    Elements are converted to their type as in PyFlink: 64-bit integers are cut to the bits of a
    smaller type, and numbers become strings if the type is STRING.  In a field of a row, or an
    element of a BASIC_ARRAY or OBJECT_ARRAY, a value that does not fit becomes None, with a
    warning.

    Raises:
        InvalidProgramError: The collection cannot be iterated, or an element of a date or time
            type is not a date or time.
        SerializationError: An element does not fit the type; the message names its position.
    """
    from penstock.serialization.type_serializer import JobTypeSerializer

    values = listed_elements(collection, declared)
    encode = JobTypeSerializer[Any](declared).serialize
    elements: list[bytes] = []
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        source: Iterator[Any] = iter(values)
    elif _are_as_they_are(values, declared):
        try:
            return list(map(encode, values))
        except SerializationError:  # for example a number that is too large
            source = _converted(values, declared)
    else:
        source = _converted(values, declared)
    try:
        elements.extend(map(encode, source))
    except (Misfit, SerializationError) as error:
        raise SerializationError(
            f"from_collection: element {len(elements)}: {error}; correct it or the type\n"
            f"  at {user_location()}"
        ) from without_own_frames(error)
    return elements


def _are_as_they_are(values: list[Any], declared: TypeInformation) -> bool:
    classes = set(map(type, values))
    return any(declared == kind and classes <= {cls} for kind, cls in _AS_THEY_ARE)


def _converted(values: list[Any], declared: TypeInformation) -> Iterator[Any]:
    lost: list[str] = []
    convert = conversion_to(declared, lost.append)
    for number, value in enumerate(values):
        yield convert(value)
        if lost:
            warnings.warn(
                f"from_collection: element {number}: {'; '.join(lost)}: it becomes None, as in "
                f"PyFlink\n  at {user_location()}",
                stacklevel=2,
            )
            lost.clear()
