"""Values as PyFlink returns them to the program that collects them.

Three types look different there than in functions: a FLOAT is the shortest decimal number with its
32 bits, an array of bytes is a list of integers, and a BIG_DEC has the digits that Java writes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import SerializationError

if TYPE_CHECKING:
    from penstock.common.types import Row

#: Converts a function's value to the program's; None if the two are equal.
Conversion = Callable[[Any], Any] | None

_SINGLE: Final = struct.Struct(">f")
_LARGEST_EXACT: Final = 2.0**62
_LISTS: Final = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


def conversion_of_elements(type_info: TypeInformation | None) -> Conversion:
    """Return the conversion of a type's records on their way to the program."""
    return _java_element if type_info == Types.BIG_DEC() else conversion_of(type_info)


def conversion_of(type_info: TypeInformation | None) -> Conversion:
    """Return the conversion of a type's values within a record on its way to the program."""
    if type_info == Types.FLOAT():
        return _shortest
    if type_info == Types.BIG_DEC():
        return _java_decimal
    if isinstance(type_info, _LISTS):
        if type_info == Types.PRIMITIVE_ARRAY(Types.BYTE()):
            return _signed_bytes
        return _elements(conversion_of(type_info.element_type))
    if isinstance(type_info, MapTypeInfo):
        return _entries(conversion_of(type_info.key_type), conversion_of(type_info.value_type))
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        fields = [_optional(conversion_of(field)) for field in type_info.get_field_types()]
        if not any(fields):
            return None
        return _row(fields) if isinstance(type_info, RowTypeInfo) else _tuple(fields)
    return None


def _java_decimal(value: Decimal) -> Decimal:
    """Return the number with the digits of Java's engineering notation: 1E-7 is 100E-9."""
    return Decimal(value.to_eng_string())


def _java_element(value: Decimal) -> Decimal:
    """Return the same for a BIG_DEC that is a whole record: Java then expands exponents above 0."""
    return Decimal(int(value)) if int(value.as_tuple().exponent) > 0 else _java_decimal(value)


def _shortest(value: float) -> float:
    if not math.isfinite(value):
        msg = (
            f"a program cannot collect the FLOAT {value}, as in PyFlink: use DOUBLE, or test for "
            "it in a function"
        )
        raise SerializationError(msg)
    if value and value.is_integer() and abs(value) < _LARGEST_EXACT:
        return _rounded(int(value))
    bits = _SINGLE.pack(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(float(text) for text in texts if _fits(float(text), bits))


def _rounded(value: int) -> float:
    """Round an integral FLOAT as Java does: to the digits that its 24 bits determine."""
    open_bits = abs(value).bit_length() - 26
    unit: int = 10 ** int(max(open_bits, 0) * math.log10(2)) if open_bits > 1 else 1
    return float(math.copysign((abs(value) + unit // 2) // unit * unit, value))


def _fits(value: float, bits: bytes) -> bool:
    try:
        return _SINGLE.pack(value) == bits
    except OverflowError:  # rounded up beyond the largest float
        return False


def _signed_bytes(value: bytes) -> list[int]:
    return list(memoryview(value).cast("b"))


def _optional(convert: Conversion) -> Conversion:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _elements(convert: Conversion) -> Conversion:
    each = _optional(convert)
    return None if each is None else lambda value: list(map(each, value))


def _entries(key: Conversion, item: Conversion) -> Conversion:
    if key is None and item is None:
        return None
    of_key, of_item = key or _same, _optional(item) or _same
    return lambda value: {of_key(k): of_item(v) for k, v in value.items()}


def _tuple(fields: list[Conversion]) -> Conversion:
    every = [field or _same for field in fields]
    return lambda value: tuple(convert(field) for convert, field in zip(every, value, strict=True))


def _row(fields: list[Conversion]) -> Conversion:
    every = [(position, field) for position, field in enumerate(fields) if field is not None]

    def convert(row: Row) -> Row:
        for position, field in every:
            row[position] = field(row[position])
        return row

    return convert


def _same(value: Any) -> Any:
    return value
