"""DynamicKafkaSource: streams that move between topics and clusters."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.connectors.dynamic_kafka.descriptions import DynamicSourceDescription
from penstock.connectors.dynamic_kafka.enumerator import DynamicKafkaSourceEnumerator
from penstock.connectors.dynamic_kafka.metadata import (
    KafkaMetadataService,
    KafkaStreamSetSubscriber,
    KafkaStreamSubscriber,
    StreamPatternSubscriber,
)
from penstock.connectors.dynamic_kafka.reader import DynamicKafkaSourceReader
from penstock.connectors.dynamic_kafka.splits import DynamicKafkaSourceSplit
from penstock.connectors.kafka.client import whole_number
from penstock.connectors.kafka.source import KafkaSourceBuilder
from penstock.connectors.split_source import (
    Boundedness,
    PythonSource,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.serialization import DeserializationSchema
    from penstock.common.typeinfo import TypeInformation
    from penstock.connectors.kafka.deserialization import KafkaRecordDeserializationSchema
    from penstock.connectors.kafka.offsets import KafkaOffsetsInitializer
    from penstock.datastream.output_tag import OutputTag

T = TypeVar("T")

__all__ = ["DynamicKafkaSource", "DynamicKafkaSourceBuilder"]

_INTERVAL: Final = "stream-metadata-discovery-interval-ms"
_THRESHOLD: Final = "stream-metadata-discovery-failure-threshold"


class DynamicKafkaSource(PythonSource[VALUE, DynamicKafkaSourceSplit], DynamicSourceDescription):
    """Reads streams wherever a metadata service locates them; created by `builder`."""

    def __init__(self, j_dynamic_kafka_source: None = None) -> None:
        """Create a source; use `builder`.

        Raises:
            JvmOnlyError: A Java source was passed.
        """
        super().__init__()
        if j_dynamic_kafka_source is not None:
            requires_jvm(
                "DynamicKafkaSource(j_dynamic_kafka_source)", "use DynamicKafkaSource.builder()"
            )
        DynamicSourceDescription.__init__(self)

    @staticmethod
    def builder() -> DynamicKafkaSourceBuilder[Any]:
        """Return a builder."""
        return DynamicKafkaSourceBuilder()

    def get_boundedness(self) -> Boundedness:
        """Return whether `DynamicKafkaSourceBuilder.set_bounded` was called."""
        boundedness: Boundedness = self.each.boundedness
        return boundedness

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type that the deserializer declares."""
        produced: TypeInformation | None = self.each.deserializer.get_produced_type()
        return produced

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[DynamicKafkaSourceSplit]
    ) -> SplitEnumerator[DynamicKafkaSourceSplit]:
        """Create the enumerator."""
        return DynamicKafkaSourceEnumerator(self, enum_context)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[DynamicKafkaSourceSplit], state: Any
    ) -> SplitEnumerator[DynamicKafkaSourceSplit]:
        """Restore the enumerator with the clusters that were read."""
        return DynamicKafkaSourceEnumerator(self, enum_context, state)

    def create_reader(
        self, reader_context: SourceReaderContext
    ) -> SourceReader[DynamicKafkaSourceSplit]:
        """Create the reader of a subtask."""
        return DynamicKafkaSourceReader(self, reader_context)


