"""Blocks of CSV lines, parsed by pyarrow where it reads the same values as `CsvRowReader`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

#: A prefix with which pyarrow reads an integer that the row reader rejects.
_HEXADECIMAL: Final = re.compile(rb"0[xX]")


class ArrowCsvParser:
    """Parses blocks of whole lines that have the same columns."""

    def __init__(
        self,
        names: Sequence[str],
        types: Mapping[str, pa.DataType],
        *,
        separator: str,
        quote: str | None,
        escape: str | None,
        null: str | None,
        has_quoted_lines: bool,
    ) -> None:
        """Create a parser.

        Args:
            names: The columns of a line, without repetitions.
            types: The columns to read, at least one, with their types.
            separator: The character between fields.
            quote: The character around quoted fields; None without one.
            escape: The character before an escaped one; None without one.
            null: The text that represents NULL; None without one.
            has_quoted_lines: Whether quoted fields may contain ends of lines.
        """
        import pyarrow as pa
        from pyarrow import csv

        self._whole = [name for name, kind in types.items() if pa.types.is_integer(kind)]
        self._fractional = [name for name, kind in types.items() if pa.types.is_floating(kind)]
        self._read = csv.ReadOptions(column_names=list(names), use_threads=False)
        self._parse = csv.ParseOptions(
            delimiter=separator,
            quote_char=quote or False,
            escape_char=escape or False,
            newlines_in_values=has_quoted_lines,
            ignore_empty_lines=len(names) > 1,
        )
        self._convert = csv.ConvertOptions(
            column_types=dict(types),
            include_columns=list(types),
            null_values=[] if null is None else [null],
            strings_can_be_null=null is not None,
        )
        self._as_texts = csv.ConvertOptions(
            column_types=dict.fromkeys(self._whole, pa.string()), include_columns=self._whole
        )

    def table(self, block: bytes) -> pa.Table | None:
        """Return the columns to read of a block; None if the row reader must read it."""
        from pyarrow import ArrowInvalid, compute

        self._read.block_size = len(block) + 1
        try:
            table = self._parsed(block, self._convert)
            if self._whole and _HEXADECIMAL.search(block):
                texts = self._parsed(block, self._as_texts)
                for name in self._whole:
                    found = compute.match_substring_regex(texts[name], "0[xX]")
                    if compute.any(found).as_py():
                        return None
        except ArrowInvalid:
            return None
        # pyarrow accepts inf and nan in any case, the row reader only NaN and Infinity.
        for name in self._fractional:
            if compute.all(compute.is_finite(table[name])).as_py() is False:
                return None
        return table

    def _parsed(self, block: bytes, convert: object) -> pa.Table:
        from pyarrow import BufferReader, csv

        return csv.read_csv(BufferReader(block), self._read, self._parse, convert)
