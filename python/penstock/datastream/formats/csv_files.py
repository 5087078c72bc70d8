"""CSV files, a block of lines at a time: by pyarrow where it can, else line by line."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.composite_types import RowTypeInfo
from penstock.common.types import rows_of_columns
from penstock.datastream.formats.arrow_types import arrow_library, arrow_type, column_values
from penstock.datastream.formats.compiled_schema import CompiledSchema
from penstock.datastream.formats.csv_rows import CsvRowReader
from penstock.datastream.formats.csv_schema import CsvSchema
from penstock.datastream.formats.dead_letters import Policy
from penstock.datastream.formats.file_format import Batch, FileRange
from penstock.datastream.formats.lines import LineNumbers, StreamFormat, line_blocks, malformed
from penstock.datastream.formats.misfit import Misfit
from penstock.errors import FormatError, InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row
    from penstock.datastream.output_tag import OutputTag

#: What pyarrow reads as the rules of `CsvRowReader` do.
_WHOLE: Final = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)
_QUICK: Final = (BasicType.STRING, *_WHOLE, BasicType.FLOAT, BasicType.DOUBLE)

#: Where pyarrow may see a whole number, and the rules none.
_HEXADECIMAL: Final = re.compile(rb"0[xX]")

#: Rows that are made at once: with few enough the garbage collector has nothing to look through.
_ROWS_AT_ONCE: Final = 1024


class CsvReaderFormat(CompiledSchema, StreamFormat):
    """Rows of the lines of CSV files; made by `for_schema`.  It needs pyarrow.

    A file is read by one subtask, for a quoted text may hold ends of lines; without a quote
    character large files are cut.
    """

    def __init__(self, j_csv_format: None = None) -> None:
        """Makes a format; use `for_schema`.

        Raises:
            JvmOnlyError: A Java format was passed.
        """
        super().__init__(j_csv_format)
        self._schema = CsvSchema(RowTypeInfo([]), CsvSchema.builder()._settings)
        self._policy = Policy()

    @staticmethod
    def for_schema(
        schema: CsvSchema,
        *,
        skip_malformed: bool = False,
        dead_letters: OutputTag | None = None,
    ) -> CsvReaderFormat:
        """Reads the columns of a schema.

        Args:
            schema: The columns, and how they stand in a line.
            skip_malformed: Whether to leave out lines that are malformed (beyond PyFlink);
                otherwise one fails the job.
            dead_letters: The side output that takes such lines (beyond PyFlink).

        Raises:
            InvalidProgramError: It is no schema, CSV has no form of a type, or both policies are
                given.
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
        assert made._reader is not None
        return made

    def can_be_cut(self) -> bool:
        """Whether an end of a line is the end of a row wherever it stands."""
        return self._schema.settings.dialect.quote is None and not self._by_header

    def get_produced_type(self) -> TypeInformation:
        """The row of the columns."""
        return self._schema.row_type

    def read(self, file: BinaryIO, what: FileRange) -> Iterator[Batch]:
        """The rows of the lines of a range."""
        order = self._header(file, what)
        numbers = LineNumbers(file)
        for position, block, is_closed in self._blocks(file, what):
            table = self._table(block) if is_closed and order is None else None
            if table is None:
                rows = self._slow_rows(numbers, what.path, position, block, order)
                yield Batch(position, 0, rows)
                continue
            for before in range(0, table.num_rows, _ROWS_AT_ONCE):
                part = table.slice(before, _ROWS_AT_ONCE)
                yield Batch(position, before, self._rows(part.columns))

    @property
    def _by_header(self) -> bool:
        return self._schema.settings.has_header

    @cached_property
    def _reader(self) -> CsvRowReader:
        return CsvRowReader(self._schema.row_type, self._schema.settings.dialect)

    def _header(self, file: BinaryIO, what: FileRange) -> list[int] | None:
        """Reads what comes before rows; where the columns stand if that is not as in the schema.

        Leaves the file at the first line of rows, if the range begins with the file.

        Raises:
            FormatError: A column is not there, or the header is not that of the schema.
        """
        settings = self._schema.settings
        if not (settings.has_header or (settings.skips_first and what.start == 0)):
            return None
        file.seek(0)
        header = b""
        if settings.has_header:
            header = _first_line(file)
            while self._turns(header) and (more := _first_line(file)):  # a name of several lines
                header += more
        if settings.skips_first:
            _first_line(file)
        line = header.decode(errors="replace")
        if not line.strip():
            return None
        wanted = self._schema.row_type.get_field_names()
        found = [name.strip() for name in settings.dialect.split(line.removeprefix("\ufeff"))[0]]
        if found == wanted:
            return None
        missing = [name for name in wanted if name not in found]
        if settings.is_header_strict or missing:
            raise FormatError(f"line 1 of {what.path}: the columns are {found}, not {wanted}")
        return [found.index(name) for name in wanted]

    def _blocks(self, file: BinaryIO, what: FileRange) -> Iterator[tuple[int, bytes, bool]]:
        """Blocks of whole rows, and whether all quotes are closed in them."""
        settings = self._schema.settings
        is_behind_others = what.start == 0 and (settings.has_header or settings.skips_first)
        if is_behind_others:
            what = what._replace(start=file.tell())
            if what.start == 0:
                return
        first, rest, is_closed = 0, list[bytes](), True
        for position, block in line_blocks(file, what, is_at_line=is_behind_others):
            first = first if rest else position
            if position == 0:  # as a header is read, of which it is no part
                block = block.removeprefix(BOM_UTF8)
            rest.append(block)
            is_closed ^= self._turns(block)
            if is_closed:
                yield first, b"".join(rest), True
                rest = []
        if rest:
            yield first, b"".join(rest), False

    def _rows(self, columns: list[Any]) -> list[Row]:
        """The rows of Arrow's columns."""
        declared = self._schema.row_type
        types = declared.get_field_types()
        values = [column_values(column, kind) for column, kind in zip(columns, types, strict=True)]
        return rows_of_columns(declared.get_field_names(), values)

    def _table(self, block: bytes) -> Any | None:
        """A block by pyarrow; None where it cannot say what the rules say."""
        options = self._quick
        if options is None or any(found(block) for found in self._doubts):
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
        # It takes inf and nan in any case, the rules NaN and Infinity alone.
        for name in self._fractional:
            if compute.all(compute.is_finite(table[name])).as_py() is False:
                return None
        return table

    @cached_property
    def _doubts(self) -> list[Callable[[bytes], Any]]:
        """What finds in a block that pyarrow reads in another way than the rules."""
        dialect, doubts = self._schema.settings.dialect, []
        if dialect.quote is not None:
            # One that neither begins nor ends a text; most blocks have none at all.
            quote, separator = (re.escape(c.encode()) for c in (dialect.quote, dialect.separator))
            others = b"[^" + separator + quote + b"\r\n]"
            # Begins with the quote, which is found quickly, and looks behind it in the end.
            stray = re.compile(quote + others + b"(?<=" + others + quote + others + b")").search
            own = dialect.quote.encode()
            doubts.append(lambda block: own in block and stray(block))
        if dialect.escape is not None:
            escaped_end = re.compile(re.escape(dialect.escape.encode()) + b"[\r\n]").search
            doubts.append(escaped_end)
        return doubts

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
        """What makes texts of the columns of whole numbers."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        types = dict.fromkeys(self._whole, pa.string())
        return arrow_csv.ConvertOptions(column_types=types, include_columns=self._whole)

    @cached_property
    def _quick(self) -> tuple[Any, Any, Any] | None:
        dialect, declared = self._schema.settings.dialect, self._schema.row_type
        types = declared.get_field_types()
        if dialect.allows_comments or not all(
            isinstance(kind, BasicTypeInfo) and kind.basic_type in _QUICK for kind in types
        ):
            return None
        from pyarrow import csv as arrow_csv

        names = declared.get_field_names()
        return (
            arrow_csv.ReadOptions(column_names=names, use_threads=False),
            arrow_csv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote or False,
                escape_char=dialect.escape or False,
                newlines_in_values=dialect.quote is not None,
            ),
            arrow_csv.ConvertOptions(
                column_types={
                    name: arrow_type(kind) for name, kind in zip(names, types, strict=True)
                },
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
        order: list[int] | None,
    ) -> list[Any]:
        """The rows of a block line by line, and what becomes of lines that are none."""
        rows: list[Any] = []
        for number, text in self._texts(block):
            try:
                for fields in self._schema.settings.dialect.split(text.decode()):
                    if order is not None:
                        if max(order) >= len(fields):
                            raise Misfit(f"there are only {len(fields)} fields")
                        fields = [fields[place] for place in order]
                    rows.append(self._reader.row(fields))
            except (Misfit, UnicodeDecodeError) as error:
                line = numbers.at(position) + number
                reason = FormatError(str(error))
                rows.append(malformed(reason, path, line, text, self._policy))
        return rows

    def _texts(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        """The texts of rows, each with the number of lines before it."""
        first, text, is_closed = 0, list[bytes](), True
        for number, line in enumerate(block.splitlines(keepends=True)):
            first = first if text else number
            text.append(line)
            is_closed ^= self._turns(line)
            if is_closed:
                yield first, b"".join(text)
                text = []
        if text:
            yield first, b"".join(text)

    def _turns(self, lines: bytes) -> bool:
        """Whether whole lines open a quoted text that they do not close, or close such a one.

        Then the number of their quotes is odd, those that are escaped left out.
        """
        dialect = self._schema.settings.dialect
        if dialect.quote is None:
            return False
        if dialect.escape is not None:
            lines = lines.replace(dialect.escape.encode() * 2, b"")
            lines = lines.replace((dialect.escape + dialect.quote).encode(), b"")
        return lines.count(dialect.quote.encode()) % 2 == 1


def _first_line(file: BinaryIO) -> bytes:
    r"""The next line with its end, ``\n``, ``\r\n`` or ``\r``; the file stands behind it then."""
    start, line = file.tell(), file.readline()
    end = line.find(b"\r")
    if end >= 0 and line[end + 1 : end + 2] != b"\n":
        line = line[: end + 1]
        file.seek(start + len(line))
    return line
