"""CSV files, parsed in blocks of lines: by pyarrow if possible, otherwise line by line."""

from __future__ import annotations

import codecs
import copy
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.column_batch import batch_of_columns
from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import RowTypeInfo
from penstock.common.serialization import known_charset
from penstock.common.types import rows_of_columns
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.arrow_columns import column_values
from penstock.formats.arrow_types import arrow_library, arrow_type
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.compression import transcoded
from penstock.formats.csv_blocks import first_row_at, head_of, row_blocks
from penstock.formats.csv_rows import CsvRowReader
from penstock.formats.csv_schema import CsvSchema
from penstock.formats.dead_letters import Policy
from penstock.formats.file_format import Batch, BlockCounts, FileRange
from penstock.formats.lines import LineNumbers, StreamFormat, malformed
from penstock.formats.misfit import Misfit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, Self

    from penstock.columns.column_batch import ColumnBatch
    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row
    from penstock.datastream.output_tag import OutputTag
    from penstock.formats.csv_grammar import CsvGrammar

#: Types that pyarrow reads by the rules of `CsvRowReader`.
_WHOLE: Final = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)
_QUICK: Final = (BasicType.STRING, *_WHOLE, BasicType.FLOAT, BasicType.DOUBLE)

#: A prefix with which pyarrow reads a number that the rules reject.
_HEXADECIMAL: Final = re.compile(rb"0[xX]")

#: Rows that are created at once: few, so that the garbage collector has little to traverse.
_ROWS_AT_ONCE: Final = 1024


