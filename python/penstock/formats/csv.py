"""CSV: conversions between lines and rows."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.composite_types import RowTypeInfo, as_type_information
from penstock.common.record_types import RecordTypeInfo, as_row_type
from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    DeserializationSchema,
    RowDataBulkWriterFactory,
    SerializationSchema,
)
from penstock.common.values.record_reading import RecordReader
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.csv_rows import CsvDialect, CsvRowReader, CsvRowWriter
from penstock.formats.csv_schema import CsvSchema, not_empty
from penstock.formats.misfit import Misfit, shown_bytes

if TYPE_CHECKING:
    from typing import BinaryIO

    from penstock.common.typeinfo import TypeInformation
    from penstock.formats.csv_grammar import CsvGrammar

RECORD = TypeVar("RECORD")

__all__ = [
    "CsvBulkWriters",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
]


class CsvBulkWriters:
    """Writers of CSV files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> BulkWriterFactory:
        """Return writers of rows in a schema's format, after a header if it has one.

        Raises:
            InvalidProgramError: The argument is not a schema, or CSV cannot represent a type.
        """
        given: Any = schema
        if not isinstance(given, CsvSchema):
            raise InvalidProgramError(f"for_schema takes a CsvSchema, got {schema!r}")
        CsvRowWriter(schema.row_type, schema.settings.dialect)
        return _CsvWriters(schema)


class _CsvWriters(RowDataBulkWriterFactory):
    def __init__(self, schema: CsvSchema) -> None:
        super().__init__(None, schema.row_type)
        self._schema = schema
        self.can_be_concatenated = not schema.settings.has_header

    def create(self, file: BinaryIO) -> BulkWriter:
        """Return the writer of one file."""
        return _CsvWriter(self._schema, file)


class _CsvWriter(BulkWriter):
    def __init__(self, schema: CsvSchema, file: BinaryIO) -> None:
        dialect = schema.settings.dialect
        self._file = file
        self._writer = CsvRowWriter(schema.row_type, dialect)
        if schema.settings.has_header:
            names = map(self._writer.quoted, self._writer.names)
            file.write(f"{dialect.separator.join(names)}{dialect.line_end}".encode())

    def add_element(self, element: Any) -> None:
        """Write the line of a row."""
        try:
            self._file.write(self._writer.line(element).encode())
        except Misfit as misfit:
            raise FormatError(f"{misfit}; the row is {element!r:.200}") from misfit.__cause__
        except UnicodeEncodeError as error:
            raise FormatError(f"{error}; the row is {element!r:.200}") from error

    def flush(self) -> None:
        """Do nothing: lines are not buffered."""

    def finish(self) -> None:
        """Do nothing: lines are not buffered."""


class CsvRowDeserializationSchema(CompiledSchema, DeserializationSchema[VALUE]):
    """Deserialises a line of CSV, in UTF-8, as a row; created by its `Builder`.

    As in Flink, blanks around a field other than a text are ignored, every text except ``true`` is
    False, and an empty field that is not a text is a misfit without ``set_null_literal("")``.
    """

    def __init__(self, j_deserialization_schema: None = None) -> None:
        """Create a schema; use `Builder`.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_deserialization_schema is not None:
            requires_jvm("CsvRowDeserializationSchema(…)", "use its Builder(type_info)")
        super().__init__()
        self._type_info: TypeInformation = RowTypeInfo([])
        self._dialect = CsvDialect()
        self._ignores_errors = False

    def get_produced_type(self) -> TypeInformation:
        """Return the declared row."""
        return self._type_info

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a line; None for a comment, and for a malformed line if it is ignored.

        Raises:
            FormatError: The line has another number of fields, or a field does not fit.
        """
        if message is None:
            return None
        try:
            lines = [row for _, _, row in self._grammar.rows(message.decode()) if row]
            if len(lines) == 1:
                row = self._reader.row(self._grammar.fields(lines[0]))
                return row if self._as_record is None else self._as_record(row)
            if not lines and self._dialect.allows_comments and message.lstrip().startswith(b"#"):
                return None
            reason: Exception = Misfit("it is empty" if not lines else "it has several lines")
        except (Misfit, FormatError, ValueError) as error:
            reason = error
        if self._ignores_errors:
            return None
        raise FormatError(f"{reason}; the CSV is {shown_bytes(message)}") from None

    @cached_property
    def _grammar(self) -> CsvGrammar:
        return self._dialect.grammar()

    @cached_property
    def _reader(self) -> CsvRowReader:
        declared = as_row_type(self._type_info)
        return CsvRowReader(declared, self._dialect, misfits_are_none=self._ignores_errors)

    @cached_property
    def _as_record(self) -> RecordReader | None:
        declared = self._type_info
        return RecordReader(declared) if isinstance(declared, RecordTypeInfo) else None

    @checks_arguments
    class Builder(NoJavaMembers, Generic[RECORD]):
        """Builder of the schema."""

        def __init__(self, type_info: TypeInformation[RECORD]) -> None:
            """Create a builder with Flink's defaults.

            Args:
                type_info: The type of the rows, with a field for each column.  The type of a
                    class, ``Types.of(Click)``, creates instances of it (beyond PyFlink).

            Raises:
                InvalidProgramError: The type is not a row.
            """
            _row_type(as_row_type(type_info))
            self._type_info = as_type_information(type_info, "Builder")
            self._dialect = CsvDialect()
            self._ignores_errors = False

        def set_field_delimiter(
            self, delimiter: str
        ) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Set the separator of fields; ``,`` by default."""
            self._dialect.separator = _character("set_field_delimiter", delimiter)
            return self

        def set_allow_comments(
            self, allow_comments: bool
        ) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Set whether lines that begin with ``#`` are skipped."""
            self._dialect.allows_comments = allow_comments
            return self

        def set_array_element_delimiter(
            self, delimiter: str
        ) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Set the separator of the elements of arrays and nested rows; ``;`` by default."""
            self._dialect.array_separator = not_empty("set_array_element_delimiter", delimiter)
            return self

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Set the quote of texts with delimiters in them; a double quote by default."""
            self._dialect.quote = _character("set_quote_character", c)
            return self

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Set the escape before literal characters; none by default."""
            self._dialect.escape = _character("set_escape_character", c)
            return self

        def set_null_literal(
            self, null_literal: str
        ) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Set the text that represents None; unset by default."""
            self._dialect.null = null_literal
            return self

        def set_ignore_parse_errors(
            self, ignore_parse_errors: bool
        ) -> CsvRowDeserializationSchema.Builder[RECORD]:
            """Read a field that does not fit as None, and skip malformed lines."""
            self._ignores_errors = ignore_parse_errors
            return self

        def build(self) -> CsvRowDeserializationSchema[RECORD]:
            """Return the schema.

            Raises:
                InvalidProgramError: CSV cannot represent the type.
            """
            schema: CsvRowDeserializationSchema[RECORD] = CsvRowDeserializationSchema()
            schema._type_info = self._type_info
            schema._dialect = copy(self._dialect)
            schema._ignores_errors = self._ignores_errors
            assert schema._reader is not None
            return schema


