"""Conversions between JSON values and values of declared types, by Flink's rules."""

from __future__ import annotations

import base64
import datetime
import math
import struct
from decimal import Decimal, InvalidOperation
from enum import Enum
from sys import intern
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.calls.names import nearest_hint
from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.record_types import EnumTypeInfo, RecordTypeInfo, as_row_type
from penstock.common.temporal_types import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    LocalZonedTimestampTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.types import Row, values_in_order
from penstock.common.values.instant_text import instant_text
from penstock.common.values.number_text import float_text
from penstock.common.values.record_reading import RecordReader
from penstock.common.values.records import names_in, plain_fields, plain_values
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.misfit import Misfit
from penstock.formats.moments import moment_reader, read_instant, timestamp_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.typeinfo import TypeInformation

#: The number of bits of integer types.
WHOLE_BITS: Final = {
    BasicType.BYTE: 8,
    BasicType.SHORT: 16,
    BasicType.INT: 32,
    BasicType.LONG: 64,
}

_LISTS: Final = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo)

#: Digits of the largest whole number in an input; Python's limit for texts of numbers.
_MOST_DIGITS: Final = 4300

#: The characters that Java trims around a number.
_BLANKS: Final = "".join(map(chr, range(33)))

_BYTES: Final = Types.PRIMITIVE_ARRAY(Types.BYTE())


def from_json(
    declared: TypeInformation, *, missing_fails: bool, misfits_are_none: bool
) -> Callable[[Any], Any]:
    """Return the function that converts decoded JSON to values of a type; it raises `Misfit`.

    Args:
        declared: The type.
        missing_fails: Whether a missing member is a misfit rather than None.
        misfits_are_none: Whether a value that does not fit becomes None.

    Raises:
        InvalidProgramError: JSON cannot represent the type.
    """

    def of(kind: TypeInformation) -> Callable[[Any], Any]:
        return from_json(kind, missing_fails=missing_fails, misfits_are_none=misfits_are_none)

    convert: Callable[[Any], Any]
    if isinstance(declared, RowTypeInfo):
        convert = _row_reader(declared, of, missing_fails=missing_fails)
    elif isinstance(declared, RecordTypeInfo):
        convert = _record_reader(declared, of)
    elif declared == _BYTES:
        convert = _binary
    elif isinstance(declared, (*_LISTS, PrimitiveArrayTypeInfo)):
        convert = _list_reader(of(declared.element_type))
    elif isinstance(declared, MapTypeInfo):
        _require_text_keys(declared)
        convert = _map_reader(of(declared.value_type))
    elif isinstance(declared, PickledBytesTypeInfo):
        convert = _plain_numbers
    else:
        convert = _scalar_reader(declared)
    if misfits_are_none:
        return lambda value: None if value is None else _or_none(convert, value)
    return lambda value: None if value is None else convert(value)


def _record_reader(
    declared: RecordTypeInfo, of: Callable[[TypeInformation], Callable[[Any], Any]]
) -> Callable[[Any], Any]:
    # Missing members have the class's defaults, so no row is created in between.
    names, types = declared.get_field_names(), declared.get_field_types()
    readers = dict(zip(names, map(of, map(_json_type, types)), strict=True))
    made = RecordReader(declared)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise Misfit(f"{_shown(value)} is not a JSON object")
        fields = {}
        for name, convert in readers.items():
            if name in value:
                try:
                    fields[name] = convert(value[name])
                except Misfit as misfit:
                    raise misfit.within(name) from None
        try:
            return made(fields)
        except (FormatError, ValueError) as error:
            raise Misfit(f"{error}") from None

    return read


def _json_type(declared: TypeInformation) -> TypeInformation:
    """Return the type that a field is read as: for an enum, the type of its values."""
    return declared.value_type if isinstance(declared, EnumTypeInfo) else declared


