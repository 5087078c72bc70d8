"""Records of Kafka as records."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any

from penstock.common.composite_types import as_type_information
from penstock.common.jvm import requires_jvm
from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SimpleStringSchema,
    message_type,
)
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

__all__ = ["KafkaRecordDeserializationSchema"]


class KafkaRecordDeserializationSchema(DeserializationSchema):
    """Makes records of whole records: value, key, headers, topic, partition, offset, time."""

    def __init__(self, j_deserialization_schema: None = None) -> None:
        """Create a schema; subclasses say how.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_deserialization_schema is not None:
            requires_jvm("KafkaRecordDeserializationSchema(j_deserialization_schema)", "use of()")
        super().__init__()

    def deserialize_record(self, record: Any) -> Any:
        """The record of a record.

        Args:
            record: A ``confluent_kafka.Message``: its methods ``value``, ``key``, ``headers``,
                ``topic``, ``partition``, ``offset`` and ``timestamp`` tell what it holds.
        """
        raise NotImplementedError(f"{type(self).__name__}.deserialize_record")

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the elements, None when it is not declared."""
        return None

    @staticmethod
    def value_only(
        deserialization_schema: DeserializationSchema,
    ) -> KafkaRecordDeserializationSchema:
        """Records of the values; a record without value (a tombstone) gives none."""
        if isinstance(deserialization_schema, KafkaRecordDeserializationSchema):
            return deserialization_schema
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise InvalidProgramError(
                f"expected a DeserializationSchema, got {deserialization_schema!r}"
            )
        return ValueOnly(deserialization_schema)

    @staticmethod
    def of(
        function: Callable[[Any], Any], type_info: TypeInformation | None = None
    ) -> KafkaRecordDeserializationSchema:
        """Records that a function makes of records, see `deserialize_record`.

        Args:
            function: Takes a record; what it returns is the record.
            type_info: The type of the elements.
        """
        if not callable(function):
            raise InvalidProgramError(f"expected a function of a record, got {function!r}")
        if type_info is not None:
            type_info = as_type_information(type_info, "KafkaRecordDeserializationSchema.of")
        return _OfFunction(function, type_info)


class ValueOnly(KafkaRecordDeserializationSchema):
    """Records of the values alone."""

    def __init__(self, schema: DeserializationSchema) -> None:
        """Leaves the values to another schema."""
        super().__init__()
        self.schema = schema

    def deserialize_record(self, record: Any) -> Any:
        """The record of the record's value."""
        return self.schema.deserialize(record.value())

    def get_produced_type(self) -> TypeInformation | None:
        """Text for SimpleStringSchema; else what the schema says, if it does."""
        return message_type(self.schema)


def builtin_decoder(schema: DeserializationSchema) -> Callable[[bytes], Any] | None:
    """A function of the interpreter's own that does what the schema does; None without any."""
    if type(schema) is ByteArraySchema:
        return bytes
    if type(schema) is SimpleStringSchema and codecs.lookup(schema.charset).name == "utf-8":
        return bytes.decode
    return None


class _OfFunction(KafkaRecordDeserializationSchema):
    def __init__(self, function: Callable[[Any], Any], type_info: TypeInformation | None) -> None:
        super().__init__()
        self._type_info = type_info
        self._function = function

    def deserialize_record(self, record: Any) -> Any:
        """Return the record that the function makes."""
        return self._function(record)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the declared type."""
        return self._type_info