class CsvRowSerializationSchema(CompiledSchema, SerializationSchema):
    """Serialises a row as a line of CSV in UTF-8; created by its `Builder`."""

    def __init__(self, j_csv_row_serialization_schema: None = None) -> None:
        """Create a schema; use `Builder`.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_csv_row_serialization_schema is not None:
            requires_jvm("CsvRowSerializationSchema(…)", "use its Builder(type_info)")
        super().__init__()
        self._type_info = RowTypeInfo([])
        self._dialect = CsvDialect()

    def serialize(self, element: Any) -> bytes:
        """Return the line of a row, with its end.

        Raises:
            FormatError: A field does not fit.
        """
        try:
            return self._writer.line(element).encode()
        except Misfit as misfit:
            raise FormatError(f"{misfit}; the row is {element!r:.200}") from misfit.__cause__
        except UnicodeEncodeError as error:
            raise FormatError(f"{error}; the row is {element!r:.200}") from error

    @cached_property
    def _writer(self) -> CsvRowWriter:
        return CsvRowWriter(self._type_info, self._dialect)

    @checks_arguments
    class Builder(NoJavaMembers):
        """Builder of the schema."""

        def __init__(self, type_info: TypeInformation) -> None:
            """Create a builder with Flink's defaults.

            Raises:
                InvalidProgramError: The type is not a row.
            """
            self._type_info = _row_type(as_row_type(type_info))
            self._dialect = CsvDialect()

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the separator of fields; ``,`` by default."""
            self._dialect.separator = _character("set_field_delimiter", c)
            return self

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the end of each line; a line feed by default.

            Raises:
                InvalidProgramError: It is not a line feed, CR, CR LF or empty.
            """
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise InvalidProgramError(
                    f"set_line_delimiter takes a line feed, CR, CR LF or '', got {delimiter!r}"
                )
            self._dialect.line_end = delimiter
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the separator of the elements of arrays and nested rows; ``;`` by default."""
            self._dialect.array_separator = not_empty("set_array_element_delimiter", delimiter)
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Write texts unquoted, even with delimiters in them."""
            self._dialect.quote = None
            return self

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the quote of texts with delimiters in them; a double quote by default."""
            self._dialect.quote = _character("set_quote_character", c)
            return self

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the escape, which precedes itself within texts; quotes are always doubled."""
            self._dialect.escape = _character("set_escape_character", c)
            return self

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that represents None; unset by default."""
            self._dialect.null = s
            return self

        def build(self) -> CsvRowSerializationSchema:
            """Return the schema.

            Raises:
                InvalidProgramError: CSV cannot represent the type.
            """
            schema = CsvRowSerializationSchema()
            schema._type_info = self._type_info
            schema._dialect = copy(self._dialect)
            assert schema._writer is not None
            return schema


def _row_type(given: Any) -> RowTypeInfo:
    if given is None:
        raise InvalidProgramError("Type information must not be None")
    declared = as_type_information(given, "Builder")
    if not isinstance(declared, RowTypeInfo):
        raise InvalidProgramError(f"CSV lines represent rows, not {declared!r}")
    return declared


def _character(method: str, given: str) -> str:
    if len(given) != 1:
        raise InvalidProgramError(f"{method} takes one character, got {given!r}")
    return given
