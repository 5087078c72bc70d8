"""Conversion of records to Kafka records."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.serialization import SerializationSchema, SimpleStringSchema
from penstock.connectors.change_rows import is_deletion
from penstock.connectors.kafka.partitions import check_topic
from penstock.connectors.kafka.record_key import RecordKey
from penstock.errors import InvalidProgramError, SinkError
from penstock.formats.misfit import note_place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


__all__ = [
    "KafkaProducerRecord",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaTopicSelector",
]


@dataclass(slots=True)
class KafkaProducerRecord:
    """A Kafka record to write to a topic.

    Attributes:
        topic: The topic.
        value: The value; None is a tombstone.
        key: The key, or None.
        headers: Names and values, or None.
        partition: The partition, from 0; None leaves it to the key, or to chance.
        timestamp: Milliseconds since 1970; None for the timestamp of the stream's record.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] | None = None
    partition: int | None = None
    timestamp: int | None = None


class KafkaTopicSelector(ABC):
    """Choose the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


class KafkaRecordSerializationSchema(SerializationSchema):
    """Converts records to Kafka records; created by `builder` or `of`."""

    def __init__(
        self, j_serialization_schema: None = None, topic_selector: KafkaTopicSelector | None = None
    ) -> None:
        """Create a schema; for subclasses.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_serialization_schema is not None:
            requires_jvm(
                "KafkaRecordSerializationSchema(j_serialization_schema)", "use builder() or of()"
            )
        super().__init__()
        self._topic_selector = topic_selector

    def serialize_record(self, element: Any) -> KafkaProducerRecord | None:
        """Return the Kafka record for a record; None to skip it."""
        raise NotImplementedError(f"{type(self).__name__}.serialize_record")

    def key_of_records(self) -> Callable[[Any], Any] | None:
        """Return the key by which change rows are sent to one writer, in order; None for others."""
        return None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder of a schema."""
        return KafkaRecordSerializationSchemaBuilder()

    @staticmethod
    def of(
        function: Callable[[Any], KafkaProducerRecord | None],
    ) -> KafkaRecordSerializationSchema:
        """Serialize with a function that returns Kafka records (beyond PyFlink)."""
        if not callable(function):
            raise InvalidProgramError(f"expected a function of a record, got {function!r}")
        return _OfFunction(function)


@checks_arguments
class KafkaRecordSerializationSchemaBuilder(NoJavaMembers):
    """Builder of a schema from topic, key and value."""

    def __init__(self) -> None:
        """Create a builder without settings."""
        self._topic: str | None = None
        self._selector: Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None
        self._headers: Callable[[Any], Sequence[tuple[str, bytes]]] | None = None
        self._upsert_key: RecordKey | None = None

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema.

        Raises:
            InvalidProgramError: The topic or the value's schema is missing.
        """
        if self._topic is None and self._selector is None:
            raise InvalidProgramError("records need set_topic or set_topic_selector")
        if self._value is None:
            raise InvalidProgramError("records need set_value_serialization_schema")
        if self._upsert_key is None:
            return Composed(self._topic, self._selector, self._key, self._value, self._headers)
        key = self._key or self._upsert_key.as_json()
        return UpsertSchema(
            Composed(self._topic, self._selector, key, self._value, self._headers),
            self._upsert_key,
        )

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Set the topic of all records."""
        check_topic("set_topic", topic)
        self._require_no_topic()
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each record."""
        self._require_no_topic()
        if isinstance(topic_selector, KafkaTopicSelector):
            self._selector = topic_selector.apply
        elif callable(topic_selector):
            self._selector = topic_selector
        else:
            raise InvalidProgramError(
                f"set_topic_selector takes a function or a KafkaTopicSelector: {topic_selector!r}"
            )
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of keys; without it Kafka records have no key."""
        self._key = _schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the schema of values."""
        self._value = _schema(value_serialization_schema)
        return self

    def set_upsert_key(self, *columns: str) -> KafkaRecordSerializationSchemaBuilder:
        """Convert change rows to upserts and tombstones (beyond PyFlink).

        ``+I`` and ``+U`` become records with a key and a value, ``-D`` a record without a value, as
        does ``-U`` unless a row with the same key follows.  The changes of a key are sent to one
        subtask, in order.

        Args:
            columns: The key columns.  Without `set_key_serialization_schema` the key is a JSON
                object of them; with it, the schema receives a row of them.

        Raises:
            InvalidProgramError: There is no column, or one occurs twice.
        """
        self._upsert_key = RecordKey("set_upsert_key", columns)
        return self

    def set_header_provider(
        self, header_provider: Callable[[Any], Sequence[tuple[str, bytes]]]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the provider of headers (beyond PyFlink)."""
        if not callable(header_provider):
            raise InvalidProgramError(f"set_header_provider takes a function: {header_provider!r}")
        self._headers = header_provider
        return self

    def _require_no_topic(self) -> None:
        if self._topic is not None or self._selector is not None:
            raise InvalidProgramError("call one of set_topic and set_topic_selector, once")


class Composed(KafkaRecordSerializationSchema):
    """Schema of a topic, a key and a value."""

    def __init__(
        self,
        topic: str | None,
        selector: Callable[[Any], str] | None,
        key: SerializationSchema | None,
        value: SerializationSchema,
        headers: Callable[[Any], Sequence[tuple[str, bytes]]] | None,
    ) -> None:
        """Create a schema from the settings of `KafkaRecordSerializationSchemaBuilder`."""
        super().__init__(None)
        self._topic = topic
        self._selector = selector
        self._key = key
        self._value = value
        self._headers = headers

    def plain(self) -> tuple[str, Callable[[Any], bytes], Callable[[Any], bytes] | None] | None:
        """Return the topic and the functions for value and key; None if records need more."""
        if self._topic is None or self._headers is not None:
            return None
        key_of = None if self._key is None else _serializer(self._key)
        return self._topic, _serializer(self._value), key_of

    def serialize_record(self, element: Any) -> KafkaProducerRecord:
        """Return the Kafka record for a record."""
        return self.record_of(element, element, is_tombstone=False)

    def record_of(
        self, element: Any, key_element: Any, *, is_tombstone: bool
    ) -> KafkaProducerRecord:
        """Return the Kafka record for a record, with the key of another one.

        Args:
            element: The record.
            key_element: The record for the schema of keys.
            is_tombstone: Whether to omit the value.
        """
        topic = self._topic
        if topic is None:
            assert self._selector is not None
            topic = self._selector(element)
            if not isinstance(topic, str):
                raise SinkError(f"the topic selector must return a topic's name, got {topic!r}")
        try:
            value = None if is_tombstone else self._value.serialize(element)
            key = None if self._key is None else self._key.serialize(key_element)
        except Exception as error:
            note_place(error, f"the topic {topic}")
            raise
        headers = None if self._headers is None else self._headers(element)
        return KafkaProducerRecord(topic, value, key, headers)


class UpsertSchema(KafkaRecordSerializationSchema):
    """Schema that converts change rows to upserts and tombstones.

    Args:
        records: Serializes rows of the key as keys, and rows as values and headers.
        key: Reads the key.
    """

    def __init__(self, records: Composed, key: RecordKey) -> None:
        super().__init__(None)
        self._records = records
        self._key = key

    def key_of_records(self) -> RecordKey:
        """Return the key by which changes stay in order."""
        return self._key

    def serialize_record(self, element: Any) -> KafkaProducerRecord:
        """Return the Kafka record for a row: a tombstone for a deleted and for an old row."""
        return self._records.record_of(
            element, self._key.row(element), is_tombstone=is_deletion(element)
        )


class _OfFunction(KafkaRecordSerializationSchema):
    def __init__(self, function: Callable[[Any], KafkaProducerRecord | None]) -> None:
        super().__init__(None)
        self._function = function

    def serialize_record(self, element: Any) -> KafkaProducerRecord | None:
        """Return the function's result."""
        record = self._function(element)
        if record is not None and not isinstance(record, KafkaProducerRecord):
            raise SinkError(f"the function must return a KafkaProducerRecord, got {record!r}")
        return record


def _serializer(schema: SerializationSchema) -> Callable[[Any], bytes]:
    """Return the serialization, as a built-in function of the interpreter if there is one."""
    if type(schema) is SimpleStringSchema and codecs.lookup(schema.charset).name == "utf-8":
        return str.encode
    return schema.serialize


def _schema(given: Any) -> SerializationSchema:
    if not isinstance(given, SerializationSchema):
        raise InvalidProgramError(f"expected a SerializationSchema, got {given!r}")
    return given
