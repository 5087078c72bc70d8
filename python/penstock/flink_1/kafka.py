"""FlinkKafkaConsumer and FlinkKafkaProducer, built on KafkaSource and KafkaSink."""

from __future__ import annotations

import logging
import uuid
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from penstock.common.basic_types import VALUE
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.connectors.base import DeliveryGuarantee
from penstock.connectors.kafka.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink import KafkaSink
from penstock.connectors.kafka.source import KafkaSource
from penstock.datastream.functions.source_sink import SinkFunction, SourceFunction
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.flink_1 import say_once

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from penstock.common.typeinfo import TypeInformation
    from penstock.connectors.kafka.partitions import KafkaTopicPartition

__all__ = ["FlinkKafkaConsumer", "FlinkKafkaProducer", "Semantic"]

logger = logging.getLogger(__name__)

_DISCOVERY: Final = "flink.partition-discovery.interval-millis"
_NO_DISCOVERY: Final = "-1"
_OF_THE_CONNECTOR: Final = "flink."
"""Prefix of the former connector's own properties."""

_RESETS: Final = {
    "earliest": KafkaOffsetResetStrategy.EARLIEST,
    "latest": KafkaOffsetResetStrategy.LATEST,
    "none": KafkaOffsetResetStrategy.NONE,
}


class FlinkKafkaConsumerBase(SourceFunction[VALUE]):
    """Common part of the consumers of all Kafka versions."""

    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema[VALUE],
        properties: Mapping[str, Any],
    ) -> None:
        """Create a source that starts at the offsets of its consumer group.

        Args:
            topics: A topic, or several.
            deserialization_schema: Converts the values of Kafka records.
            properties: Properties of Kafka's consumer; at least ``bootstrap.servers``.

        Raises:
            WrongArgumentError: The schema is invalid.
        """
        say_once("FlinkKafkaConsumer", "use KafkaSource, by KafkaSource.builder()")
        given: Any = deserialization_schema
        if not isinstance(given, DeserializationSchema):
            raise WrongArgumentError(
                f"{type(self).__name__} takes a DeserializationSchema, got {given!r}"
            )
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._schema = deserialization_schema
        self._properties = _texts(properties, type(self).__name__)
        self._starting: KafkaOffsetsInitializer | None = None
        self._commits = True

    def set_start_from_earliest(self) -> Self:
        """Start at the first records."""
        self._starting = KafkaOffsetsInitializer.earliest()
        return self

    def set_start_from_latest(self) -> Self:
        """Start after the records that exist when the job starts."""
        self._starting = KafkaOffsetsInitializer.latest()
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Start at the first records with this timestamp, in ms since 1970, or a later one."""
        self._starting = KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp)
        return self

    def set_start_from_group_offsets(self) -> Self:
        """Start at the consumer group's offsets, else as ``auto.offset.reset`` says."""
        self._starting = None
        return self

    def set_start_from_specific_offsets(
        self, specific_startup_offsets: Mapping[KafkaTopicPartition, int]
    ) -> Self:
        """Start at these offsets, and in other partitions as ``auto.offset.reset`` says."""
        offsets = dict(specific_startup_offsets)
        self._starting = KafkaOffsetsInitializer.offsets(offsets, self._reset_strategy())
        return self

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Set whether the consumer group's offsets are committed with each checkpoint."""
        self._commits = commit_on_checkpoints
        return self

    def disable_filter_restored_partitions_with_subscribed_topics(self) -> Self:
        """Change nothing: partitions of a checkpoint are always resumed."""
        return self

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records."""
        return self._as_source().get_produced_type()

    def _as_source(self) -> KafkaSource[VALUE]:
        properties = {
            key: value
            for key, value in self._properties.items()
            if not key.startswith(_OF_THE_CONNECTOR) and key != "auto.offset.reset"
        }
        properties.setdefault(
            "partition.discovery.interval.ms", self._properties.get(_DISCOVERY, _NO_DISCOVERY)
        )
        has_group = "group.id" in properties
        if has_group:
            properties["commit.offsets.on.checkpoint"] = str(self._commits).lower()
        builder = KafkaSource.builder().set_properties(properties).set_topics(*self._topics)
        builder.set_value_only_deserializer(self._schema)
        builder.set_starting_offsets(self._starting or self._of_group(has_group=has_group))
        return builder.build()

    def _of_group(self, *, has_group: bool) -> KafkaOffsetsInitializer:
        strategy = self._reset_strategy()
        if has_group:
            return KafkaOffsetsInitializer.committed_offsets(strategy)
        if strategy is KafkaOffsetResetStrategy.EARLIEST:
            return KafkaOffsetsInitializer.earliest()
        if strategy is KafkaOffsetResetStrategy.LATEST:
            return KafkaOffsetsInitializer.latest()
        raise InvalidProgramError(
            f"{type(self).__name__} with auto.offset.reset none needs the property group.id"
        )

    def _reset_strategy(self) -> KafkaOffsetResetStrategy:
        text = self._properties.get("auto.offset.reset", "latest").lower()
        if text not in _RESETS:
            raise InvalidProgramError(
                f"the property auto.offset.reset is earliest, latest or none, got {text!r}"
            )
        return _RESETS[text]


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """Reads topics; use KafkaSource."""


FlinkKafkaConsumer010 = FlinkKafkaConsumer011 = FlinkKafkaConsumer


class Semantic(Enum):
    """Guarantee of a FlinkKafkaProducer; the values are PyFlink's."""

    EXACTLY_ONCE = (0,)
    AT_LEAST_ONCE = (1,)
    NONE = 2