def _or_none(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except Misfit:
        return None


def _row_reader(
    declared: RowTypeInfo,
    of: Callable[[TypeInformation], Callable[[Any], Any]],
    *,
    missing_fails: bool,
) -> Callable[[Any], Any]:
    # Interned like the names in code, so that a row finds its fields by identity.
    names = list(map(intern, declared.get_field_names()))
    fields = list(zip(names, map(of, declared.get_field_types()), strict=True))

    def read(value: Any) -> Row:
        if not isinstance(value, dict):
            raise Misfit(f"{_shown(value)} is not a JSON object")
        values = []
        for name, convert in fields:
            if missing_fails and name not in value:
                raise Misfit("is missing", name)
            try:
                values.append(convert(value.get(name)))
            except Misfit as misfit:
                raise misfit.within(name) from None
        return named_row(names, values)

    return read


def _list_reader(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise Misfit(f"{_shown(value)} is not a JSON array")
        values = []
        for position, element in enumerate(value):
            try:
                values.append(convert(element))
            except Misfit as misfit:
                raise misfit.within(str(position)) from None
        return values

    return read


def _map_reader(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Misfit(f"{_shown(value)} is not a JSON object")
        values = {}
        for key, element in value.items():
            try:
                values[key] = convert(element)
            except Misfit as misfit:
                raise misfit.within(key) from None
        return values

    return read


def _scalar_reader(declared: TypeInformation) -> Callable[[Any], Any]:
    reader: Callable[[Any], Any] | None = None
    if isinstance(declared, BasicTypeInfo):
        kind = declared.basic_type
        reader = whole_reader(WHOLE_BITS[kind]) if kind in WHOLE_BITS else _BASIC_READERS.get(kind)
    elif isinstance(declared, DateTypeInfo):
        reader = read_date
    elif isinstance(declared, TimeTypeInfo):
        reader = _read_time
    elif isinstance(declared, LocalZonedTimestampTypeInfo):
        reader = moment_reader("T")
    elif isinstance(declared, TimestampTypeInfo):
        reader = _read_timestamp
    if reader is None:
        raise InvalidProgramError(f"JSON cannot represent {declared!r}")
    return reader


def whole_reader(bits: int) -> Callable[[Any], int]:
    """Return the function that converts numbers and texts to integers of this size.

    As in Flink, fractions are truncated for 32 bits or more, and otherwise are a misfit.
    """
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    refused = bool if bits >= 32 else (bool, Decimal)

    def read(value: Any) -> int:
        try:
            if isinstance(value, refused) or has_underscore(value):
                raise ValueError
            if isinstance(value, Decimal) and value.adjusted() > 20:
                # It exceeds 64 bits, and `int` would compute up to 10**18 digits.
                raise Misfit(f"{_shown(value)} does not fit into {bits} bits")
            number = int(value.strip(_BLANKS) if isinstance(value, str) else value)
        except (TypeError, ValueError, OverflowError):
            raise Misfit(f"{_shown(value)} is not a whole number") from None
        if not low <= number <= high:
            raise Misfit(f"{number} does not fit into {bits} bits")
        return number

    return read


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(_plain_numbers(value)).decode()


def read_bool(value: Any) -> bool:
    """Read a boolean; as in Java, every text except ``true`` is False."""
    return value if isinstance(value, bool) else str(value).strip().lower() == "true"


def has_underscore(value: Any) -> bool:
    """Return whether a value is a text that only Python reads as a number, as ``1_000``."""
    return isinstance(value, str) and "_" in value


def read_double(value: Any) -> float:
    """Read a number, or the text of one; non-finite ones are NaN and Infinity, as in Java."""
    try:
        if isinstance(value, bool) or has_underscore(value):
            raise ValueError
        number = float(value.strip(_BLANKS) if isinstance(value, str) else value)
        if not math.isfinite(number) and isinstance(value, str):
            name = value.strip().lstrip("+-")
            if name[:1] in "iInN" and name not in ("NaN", "Infinity"):
                raise ValueError
        return number
    except (TypeError, ValueError):
        raise Misfit(f"{_shown(value)} is not a number") from None


def read_float(value: Any) -> float:
    """Read a number, rounded to 32 bits."""
    number = read_double(value)
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def read_decimal(value: Any) -> Decimal:
    """Read a decimal number, with all its digits."""
    try:
        if isinstance(value, bool) or has_underscore(value):
            raise InvalidOperation
        number = value if isinstance(value, Decimal) else Decimal(str(value).strip())
    except InvalidOperation:
        raise Misfit(f"{_shown(value)} is not a number") from None
    if not number.is_finite():
        raise Misfit(f"{_shown(value)} is not a finite number")
    return number


def read_big_int(value: Any) -> int:
    """Read a whole number of any size."""
    try:
        if isinstance(value, bool) or has_underscore(value):
            raise ValueError
        if isinstance(value, Decimal):
            if value.adjusted() >= _MOST_DIGITS:  # `int` would compute up to 10**18 digits
                raise Misfit(f"{_shown(value)} has more than {_MOST_DIGITS} digits")
            if value != value.to_integral_value():
                raise ValueError
        return int(value)
    except (TypeError, ValueError):
        raise Misfit(f"{_shown(value)} is not a whole number") from None


def read_date(value: Any) -> datetime.date:
    """Read a date, as ``2020-01-31``."""
    try:
        if not isinstance(value, str) or len(value) != 10:
            raise ValueError
        return datetime.date.fromisoformat(value)
    except ValueError:
        raise Misfit(f"{_shown(value)} is not a date such as 2020-01-31") from None


def _read_time(value: Any) -> datetime.time:
    try:
        if not isinstance(value, str) or not value.endswith("Z"):
            raise ValueError
        found = datetime.time.fromisoformat(value[:-1])
        if found.tzinfo is not None:
            raise ValueError
        return found
    except ValueError:
        raise Misfit(f"{_shown(value)} is not a time such as 23:59:00Z") from None


def _read_timestamp(value: Any) -> datetime.datetime:
    try:
        if not isinstance(value, str) or value[10:11] != "T" or not value.endswith("Z"):
            raise ValueError
        found = datetime.datetime.fromisoformat(value[:-1])
        if found.tzinfo is not None:
            raise ValueError
        return found
    except ValueError:
        raise Misfit(f"{_shown(value)} is not a time such as 2020-01-31T23:59:00Z") from None


def _binary(value: Any) -> bytes:
    try:
        if not isinstance(value, str):
            raise ValueError
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Misfit(f"{_shown(value)} is not base64") from None


def _plain_numbers(value: Any) -> Any:
    """Return a JSON value with floats for numbers that were decoded as decimals."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain_numbers(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain_numbers(element) for key, element in value.items()}
    return value


_BASIC_READERS: Final[dict[BasicType, Callable[[Any], Any]]] = {
    BasicType.STRING: _read_text,
    BasicType.CHAR: _read_text,
    BasicType.BOOLEAN: read_bool,
    BasicType.FLOAT: read_float,
    BasicType.DOUBLE: read_double,
    BasicType.BIG_DEC: read_decimal,
    BasicType.BIG_INT: read_big_int,
    BasicType.INSTANT: read_instant,
}


def named_row(names: list[str], values: Iterable[Any]) -> Row:
    """Create a row with names."""
    row = Row(*values)
    row.set_field_names(names)
    return row


def to_json(declared: TypeInformation) -> Callable[[Any], Any]:
    """Return the function that converts a type's values for `msgspec.json.encode`; raises `Misfit`.

    Raises:
        InvalidProgramError: JSON cannot represent the type.
    """
    write: Callable[[Any], Any]
    declared = as_row_type(declared)
    if isinstance(declared, (RowTypeInfo, TupleTypeInfo)):
        write = _row_writer(declared)
    elif declared == _BYTES:
        write = _as_is(bytes, bytearray)
    elif isinstance(declared, (*_LISTS, PrimitiveArrayTypeInfo)):
        element = to_json(declared.element_type)

        def write(value: Any) -> Any:
            return [element(each) for each in value]
    elif isinstance(declared, MapTypeInfo):
        _require_text_keys(declared)
        of_value = to_json(declared.value_type)

        def write(value: Any) -> Any:
            return {key: of_value(each) for key, each in value.items()}
    elif isinstance(declared, PickledBytesTypeInfo):
        write = plain_json
    elif isinstance(declared, LocalTimeTypeInfo):
        raise InvalidProgramError(f"JSON cannot represent {declared!r}")
    else:
        write = _scalar_writer(declared)
    return lambda value: None if value is None else write(value)


def _row_writer(declared: RowTypeInfo | TupleTypeInfo) -> Callable[[Any], Any]:
    types = declared.get_field_types()
    names = (
        declared.get_field_names()
        if isinstance(declared, RowTypeInfo)
        else [f"f{i}" for i in range(len(types))]
    )
    fields = list(zip(names, map(to_json, types), strict=True))

    def write(value: Any) -> dict[str, Any]:
        values = field_values(value, names)
        written = {}
        for (name, convert), element in zip(fields, values, strict=True):
            try:
                written[name] = convert(element)
            except Misfit as misfit:
                raise misfit.within(name) from None
            except (TypeError, ValueError, AttributeError) as error:
                raise Misfit(f"{_shown(element)} does not fit: {error}", name) from error
        return written

    return write


def field_values(value: Any, names: list[str]) -> list[Any]:
    """Return the fields of a row, tuple, dictionary or record in the order of the names.

    Members of enums are their values, except in a `Row`.
    A NamedTuple with as many fields as there are names is read by position, like any tuple; if it
    has more, by name.

    Raises:
        Misfit: The value is none of these, has another number of fields, or is a row with other
            field names.
    """
    if isinstance(value, dict):
        return plain_values([value.get(name) for name in names])
    is_row = isinstance(value, Row)
    if not is_row and (not isinstance(value, (tuple, list)) or _has_more(value, names)):
        return _fields_of_record(value, names)
    if len(value) != len(names):
        raise Misfit(f"{_shown(value)} has {len(value)} fields, not the {len(names)} of {names}")
    try:
        return values_in_order(value, names) if is_row else plain_values(list(value))
    except ValueError as error:
        raise Misfit(f"{_shown(value)} does not match the row: {error}") from None


def _has_more(value: Any, names: list[str]) -> bool:
    return len(value) > len(names) and hasattr(value, "_fields")


def _fields_of_record(value: Any, names: list[str]) -> list[Any]:
    there = names_in(value)
    if there is None:
        raise Misfit(f"{_shown(value)} is not a row")
    try:
        return plain_fields(value, names)
    except AttributeError as error:
        hint = nearest_hint(error.name, there)
        raise Misfit(f"{_shown(value)} has no field {error.name!r}{hint}") from None


def _scalar_writer(declared: TypeInformation) -> Callable[[Any], Any]:
    if isinstance(declared, DateTypeInfo):
        return lambda value: value.isoformat()
    if isinstance(declared, TimeTypeInfo):
        return lambda value: f"{value.replace(microsecond=0).isoformat()}Z"
    if isinstance(declared, TimestampTypeInfo):
        return timestamp_text("T", "Z")
    kind = declared.basic_type if isinstance(declared, BasicTypeInfo) else None
    if kind in WHOLE_BITS or kind is BasicType.BIG_INT:
        return _as_is(int)
    writers: dict[BasicType | None, Callable[[Any], Any]] = {
        BasicType.STRING: _as_is(str),
        BasicType.CHAR: _as_is(str),
        BasicType.BOOLEAN: _as_is(bool),
        BasicType.FLOAT: _single,
        BasicType.DOUBLE: _number,
        BasicType.BIG_DEC: _exact_number,
        BasicType.INSTANT: instant_value_text,
    }
    writer = writers.get(kind)
    if writer is None:
        raise InvalidProgramError(f"JSON cannot represent {declared!r}")
    return writer


def _as_is(*classes: type) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        if not isinstance(value, classes) or (classes == (int,) and isinstance(value, bool)):
            raise Misfit(f"{_shown(value)} is not a valid {classes[0].__name__}")
        return value

    return write


def _number(value: Any) -> Any:
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _single(value: Any) -> Any:
    """Return a number with the fewest digits that identify its 32 bits: 0.1."""
    return _number(float_text(float(value)))


def instant_value_text(value: Any) -> str:
    """Return the text of an `Instant`; anything else is a misfit."""
    if not isinstance(value, Instant):
        raise Misfit(f"{_shown(value)} is not an Instant")
    return instant_text(value)


def _exact_number(value: Any) -> msgspec.Raw:
    return msgspec.Raw(f"{read_decimal(value):f}".encode())


def plain_json(value: Any) -> Any:
    """Return a value without a declared type for `msgspec.json.encode`; records are objects."""
    if isinstance(value, Row):
        if value._field_names() is None:
            return list(map(plain_json, value))
        return {name: plain_json(each) for name, each in value.as_dict().items()}
    if (names := names_in(value)) is not None:
        return dict(zip(names, map(plain_json, plain_fields(value, names)), strict=True))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: plain_json(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(each) for each in value]
    return value


def plain_fields_of(record: Any, used_by: str) -> dict[str, Any]:
    """Return the fields of a record by name, with values as `plain_json` returns them.

    Args:
        record: A dictionary, a named row or a dataclass instance.
        used_by: The connector, for errors.

    Raises:
        FormatError: The record has no fields.
    """
    plain = plain_json(record)
    if not isinstance(plain, dict):
        raise FormatError(
            f"{used_by}: {record!r:.200} has no fields; map records to dictionaries, named rows or "
            "dataclasses"
        )
    return plain


def _require_text_keys(declared: MapTypeInfo) -> None:
    if declared.key_type != Types.STRING():
        raise InvalidProgramError(
            f"JSON cannot represent {declared!r}: the keys of its objects are strings; declare "
            "Types.MAP(Types.STRING(), …)"
        )


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 100 else f"{text[:97]}…"
