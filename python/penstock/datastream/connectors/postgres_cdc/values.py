"""Values of declared types from the texts in which PostgreSQL sends them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _boolean(text: str) -> bool:
    if text not in ("t", "f"):
        raise ValueError(f"{text!r} is no boolean")
    return text == "t"


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("it is no bytea")
    return bytes.fromhex(text[2:])


def _timestamp(text: str) -> datetime.datetime:
    """A time without zone; of one with a zone that of UTC."""
    found = datetime.datetime.fromisoformat(text)
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


def _instant(text: str) -> Instant:
    since = _timestamp(text).replace(tzinfo=datetime.UTC) - _EPOCH
    return Instant(since.days * 86_400 + since.seconds, since.microseconds * 1000)


def reader_of(declared: TypeInformation, column: str) -> Callable[[str], Any]:
    """What makes a value of the text of a column; it raises ValueError.

    Raises:
        InvalidProgramError: Columns cannot be read as this type.
    """
    readers: list[tuple[TypeInformation, Callable[[str], Any]]] = [
        (Types.STRING(), str),
        (Types.BOOLEAN(), _boolean),
        (Types.BYTE(), int),
        (Types.SHORT(), int),
        (Types.INT(), int),
        (Types.LONG(), int),
        (Types.BIG_INT(), int),
        (Types.FLOAT(), float),
        (Types.DOUBLE(), float),
        (Types.BIG_DEC(), Decimal),
        (Types.SQL_DATE(), datetime.date.fromisoformat),
        (Types.SQL_TIME(), datetime.time.fromisoformat),
        (Types.SQL_TIMESTAMP(), _timestamp),
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