@checks_arguments
class DynamicKafkaSourceBuilder(NoJavaMembers, Generic[VALUE]):
    """Builder of a DynamicKafkaSource."""

    def __init__(self) -> None:
        """Create a builder with the defaults: all records from the earliest, unbounded."""
        self._subscriber: KafkaStreamSubscriber | None = None
        self._service: KafkaMetadataService | None = None
        self._each = KafkaSourceBuilder()
        self._properties: dict[str, str] = {}

    def set_stream_ids(self, stream_ids: set[str]) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set the streams to read, which must exist."""
        return self._subscribe(KafkaStreamSetSubscriber(stream_ids))

    def set_stream_pattern(self, stream_pattern: str) -> DynamicKafkaSourceBuilder[VALUE]:
        """Read all streams whose whole names match a regular expression, including later ones."""
        return self._subscribe(StreamPatternSubscriber(stream_pattern))

    def set_kafka_stream_subscriber(
        self, kafka_stream_subscriber: KafkaStreamSubscriber
    ) -> DynamicKafkaSourceBuilder[VALUE]:
        """Read the streams that a subscriber selects."""
        given: Any = kafka_stream_subscriber
        if not isinstance(given, KafkaStreamSubscriber):
            raise InvalidProgramError(f"expected a KafkaStreamSubscriber, got {given!r}")
        return self._subscribe(kafka_stream_subscriber)

    def set_kafka_metadata_service(
        self, kafka_metadata_service: KafkaMetadataService
    ) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set the service that locates the streams."""
        given: Any = kafka_metadata_service
        if not isinstance(given, KafkaMetadataService):
            raise InvalidProgramError(f"expected a KafkaMetadataService, got {given!r}")
        self._service = kafka_metadata_service
        return self

    def set_deserializer(
        self, deserializer: KafkaRecordDeserializationSchema[T]
    ) -> DynamicKafkaSourceBuilder[T]:
        """Set the schema that converts Kafka records."""
        self._each.set_deserializer(deserializer)
        return cast("DynamicKafkaSourceBuilder[T]", self)

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema[T]
    ) -> DynamicKafkaSourceBuilder[T]:
        """Set the schema that converts the values of Kafka records."""
        self._each.set_value_only_deserializer(deserialization_schema)
        return cast("DynamicKafkaSourceBuilder[T]", self)

    def set_skip_undecodable_records(self, skip: bool) -> DynamicKafkaSourceBuilder[VALUE]:
        """Act as `KafkaSourceBuilder.set_skip_undecodable_records` (beyond PyFlink)."""
        self._each.set_skip_undecodable_records(skip)
        return self

    def set_dead_letters(self, output_tag: OutputTag) -> DynamicKafkaSourceBuilder[VALUE]:
        """Act as `KafkaSourceBuilder.set_dead_letters` (beyond PyFlink)."""
        self._each.set_dead_letters(output_tag)
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer
    ) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set the start offsets for the partitions that the first search in a cluster finds."""
        self._each.set_starting_offsets(starting_offsets_initializer)
        return self

    def set_bounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> DynamicKafkaSourceBuilder[VALUE]:
        """Stop at these offsets of the streams that exist at the start."""
        self._each.set_bounded(stopping_offsets_initializer)
        return self

    def set_properties(self, props: Mapping[str, str]) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set several properties for all clusters."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def set_property(self, key: str, value: str) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set a property of the source, or of the client library for all clusters."""
        self._properties[key] = value
        return self

    def set_group_id(self, group_id: str) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set the consumer group for which offsets are committed."""
        return self.set_property("group.id", group_id)

    def set_client_id_prefix(self, prefix: str) -> DynamicKafkaSourceBuilder[VALUE]:
        """Set the prefix of the source's client ids."""
        return self.set_property("client.id.prefix", prefix)

    def build(self) -> DynamicKafkaSource[VALUE]:
        """Return the source.

        Raises:
            InvalidProgramError: A setting is missing.
            ConfigurationError: A property does not exist or has an invalid value.
            DependencyError: The client library is not installed.
        """
        for name, given in (
            ("set_stream_ids, set_stream_pattern or set_kafka_stream_subscriber", self._subscriber),
            ("set_kafka_metadata_service", self._service),
            ("set_value_only_deserializer or set_deserializer", self._each.deserializer),
        ):
            if not given:
                raise InvalidProgramError(f"a DynamicKafkaSource needs {name}")
        source: DynamicKafkaSource[VALUE] = DynamicKafkaSource()
        source.subscriber, source.service = self._subscriber, self._service
        interval_ms = whole_number(self._properties, _INTERVAL, -1)
        if interval_ms > 0 and self._each.boundedness is not Boundedness.BOUNDED:
            source.metadata_interval_ms = interval_ms
        source.failure_threshold = whole_number(self._properties, _THRESHOLD, 1, least=0)
        source.each = copy.deepcopy(self._each)
        source.properties = {
            key: value
            for key, value in self._properties.items()
            if key not in (_INTERVAL, _THRESHOLD)
        }
        # Settings that are invalid for every cluster fail here.
        source.description_of("any", ["any"], {"bootstrap.servers": "any:1"})
        return source

    def _subscribe(self, subscriber: KafkaStreamSubscriber) -> DynamicKafkaSourceBuilder[VALUE]:
        if self._subscriber is not None:
            raise InvalidProgramError(
                "call one of set_stream_ids, set_stream_pattern and set_kafka_stream_subscriber, "
                "once"
            )
        self._subscriber = subscriber
        return self
