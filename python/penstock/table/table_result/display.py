"""Tables as text: cells as SQL casts them, in a box of characters."""

from __future__ import annotations

import datetime
import unicodedata
from typing import TYPE_CHECKING, Any, Final

from penstock.common.values.number_text import double_text, float_text
from penstock.table import types

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NULL: Final = "<NULL>"
MAX_COLUMN_WIDTH: Final = 30

_WIDTHS: Final[dict[type[types.DataType], int]] = {
    types.TinyIntType: 4,
    types.SmallIntType: 6,
    types.IntType: 11,
    types.BigIntType: 20,
    types.BooleanType: 5,
    types.DateType: 10,
    types.TimeType: 8,
}


def cell_text(value: Any, data_type: types.DataType, zone: datetime.tzinfo) -> str:
    """Format a value like CAST to STRING; NULL within values is ``NULL``.

    Args:
        value: The value.
        data_type: Its type.
        zone: The session's time zone.
    """
    if value is None:
        return "NULL"
    match data_type:
        case types.BooleanType():
            return "TRUE" if value else "FALSE"
        case types.FloatType():
            return float_text(value)
        case types.DoubleType():
            return double_text(value)
        case types.DecimalType():
            return f"{value:f}"
        case types.BinaryType() | types.VarBinaryType():
            return f"x'{bytes(value).hex()}'"
        case types.LocalZonedTimestampType():
            return _timestamp_text(value.astimezone(zone), data_type.precision)
        case types.TimestampType():
            return _timestamp_text(value, data_type.precision)
        case types.TimeType():
            return _with_fraction(value.isoformat("seconds"), value, data_type.precision)
        case types.DayTimeIntervalType():
            return day_interval_text(value)
        case types.YearMonthIntervalType():
            return f"{'-' if value < 0 else '+'}{abs(value) // 12}-{abs(value) % 12:02}"
        case types.RowType():
            cells = zip(value, data_type.field_types(), strict=True)
            return f"({', '.join(cell_text(v, kind, zone) for v, kind in cells)})"
        case types.MultisetType():
            kind = data_type.element_type
            return f"{{{', '.join(f'{cell_text(k, kind, zone)}={n}' for k, n in value.items())}}}"
        case types.ArrayType():
            return f"[{', '.join(cell_text(v, data_type.element_type, zone) for v in value)}]"
        case types.MapType():
            key, item = data_type.key_type, data_type.value_type
            entries = (
                f"{cell_text(k, key, zone)}={cell_text(v, item, zone)}" for k, v in value.items()
            )
            return f"{{{', '.join(entries)}}}"
    return str(value)


def _timestamp_text(value: datetime.datetime, precision: int) -> str:
    text = value.replace(tzinfo=None, microsecond=0).isoformat(" ")
    return _with_fraction(text, value, precision)


def _with_fraction(text: str, value: Any, precision: int) -> str:
    if precision == 0:
        return text
    return f"{text}.{f'{value.microsecond:06}000'[:precision]}"


def day_interval_text(value: datetime.timedelta) -> str:
    """Format an interval of days to milliseconds: ``+1 02:03:04.000``."""
    total = abs(value) // datetime.timedelta(milliseconds=1)
    seconds, milliseconds = divmod(total, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    sign = "-" if value < datetime.timedelta(0) else "+"
    return f"{sign}{days} {hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text occupies."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def type_widths(
    names: Sequence[str], data_types: Sequence[types.DataType], longest: int = MAX_COLUMN_WIDTH
) -> list[int]:
    """Return the widths of columns whose cells are not known in advance."""
    widths = []
    for name, kind in zip(names, data_types, strict=True):
        match kind:
            case types.DecimalType():
                width = kind.precision + 2
            case types.TimestampType() | types.LocalZonedTimestampType():
                width = 19 if kind.precision == 0 else 20 + -(-kind.precision // 3) * 3
            case _:
                width = _WIDTHS.get(type(kind), longest)
        widths.append(max(width, len(NULL), display_width(name)))
    return widths


def content_widths(
    names: Sequence[str], rows: Iterable[Sequence[str]], longest: int = MAX_COLUMN_WIDTH
) -> list[int]:
    """Return the widths of columns whose cells are all known."""
    widths = [display_width(name) for name in names]
    for row in rows:
        widths = [
            max(width, min(display_width(cell), longest))
            for width, cell in zip(widths, row, strict=True)
        ]
    return widths


def box_lines(
    names: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]
) -> Iterator[str]:
    """Yield the lines of a table: its header, a line for each row, and the number of rows."""
    border = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    number = 0
    for row in rows:
        if number == 0:
            yield border
            yield _line(names, widths)
            yield border
        yield _line(row, widths)
        number += 1
    if number == 0:
        yield "Empty set"
        return
    yield border
    yield f"{number} row in set" if number == 1 else f"{number} rows in set"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        f" {' ' * (width - display_width(text))}{text} "
        for text, width in (
            (_cut(cell, width), width) for cell, width in zip(cells, widths, strict=True)
        )
    )
    return f"|{'|'.join(padded)}|"


def _cut(text: str, width: int) -> str:
    """Shorten a text to the width of a column; an ellipsis replaces its end."""
    if display_width(text) <= width:
        return text
    kept = ""
    for character in text:
        if display_width(kept + character) > width - 3:
            break
        kept += character
    return f"{kept}..."
