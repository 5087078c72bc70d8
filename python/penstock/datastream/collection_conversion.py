"""Conversion of a program's values to a declared type, by the rules of PyFlink's collections.

PyFlink pickles the records of `from_collection`, and Java converts them to the declared type.
These conversions are stricter than the codecs between tasks in some places and more lenient in
others.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    Types,
)
from penstock.common.types import Row, values_in_order
from penstock.common.values.number_text import double_text
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation

Convert = Callable[[Any], Any]
Report = Callable[[str], None]

_BITS: Final = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_CLASSES: Final[dict[BasicType, type]] = {
    BasicType.BOOLEAN: bool,
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: decimal.Decimal,
}
_MOMENTS: Final[tuple[tuple[type, tuple[type, ...]], ...]] = (
    (DateTypeInfo, (datetime.date,)),
    (TimeTypeInfo, (datetime.time, datetime.datetime)),
    (TimestampTypeInfo, (datetime.datetime,)),
)


class Misfit(Exception):
    """Raised for a value that cannot be converted to the type; the message names value and type."""


def conversion_to(declared: TypeInformation, report: Report) -> Convert:
    """Return a function that converts values to a type.

    Args:
        declared: The type.
        report: Called with a message for each value that does not fit and becomes None.

    The function raises Misfit, or WrongArgumentError for a value that is not a date or time.
    """
    if isinstance(declared, BasicTypeInfo):
        return _scalar(declared)
    for kind, classes in _MOMENTS:
        if isinstance(declared, kind):
            moment = _instances(declared, classes)
            return _time_of_day(moment) if kind is TimeTypeInfo else moment
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        fields = [conversion_to(field, report) for field in declared.get_field_types()]
        if isinstance(declared, TupleTypeInfo):
            return _tuple(declared, [_or_none(field) for field in fields])
        return _row(declared, [_lenient(field, report) for field in fields])
    if isinstance(declared, MapTypeInfo):
        return _map(
            declared,
            _or_none(conversion_to(declared.key_type, report)),
            _or_none(conversion_to(declared.value_type, report)),
        )
    if declared == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        return lambda value: value
    if isinstance(declared, (PrimitiveArrayTypeInfo, ListTypeInfo)):
        return _array(declared, _or_none(conversion_to(declared.element_type, report)))
    if isinstance(declared, (BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        return _array(declared, _lenient(conversion_to(declared.element_type, report), report))
    return lambda value: value


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _lenient(convert: Convert, report: Report) -> Convert:
    """Convert values that do not fit to None, and report them."""

    def lenient(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except Misfit as misfit:
            report(str(misfit))
            return None

    return lenient


def _refuse(value: object, declared: TypeInformation) -> Misfit:
    from penstock.serialization.type_schema import schema_of

    return Misfit(f"{value!r} ({type(value).__name__}) is not of type {schema_of(declared).name}")


def _scalar(declared: BasicTypeInfo) -> Convert:
    kind = declared.basic_type
    bits = _BITS.get(kind)
    if bits is not None:
        return _whole(declared, bits)
    if kind is BasicType.STRING:
        return text_of
    if kind is BasicType.INSTANT:
        return _instant(declared)
    if kind is BasicType.BIG_INT:
        return _whole(declared, None)
    expected = _CLASSES.get(kind)
    if expected is None:
        return lambda value: value

    def convert(value: Any) -> Any:
        if not isinstance(value, expected):
            raise _refuse(value, declared)
        return value

    return convert


def _whole(declared: BasicTypeInfo, bits: int | None) -> Convert:
    """Return the conversion of integers, which wraps 64-bit values to a smaller type."""

    def convert(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _refuse(value, declared)
        if bits is None:
            return value
        if not -(1 << 63) <= value < 1 << 63:
            raise _refuse(value, declared)
        half = 1 << bits - 1
        return (value + half) % (2 * half) - half

    return convert


def _instances(declared: TypeInformation, classes: tuple[type, ...]) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, classes):
            names = " or ".join(cls.__name__ for cls in classes)
            raise WrongArgumentError(f"from_collection: {_refuse(value, declared)}, but {names}")
        return value

    return convert


def _instant(declared: TypeInformation) -> Convert:
    convert = _instances(declared, (Instant,))

    def instant(value: Any) -> Any:
        is_instant = isinstance(value, datetime.datetime) and value.tzinfo is not None
        return value if is_instant else convert(value)

    return instant


def _time_of_day(moment: Convert) -> Convert:
    def convert(value: Any) -> datetime.time:
        given: datetime.time | datetime.datetime = moment(value)
        return given.time() if isinstance(given, datetime.datetime) else given

    return convert


def _tuple(declared: TupleTypeInfo, fields: list[Convert]) -> Convert:
    def convert(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (tuple, list, Row)) or len(value) != len(fields):
            raise _refuse(value, declared)
        return tuple(field(item) for field, item in zip(fields, value, strict=True))

    return convert


def _row(declared: RowTypeInfo, fields: list[Convert]) -> Convert:
    names = declared.get_field_names()

    def convert(value: Any) -> Row:
        values: Any = value
        if isinstance(value, Row):
            try:
                values = values_in_order(value, names)
            except ValueError as error:
                raise Misfit(f"{_refuse(value, declared)}: {error}") from None
        elif not isinstance(value, (tuple, list)):
            members = value if isinstance(value, Mapping) else _attributes(value)
            if members is not None:
                values = [members.get(name) for name in names]
                if members is not value and not any(name in members for name in names):
                    raise Misfit(
                        f"{_refuse(value, declared)}: it has the attributes {list(members)}, none "
                        f"of {names}"
                    )
        if not isinstance(values, (tuple, list)) or len(values) != len(fields):
            raise _refuse(value, declared)
        row = Row(*(field(item) for field, item in zip(fields, values, strict=True)))
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())
        return row

    return convert


def _map(declared: MapTypeInfo, convert_key: Convert, convert_value: Convert) -> Convert:
    def convert(value: Any) -> dict[Any, Any]:
        items = value if isinstance(value, Mapping) else _attributes(value)
        if items is None:
            raise _refuse(value, declared)
        if items is not value and declared.value_type == Types.STRING():
            # Java sees a Python object as a map of its attributes and its class name.
            cls = type(value)
            items = {**items, "__class__": f"{cls.__module__}.{cls.__qualname__}"}
        return {convert_key(key): convert_value(item) for key, item in items.items()}

    return convert


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object as PyFlink's pickler sees them; None if it has none.

    Objects that Python pickles by name, such as classes and functions, have none.
    """
    if isinstance(value, (type, FunctionType, BuiltinFunctionType, ModuleType)):
        return None
    found: Any = getattr(value, "__dict__", None)
    return found if isinstance(found, dict) else None


def _array(declared: TypeInformation, element: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if (
            isinstance(value, (str, bytes, bytearray, Mapping, set, frozenset, Row))
            or not hasattr(value, "__len__")
            or not hasattr(value, "__getitem__")
        ):
            raise _refuse(value, declared)
        return [element(item) for item in value]

    return convert


def text_of(value: Any) -> str:
    """Return the text that Java makes of a value, for a STRING.

    Raises:
        Misfit: Java's text would be an address, or unreadable.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return double_text(float(value))
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return str(value)
    if isinstance(value, dict):
        items = (f"{_item_text(key)}={_item_text(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    raise _refuse(value, Types.STRING())


def _item_text(value: Any) -> str:
    return "null" if value is None else text_of(value)
