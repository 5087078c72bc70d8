"""CSV files, parsed in blocks of lines: by pyarrow if possible, otherwise line by line."""

from __future__ import annotations

import codecs
import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.columns.column_batch import batch_of_columns
from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import RowTypeInfo
from penstock.common.serialization import known_charset
from penstock.common.types import Row, rows_of_columns
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.arrow_columns import column_values
from penstock.formats.arrow_types import arrow_library, arrow_type
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.compression import transcoded
from penstock.formats.csv_arrow import ArrowCsvParser
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
    from penstock.datastream.output_tag import OutputTag
    from penstock.formats.csv_grammar import CsvGrammar

#: Types that pyarrow reads by the rules of `CsvRowReader`.
_QUICK: Final = (
    *(BasicType.STRING, BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG),
    *(BasicType.FLOAT, BasicType.DOUBLE),
)

#: Rows that are created at once: few, so that the garbage collector has little to traverse.
_ROWS_AT_ONCE: Final = 1024


class CsvReaderFormat(CompiledSchema, StreamFormat[Row]):
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
        parser = self._parser(names)
        return None if parser is None else parser.table(block)

    @cached_property
    def _parsers(self) -> dict[tuple[str, ...], ArrowCsvParser | None]:
        """The last parser, by the columns of a line."""
        return {}

    def _parser(self, names: tuple[str, ...]) -> ArrowCsvParser | None:
        """Return the parser of columns in this order; None if pyarrow cannot read them."""
        if names not in self._parsers:
            self._parsers.clear()
            self._parsers[names] = self._new_parser(names)
        return self._parsers[names]

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

    def _new_parser(self, names: tuple[str, ...]) -> ArrowCsvParser | None:
        if self._why_not_quick() is not None or len(set(names)) < len(names):
            return None
        dialect, declared = self._schema.settings.dialect, self._schema.row_type
        types = map(arrow_type, declared.get_field_types())
        return ArrowCsvParser(
            names,
            dict(zip(declared.get_field_names(), types, strict=True)),
            separator=dialect.separator,
            quote=dialect.quote,
            escape=dialect.escape,
            null=dialect.null,
            has_quoted_lines=dialect.quote is not None,
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