class CsvReaderFormat(CompiledSchema, StreamFormat):
    """Rows of the lines of CSV files; created by `for_schema`.  Requires pyarrow.

    One subtask reads a file, because a quoted text may contain ends of lines; without a quote
    character large files are split.
    """

    def __init__(self, j_csv_format: None = None) -> None:
        """Create a format; use `for_schema`.

        Raises:
            JvmOnlyError: A Java format was passed.
        """
        super().__init__(j_csv_format)
        self._schema = CsvSchema(RowTypeInfo([]), CsvSchema.builder()._settings)
        self._policy = Policy()
        self._charset = "utf-8"

    @staticmethod
    def for_schema(
        schema: CsvSchema,
        *,
        skip_malformed: bool = False,
        dead_letters: OutputTag | None = None,
        charset: str = "UTF-8",
    ) -> CsvReaderFormat:
        """Return a format that reads the columns of a schema.

        Args:
            schema: The columns, and their format in a line.
            skip_malformed: Whether to leave out malformed lines (beyond PyFlink); otherwise they
                fail the job.
            dead_letters: The side output for malformed lines (beyond PyFlink).
            charset: The encoding of the files (beyond PyFlink); invalid bytes are replaced.  One
                subtask reads a file in another charset than UTF-8.

        Raises:
            InvalidProgramError: The schema is invalid, CSV cannot represent a type, both policies
                are given, or the charset is unknown.
            DependencyError: pyarrow is not installed.
        """
        given: Any = schema
        if not isinstance(given, CsvSchema):
            raise InvalidProgramError(f"for_schema takes a CsvSchema, got {schema!r}")
        arrow_library("CsvReaderFormat")
        made = CsvReaderFormat()
        made._schema = schema
        made._policy = Policy.of(
            "for_schema", skip_malformed=skip_malformed, dead_letters=dead_letters
        )
        made.has_dead_letters = not made._policy.fails
        made._charset = codecs.lookup(known_charset(charset)).name
        made.is_transcoded = made._charset not in ("utf-8", "ascii")
        assert made._reader is not None
        return made

    def can_be_cut(self) -> bool:
        """Return whether every end of a line is the end of a row."""
        dialect = self._schema.settings.dialect
        if self.is_transcoded:
            return False
        return dialect.quote is None and dialect.escape is None and not self._has_header

    def get_produced_type(self) -> TypeInformation:
        """Return the row type of the columns."""
        return self._schema.row_type

    def in_columns(self) -> Self:
        """Return a format that reads blocks of lines as columns if pyarrow may read them."""
        if self._why_not_quick() is not None:
            return self
        found = copy.copy(self)
        found.block_counts = BlockCounts()
        return found

    def explanation(self) -> str | None:
        """Return why pyarrow reads no block; None if it does."""
        reason = self._why_not_quick()
        return None if reason is None else f"one by one, {reason}"

    def read(self, file: BinaryIO, what: FileRange) -> Iterator[Batch]:
        """Yield the rows of the lines in a range."""
        if self.is_transcoded:
            file = transcoded(file, self._charset)
        start, names = self._begin(file, what)
        numbers = LineNumbers(file)
        blocks = row_blocks(
            file, self._grammar, start, what.end, what.block_bytes, is_range=self.can_be_cut()
        )
        for position, block, is_plain in blocks:
            table = self._table(block, names) if is_plain else None
            if table is None:
                if self.block_counts is not None:
                    self.block_counts.in_rows += 1
                rows = self._slow_rows(numbers, what.path, position, block, names)
                yield Batch(position, 0, rows)
                continue
            if self.block_counts is not None:
                self.block_counts.in_columns += 1
                batch: Any = self._column_batch(table)
                yield Batch(position, 0, batch)
                continue
            for before in range(0, table.num_rows, _ROWS_AT_ONCE):
                part = table.slice(before, _ROWS_AT_ONCE)
                yield Batch(position, before, self._rows(part.columns))

    @property
    def _has_header(self) -> bool:
        return self._schema.settings.has_header

    @cached_property
    def _grammar(self) -> CsvGrammar:
        return self._schema.settings.dialect.grammar()

    @cached_property
    def _reader(self) -> CsvRowReader:
        return CsvRowReader(self._schema.row_type, self._schema.settings.dialect)

    def _begin(self, file: BinaryIO, what: FileRange) -> tuple[int, tuple[str, ...]]:
        """Return the offset of the first row, and the names of the columns in the order of a line.

        Raises:
            FormatError: A column is missing, or the header differs from the schema.
        """
        settings = self._schema.settings
        wanted = tuple(self._schema.row_type.get_field_names())
        if what.start > 0 and not settings.reorders_columns:
            return first_row_at(file, what.start) if self.can_be_cut() else what.start, wanted
        if not settings.has_header and not settings.skips_first:
            return 0, wanted
        try:
            start, header = head_of(
                file,
                self._grammar,
                has_header=settings.has_header,
                skips_first=settings.skips_first,
            )
        except Misfit as misfit:
            raise FormatError(f"line 1 of {what.path}: {misfit}") from None
        found = (
            [name.strip() for name in header] if settings.reorders_columns and header else header
        )
        named = f"line 1 of {what.path}: the columns are {found or []}, not {list(wanted)}"
        if settings.is_header_strict and found != list(wanted):
            raise FormatError(named)
        if settings.reorders_columns and found:
            if not set(wanted) <= set(found):
                raise FormatError(named)
            return max(start, what.start), tuple(found)
        return start, wanted

    def _column_batch(self, table: Any) -> ColumnBatch:
        """Convert an Arrow table of one block to a batch."""
        columns = [column.combine_chunks() for column in table.columns]
        found = batch_of_columns(columns, self._schema.row_type)
        assert found is not None, "pyarrow read the columns as their types"
        return found

    def _rows(self, columns: list[Any]) -> list[Row]:
        """Convert Arrow columns to rows."""
        declared = self._schema.row_type
        types = declared.get_field_types()
        values = [column_values(column, kind) for column, kind in zip(columns, types, strict=True)]
        return rows_of_columns(declared.get_field_names(), values)

    def _table(self, block: bytes, names: tuple[str, ...]) -> Any | None:
        """Parse a block by pyarrow; return None if its result may differ from the rules."""
        options = self._options(names)
        if options is None:
            return None
        from pyarrow import ArrowInvalid, BufferReader, compute
        from pyarrow import csv as arrow_csv

        read, parse, convert = options
        read.block_size = len(block) + 1
        try:
            table = arrow_csv.read_csv(BufferReader(block), read, parse, convert)
            if self._whole and _HEXADECIMAL.search(block):
                as_texts = arrow_csv.read_csv(BufferReader(block), read, parse, self._as_texts)
                for name in self._whole:
                    found = compute.match_substring_regex(as_texts[name], r"^[ \t]*-?0[xX]")
                    if compute.any(found).as_py():
                        return None
        except ArrowInvalid:
            return None
        # pyarrow accepts inf and nan in any case, the rules only NaN and Infinity.
        for name in self._fractional:
            if compute.all(compute.is_finite(table[name])).as_py() is False:
                return None
        return table

    @cached_property
    def _whole(self) -> list[str]:
        return self._names_of(_WHOLE)

    @cached_property
    def _fractional(self) -> list[str]:
        return self._names_of((BasicType.FLOAT, BasicType.DOUBLE))

    def _names_of(self, kinds: tuple[BasicType, ...]) -> list[str]:
        declared: Any = self._schema.row_type
        types = zip(declared.get_field_names(), declared.get_field_types(), strict=True)
        return [name for name, kind in types if kind.basic_type in kinds]

    @cached_property
    def _as_texts(self) -> Any:
        """Return the conversion of integer columns to texts."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        types = dict.fromkeys(self._whole, pa.string())
        return arrow_csv.ConvertOptions(column_types=types, include_columns=self._whole)

    @cached_property
    def _made(self) -> dict[tuple[str, ...], Any]:
        """Options of pyarrow, by the columns of a line."""
        return {}

    def _options(self, names: tuple[str, ...]) -> tuple[Any, Any, Any] | None:
        """Return pyarrow's options for columns in this order; None if pyarrow cannot read them."""
        if names not in self._made:
            self._made.clear()
            self._made[names] = self._made_options(names)
        return self._made[names]  # type: ignore[no-any-return]

    def _why_not_quick(self) -> str | None:
        """Return why pyarrow reads no block as the rules say; None if it may."""
        dialect, declared = self._schema.settings.dialect, self._schema.row_type
        if dialect.allows_comments:
            return "as the files may have comments"
        marks = [mark for mark in (dialect.separator, dialect.quote, dialect.escape) if mark]
        if not all(map(str.isascii, marks)):
            return "as a separator, quote or escape character is not ASCII"
        for name, kind in zip(declared.get_field_names(), declared.get_field_types(), strict=True):
            if not (isinstance(kind, BasicTypeInfo) and kind.basic_type in _QUICK):
                return f"as CSV has no column of the field {name!r}"
        return None

    def _made_options(self, names: tuple[str, ...]) -> tuple[Any, Any, Any] | None:
        dialect, declared = self._schema.settings.dialect, self._schema.row_type
        types = declared.get_field_types()
        if self._why_not_quick() is not None or len(set(names)) < len(names):
            return None
        from pyarrow import csv as arrow_csv

        wanted = declared.get_field_names()
        return (
            arrow_csv.ReadOptions(column_names=list(names), use_threads=False),
            arrow_csv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote or False,
                escape_char=dialect.escape or False,
                newlines_in_values=dialect.quote is not None,
                ignore_empty_lines=len(names) > 1,
            ),
            arrow_csv.ConvertOptions(
                column_types={
                    name: arrow_type(kind) for name, kind in zip(wanted, types, strict=True)
                },
                include_columns=wanted,
                null_values=[] if dialect.null is None else [dialect.null],
                strings_can_be_null=dialect.null is not None,
            ),
        )

    def _slow_rows(
        self,
        numbers: LineNumbers,
        path: str,
        position: int,
        block: bytes,
        names: tuple[str, ...],
    ) -> list[Any]:
        """Parse a block line by line; return rows, and placeholders of malformed lines."""
        wanted = self._schema.row_type.get_field_names()
        order = None if list(names) == wanted else [names.index(name) for name in wanted]
        text = block.decode(errors="surrogateescape")
        rows: list[Any] = []
        lines, counted = 0, 0
        for begin, end, row in self._grammar.rows(text):
            if not row and len(names) > 1:
                continue  # an empty line
            try:
                row.encode()  # invalid bytes are surrogates here
                fields = self._grammar.fields(row)
                if order is not None:
                    if max(order) >= len(fields):
                        raise Misfit(f"there are only {len(fields)} fields")
                    fields = [fields[place] for place in order]
                rows.append(self._reader.line(fields))
            except (Misfit, UnicodeEncodeError) as error:
                lines, counted = lines + text.count("\n", counted, begin), begin
                data = text[begin:end].encode(errors="surrogateescape")
                reason = FormatError(_reason(error, data))
                line = numbers.at(position) + lines
                rows.append(malformed(reason, path, line, data, self._policy))
        return rows


def _reason(error: Exception, data: bytes) -> str:
    """Return the reason why a row is malformed; for invalid bytes, the decoder's message."""
    try:
        data.decode()
    except UnicodeDecodeError as undecodable:
        return str(undecodable)
    return str(error)
