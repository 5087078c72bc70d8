"""BSON values, converted to values of declared types."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.composite_types import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
)
from penstock.common.packages.optional_library import optional_library
from penstock.common.record_types import as_row_type
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.values.instants import micros_of
from penstock.connectors.mongodb.collection import bson_library
from penstock.errors import UndecodableRecordError
from penstock.formats.json_values import named_row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.typeinfo import TypeInformation

_LISTS: Final = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


class DocumentReader:
    """Converts documents to values in the order of declared fields.

    Args:
        place: The collection, for errors.
        fields: The type of each field, by its name.
    """

    def __init__(self, place: str, fields: Mapping[str, TypeInformation]) -> None:
        self._place = place
        self._readers = {name: reader_of(kind) for name, kind in fields.items()}

    def __call__(self, document: Mapping[str, Any]) -> list[Any]:
        """Return the values; None for a field that the document lacks.

        Raises:
            UndecodableRecordError: A value does not match its declared type.
        """
        values = []
        for name, read in self._readers.items():
            value = document.get(name)
            try:
                values.append(None if value is None else read(value))
            except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
                raise UndecodableRecordError(
                    f"{self._place}: the field {name!r} of the document with _id "
                    f"{document.get('_id')!r} is {value!r:.200}: {error}"
                ) from error
        return values


def reader_of(declared: TypeInformation) -> Callable[[Any], Any]:
    """Return the function that converts a BSON value; it raises ValueError or TypeError."""
    declared = as_row_type(declared)
    if isinstance(declared, RowTypeInfo):
        return _row_reader(declared)
    bytes_type = Types.PRIMITIVE_ARRAY(Types.BYTE())
    if isinstance(declared, _LISTS) and declared != bytes_type:
        element = reader_of(declared.element_type)
        return lambda value: [None if each is None else element(each) for each in value]
    if isinstance(declared, MapTypeInfo):
        of_value = reader_of(declared.value_type)
        return lambda value: {
            key: None if each is None else of_value(each) for key, each in value.items()
        }
    readers: list[tuple[TypeInformation, Callable[[Any], Any]]] = [
        (Types.STRING(), _text),
        (Types.BOOLEAN(), _boolean),
        *((kind, _whole(bits)) for kind, bits in _whole_types()),
        (Types.FLOAT(), lambda value: float(_number(value))),
        (Types.DOUBLE(), lambda value: float(_number(value))),
        (Types.BIG_INT(), _integer),
        (Types.BIG_DEC(), _decimal),
        (Types.SQL_DATE(), lambda value: _moment(value).date()),
        (Types.SQL_TIME(), _time),
        (Types.SQL_TIMESTAMP(), lambda value: _moment(value).replace(tzinfo=None)),
        (Types.TIMESTAMP_LTZ(), _moment),
        (Types.INSTANT(), _instant),
        (bytes_type, _bytes),
    ]
    for known, reader in readers:
        if known == declared:
            return reader
    return plain


def _whole_types() -> list[tuple[TypeInformation, int]]:
    return [(Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (Types.LONG(), 64)]


def _row_reader(declared: RowTypeInfo) -> Callable[[Any], Any]:
    names = declared.get_field_names()
    readers = [reader_of(kind) for kind in declared.get_field_types()]

    def read(value: Any) -> Any:
        found = [value.get(name) for name in names]
        return named_row(
            names,
            [
                None if each is None else convert(each)
                for each, convert in zip(found, readers, strict=True)
            ],
        )

    return read


def plain(value: Any) -> Any:
    """Return a value without BSON classes."""
    bson = bson_library("MongoDB")
    match value:
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case bson.ObjectId():
            return str(value)
        case bson.Decimal128():
            return value.to_decimal()
        case bson.Timestamp():
            return value.as_datetime()
        case bson.Int64():
            return int(value)
    return value


def _text(value: Any) -> str:
    """Return a text unchanged, and other values as relaxed extended JSON."""
    if isinstance(value, str):
        return value
    bson = bson_library("MongoDB")
    if isinstance(value, bson.ObjectId | bson.Decimal128):
        return str(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    json = optional_library("bson.json_util", "pymongo", "mongodb", "MongoDB")
    written: str = json.dumps(value, json_options=json.RELAXED_JSON_OPTIONS)
    return written


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected a boolean")
    return value


def _number(value: Any) -> Any:
    number = value.to_decimal() if hasattr(value, "to_decimal") else value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        raise TypeError("expected a number")
    return number


def _integer(value: Any) -> int:
    number = _number(value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError("expected an integer")
    return int(number)


def _whole(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        whole = _integer(value)
        if not -(1 << bits - 1) <= whole < 1 << bits - 1:
            raise ValueError(f"expected an integer of {bits} bits")
        return whole

    return read


def _decimal(value: Any) -> Decimal:
    number = _number(value)
    return Decimal(str(number) if isinstance(number, float) else number)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("expected binary data")
    return bytes(value)


def _moment(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        value = plain(value)
    if not isinstance(value, datetime.datetime):
        raise TypeError("expected a date")
    return value


def _time(value: Any) -> datetime.time:
    if isinstance(value, str):
        return datetime.time.fromisoformat(value)
    return _moment(value).time()


def _instant(value: Any) -> Instant:
    seconds, micros = divmod(micros_of(_moment(value)), 1_000_000)
    return Instant(seconds, micros * 1000)