class FlinkKafkaProducerBase(SinkFunction):
    """Common part of the producers of all Kafka versions."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, Any],
        kafka_producer_pool_size: int = 5,  # noqa: ARG002 - a transaction has its own producer
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        """Create a sink whose subtasks write to one partition each.

        Args:
            topic: The topic.
            serialization_schema: Converts records to values.
            producer_config: Properties of Kafka's producer; at least ``bootstrap.servers``.
            kafka_producer_pool_size: Without effect.
            semantic: The guarantee after failures.

        Raises:
            WrongArgumentError: The schema or the semantic is invalid.
        """
        say_once("FlinkKafkaProducer", "use KafkaSink, by KafkaSink.builder()")
        given: Any = serialization_schema
        if not isinstance(given, SerializationSchema):
            raise WrongArgumentError(
                f"{type(self).__name__} takes a SerializationSchema, got {given!r}"
            )
        given = semantic
        if not isinstance(given, Semantic):
            raise WrongArgumentError(f"{type(self).__name__} takes a Semantic, got {given!r}")
        self._topic = topic
        self._schema = serialization_schema
        self._properties = _texts(producer_config, type(self).__name__)
        self._semantic = semantic
        self._writes_timestamps = False

    def set_log_failures_only(self, log_failures_only: bool) -> Self:
        """Reject True: the job must not continue after a record that could not be written.

        Raises:
            InvalidProgramError: The argument is True.
        """
        if log_failures_only:
            raise InvalidProgramError(
                "set_log_failures_only(True) would lose records: a KafkaSink fails the job where "
                "one could not be written; leave the call out"
            )
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> Self:
        """Set whether checkpoints wait for the brokers; without this there is no guarantee."""
        if not flush_on_checkpoint:
            self._semantic = Semantic.NONE
        elif self._semantic is Semantic.NONE:
            self._semantic = Semantic.AT_LEAST_ONCE
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> Self:
        """Set whether Kafka records get the timestamps of the records, or the time of the write."""
        self._writes_timestamps = write_timestamp_to_kafka
        return self

    def ignore_failures_after_transaction_timeout(self) -> Self:
        """Change nothing: a timed-out transaction is reported once and not retried."""
        return self

    def _as_sink(self) -> KafkaSink:
        builder = KafkaSink.builder().set_properties(self._properties)
        records = KafkaRecordSerializationSchema.builder().set_topic(self._topic)
        builder.set_record_serializer(records.set_value_serialization_schema(self._schema).build())
        builder.set_delivery_guarantee(DeliveryGuarantee[self._semantic.name])
        if self._semantic is Semantic.EXACTLY_ONCE:
            prefix = f"{self._topic}-{uuid.uuid4().hex}"
            builder.set_transactional_id_prefix(prefix)
            logger.warning(
                "the transactions of FlinkKafkaProducer to %s have the prefix %s, which another "
                "start of the program does not know: write KafkaSink with "
                "set_transactional_id_prefix",
                self._topic,
                prefix,
            )
        sink = builder.build()
        sink.has_fixed_partitions = True
        sink.writes_timestamps = self._writes_timestamps
        return sink


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes records of a topic; use KafkaSink."""


FlinkKafkaProducer010 = FlinkKafkaProducer011 = FlinkKafkaProducer


def _texts(properties: Mapping[str, Any], where: str) -> dict[str, str]:
    given: Any = properties
    if not hasattr(given, "items"):
        raise WrongArgumentError(f"{where} takes a dictionary of properties, got {given!r}")
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in properties.items()
    }
