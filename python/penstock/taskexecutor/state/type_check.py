# cython: annotation_typing=False, boundscheck=True
# The C types come from type_check.pxd; the annotations below are for readers and mypy.
"""Checks values against the declared type of a state when they are written.

State in memory holds the user's objects, so without the check only the next checkpoint would find a
value that the declared type cannot hold.  Numbers and texts cost one comparison; for other types
the codec decides.

One source, two uses, as ``heap_states``.
"""

from __future__ import annotations

from typing import Any

from penstock.common.exception_deadline import repr_in_time
from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    PickledBytesTypeInfo,
    TypeInformation,
)
from penstock.errors import SerializationError
from penstock.serialization.codec import codec_for

_RANGES = {BasicType.BYTE: 7, BasicType.SHORT: 15, BasicType.INT: 31, BasicType.LONG: 63}
_CLASSES: dict[BasicType, tuple[type, ...]] = {
    BasicType.STRING: (str,),
    BasicType.CHAR: (str,),
    BasicType.FLOAT: (float, int),
    BasicType.DOUBLE: (float, int),
    BasicType.BIG_INT: (int,),
}


class ValueCheck:
    """Raises on values that a declared type cannot hold, when called or by ``check``."""

    def __init__(self, type_info: object, state_name: str) -> None:
        """Create a check; both arguments appear in messages."""
        self.type_info = type_info
        self.state_name = state_name

    def check(self, value: Any) -> None:
        """Check one value.

        Raises:
            SerializationError: The declared type cannot hold it.
        """
        raise NotImplementedError(type(self).__name__ + ".check")

    def __call__(self, value: object) -> None:
        """Check one value; see ``check``."""
        self.check(value)


class IntegerCheck(ValueCheck):
    """Check of integers with a number of bits, besides the sign."""

    def __init__(self, bits: int, type_info: object, state_name: str) -> None:
        """Create a check of a range."""
        ValueCheck.__init__(self, type_info, state_name)
        self.limit = 1 << bits
        self.low = -self.limit
        self.high = self.limit - 1

    def check(self, value: Any) -> None:
        """Check one value."""
        if type(value) is int:
            try:
                # Compiled, a number of more than 64 bits cannot be assigned.
                number = value
                if self.low <= number <= self.high:
                    return
            except OverflowError:
                pass
        else:
            try:
                if -self.limit <= value < self.limit and hasattr(value, "__index__"):
                    return
            except (TypeError, ValueError):
                pass  # not comparable with a number, such as an array: not a number
        _refuse(value, self.type_info, self.state_name)


class ClassCheck(ValueCheck):
    """Check of instances of some classes."""

    def __init__(self, classes: tuple[type, ...], type_info: object, state_name: str) -> None:
        """Create a check of classes, the most frequent one first."""
        ValueCheck.__init__(self, type_info, state_name)
        self.classes = classes
        self.first = classes[0]

    def check(self, value: Any) -> None:
        """Check one value."""
        if type(value) is not self.first and not isinstance(value, self.classes):
            _refuse(value, self.type_info, self.state_name)


class CodecCheck(ValueCheck):
    """Check of values that the codec of the type can write."""

    def __init__(self, type_info: TypeInformation, state_name: str) -> None:
        """Create the codec."""
        ValueCheck.__init__(self, type_info, state_name)
        self.codec = codec_for(type_info)

    def check(self, value: Any) -> None:
        """Check one value."""
        if self.codec.certainly_writes(value):
            return
        try:
            self.codec.encode(value)
        except SerializationError as error:
            msg = (
                f"state {self.state_name!r} is declared as {self.type_info}, which cannot hold "
                f"it: {error}"
            )
            raise SerializationError(msg) from None


def value_check(type_info: object, state_name: str) -> ValueCheck | None:
    """Return the check that raises on values that ``type_info`` rejects; None if all pass."""
    if isinstance(type_info, BasicTypeInfo):
        basic_type = type_info.basic_type
        bits = _RANGES.get(basic_type)
        if bits is not None:
            return IntegerCheck(bits, type_info, state_name)
        classes = _CLASSES.get(basic_type)
        if classes is not None:
            return ClassCheck(classes, type_info, state_name)
    if not isinstance(type_info, TypeInformation) or isinstance(type_info, PickledBytesTypeInfo):
        return None
    return CodecCheck(type_info, state_name)


def _refuse(value: object, type_info: object, state_name: str) -> None:
    msg = (
        f"state {state_name!r} is declared as {type_info}, which cannot hold "
        f"{repr_in_time(value, 1000)} ({type(value).__name__})"
    )
    raise SerializationError(msg)
