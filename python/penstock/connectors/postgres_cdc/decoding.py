"""Messages of PostgreSQL's output plug-in pgoutput, protocol version 1.

The chapter "Logical Replication Message Formats" of its documentation describes them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.errors import SourceError

#: Microseconds from the epoch to the year 2000.
_YEAR_2000_US: Final = 946_684_800_000_000


class Unchanged:
    """Placeholder of a long value that an update did not change, and the server omits."""


UNCHANGED: Final = Unchanged()


@dataclass
class Relation:
    """Schema of a table for the changes that follow."""

    schema: str
    name: str
    columns: list[str]


@dataclass
class Begin:
    """Beginning of a transaction.

    Attributes:
        commit_lsn: The position of its commit, which identifies it.
        time_ms: The time of its commit, in ms since the epoch.
    """

    commit_lsn: int
    time_ms: int


@dataclass
class Commit:
    """End of a transaction; the next one starts after ``end_lsn``."""

    end_lsn: int


@dataclass
class Truncate:
    """Truncation of tables."""

    relation_ids: tuple[int, ...]


@dataclass
class Change:
    """Insertion, update or deletion of a row.

    Attributes:
        relation_id: The number of the table.
        is_insert: True if the row is new.
        new: The texts of the columns; None for a deletion.
        old: The known columns of the old row: all, or the key alone; None if there are none.
        old_is_whole: True if ``old`` has all columns.
    """

    relation_id: int
    is_insert: bool = False
    new: list[Any] | None = None
    old: list[Any] | None = None
    old_is_whole: bool = False


@dataclass
class _Bytes:
    data: bytes
    position: int = field(default=0)

    def number(self, form: struct.Struct) -> int:
        (found,) = form.unpack_from(self.data, self.position)
        self.position += form.size
        return int(found)

    def text(self) -> str:
        end = self.data.index(0, self.position)
        found = self.data[self.position : end].decode()
        self.position = end + 1
        return found

    def mark(self) -> bytes:
        self.position += 1
        return self.data[self.position - 1 : self.position]


_I8, _I16, _I32, _I64 = (struct.Struct(form) for form in (">b", ">h", ">i", ">q"))
_U32, _U64 = struct.Struct(">I"), struct.Struct(">Q")


def decode(data: bytes) -> Begin | Commit | Truncate | Change | tuple[int, Relation] | None:
    """Decode a message; a relation with its number, None for messages that do not concern rows.

    Raises:
        SourceError: The kind of the message is unknown.
    """
    found = _Bytes(data)
    kind = found.mark()
    match kind:
        case b"B":
            lsn, time_us = found.number(_U64), found.number(_I64)
            return Begin(lsn, (time_us + _YEAR_2000_US) // 1000)
        case b"C":
            found.number(_I8)
            found.number(_U64)
            return Commit(found.number(_U64))
        case b"R":
            return _relation(found)
        case b"I" | b"U" | b"D":
            return _change(found, is_insert=kind == b"I")
        case b"T":
            count = found.number(_I32)
            found.number(_I8)
            return Truncate(tuple(found.number(_U32) for _ in range(count)))
        case b"O" | b"Y" | b"M":
            return None
        case _:
            raise SourceError(f"PostgresCdcSource: the server sent a message of kind {kind!r}")


def _relation(found: _Bytes) -> tuple[int, Relation]:
    number = found.number(_U32)
    relation = Relation(found.text() or "pg_catalog", found.text(), [])
    found.number(_I8)
    for _ in range(found.number(_I16)):
        found.number(_I8)
        relation.columns.append(found.text())
        found.number(_U32)
        found.number(_I32)
    return number, relation


def _change(found: _Bytes, *, is_insert: bool) -> Change:
    change = Change(found.number(_U32), is_insert)
    while found.position < len(found.data):
        match found.mark():
            case b"N":
                change.new = _tuple(found)
            case b"O":
                change.old, change.old_is_whole = _tuple(found), True
            case b"K":
                change.old = _tuple(found)
            case mark:
                raise SourceError(f"PostgresCdcSource: the server sent a row of kind {mark!r}")
    return change


def _tuple(found: _Bytes) -> list[Any]:
    values: list[Any] = []
    for _ in range(found.number(_I16)):
        match found.mark():
            case b"n":
                values.append(None)
            case b"u":
                values.append(UNCHANGED)
            case b"t":
                length = found.number(_I32)
                end = found.position + length
                values.append(found.data[found.position : end].decode())
                found.position = end
            case mark:
                raise SourceError(f"PostgresCdcSource: the server sent a value of kind {mark!r}")
    return values
