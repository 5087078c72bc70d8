"""Blocks of whole rows of CSV files, for rows of any length."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from penstock.formats.csv_grammar import CsvGrammar

#: The limit of a row with an open quote; Flink refuses longer values, too.
LONGEST_ROW_BYTES: Final = 20_000_000

#: Bytes that are read at once in search of the end of a line or of the header.
_READ_BYTES: Final = 1 << 16

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


class RowBlock(NamedTuple):
    """Whole rows of a file.

    Attributes:
        position: The offset of the first row.
        data: The bytes of the rows.
        is_plain: Whether other readers of CSV find the same rows and fields in them.
    """

    position: int
    data: bytes
    is_plain: bool


def row_blocks(
    file: BinaryIO,
    grammar: CsvGrammar,
    start: int,
    end: int,
    block_bytes: int,
    *,
    is_range: bool,
) -> Iterator[RowBlock]:
    """Yield the rows of a file in blocks.

    Args:
        file: The file.
        grammar: The grammar of the rows.
        start: The offset of the first row.
        end: Rows that begin here or later are left out.
        block_bytes: Number of bytes to read at a time.
        is_range: Whether others read the rest of the file; then rows are single lines.
    """
    file.seek(start)
    position, buffer, is_at_end = start, b"", False
    wanted = block_bytes
    while position < end:
        if is_range and wanted == block_bytes:
            wanted = min(wanted, end - position)
        while len(buffer) < wanted and not is_at_end:
            more = file.read(wanted - len(buffer))
            is_at_end = not more
            buffer += more
        if not buffer:
            return
        work = buffer[:wanted]
        if work.endswith(b"\r"):  # a line feed after it belongs to it
            if len(buffer) == len(work):
                buffer += file.read(1)
            work = buffer[: len(work) + 1]
        is_last = is_at_end and len(work) == len(buffer)
        skipped = len(BOM_UTF8) if position == 0 and work.startswith(BOM_UTF8) else 0
        cut, is_plain = _finished(work[skipped:], grammar, is_last=is_last)
        if is_range and position + skipped + cut > end:
            found = _LINE_END.search(work, max(0, end - position - 1))
            cut = cut if found is None else min(cut, found.end() - skipped)
        if cut == 0 and not is_last:
            line = _LINE_END.search(work, skipped)
            if len(work) < LONGEST_ROW_BYTES or line is None:
                wanted = 2 * len(work) + 1
                continue
            cut, is_plain = line.end() - skipped, False
        yield RowBlock(position, work[skipped : skipped + cut], is_plain)
        position += skipped + cut
        buffer = buffer[skipped + cut :]
        wanted = block_bytes


def _finished(work: bytes, grammar: CsvGrammar, *, is_last: bool) -> tuple[int, bool]:
    """Return the end of the last complete row, and whether the rows are plain."""
    end = len(work) if is_last else max(work.rfind(b"\n"), work.rfind(b"\r")) + 1
    lines = work[:end]
    if not grammar.may_have_marks(lines):
        return end, True
    text = lines.decode(errors="surrogateescape")
    plain = grammar.end_of_plain_rows(text)
    if plain == len(text):
        return end, True
    if is_last:
        return end, False
    if plain and grammar.is_unfinished(text, plain):
        return len(text[:plain].encode(errors="surrogateescape")), True
    rows = grammar.end_of_rows(text)
    return len(text[:rows].encode(errors="surrogateescape")), False


def first_row_at(file: BinaryIO, start: int) -> int:
    """Return the offset of the first line that begins at an offset or later."""
    if start == 0:
        return 0
    file.seek(start - 1)
    read, is_at_end = b"", False
    while True:
        found = _LINE_END.search(read)
        if found is not None and (found[0] != b"\r" or found.end() < len(read) or is_at_end):
            return start - 1 + found.end()
        if is_at_end:
            return start - 1 + len(read)
        more = file.read(_READ_BYTES)
        is_at_end = not more
        read += more


def head_of(
    file: BinaryIO, grammar: CsvGrammar, *, has_header: bool, skips_first: bool
) -> tuple[int, list[str] | None]:
    """Read the part of a file before its rows.

    Args:
        file: The file.
        grammar: The grammar of the rows.
        has_header: Whether the first row is a header.
        skips_first: Whether to skip the first line, or the one after the header.

    Returns:
        The offset of the rows, and the fields of the header; None without one.

    Raises:
        Misfit: A quote of the header is not closed.
    """
    file.seek(0)
    read, is_at_end = b"", False
    while True:
        more = file.read(max(_READ_BYTES, len(read)))
        is_at_end = not more
        read += more
        if not is_at_end and len(read) < _READ_BYTES:
            continue
        skipped = len(BOM_UTF8) if read.startswith(BOM_UTF8) else 0
        text = read[skipped:].decode(errors="surrogateescape")
        position, header = 0, None
        if has_header:
            row = next(grammar.rows(text), None)
            if row is not None:
                position, header = row[1], row[2]
        if skips_first:
            position = grammar.end_of_line(text, position)
        if position < len(text) or is_at_end or len(read) > LONGEST_ROW_BYTES:
            at = skipped + len(text[:position].encode(errors="surrogateescape"))
            return at, None if header is None else grammar.fields(header)
