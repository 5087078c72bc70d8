"""Columns of CSV lines, parsed by pyarrow if it finds the same fields as the row reader."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.csv_arrow import ArrowCsvParser
from penstock.formats.csv_grammar import CsvGrammar
from penstock.table import types
from penstock.table.formats.text_columns import column_of_texts, is_read_from_text
from penstock.table.types.arrow_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

#: Types that pyarrow parses itself; it reads other columns as texts.
_NUMBERS: Final = (types.IntegralType, types.DecimalType, types.FloatType, types.DoubleType)


class CsvColumns(CompiledSchema):
    """Reads lines whose fields all have the plain notation of their types.

    Args:
        row_type: The columns.
        wanted: The positions of the columns to read; the others are NULL.
        separator: The character between fields.
        quote: The character around quoted fields; None without one.
        null: The text that represents NULL; None without one.
    """

    def __init__(
        self,
        row_type: types.RowType,
        wanted: Sequence[int],
        *,
        separator: str,
        quote: str | None,
        null: str | None,
    ) -> None:
        self._row_type = row_type
        self._wanted = frozenset(wanted)
        self._separator = separator
        self._quote = quote
        self._null = null

    def why_not(self) -> str | None:
        """Return the reason why no lines can be read; None if they can."""
        if not self._row_type.fields:
            return "as the files have no columns"
        for position in sorted(self._wanted):
            field = self._row_type.fields[position]
            if not is_read_from_text(field.data_type):
                return f"as the column {field.name!r} has values with parts"
        marks = [self._separator, *([self._quote] if self._quote else [])]
        return None if all(map(str.isascii, marks)) else "as a separator or quote is not ASCII"

    def read(self, lines: Sequence[bytes]) -> list[pa.Array] | None:
        """Return the columns of lines with one row each; None if the row reader must read them."""
        block = b"\n".join(lines) + b"\n"
        if block.count(b"\n") != len(lines):
            return None  # messages, unlike lines, may contain line feeds
        if not lines or not self._is_plain(block) or max(map(len, lines)) > csv.field_size_limit():
            return None
        table = self._parser.table(block)
        if table is None or table.num_rows != len(lines):
            return None
        try:
            return [
                self._column(position, table, data_type)
                for position, data_type in enumerate(self._row_type.field_types())
            ]
        except ValueError:  # also Arrow's errors
            return None

    def _is_plain(self, block: bytes) -> bool:
        """Return whether pyarrow finds the same fields as the row reader."""
        if b"\r" in block or b"\0" in block or BOM_UTF8 in block:
            return False
        has_quotes = self._quote is not None and self._quote.encode() in block
        if block.isascii() and not has_quotes:
            return True
        try:
            text = block.decode()
        except UnicodeDecodeError:
            return False
        return not has_quotes or self._grammar.end_of_plain_rows(text) == len(text)

    def _column(self, position: int, table: pa.Table, data_type: types.DataType) -> pa.Array:
        import pyarrow as pa

        if position not in self._wanted:
            return pa.nulls(table.num_rows, arrow_type(data_type))
        column = table.column(f"f{position}").combine_chunks()
        if isinstance(data_type, (types.FloatType, types.DoubleType)):
            return column.cast(arrow_type(data_type), safe=False)
        if isinstance(data_type, types.DecimalType):
            column.validate(full=True)  # pyarrow accepts more digits than the type has
        return column if isinstance(data_type, _NUMBERS) else column_of_texts(column, data_type)

    @cached_property
    def _grammar(self) -> CsvGrammar:
        return CsvGrammar(self._separator, self._quote, None, allows_comments=False)

    @cached_property
    def _parser(self) -> ArrowCsvParser:
        import pyarrow as pa

        names = [f"f{position}" for position in range(len(self._row_type))]
        kinds: dict[str, Any] = {}
        for position in sorted(self._wanted):
            data_type = self._row_type.fields[position].data_type
            kind = pa.string()
            if isinstance(data_type, (types.FloatType, types.DoubleType)):
                kind = pa.float64()  # also of FLOAT: as the row reader, round twice
            elif isinstance(data_type, _NUMBERS):
                kind = arrow_type(data_type)
            kinds[names[position]] = kind
        if not kinds:
            kinds[names[0]] = pa.string()  # one column is needed to count the rows
        return ArrowCsvParser(
            names,
            kinds,
            separator=self._separator,
            quote=self._quote,
            escape=None,
            null=self._null,
            has_quoted_lines=False,
        )
