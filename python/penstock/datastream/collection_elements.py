"""The elements of a collection on their way into the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError, SerializationError
from penstock.user_location import user_location

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation


def encoded_elements(collection: Any, declared: TypeInformation | None) -> list[bytes]:
    """Encodes what `from_collection` was given, so that what does not fit fails in that call.

    Raises:
        InvalidProgramError: The collection is none.
        SerializationError: An element does not fit the type; names its position.
    """
    from penstock.network.codec import codec_for

    if isinstance(collection, (str, bytes)) or not hasattr(collection, "__iter__"):
        raise InvalidProgramError(f"from_collection takes a list of elements, got {collection!r}")
    encode = codec_for(declared).encode
    elements: list[bytes] = []
    try:
        elements.extend(map(encode, collection))
    except SerializationError as error:
        raise SerializationError(
            f"from_collection: element {len(elements)}: {error}; mend it or the type\n"
            f"  at {user_location()}"
        ) from error
    return elements
