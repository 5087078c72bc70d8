"""csv: one row a line, with fields separated by a delimiter, as in Flink's CSV format."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.values.number_text import double_text, float_text
from penstock.errors import FormatError
from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.formats import scalar_text
from penstock.table.formats.csv_columns import CsvColumns
from penstock.table.formats.row_format import KindedRow, RowFormat
from penstock.table.options.connector_options import OptionSpec, boolean, character, text
from penstock.table.plan.nodes import INSERT

if TYPE_CHECKING:
    import decimal
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

#: Longer texts are quoted unconditionally, as Jackson does.
_LONGEST_PLAIN = 24


class CsvFormat(RowFormat):
    """Rows as lines of CSV."""

    identifier = "csv"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "field-delimiter": OptionSpec(character, ","),
        "quote-character": OptionSpec(character, '"'),
        "disable-quote-character": OptionSpec(boolean, False),
        "allow-comments": OptionSpec(boolean, False),
        "ignore-parse-errors": OptionSpec(boolean, False),
        "array-element-delimiter": OptionSpec(text, ";"),
        "escape-character": OptionSpec(character, None),
        "null-literal": OptionSpec(text, None),
        "write-bigdecimal-in-scientific-notation": OptionSpec(boolean, True),
    }

    def __init__(self, row_type: types.RowType, options: Mapping[str, Any]) -> None:
        super().__init__(row_type, options)
        self._quote = None if options["disable-quote-character"] else options["quote-character"]
        self._delimiter: str = options["field-delimiter"]
        self._skips = options["ignore-parse-errors"]
        self._null: str | None = options["null-literal"]
        self._between: str = options["array-element-delimiter"]
        self._escape: str | None = options["escape-character"]
        self._names = row_type.field_names()
        self._readers = [self._reader(kind) for kind in row_type.field_types()]
        self._writers = [self._writer(kind) for kind in row_type.field_types()]
        self._wanted = [True] * len(self._names)
        bound = [self._delimiter, "\n", *([self._quote] if self._quote else [])]
        self._least_plain = max(map(ord, bound)) + 1
        self._columns = self._columns_of(range(len(self._names)))

    def with_columns(self, positions: Sequence[int]) -> CsvFormat:
        """Return a format that parses some of the columns; others are None in its rows."""
        made = CsvFormat(self.row_type, self.values)
        made._wanted = [i in positions for i in range(len(self._names))]
        made._columns = made._columns_of(positions)
        return made

    def _columns_of(self, positions: Sequence[int]) -> CsvColumns:
        return CsvColumns(
            self.row_type,
            positions,
            separator=self._delimiter,
            quote=self._quote,
            null=self._null,
        )

    # Reading ----------------------------------------------------------------------------------

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the row of a line; none for a comment or a skipped line."""
        try:
            line = message.removeprefix(BOM_UTF8).decode()
            if self.values["allow-comments"] and line.startswith("#"):
                return ()
            fields = next(csv.reader([line], **self._dialect()), [""])
            if len(fields) > len(self._names):
                raise ValueError(f"{len(fields)} fields for {len(self._names)} columns")
        except (ValueError, csv.Error) as error:
            if self._skips:
                return ()
            raise FormatError(f"Invalid CSV {message!r:.200}: {error}") from None
        fields = fields or [""]
        return ((INSERT, self._values(fields, message)),)

    def why_not_in_columns(self) -> str | None:
        """Return which option or column only the row reader reads; None without one."""
        if self._escape is not None or self.values["allow-comments"]:
            return "as the table has an escape character or comments"
        return self._columns.why_not()

    def columns(self, messages: Sequence[bytes]) -> list[pa.Array] | None:
        """Return the columns of lines whose fields have the plain spelling of their types."""
        return self._columns.read(messages)

    def _dialect(self) -> dict[str, Any]:
        return {
            "delimiter": self._delimiter,
            "quotechar": self._quote,
            "quoting": csv.QUOTE_NONE if self._quote is None else csv.QUOTE_MINIMAL,
            "escapechar": self._escape,
            "strict": True,
        }

    def _values(self, fields: list[str], message: bytes) -> list[Any]:
        values: list[Any] = []
        for i, read in enumerate(self._readers):
            if i >= len(fields) or not self._wanted[i] or fields[i] == self._null:
                values.append(None)
                continue
            try:
                values.append(read(fields[i]))
            except ValueError as error:
                if not self._skips:
                    raise FormatError(
                        f"Invalid value for column `{self._names[i]}` in CSV {message!r:.200}: "
                        f"{error}"
                    ) from None
                values.append(None)
        return values

    def _reader(self, data_type: types.DataType) -> Callable[[str], Any]:
        match data_type:
            case types.TimestampType():
                return scalar_text.timestamp_of
            case types.LocalZonedTimestampType():
                return scalar_text.instant_of
            case types.MultisetType() | types.MapType():
                raise ValidationException(f"The format 'csv' has no {data_type.summary()}")
            case types.ArrayType():
                return partial(self._read_array, self._reader(data_type.element_type))
            case types.RowType():
                readers = [self._reader(field.data_type) for field in data_type]
                return partial(self._read_row, readers)
        read = scalar_text.READERS.get(type(data_type))
        if read is None:
            raise ValidationException(f"The format 'csv' has no {data_type.summary()}")
        return lambda given: read(given, data_type)

    def _read_array(self, read: Callable[[str], Any], given: str) -> list[Any]:
        parts = given.split(self._between) if given else []
        return [None if part == self._null else read(part) for part in parts]

    def _read_row(self, readers: list[Callable[[str], Any]], given: str) -> tuple[Any, ...]:
        parts = given.split(self._between)
        if len(parts) != len(readers):
            raise ValueError(f"{len(parts)} parts of a row of {len(readers)} fields")
        pairs = zip(readers, parts, strict=True)
        return tuple(None if part == self._null else read(part) for read, part in pairs)

    # Writing ----------------------------------------------------------------------------------

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the line of a row."""
        del kind
        null = self._null or ""
        fields = [
            null if value is None else write(value)
            for write, value in zip(self._writers, row, strict=True)
        ]
        return self._delimiter.join(fields).encode()

    def _writer(self, data_type: types.DataType) -> Callable[[Any], str]:
        match data_type:
            case types.FloatType():
                return float_text
            case types.DoubleType():
                return double_text
            case types.IntegralType():
                return str
            case types.BooleanType():
                return lambda value: str(value).lower()
            case types.DecimalType():
                return self._decimal
        plain = self._plain_writer(data_type)
        return lambda value: self._quoted(plain(value))

    def _decimal(self, value: decimal.Decimal) -> str:
        if self.values["write-bigdecimal-in-scientific-notation"]:
            return scalar_text.decimal_text(value)
        return f"{value:f}"

    def _plain_writer(self, data_type: types.DataType) -> Callable[[Any], str]:
        match data_type:
            case types.TimestampType():
                return scalar_text.timestamp_text
            case types.LocalZonedTimestampType():
                return lambda value: f"{scalar_text.timestamp_text(value)}Z"
            case types.TimeType():
                return scalar_text.time_text
            case types.BinaryType() | types.VarBinaryType():
                return scalar_text.base64_text
            case types.MultisetType() | types.MapType():
                raise ValidationException(f"The format 'csv' has no {data_type.summary()}")
            case types.ArrayType():
                write = self._part_writer(data_type.element_type)
                return lambda values: self._between.join(map(write, values))
            case types.RowType():
                writers = [self._part_writer(field.data_type) for field in data_type]
                return lambda row: self._between.join(
                    write(value) for write, value in zip(writers, row, strict=True)
                )
        return str

    def _part_writer(self, data_type: types.DataType) -> Callable[[Any], str]:
        simple = isinstance(data_type, (types.NumericType, types.BooleanType))
        write = self._writer(data_type) if simple else self._plain_writer(data_type)
        return lambda value: (self._null or "") if value is None else write(value)

    def _quoted(self, given: str) -> str:
        """Quote a text as Jackson does: long ones, and those with special characters."""
        quote = self._quote
        if quote is None:
            return given
        if self._escape is not None:
            given = given.replace(self._escape, self._escape * 2)
        if len(given) <= _LONGEST_PLAIN and all(ord(c) >= self._least_plain for c in given):
            return given
        doubled = quote * 2 if self._escape is None else self._escape + quote
        return f"{quote}{given.replace(quote, doubled)}{quote}"
