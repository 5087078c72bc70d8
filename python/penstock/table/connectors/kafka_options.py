"""Options of Kafka tables, and the source and sink that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import (
    OptionSpec,
    choice,
    duration_ms,
    integer,
    positive,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

_PREFIX: Final = "properties."

KAFKA_OPTIONS: Final[dict[str, OptionSpec]] = {
    "topic": OptionSpec(text),
    "topic-pattern": OptionSpec(text),
    "key.fields": OptionSpec(text, ""),
    "key.fields-prefix": OptionSpec(text, ""),
    "value.fields-include": OptionSpec(choice("ALL", "EXCEPT_KEY"), "ALL"),
    "scan.startup.mode": OptionSpec(
        choice(
            "earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"
        ),
        "group-offsets",
    ),
    "scan.startup.specific-offsets": OptionSpec(text),
    "scan.startup.timestamp-millis": OptionSpec(integer),
    "scan.bounded.mode": OptionSpec(
        choice("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        "unbounded",
    ),
    "scan.bounded.specific-offsets": OptionSpec(text),
    "scan.bounded.timestamp-millis": OptionSpec(integer),
    "scan.topic-partition-discovery.interval": OptionSpec(duration_ms),
    "scan.parallelism": OptionSpec(positive),
    "sink.partitioner": OptionSpec(choice("default"), "default"),
    "sink.delivery-guarantee": OptionSpec(
        choice("at-least-once", "exactly-once", "none"), "at-least-once"
    ),
    "sink.transactional-id-prefix": OptionSpec(text),
}
"""The options of ``kafka``."""

UPSERT_OPTIONS: Final[dict[str, OptionSpec]] = {
    "topic": OptionSpec(text, is_required=True),
    "key.fields-prefix": OptionSpec(text, ""),
    "value.fields-include": KAFKA_OPTIONS["value.fields-include"],
    "scan.bounded.mode": KAFKA_OPTIONS["scan.bounded.mode"],
    "scan.bounded.specific-offsets": OptionSpec(text),
    "scan.bounded.timestamp-millis": OptionSpec(integer),
    "scan.parallelism": OptionSpec(positive),
    "sink.delivery-guarantee": KAFKA_OPTIONS["sink.delivery-guarantee"],
    "sink.transactional-id-prefix": OptionSpec(text),
}
"""The options of ``upsert-kafka``, which reads from the earliest record."""


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    return {
        key.removeprefix(_PREFIX): value
        for key, value in options.items()
        if key.startswith(_PREFIX)
    }


def kafka_source(
    options: Mapping[str, str],
    values: Mapping[str, Any],
    schema: KafkaRecordDeserializationSchema,
) -> Any:
    """Return the source that the options of a table describe.

    Args:
        options: The options.
        values: The parsed values.
        schema: Converts Kafka records.

    Raises:
        ValidationException: An option of the start or end position is missing.
    """
    from penstock.connectors.kafka.source import KafkaSource

    properties = _properties(options)
    builder = KafkaSource.builder()
    builder.set_bootstrap_servers(properties.pop("bootstrap.servers"))
    group = properties.pop("group.id", None)
    if group is not None:
        builder.set_group_id(group)
    if values["topic"] is not None:
        builder.set_topics(*[topic.strip() for topic in values["topic"].split(";")])
    else:
        builder.set_topic_pattern(values["topic-pattern"])
    builder.set_starting_offsets(_start(values, properties))
    if values["scan.bounded.mode"] != "unbounded":
        builder.set_bounded(_offsets("scan.bounded", values["scan.bounded.mode"], values))
    interval_ms = values.get("scan.topic-partition-discovery.interval")
    if interval_ms is not None:
        builder.set_property("partition.discovery.interval.ms", str(interval_ms))
    builder.set_properties(properties)
    return builder.set_deserializer(schema).build()


def _start(values: Mapping[str, Any], properties: dict[str, str]) -> Any:
    from penstock.connectors.kafka.offsets import (
        KafkaOffsetResetStrategy,
        KafkaOffsetsInitializer,
    )

    mode = values.get("scan.startup.mode", "earliest-offset")
    if mode == "earliest-offset":
        return KafkaOffsetsInitializer.earliest()
    if mode == "group-offsets":
        reset = properties.pop("auto.offset.reset", "none").upper()
        strategy = KafkaOffsetResetStrategy.__members__.get(reset, KafkaOffsetResetStrategy.NONE)
        return KafkaOffsetsInitializer.committed_offsets(strategy)
    return _offsets("scan.startup", mode, values)


def _offsets(prefix: str, mode: str, values: Mapping[str, Any]) -> Any:
    from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer

    if mode == "latest-offset":
        return KafkaOffsetsInitializer.latest()
    if mode == "group-offsets":
        return KafkaOffsetsInitializer.committed_offsets()
    if mode == "timestamp":
        timestamp = values[f"{prefix}.timestamp-millis"]
        if timestamp is None:
            raise ValidationException(
                f"'{prefix}.timestamp-millis' is required in '{mode}' mode but missing"
            )
        return KafkaOffsetsInitializer.timestamp(timestamp)
    given = values[f"{prefix}.specific-offsets"]
    if given is None:
        raise ValidationException(
            f"'{prefix}.specific-offsets' is required in '{mode}' mode but missing"
        )
    return KafkaOffsetsInitializer.offsets(specific_offsets(prefix, given, values["topic"]))


def specific_offsets(prefix: str, given: str, topic: str | None) -> dict[Any, int]:
    """Parse a text such as ``partition:0,offset:42;…`` to the offsets by partition.

    Raises:
        ValidationException: The text is malformed, or there is more than one topic.
    """
    from penstock.connectors.kafka.partitions import KafkaTopicPartition

    if topic is None or ";" in topic:
        raise ValidationException(f"'{prefix}.specific-offsets' needs exactly one topic")
    found: dict[Any, int] = {}
    for part in given.split(";"):
        pairs = dict(pair.split(":", 1) for pair in part.split(",") if ":" in pair)
        try:
            partition, offset = int(pairs["partition"]), int(pairs["offset"])
        except (KeyError, ValueError):
            raise ValidationException(
                f"Invalid value '{given}' for '{prefix}.specific-offsets': expected "
                "'partition:0,offset:42;partition:1,offset:300'"
            ) from None
        found[KafkaTopicPartition(topic, partition)] = offset
    return found


def kafka_sink(options: Mapping[str, str], values: Mapping[str, Any]) -> Any:
    """Return the sink that the options of a table describe; its records are producer records.

    Raises:
        ValidationException: Exactly-once requires a prefix of transactional ids.
    """
    from penstock.connectors.base import DeliveryGuarantee
    from penstock.connectors.kafka.serialization import KafkaRecordSerializationSchema
    from penstock.connectors.kafka.sink import KafkaSink

    properties = _properties(options)
    guarantee = values["sink.delivery-guarantee"].upper().replace("-", "_")
    builder = KafkaSink.builder()
    builder.set_bootstrap_servers(properties.pop("bootstrap.servers"))
    properties.pop("group.id", None)
    properties.pop("auto.offset.reset", None)
    builder.set_delivery_guarantee(DeliveryGuarantee[guarantee])
    prefix = values["sink.transactional-id-prefix"]
    if prefix is not None:
        builder.set_transactional_id_prefix(prefix)
    elif guarantee == "EXACTLY_ONCE":
        raise ValidationException(
            "'sink.transactional-id-prefix' must be set when 'sink.delivery-guarantee' is "
            "'exactly-once'"
        )
    builder.set_properties(properties)
    schema = KafkaRecordSerializationSchema.of(_same)
    return builder.set_record_serializer(schema).build()


def _same(record: Any) -> Any:
    return record
