"""Values of declared types, parsed from the texts that PostgreSQL sends."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.values.instant_text import instant_of_text
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

#: PostgreSQL's infinite dates and times: the last and first ones of Python and Java.
_BOUNDS: Final = {"infinity": datetime.datetime.max, "-infinity": datetime.datetime.min}
_INSTANT_BOUNDS: Final = {
    "infinity": Instant(31_556_889_864_403_199, 999_999_999),
    "-infinity": Instant(-31_557_014_167_219_200, 0),
}


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError(f"{text!r} is not a boolean")
    return text == "t"


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("it is not a bytea")
    return bytes.fromhex(text[2:])


def _date(text: str) -> datetime.date:
    bound = _BOUNDS.get(text)
    return datetime.date.fromisoformat(text) if bound is None else bound.date()


def _timestamp(text: str) -> datetime.datetime:
    """Parse a datetime; it is in UTC if the column has a zone."""
    bound = _BOUNDS.get(text)
    if bound is not None:
        return bound
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo is None else found.astimezone(datetime.UTC)


def _moment(text: str) -> datetime.datetime:
    return _timestamp(text).replace(tzinfo=datetime.UTC)


def _instant(text: str) -> Instant:
    instant = _INSTANT_BOUNDS.get(text)
    if instant is not None:
        return instant
    is_before_christ = text.endswith(" BC")
    text = text.removesuffix(" BC")
    if text[-3] not in "+-" and text[-6] not in "+-":
        text += "Z"  # a column without a zone counts as UTC
    return instant_of_text(text, is_before_christ=is_before_christ)


def _whole(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(f"it does not fit into {bits} bits")
        return number

    return read


def reader_of(declared: TypeInformation, column: str) -> Callable[[str], Any]:
    """Return the function that parses the text of a column; it raises ValueError.

    Raises:
        InvalidProgramError: Columns cannot be read as this type.
    """
    readers: list[tuple[TypeInformation, Callable[[str], Any]]] = [
        (Types.STRING(), str),
        (Types.BOOLEAN(), _boolean),
        (Types.BYTE(), _whole(8)),
        (Types.SHORT(), _whole(16)),
        (Types.INT(), _whole(32)),
        (Types.LONG(), _whole(64)),
        (Types.BIG_INT(), int),
        (Types.FLOAT(), float),
        (Types.DOUBLE(), float),
        (Types.BIG_DEC(), Decimal),
        (Types.SQL_DATE(), _date),
        (Types.SQL_TIME(), datetime.time.fromisoformat),
        (Types.SQL_TIMESTAMP(), _timestamp),
        (Types.TIMESTAMP_LTZ(), _moment),
        (Types.INSTANT(), _instant),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), _bytes),
    ]
    for known, reader in readers:
        if known == declared:
            return reader
    raise InvalidProgramError(
        f"PostgresCdcSource: the column {column!r} cannot be read as {declared}; read it as "
        "Types.STRING() and map it"
    )
