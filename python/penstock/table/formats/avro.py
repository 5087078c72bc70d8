"""avro, avro-confluent and debezium-avro-confluent: messages in Avro's binary form."""

from __future__ import annotations

import io
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.avro import AvroSchema, read_record
from penstock.formats.avro_library import avro_library
from penstock.formats.avro_registry import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.formats.avro_types import AvroMapping
from penstock.table.formats.row_format import ALL_KINDS, KindedRow, RowFormat
from penstock.table.options.connector_options import OptionSpec, boolean, choice, text
from penstock.table.plan.nodes import ADDED, DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class AvroFormat(RowFormat):
    """Records of the table's schema, without a header."""

    identifier = "avro"
    is_text = False
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "codec": OptionSpec(text),
        "encoding": OptionSpec(choice("binary"), "binary"),
        "timestamp_mapping.legacy": OptionSpec(boolean, True),
    }

    def __init__(self, row_type: types.RowType, options: Mapping[str, Any]) -> None:
        super().__init__(row_type, options)
        self._mapping = AvroMapping(row_type, is_legacy=options["timestamp_mapping.legacy"])
        self._schema = AvroSchema(self._mapping.schema_text)

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the row of a record."""
        read = avro_library("avro").schemaless_reader
        record = read_record(message, 0, read, self._schema.parsed)
        return ((INSERT, self._mapping.row(record)),)

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the record of a row.

        Raises:
            FormatError: A value does not fit.
        """
        del kind
        stream = io.BytesIO()
        try:
            avro_library("avro").schemaless_writer(
                stream, self._schema.parsed, self._mapping.record(row)
            )
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FormatError(f"the row {row!r:.200} is not a record of Avro: {error}") from error
        return stream.getvalue()


_REGISTRY_OPTIONS: dict[str, OptionSpec] = {
    "url": OptionSpec(text),
    "subject": OptionSpec(text),
    "schema": OptionSpec(text),
    "schema-registry.url": OptionSpec(text),
    "schema-registry.subject": OptionSpec(text),
    "basic-auth.credentials-source": OptionSpec(choice("USER_INFO")),
    "basic-auth.user-info": OptionSpec(text),
    "bearer-auth.credentials-source": OptionSpec(choice("STATIC_TOKEN")),
    "bearer-auth.token": OptionSpec(text),
    "timestamp_mapping.legacy": OptionSpec(boolean, True),
}


class _RegistryFormat(RowFormat):
    """Records with the id of their schema in a registry as a prefix."""

    options: ClassVar[Mapping[str, OptionSpec]] = _REGISTRY_OPTIONS
    is_text = False

    def __init__(self, row_type: types.RowType, options: Mapping[str, Any]) -> None:
        super().__init__(row_type, options)
        self._url = options["url"] or options["schema-registry.url"]
        if self._url is None:
            raise ValidationException(
                f"Missing required options of format '{self.identifier}': url"
            )
        self._subject = options["subject"] or options["schema-registry.subject"]
        self._mapping = AvroMapping(
            self._record_type(row_type), is_legacy=options["timestamp_mapping.legacy"]
        )
        self._schema = self._declared(options["schema"] or self._mapping.schema_text)
        try:
            self._reader = ConfluentRegistryAvroDeserializationSchema.for_generic(
                self._schema, self._url, headers=self._headers
            )
        except InvalidProgramError as error:
            raise ValidationException(f"Format '{self.identifier}': {error}") from error

    def _record_type(self, row_type: types.RowType) -> types.RowType:
        """Return the type of the records in messages."""
        return row_type

    def _declared(self, schema: str) -> AvroSchema:
        try:
            return AvroSchema(schema)
        except InvalidProgramError as error:
            raise ValidationException(
                f"Invalid value for option 'schema' of format '{self.identifier}': {error}"
            ) from error

    @property
    def _headers(self) -> dict[str, str] | None:
        user, token = self.values["basic-auth.user-info"], self.values["bearer-auth.token"]
        if user is not None:
            import base64

            return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
        return None if token is None else {"Authorization": f"Bearer {token}"}

    @cached_property
    def _writer(self) -> ConfluentRegistryAvroSerializationSchema:
        if self._subject is None:
            raise FormatError(
                f"the format '{self.identifier}' writes with the option 'subject': the name of the "
                "schema in the registry"
            )
        return ConfluentRegistryAvroSerializationSchema.for_generic(
            self._subject, self._schema, self._url, headers=self._headers
        )

    def _record(self, message: bytes) -> Any:
        return self._reader.read_value(message)

    def _message(self, row: Sequence[Any]) -> bytes:
        return self._writer.write_value(self._mapping.record(row))


class AvroConfluentFormat(_RegistryFormat):
    """Rows as records with a schema in a registry."""

    identifier = "avro-confluent"

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the row of a record."""
        return ((INSERT, self._mapping.row(self._record(message))),)

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the record of a row."""
        del kind
        return self._message(row)


class DebeziumAvroConfluentFormat(_RegistryFormat):
    """Changes in Debezium's form, as records with a schema in a registry."""

    identifier = "debezium-avro-confluent"
    kinds_read = ALL_KINDS
    kinds_written = ALL_KINDS

    def _record_type(self, row_type: types.RowType) -> types.RowType:
        part = row_type.nullable()
        return types.RowType(
            [
                types.RowField("before", part),
                types.RowField("after", part),
                types.RowField("op", types.DataTypes.STRING()),
            ]
        )

    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the rows of a change; none for an empty message, the tombstone after a delete."""
        if not message:
            return ()
        before, after, operation = self._mapping.row(self._record(message))
        if operation in ("c", "r"):
            return ((INSERT, after),)
        if operation in ("u", "d") and before is None:
            raise FormatError(
                f"a change of the kind {operation!r} has no 'before': set REPLICA IDENTITY FULL"
            )
        if operation == "u":
            return ((UPDATE_BEFORE, before), (UPDATE_AFTER, after))
        if operation == "d":
            return ((DELETE, before),)
        raise FormatError(f"the operation {operation!r} is unknown")

    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the change of a row: an update is encoded as a delete and a creation."""
        if kind in ADDED:
            return self._message((None, row, "c"))
        return self._message((row, None, "d"))
