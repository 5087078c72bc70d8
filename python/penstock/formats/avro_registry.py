"""Avro with a schema registry: records with the id of their schema as a prefix."""

from __future__ import annotations

import io
import json
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.avro import AvroRowSerializationSchema, AvroSchema, read_record
from penstock.formats.avro_library import avro_library
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.misfit import shown_bytes
from penstock.formats.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.typeinfo import TypeInformation

__all__ = [
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
]

_HEADER: Final = struct.Struct(">bI")


@checks_arguments
class ConfluentRegistryAvroDeserializationSchema(CompiledSchema, DeserializationSchema):
    """Deserialises records, written with any version of a schema, as rows (beyond PyFlink)."""

    def __init__(self, schema: AvroSchema, registry: SchemaRegistry) -> None:
        """Create a schema; use `for_generic`."""
        super().__init__()
        self._schema = schema
        self._registry = registry

    @staticmethod
    def for_generic(
        schema: AvroSchema,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_retries: int = 5,
        retry_delay_ms: int = 500,
        timeout_ms: int = 10_000,
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Return a schema to which Avro's rules resolve the writers' schemas.

        Args:
            schema: The schema of the rows.
            url: The registry, ``http://user:password@host:8081`` or ``https://…``.
            headers: Headers of each request.
            max_retries: Number of retries of a request while the registry is unavailable.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of a response.

        Raises:
            InvalidProgramError: An argument is invalid.
        """
        registry = SchemaRegistry(url, headers, max_retries, retry_delay_ms, timeout_ms)
        return ConfluentRegistryAvroDeserializationSchema(_checked(schema), registry)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the schema."""
        return self._schema.type_info

    def deserialize(self, message: bytes | None) -> Any:
        """Return the row of a record.

        Raises:
            FormatError: The message is not a record, or its schema does not fit.
            SourceError: The registry refuses, or is unreachable for too long.
        """
        return None if message is None else self._convert(self.read_value(message))

    def read_value(self, message: bytes) -> Any:
        """Return the value of a record as fastavro reads it, with the fields of the schema.

        Raises:
            FormatError: The message is not a record, or its schema does not fit.
            SourceError: The registry refuses, or is unreachable for too long.
        """
        try:
            magic, number = _HEADER.unpack_from(message)
        except struct.error:
            magic, number = -1, 0
        if magic != 0:
            raise FormatError(
                "the message does not begin with a zero byte and a schema id of four bytes, as "
                f"records of a schema registry do; it is {shown_bytes(message)}"
            )
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = self._parsed(self._registry.schema(number), {})
        try:
            return read_record(message, _HEADER.size, self._read, writer, self._schema.parsed)
        except FormatError as error:
            raise FormatError(f"{error}; the schema is {number}") from error.__cause__

    def _parsed(self, found: dict[str, Any], named: dict[str, Any]) -> Any:
        """Parse a schema of the registry, with the schemas that it refers to."""
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise FormatError(f"a schema of the kind {kind} wrote the record, not one of Avro")
        for reference in found.get("references") or ():
            answer = self._registry.version(reference["subject"], reference["version"])
            self._parsed(answer, named)
        try:
            schema = json.loads(found["schema"])
            return avro_library(type(self).__name__).parse_schema(schema, named)
        except Exception as error:
            raise FormatError(
                f"the schema of the registry is not an Avro schema: {error!r}"
            ) from error

    @cached_property
    def _writers(self) -> dict[int, Any]:
        return {}

    @cached_property
    def _read(self) -> Callable[..., Any]:
        reader: Callable[..., Any] = avro_library(type(self).__name__).schemaless_reader
        return reader

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        return self._schema.types.reader()


@checks_arguments
class ConfluentRegistryAvroSerializationSchema(CompiledSchema, SerializationSchema):
    """Serialises rows, with the registry's id of their schema as a prefix (beyond PyFlink)."""

    def __init__(self, subject: str, schema: AvroSchema, registry: SchemaRegistry) -> None:
        """Create a schema; use `for_generic`."""
        super().__init__()
        self._subject = subject
        self._records = AvroRowSerializationSchema(avro_schema_string=str(schema))
        self._schema = schema
        self._registry = registry

    @staticmethod
    def for_generic(
        subject: str,
        schema: AvroSchema,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        max_retries: int = 5,
        retry_delay_ms: int = 500,
        timeout_ms: int = 10_000,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Return a schema that is registered with the first record.

        Args:
            subject: The registry's name for the schema and its versions, as ``orders-value``.
            schema: The schema.
            url: As for `ConfluentRegistryAvroDeserializationSchema.for_generic`, like the rest.
            headers: Headers of each request.
            max_retries: Number of retries of a request while the registry is unavailable.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of a response.

        Raises:
            InvalidProgramError: An argument is invalid.
        """
        given: Any = subject
        if not isinstance(given, str) or not given:
            raise InvalidProgramError(f"for_generic takes the name of a subject, got {subject!r}")
        registry = SchemaRegistry(url, headers, max_retries, retry_delay_ms, timeout_ms)
        return ConfluentRegistryAvroSerializationSchema(subject, _checked(schema), registry)

    def serialize(self, element: Any) -> bytes:
        """Return the record of a row.

        Raises:
            FormatError: A field does not fit.
            SourceError: The registry refuses the schema, or is unreachable for too long.
        """
        return self._header + self._records.serialize(element)

    def write_value(self, value: Any) -> bytes:
        """Return the record of a value in fastavro's form.

        Raises:
            FormatError: A field does not fit.
            SourceError: The registry refuses the schema, or is unreachable for too long.
        """
        stream = io.BytesIO()
        try:
            self._records._write(stream, self._schema.parsed, value)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FormatError(f"{value!r:.200} is not a record of the schema: {error}") from error
        return self._header + stream.getvalue()

    @cached_property
    def _header(self) -> bytes:
        return _HEADER.pack(0, self._registry.register(self._subject, str(self._schema)))


def _checked(schema: Any) -> AvroSchema:
    if not isinstance(schema, AvroSchema):
        raise InvalidProgramError(f"for_generic takes an AvroSchema, got {schema!r}")
    return schema
