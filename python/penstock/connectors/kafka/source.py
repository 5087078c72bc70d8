"""KafkaSource: topics as a source, exactly once with checkpoints."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.kafka.client import (
    check_brokers,
    check_settings,
    client_settings,
    decided,
    kafka_library,
    whole_number,
)
from penstock.connectors.kafka.descriptions import API_TIMEOUT_MS, SourceDescription
from penstock.connectors.kafka.deserialization import KafkaRecordDeserializationSchema
from penstock.connectors.kafka.enumerator import KafkaSourceEnumerator
from penstock.connectors.kafka.offsets import (
    Committed,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
)
from penstock.connectors.kafka.partitions import (
    KafkaPartitionSplit,
    KafkaTopicPartition,
    check_topic,
)
from penstock.connectors.kafka.reader import KafkaSourceReader
from penstock.connectors.kafka.subscribers import PartitionSet, Subscriber, TopicList, TopicPattern
from penstock.connectors.split_source import (
    Boundedness,
    PythonSource,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from penstock.errors import InvalidProgramError
from penstock.formats.dead_letters import required_tag

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.serialization import DeserializationSchema
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.output_tag import OutputTag

__all__ = ["KafkaSource", "KafkaSourceBuilder"]

#: The interval of partition discovery, unless a property sets it; the same as Flink's.
_DISCOVERY_INTERVAL_MS: Final = 300_000

#: The pause of the client library when its queue is full, in ms, unless a property sets it.
_QUEUE_BACKOFF_MS: Final = "10"

T = TypeVar("T")

_OWN_PROPERTIES: Final = frozenset(
    {
        "client.id.prefix",
        "commit.offsets.on.checkpoint",
        "default.api.timeout.ms",
        "partition.discovery.interval.ms",
    }
)

_RESET: Final = {
    KafkaOffsetResetStrategy.EARLIEST: "earliest",
    KafkaOffsetResetStrategy.LATEST: "latest",
    KafkaOffsetResetStrategy.NONE: "error",
}


class KafkaSource(PythonSource[VALUE, KafkaPartitionSplit], SourceDescription):
    """Source that reads topics; use `builder`."""

    def __init__(self, j_kafka_source: None = None) -> None:
        """Create a source; use `builder`.

        Raises:
            JvmOnlyError: A Java source was passed.
        """
        super().__init__()
        if j_kafka_source is not None:
            requires_jvm("KafkaSource(j_kafka_source)", "use KafkaSource.builder()")
        SourceDescription.__init__(self)

    @staticmethod
    def builder() -> KafkaSourceBuilder[Any]:
        """Return a builder of a source."""
        return KafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether `KafkaSourceBuilder.set_bounded` was called."""
        return self.boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the deserializer declares."""
        produced: TypeInformation | None = self.deserializer.get_produced_type()
        return produced

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[KafkaPartitionSplit]
    ) -> SplitEnumerator[KafkaPartitionSplit]:
        """Create an enumerator without known partitions."""
        return KafkaSourceEnumerator(self, enum_context)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[KafkaPartitionSplit], state: Any
    ) -> SplitEnumerator[KafkaPartitionSplit]:
        """Create an enumerator that continues with the known partitions."""
        return KafkaSourceEnumerator(self, enum_context, state)

    def create_reader(
        self, reader_context: SourceReaderContext
    ) -> SourceReader[KafkaPartitionSplit]:
        """Create the reader of a subtask."""
        return KafkaSourceReader(self, reader_context)


@checks_arguments
class KafkaSourceBuilder(NoJavaMembers, Generic[VALUE]):
    """Builder of a KafkaSource."""

    def __init__(self) -> None:
        """Start with the defaults: all records from the earliest on, without an end."""
        self._subscriber: Subscriber | None = None
        self._starting: KafkaOffsetsInitializer = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self.boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self.deserializer: KafkaRecordDeserializationSchema | None = None
        self._properties: dict[str, str] = {}
        self._skips_undecodable = False
        self._dead_letters: OutputTag | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder[VALUE]:
        """Set the brokers to connect to first, as ``host:port`` separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder[VALUE]:
        """Set the consumer group, for which offsets are committed."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder[VALUE]:
        """Read all partitions of these topics, which must exist."""
        if not topics:
            raise InvalidProgramError("set_topics takes names of topics, got none")
        for topic in topics:
            check_topic("set_topics", topic)
        return self._subscribe(TopicList(tuple(dict.fromkeys(topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder[VALUE]:
        """Read all topics whose names match a regular expression, including later ones."""
        if not topic_pattern:
            raise InvalidProgramError("set_topic_pattern takes a regular expression, got ''")
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise InvalidProgramError(
                f"set_topic_pattern takes a regular expression, got {topic_pattern!r}: {error}"
            ) from None
        return self._subscribe(TopicPattern(topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder[VALUE]:
        """Read these partitions."""
        given: Any = partitions
        found = frozenset(given) if isinstance(given, Collection) else frozenset()
        if not found or not all(isinstance(p, KafkaTopicPartition) for p in found):
            raise InvalidProgramError(
                f"set_partitions takes a set of KafkaTopicPartitions, got {partitions!r}"
            )
        return self._subscribe(PartitionSet(found))

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder[VALUE]:
        """Set the start offsets; a job that resumes from a checkpoint uses the stored ones."""
        self._starting = _initializer(starting_offsets_initializer)
        return self

    def set_unbounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder[VALUE]:
        """Stop at these offsets, but treat the source as unbounded."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self.boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        return self

    def set_bounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder[VALUE]:
        """Stop at these offsets, as a bounded source."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self.boundedness = Boundedness.BOUNDED
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema[T]
    ) -> KafkaSourceBuilder[T]:
        """Set the schema that converts the values of Kafka records."""
        self.deserializer = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return cast("KafkaSourceBuilder[T]", self)

    def set_deserializer(
        self, record_deserializer: KafkaRecordDeserializationSchema[T]
    ) -> KafkaSourceBuilder[T]:
        """Set the schema that converts whole Kafka records (beyond PyFlink)."""
        given: Any = record_deserializer
        if not isinstance(given, KafkaRecordDeserializationSchema):
            raise InvalidProgramError(
                f"set_deserializer takes a KafkaRecordDeserializationSchema, got {given!r}; "
                "KafkaRecordDeserializationSchema.of(function) creates one"
            )
        self.deserializer = record_deserializer
        return cast("KafkaSourceBuilder[T]", self)

    def set_skip_undecodable_records(self, skip: bool) -> KafkaSourceBuilder[VALUE]:
        """Log, count and skip records that cannot be deserialized (beyond PyFlink).

        Otherwise such a record fails the job; the error names its topic, partition and offset.
        """
        self._skips_undecodable = skip
        return self

    def set_dead_letters(self, output_tag: OutputTag) -> KafkaSourceBuilder[VALUE]:
        """Send records that cannot be deserialized to a side output (beyond PyFlink).

        A dead letter is a row of ``dead_letters.DEAD_LETTER_TYPE`` with the error, the record's
        topic, partition, offset, timestamp, key and headers, and its value as ``data``.  Only
        decoding errors (`FormatError` and other ValueErrors) become dead letters; any other
        exception fails the job.

        Raises:
            InvalidProgramError: The argument is not an OutputTag.
        """
        self._dead_letters = required_tag("set_dead_letters", output_tag)
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder[VALUE]:
        """Set the prefix of the source's client ids."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder[VALUE]:
        """Set a property of the source or of the client library."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder[VALUE]:
        """Set several properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource[VALUE]:
        """Return the source.

        Raises:
            InvalidProgramError: A required setting is missing.
            ConfigurationError: A property does not exist or has an invalid value.
            DependencyError: The client library is not installed.
        """
        properties = self._properties
        for name, given in (
            ("set_bootstrap_servers", properties.get("bootstrap.servers")),
            ("set_topics, set_topic_pattern or set_partitions", self._subscriber),
            ("set_value_only_deserializer or set_deserializer", self.deserializer),
        ):
            if not given:
                raise InvalidProgramError(f"a KafkaSource needs {name}")
        assert self._subscriber is not None
        assert self.deserializer is not None
        group_id = properties.get("group.id")
        if group_id is None and any(
            _needs_group(initializer) for initializer in (self._starting, self._stopping)
        ):
            raise InvalidProgramError("a KafkaSource with committed offsets needs set_group_id")
        source: KafkaSource[VALUE] = KafkaSource()
        source.subscriber = self._subscriber
        source.starting, source.stopping = self._starting, self._stopping
        source.boundedness = self.boundedness
        source.deserializer = self.deserializer
        source.group_id = group_id
        source.client_id_prefix = properties.get("client.id.prefix", "")
        if self._skips_undecodable and self._dead_letters is not None:
            raise InvalidProgramError(
                "set_skip_undecodable_records and set_dead_letters exclude each other"
            )
        source.skips_undecodable = self._skips_undecodable
        source.dead_letters = self._dead_letters
        commits_offsets = _truth(properties, "commit.offsets.on.checkpoint", default=True)
        if group_id is None and commits_offsets and "commit.offsets.on.checkpoint" in properties:
            raise InvalidProgramError("commit.offsets.on.checkpoint needs set_group_id")
        source.commits_offsets = group_id is not None and commits_offsets
        interval_ms = whole_number(
            properties, "partition.discovery.interval.ms", _DISCOVERY_INTERVAL_MS
        )
        if interval_ms > 0 and self.boundedness is Boundedness.CONTINUOUS_UNBOUNDED:
            source.discovery_interval_ms = interval_ms
        api_timeout_ms = whole_number(properties, "default.api.timeout.ms", API_TIMEOUT_MS, least=0)
        source.api_timeout_s = api_timeout_ms / 1000
        source.settings = self._settings()
        return source

    def _settings(self) -> dict[str, str]:
        given = {k: v for k, v in self._properties.items() if k not in _OWN_PROPERTIES}
        settings = {
            # Like Java's client; librdkafka would read only committed records.
            "isolation.level": "read_uncommitted",
            # By default librdkafka pauses for a second whenever its queue has been full.
            "fetch.queue.backoff.ms": _QUEUE_BACKOFF_MS,
            **client_settings(given, "KafkaSource"),
        }
        # The library requires a group; no offsets are committed for this one.
        settings.setdefault("group.id", "penstock")
        check_brokers(settings["bootstrap.servers"], "KafkaSource")
        check_settings(settings, kafka_library("KafkaSource").Consumer, "KafkaSource")
        own: dict[str, str | None] = {
            "auto.offset.reset": _RESET[self._starting.reset_strategy],
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "enable.partition.eof": "true",
        }
        if "client.id" in settings:
            own["client.id"] = None  # each client has one of its own
        return decided(settings, own, "KafkaSource")

    def _subscribe(self, subscriber: Subscriber) -> KafkaSourceBuilder[VALUE]:
        if self._subscriber is not None:
            raise InvalidProgramError(
                "call one of set_topics, set_topic_pattern and set_partitions, once"
            )
        self._subscriber = subscriber
        return self


def _initializer(given: Any) -> KafkaOffsetsInitializer:
    if not isinstance(given, KafkaOffsetsInitializer):
        raise InvalidProgramError(f"expected a KafkaOffsetsInitializer, got {given!r}")
    return given


def _needs_group(initializer: KafkaOffsetsInitializer | None) -> bool:
    return isinstance(initializer, Committed)


def _truth(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = properties.get(key)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidProgramError(f"the property {key} must be true or false, got {text!r}")
    return text.lower() == "true"
