"""Conversion of Kafka records to records."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.common.basic_types import VALUE
from penstock.common.calls.jvm import requires_jvm
from penstock.common.composite_types import as_type_information
from penstock.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    SimpleStringSchema,
    message_type,
)
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.typeinfo import TypeInformation

__all__ = ["KafkaRecordDeserializationSchema"]

T = TypeVar("T")


class KafkaRecordDeserializationSchema(DeserializationSchema[VALUE]):
    """Converts whole Kafka records: value, key, headers, topic, partition, offset, time."""

    def __init__(self, j_deserialization_schema: None = None) -> None:
        """Create a schema; for subclasses.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_deserialization_schema is not None:
            requires_jvm("KafkaRecordDeserializationSchema(j_deserialization_schema)", "use of()")
        super().__init__()

    def deserialize_record(self, record: Any) -> VALUE | None:
        """Return the record for a Kafka record.

        Args:
            record: A ``confluent_kafka.Message``: its methods ``value``, ``key``, ``headers``,
                ``topic``, ``partition``, ``offset`` and ``timestamp`` return its parts.
        """
        raise NotImplementedError(f"{type(self).__name__}.deserialize_record")

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records, or None if it is not declared."""
        return None

    @staticmethod
    def value_only(
        deserialization_schema: DeserializationSchema[T],
    ) -> KafkaRecordDeserializationSchema[T]:
        """Deserialize the values only; a Kafka record without a value (a tombstone) is skipped."""
        if isinstance(deserialization_schema, KafkaRecordDeserializationSchema):
            return deserialization_schema
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise InvalidProgramError(
                f"expected a DeserializationSchema, got {deserialization_schema!r}"
            )
        return ValueOnly(deserialization_schema)

    @staticmethod
    def of(
        function: Callable[[Any], T | None], type_info: TypeInformation | None = None
    ) -> KafkaRecordDeserializationSchema[T]:
        """Deserialize with a function, see `deserialize_record`.

        Args:
            function: Returns the record for a Kafka record.
            type_info: The type of the records.
        """
        if not callable(function):
            raise InvalidProgramError(f"expected a function of a record, got {function!r}")
        if type_info is not None:
            type_info = as_type_information(type_info, "KafkaRecordDeserializationSchema.of")
        return _OfFunction(function, type_info)


class ValueOnly(KafkaRecordDeserializationSchema[VALUE]):
    """Schema that deserializes the values only."""

    def __init__(self, schema: DeserializationSchema[VALUE]) -> None:
        """Create a schema that passes the values to another one."""
        super().__init__()
        self.schema = schema

    def deserialize_record(self, record: Any) -> VALUE | None:
        """Return the record for the Kafka record's value."""
        return self.schema.deserialize(record.value())

    def get_produced_type(self) -> TypeInformation | None:
        """Return text for SimpleStringSchema; else the type that the schema declares, if any."""
        return message_type(self.schema)


class Blocks:
    """Converts blocks of Kafka records, in one reader."""

    def taken(self, records: list[Any]) -> Any:
        """Return the data of some Kafka records that `elements` needs; the records are dropped."""
        raise NotImplementedError(f"{type(self).__name__}.taken")

    def elements(self, taken: list[Any]) -> Iterable[Any]:
        """Return the records for consecutive Kafka records of one partition.

        Args:
            taken: The results of `taken`, in the order of the Kafka records.
        """
        raise NotImplementedError(f"{type(self).__name__}.elements")


class BlockSchema(KafkaRecordDeserializationSchema):
    """Schema whose records stand for many Kafka records each; they have no timestamps."""

    def blocks(self, metrics: Any) -> Blocks:
        """Return the converter of one reader.

        Args:
            metrics: The group in which it registers its metrics.
        """
        raise NotImplementedError(f"{type(self).__name__}.blocks")


def builtin_decoder(schema: DeserializationSchema) -> Callable[[bytes], Any] | None:
    """Return the interpreter's built-in function that is equivalent to the schema, or None."""
    if type(schema) is ByteArraySchema:
        return bytes
    if type(schema) is SimpleStringSchema and codecs.lookup(schema.charset).name == "utf-8":
        return bytes.decode
    return None


class _OfFunction(KafkaRecordDeserializationSchema[VALUE]):
    def __init__(
        self, function: Callable[[Any], VALUE | None], type_info: TypeInformation | None
    ) -> None:
        super().__init__()
        self._type_info = type_info
        self._function = function

    def deserialize_record(self, record: Any) -> VALUE | None:
        """Return the function's result."""
        return self._function(record)

    def get_produced_type(self) -> TypeInformation | None:
        """Return the declared type."""
        return self._type_info
