"""Row ends and fields of CSV, by the states of Flink's reader.

A field that begins with a quote ends at its closing quote and may contain separators and line ends;
a quote anywhere else is an ordinary character.  Only blanks may follow a closing quote.  The
patterns are possessive: each character is matched once, whatever follows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The meaning of escaped letters; any other escaped character represents itself.
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}

_END: Final = r"(?:\r\n|\r|\n)"


class CsvGrammar:
    """Patterns of the rows and fields of a dialect."""

    def __init__(
        self, separator: str, quote: str | None, escape: str | None, *, allows_comments: bool
    ) -> None:
        """Compile the patterns."""
        s, e = re.escape(separator), "" if escape is None else re.escape(escape)
        q = "" if quote is None else re.escape(quote)
        self._separator, self._quote, self._escape = separator, quote, escape
        blanks = rf"(?:(?!{s})[\x00-\x09\x0b\x0c\x0e-\x20])*+"
        bare = rf"[^{s}{e}\r\n]*+" + (rf"(?:{e}.[^{s}{e}\r\n]*+)*+" if e else "")
        field, opened = bare, bare
        if q:
            within = rf"{q}[^{q}{e}]*+(?:(?:{q}{q}{rf'|{e}.' if e else ''})[^{q}{e}]*+)*+"
            field = rf"(?:{within}{q}{blanks}(?=[{s}\r\n]|\Z)|(?!{q}){bare})"
            # Also matches a row whose last quote may be the first one of two.
            opened = rf"(?:{within}{q}{blanks}\Z|{within}|(?!{q}){bare})"
        row = rf"{field}(?:{s}{field})*+"
        # If comments are allowed, empty lines are skipped too, and a line may be indented.
        lines = rf"(?:[ ]*+(?:#[^\r\n]*+)?{_END})*+" if allows_comments else ""
        skipped = rf"{lines}(?:[ ]*+#[^\r\n]*+\Z|[ ]*+)" if allows_comments else ""
        self._row = re.compile(rf"{skipped}(?P<row>{row})(?:{_END}|\Z)", re.DOTALL)
        self._rows = re.compile(rf"(?:{skipped}{row}{_END})*+{lines}", re.DOTALL)
        unfinished = rf"{skipped}(?:{field}{s})*+{opened}{rf'{e}?' if e else ''}\Z"
        self._unfinished = re.compile(unfinished, re.DOTALL)
        self._line = re.compile(rf"(?P<row>[^\r\n]*+)(?:{_END}|\Z)")
        self._field = re.compile(rf"(?P<field>{field})(?P<end>{s}|\Z)", re.DOTALL)
        marks = [mark for mark in (quote, escape) if mark is not None]
        self._marks = re.compile("|".join(map(re.escape, marks))) if marks else None
        self._mark_bytes = [mark.encode() for mark in marks]
        self._allows_comments = allows_comments
        self._first_line = re.compile(rf"{skipped}[^\r\n]*+(?:{_END})?")
        self._closed = self._plain = None
        if q:
            escaped = rf"{e}[^ntr0\r\n]" if e else ""
            others = (
                (rf"|{escaped}(?!{q})" if e else "") + rf"|(?<=[^{s}\r\n]){q}"
                rf"|{q}[^{q}{e}]*+(?:(?:{q}{q}{rf'|{escaped}' if e else ''})[^{q}{e}]*+)*+{q}"
                rf"(?=[{s}\r\n]|\Z))*+"
            )
            self._closed = re.compile(rf"(?:[^{q}{e}]++{others}", re.DOTALL)
            part = rf"(?:[^{q}{e}\r\n]++{others}"
            self._plain = re.compile(rf"(?:{part}{_END})*+(?:{part}\Z)?", re.DOTALL)

    def may_have_marks(self, lines: bytes) -> bool:
        """Return whether lines have a quote or an escape, or may be comments."""
        return self._allows_comments or any(mark in lines for mark in self._mark_bytes)

    def has_marks(self, text: str) -> bool:
        """Return whether a text has a quote or an escape."""
        return self._marks is not None and self._marks.search(text) is not None

    def end_of_plain_rows(self, text: str) -> int:
        """Return the end of the rows in which other readers of CSV find the same fields."""
        if self._allows_comments:
            return 0
        if self._marks is None or not self.has_marks(text):
            return len(text)
        if self._closed is None or self._plain is None:
            return 0
        stop = _end(self._closed, text, 0)
        if stop == len(text):
            return stop
        # Usually an open quote is the first one of its row.
        line = max(text.rfind("\n", 0, stop), text.rfind("\r", 0, stop)) + 1
        return line if self._marks.search(text, line, stop) is None else _end(self._plain, text, 0)

    def is_unfinished(self, text: str, position: int) -> bool:
        """Return whether the rest of a text is the beginning of a row with an open quote."""
        return self._unfinished.match(text, position) is not None

    def end_of_rows(self, text: str) -> int:
        """Return the end of the last row that is complete, whatever follows the text."""
        position = 0
        while True:
            position = _end(self._rows, text, position)
            if position == len(text) or self.is_unfinished(text, position):
                return position
            line = _end(self._line, text, position)
            if text[line - 1] not in "\r\n":
                return position
            position = line

    def end_of_line(self, text: str, position: int) -> int:
        """Return the end of the line that begins at a position, after comments."""
        return _end(self._first_line, text, position)

    def rows(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start and end of each row, and the row without its line end.

        If a quote is not closed, the row is its first line: the next row begins with the next line.
        """
        position = 0
        while position < len(text):
            found = self._row.match(text, position) or self._line.match(text, position)
            assert found is not None
            if found.start("row") == len(text):
                return  # only comments remain
            yield found.start("row"), found.end(), found["row"]
            position = found.end()

    def fields(self, row: str) -> list[str]:
        """Return the fields of a row.

        Raises:
            Misfit: A quote is not closed, or something follows the closing one.
        """
        if not self.has_marks(row):
            return row.split(self._separator)
        fields, position = list[str](), 0
        while True:
            found = self._field.match(row, position)
            if found is None:
                raise Misfit(
                    f"field {len(fields) + 1} begins with a quote that is not closed, or that "
                    "something other than a separator follows"
                )
            fields.append(self._content(found["field"]))
            position = found.end()
            if not found["end"]:
                return fields

    def _content(self, field: str) -> str:
        quote = self._quote
        is_quoted = quote is not None and field.startswith(quote)
        if quote is not None and is_quoted:
            field = field[1 : field.rindex(quote)]
            if self._escape is None:
                return field.replace(quote * 2, quote)
        if self._escape is None:
            return field
        escaped = rf"{re.escape(self._escape)}(.)"
        if is_quoted and quote is not None:
            escaped += f"|{re.escape(quote)}({re.escape(quote)})"
        return re.sub(escaped, _unescaped, field, flags=re.DOTALL)


def _unescaped(found: re.Match[str]) -> str:
    letter = found[0][1:]
    return _ESCAPED.get(letter, letter) if found[1] else letter


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    assert found is not None
    return found.end()
