"""Conversions between values of databases and values of columns."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import SourceError
from penstock.table import types
from penstock.table.formats import scalar_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NUMBERS: Final[dict[type[types.DataType], Callable[[Any], Any]]] = {
    types.TinyIntType: int,
    types.SmallIntType: int,
    types.IntType: int,
    types.BigIntType: int,
    types.FloatType: float,
    types.DoubleType: float,
    types.BooleanType: bool,
}


class RowReader:
    """Converts the rows of a cursor to rows of columns.

    SQLite has no types for times and decimals, and stores them as texts or numbers.

    Args:
        names: The names of the columns.
        kinds: Their types.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[types.DataType]) -> None:
        self._names = list(names)
        self._kinds = list(kinds)

    def __call__(self, row: Sequence[Any]) -> list[Any]:
        """Return the values of a row.

        Raises:
            SourceError: A column of the database has values of another type.
        """
        values = []
        for name, kind, value in zip(self._names, self._kinds, row, strict=True):
            try:
                values.append(None if value is None else _read(value, kind))
            except (ValueError, TypeError, decimal.InvalidOperation) as error:
                raise SourceError(
                    f"column '{name}' has the value {value!r:.200}, which is not of "
                    f"type {kind.summary()}: {error}"
                ) from None
        return values


def _read(value: Any, kind: types.DataType) -> Any:
    number = _NUMBERS.get(type(kind))
    if number is not None:
        if isinstance(value, str):
            return scalar_text.READERS[type(kind)](value, kind)
        return number(value)
    match kind:
        case types.CharType() | types.VarCharType():
            return value if isinstance(value, str) else str(value)
        case types.BinaryType() | types.VarBinaryType():
            return value.encode() if isinstance(value, str) else bytes(value)
        case types.DecimalType():
            given = str(value) if isinstance(value, float) else value
            return scalar_text.decimal_of(given, kind)
        case types.DateType():
            return _date(value)
        case types.TimeType():
            if isinstance(value, datetime.timedelta):  # MySQL's TIME
                return (datetime.datetime.min + value).time()
            return datetime.time.fromisoformat(value) if isinstance(value, str) else value
        case types.TimestampType():
            return _moment(value).replace(tzinfo=None)
        case types.LocalZonedTimestampType():
            moment = _moment(value)
            if moment.tzinfo is None:
                return moment.replace(tzinfo=datetime.UTC)
            return moment.astimezone(datetime.UTC)
        case types.ArrayType():
            return [None if item is None else _read(item, kind.element_type) for item in value]
    return value


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    return datetime.date.fromisoformat(value[:10])


def _moment(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, datetime.date):
        return datetime.datetime.combine(value, datetime.time())
    return datetime.datetime.fromisoformat(value)


class RowWriter:
    """Converts the rows of a table to values that a database package accepts.

    Args:
        database: The kind of database.
        kinds: The types of the columns.
    """

    def __init__(self, database: str, kinds: Sequence[types.DataType]) -> None:
        self._writers = [_writer(database, kind) for kind in kinds]

    def __call__(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of a row."""
        return tuple(
            value if value is None or write is None else write(value)
            for value, write in zip(row, self._writers, strict=True)
        )


def _writer(database: str, kind: types.DataType) -> Callable[[Any], Any] | None:
    if database != "sqlite":
        return None
    match kind:
        case types.DecimalType():
            return str
        case types.TimestampType() | types.LocalZonedTimestampType():
            return _moment_text
        case types.DateType():
            return datetime.date.isoformat
        case types.TimeType():
            return datetime.time.isoformat
    return None


def _moment_text(value: datetime.datetime) -> str:
    return value.isoformat(" ")
