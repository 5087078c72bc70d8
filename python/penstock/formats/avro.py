"""Avro: conversions between records and rows."""

from __future__ import annotations

import io
import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.composite_types import PickledBytesTypeInfo
from penstock.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    DeserializationSchema,
    SerializationSchema,
)
from penstock.common.types import Row
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.avro_library import avro_library
from penstock.formats.avro_types import AvroTypes
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.misfit import Misfit, shown_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from penstock.common.typeinfo import TypeInformation


__all__ = [
    "AvroBulkWriters",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


@checks_arguments
class AvroSchema(CompiledSchema, NoJavaMembers):
    """An Avro schema; it needs the extra ``penstock-engine[avro]``."""

    def __init__(self, json_schema: str) -> None:
        """Parse a schema; see `parse_string`."""
        self._json = json_schema
        self._types  # noqa: B018 (reports an invalid schema now)

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Parse the JSON of a schema.

        Raises:
            InvalidProgramError: The text is not a schema.
            DependencyError: fastavro is not installed.
        """
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Parse a file with the JSON of a schema.

        Raises:
            InvalidProgramError: The file cannot be read, or does not contain a schema.
            DependencyError: fastavro is not installed.
        """
        try:
            text = Path(file_path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProgramError(f"AvroSchema.parse_file: {file_path}: {error}") from None
        return AvroSchema(text)

    @property
    def parsed(self) -> Any:
        """The schema as fastavro parses it."""
        return self._types.parsed

    @property
    def type_info(self) -> TypeInformation:
        """The type of the schema's values."""
        return self._types.type_info

    @property
    def types(self) -> AvroTypes:
        """Return the conversions between Avro's values and those of the type."""
        return self._types

    def __str__(self) -> str:
        return self._json

    @cached_property
    def _types(self) -> AvroTypes:
        library = avro_library("AvroSchema")
        try:
            return AvroTypes(library.parse_schema(json.loads(self._json)))
        except (
            LookupError,
            TypeError,
            ValueError,
            library.schema.SchemaParseException,
            library.schema.UnknownType,
        ) as error:
            raise InvalidProgramError(f"not an Avro schema: {error!r}") from None


class GenericRecordAvroTypeInfo(PickledBytesTypeInfo):
    """Type of records of an Avro schema, as dictionaries or rows; AvroBulkWriters accepts it.

    Records are serialised like those without a declared type; their schema is checked when they are
    written.
    """

    def __init__(self, schema: AvroSchema) -> None:
        """Create the type of a schema's records.

        Raises:
            InvalidProgramError: The argument is not a schema.
        """
        super().__init__()
        given: Any = schema
        if not isinstance(given, AvroSchema):
            raise InvalidProgramError(
                f"GenericRecordAvroTypeInfo takes an AvroSchema, got {schema!r}"
            )
        self._schema = schema

    def __eq__(self, o: object) -> bool:
        """Return whether the other is the type of the same schema's records."""
        return isinstance(o, GenericRecordAvroTypeInfo) and str(self._schema) == str(o._schema)

    __hash__ = PickledBytesTypeInfo.__hash__

    def __repr__(self) -> str:
        """Return the name with the schema."""
        return f"GenericRecordAvroTypeInfo({self._schema})"


class AvroBulkWriters:
    """Writers of Avro's files, for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, codec: str = "null") -> BulkWriterFactory:
        """Return writers of a schema's records: rows, dictionaries or tuples.

        Args:
            schema: The schema.
            codec: The compression of blocks, by fastavro's name: ``null``, ``deflate``, ``bzip2``,
                ``xz``; others need a package (beyond PyFlink).

        Raises:
            InvalidProgramError: The schema is invalid, or the codec is unavailable.
        """
        given: Any = schema
        if not isinstance(given, AvroSchema):
            raise InvalidProgramError(f"for_generic_record takes an AvroSchema, got {schema!r}")
        _check_codec(codec)
        return _AvroWriters(schema, codec)


def _check_codec(codec: str) -> None:
    """Compress a block: only then does a codec report a missing package."""
    library = avro_library("AvroBulkWriters")
    try:
        writer = library.write.Writer(io.BytesIO(), library.parse_schema("null"), codec=codec)
        writer.write(None)
        writer.flush()
    except (TypeError, ValueError) as error:
        raise InvalidProgramError(
            "AvroBulkWriters.for_generic_record: codec must be null, deflate, bzip2, xz, or one "
            f"whose package is installed, got {codec!r}: {error}"
        ) from None


class _AvroWriters(BulkWriterFactory):
    can_be_concatenated = False

    def __init__(self, schema: AvroSchema, codec: str) -> None:
        super().__init__()
        self._schema = schema
        self._codec = codec

    def create(self, file: BinaryIO) -> BulkWriter:
        """Return the writer of one file."""
        return _AvroWriter(self._schema, self._codec, file)


class _AvroWriter(BulkWriter):
    def __init__(self, schema: AvroSchema, codec: str, file: BinaryIO) -> None:
        self._schema = schema
        library = avro_library("AvroBulkWriters")
        # The writer ends blocks by their size, and never needs the position of the file.
        self._writer = library.write.Writer(file, schema.parsed, codec=codec)

    def add_element(self, element: Any) -> None:
        """Write a record."""
        try:
            self._writer.write(self._schema.types.writable(element))
        except Misfit as misfit:
            raise FormatError(
                f"{self._schema.types.unwritten(element) or misfit}; the row is {element!r:.200}"
            ) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FormatError(
                f"{self._schema.types.unwritten(element) or error}; the row is {element!r:.200}"
            ) from error

    def flush(self) -> None:
        """Write the buffered records."""
        self._writer.flush()

    def finish(self) -> None:
        """Write the remaining records."""
        self._writer.flush()


class AvroRowDeserializationSchema(CompiledSchema, DeserializationSchema[Row]):
    """Deserialises records in Avro's binary form, without a header, as rows."""

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        """Create a schema for an Avro schema's records.

        Raises:
            JvmOnlyError: A Java class was passed.
            InvalidProgramError: The schema is invalid.
            DependencyError: fastavro is not installed.
        """
        super().__init__()
        self._schema = _schema_of("AvroRowDeserializationSchema", record_class, avro_schema_string)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the schema."""
        return self._schema.type_info

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a record.

        Raises:
            FormatError: The message is not a record of the schema.
        """
        if message is None:
            return None
        return self._convert(read_record(message, 0, self._read, self._schema.parsed))

    @cached_property
    def _read(self) -> Callable[..., Any]:
        reader: Callable[..., Any] = avro_library(type(self).__name__).schemaless_reader
        return reader

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        return self._schema.types.reader()


class AvroRowSerializationSchema(CompiledSchema, SerializationSchema):
    """Serialises rows in Avro's binary form, without a header; dictionaries and tuples are rows."""

    def __init__(
        self, record_class: str | None = None, avro_schema_string: str | None = None
    ) -> None:
        """Create a schema for an Avro schema's records.

        Raises:
            JvmOnlyError: A Java class was passed.
            InvalidProgramError: The schema is invalid.
            DependencyError: fastavro is not installed.
        """
        super().__init__()
        self._schema = _schema_of("AvroRowSerializationSchema", record_class, avro_schema_string)

    def serialize(self, element: Any) -> bytes:
        """Return the record of a row.

        Raises:
            FormatError: A field does not fit.
        """
        stream = io.BytesIO()
        try:
            self._write(stream, self._schema.parsed, self._schema.types.writable(element))
        except Misfit as misfit:
            raise FormatError(
                f"{self._schema.types.unwritten(element) or misfit}; the row is {element!r:.200}"
            ) from None
        except Exception as error:
            raise FormatError(
                f"{self._schema.types.unwritten(element) or error}; the row is {element!r:.200}"
            ) from error
        return stream.getvalue()

    @cached_property
    def _write(self) -> Callable[..., None]:
        writer: Callable[..., None] = avro_library(type(self).__name__).schemaless_writer
        return writer


def read_record(message: bytes, begin: int, read: Callable[..., Any], *schemas: Any) -> Any:
    """Return the value of the record that fills the rest of a message.

    Args:
        message: The message.
        begin: The offset of the record.
        read: fastavro's reader.
        schemas: The writer's schema, and the reader's if it differs.

    Raises:
        FormatError: The bytes are not such a record.
    """
    stream = io.BytesIO(message)
    stream.seek(begin)
    try:
        value = read(stream, *schemas)
    except Exception as error:
        stream.seek(begin)
        reason = f"{field_unread(schemas[0], stream)}{type(error).__name__}: {error}"
    else:
        left = len(message) - stream.tell()
        if not left:
            return value
        reason = f"{left} bytes follow the record"
    raise FormatError(f"{reason}; the Avro is {shown_bytes(message)}")


def field_unread(parsed: Any, stream: BinaryIO) -> str:
    """Return the field of a record that cannot be read, as the prefix of a message."""
    path = AvroTypes(parsed).unread(stream)
    return f"the field {'.'.join(path)!r}: " if path else ""


def _schema_of(
    used_by: str, record_class: str | None, avro_schema_string: str | None
) -> AvroSchema:
    if record_class is not None:
        requires_jvm(f"{used_by}(record_class)", "pass avro_schema_string")
    if avro_schema_string is None:
        raise InvalidProgramError("record_class or avro_schema_string should be specified.")
    return AvroSchema(avro_schema_string)
