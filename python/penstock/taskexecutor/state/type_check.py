# cython: annotation_typing=False, boundscheck=True
"""Checks values against the declared type of a state when they are written.

State in memory keeps the user's objects, so nothing else would notice a value that the declared
type cannot hold before the next checkpoint.  Numbers and texts cost one comparison; of other types
the codec says whether it can write the value.

One source, two uses, as ``heap_states``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    TypeInformation,
)
from penstock.errors import SerializationError
from penstock.serialization.codec import codec_for

if TYPE_CHECKING:
    from collections.abc import Callable

_RANGES = {BasicType.BYTE: 7, BasicType.SHORT: 15, BasicType.INT: 31, BasicType.LONG: 63}
_CLASSES: dict[BasicType, tuple[type, ...]] = {
    BasicType.STRING: (str,),
    BasicType.CHAR: (str,),
    BasicType.FLOAT: (float, int),
    BasicType.DOUBLE: (float, int),
    BasicType.BIG_INT: (int,),
}


def value_check(type_info: object, state_name: str) -> Callable[[Any], None] | None:
    """A function that raises on values that ``type_info`` cannot hold; None when all pass."""
    if isinstance(type_info, BasicTypeInfo):
        basic_type = type_info.basic_type
        bits = _RANGES.get(basic_type)
        if bits is not None:
            return _integer_check(bits, type_info, state_name)
        classes = _CLASSES.get(basic_type)
        if classes is not None:
            return _class_check(classes, type_info, state_name)
    if not isinstance(type_info, TypeInformation) or isinstance(type_info, PickledBytesTypeInfo):
        return None
    return _codec_check(type_info, state_name)


def _integer_check(bits: int, type_info: object, state_name: str) -> Callable[[Any], None]:
    limit = 1 << bits

    def check(value: Any) -> None:
        try:
            if -limit <= value < limit and (type(value) is int or hasattr(value, "__index__")):
                return
        except TypeError:
            pass  # what cannot be compared with a number is none
        _refuse(value, type_info, state_name)

    return check


def _class_check(
    classes: tuple[type, ...], type_info: object, state_name: str
) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        if not isinstance(value, classes):
            _refuse(value, type_info, state_name)

    return check


def _codec_check(type_info: TypeInformation, state_name: str) -> Callable[[Any], None]:
    encode = codec_for(type_info).encode

    def check(value: Any) -> None:
        try:
            encode(value)
        except SerializationError as error:
            msg = f"state {state_name!r} is declared as {type_info}, which cannot hold it: {error}"
            raise SerializationError(msg) from None

    return check


def _refuse(value: Any, type_info: object, state_name: str) -> None:
    msg = f"state {state_name!r} is declared as {type_info}, which cannot hold {value!r}"
    raise SerializationError(msg)
