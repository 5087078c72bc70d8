"""FlinkKinesisConsumer: the records of streams, with shard discovery and positions in state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from penstock.common.basic_types import VALUE
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.serialization import DeserializationSchema, message_type
from penstock.connectors.kinesis.client import AwsClientConfig, text_properties
from penstock.connectors.kinesis.description import StreamsDescription
from penstock.connectors.kinesis.enumerator import ShardEnumerator
from penstock.connectors.kinesis.reader import ShardReader
from penstock.connectors.kinesis.shards import (
    INITIAL_POSITION,
    INITIAL_TIMESTAMP,
    InitialPosition,
    KinesisShardAssigner,
    ShardSplit,
)
from penstock.connectors.split_source import (
    Boundedness,
    PythonSource,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from penstock.datastream.functions.source_sink import ParallelSourceFunction
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.typeinfo import TypeInformation

T = TypeVar("T")

_NUMBERS = {
    "flink.shard.discovery.intervalmillis": "discovery_interval_ms",
    "flink.shard.getrecords.intervalmillis": "poll_interval_ms",
    "flink.shard.getrecords.maxrecordcount": "batch_size",
}
"""Flink's numeric properties, and the settings that they correspond to."""

_KNOWN = (INITIAL_POSITION, INITIAL_TIMESTAMP, *_NUMBERS)


class KinesisDeserializationSchema(NoJavaMembers, Generic[VALUE]):
    """Converts records with their metadata; created by `of`."""

    def __init__(self, j_kinesis_deserialization_schema: None = None) -> None:
        """Create a schema; use `of`.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_kinesis_deserialization_schema is not None:
            requires_jvm("KinesisDeserializationSchema(j_…)", "use KinesisDeserializationSchema.of")
        self.function: Callable[[dict[str, Any]], VALUE | None] | None = None
        self.type_info: TypeInformation | None = None

    @staticmethod
    def of(
        function: Callable[[dict[str, Any]], T | None], type_info: TypeInformation | None = None
    ) -> KinesisDeserializationSchema[T]:
        """Return a schema that calls a function (beyond PyFlink).

        Args:
            function: Function that converts a record, a dictionary with ``Data`` (bytes),
                ``PartitionKey``, ``SequenceNumber`` and ``ApproximateArrivalTimestamp``; None skips
                the record.
            type_info: The type of the converted records.
        """
        made: KinesisDeserializationSchema[T] = KinesisDeserializationSchema()
        made.function, made.type_info = function, type_info
        return made


class FlinkKinesisConsumer(ParallelSourceFunction[VALUE]):
    """Reads streams, exactly once with checkpoints; for `StreamExecutionEnvironment.add_source`.

    A checkpoint stores the sequence number of the last record of each shard.  Shards that appear
    while the job runs, because others were split or merged, are read from their beginning,
    concurrently with the rest of the old ones.  Records have their time of arrival as timestamp.
    """

    def __init__(
        self,
        streams: str | list[str],
        deserializer: DeserializationSchema[VALUE] | KinesisDeserializationSchema[VALUE],
        config_props: dict[str, str],
    ) -> None:
        """Create a source.

        Args:
            streams: The name or ARN of a stream, or a list of them.
            deserializer: Schema that converts the bytes of a record, or the record with its
                metadata.
            config_props: Properties: ``aws.region`` (required), ``aws.endpoint``,
                ``aws.credentials.provider``, and with the prefix ``flink.``
                ``stream.initpos``, ``stream.initpos.timestamp``,
                ``shard.discovery.intervalmillis``, ``shard.getrecords.intervalmillis`` and
                ``shard.getrecords.maxrecordcount``.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: boto3 is not installed.
        """
        given: Any = [streams] if isinstance(streams, str) else streams
        if (
            not isinstance(given, (list, tuple))
            or not given
            or not all(isinstance(each, str) and each for each in given)
        ):
            raise WrongArgumentError(
                f"FlinkKinesisConsumer: streams are names, at least one, got {streams!r}"
            )
        properties = text_properties("FlinkKinesisConsumer", config_props)
        aws = AwsClientConfig("FlinkKinesisConsumer", properties)
        aws.check()
        unknown = [key for key in properties if key.startswith("flink.") and key not in _KNOWN]
        if unknown:
            raise InvalidProgramError(
                f"FlinkKinesisConsumer: unknown property '{unknown[0]}'; those of Flink that have "
                f"an effect are {', '.join(_KNOWN)}"
            )
        function, type_info = _deserializer("FlinkKinesisConsumer", deserializer)
        numbers: dict[str, Any] = {
            name: _number(properties, key) for key, name in _NUMBERS.items() if key in properties
        }
        self._streams = StreamsDescription(
            aws,
            tuple(given),
            function,
            type_info,
            InitialPosition.of("FlinkKinesisConsumer", properties),
            **numbers,
        )

    def set_shard_assigner(
        self, shard_assigner: KinesisShardAssigner
    ) -> FlinkKinesisConsumer[VALUE]:
        """Set the assigner of shards to subtasks."""
        # A subclass has nothing to override: it would assign by the ids of shards.
        if type(shard_assigner) is not KinesisShardAssigner:
            raise WrongArgumentError(
                "FlinkKinesisConsumer.set_shard_assigner takes KinesisShardAssigner.of(function), "
                "default_shard_assigner() or uniform_shard_assigner(), got "
                f"{shard_assigner!r}"
            )
        self._streams = self._streams.with_assigner(shard_assigner)
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: object) -> NoReturn:
        """Refuse: assigners are Java objects.

        Raises:
            JvmOnlyError: Always.
        """
        del periodic_watermark_assigner
        requires_jvm(
            "set_periodic_watermark_assigner",
            "call assign_timestamps_and_watermarks on the stream",
        )

    def set_watermark_tracker(self, watermark_tracker: object) -> NoReturn:
        """Refuse: trackers are Java objects.

        Raises:
            JvmOnlyError: Always.
        """
        del watermark_tracker
        requires_jvm("set_watermark_tracker", "use WatermarkStrategy.with_watermark_alignment")

    def _as_source(self) -> PythonSource[Any, Any]:
        return KinesisSource(self._streams)


class KinesisSource(PythonSource[Any, ShardSplit]):
    """Reads streams.

    Args:
        streams: The streams.
    """

    def __init__(self, streams: StreamsDescription) -> None:
        super().__init__()
        self._streams = streams

    def get_boundedness(self) -> Boundedness:
        """Return CONTINUOUS_UNBOUNDED: a stream does not end."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the converted records."""
        return self._streams.type_info

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[ShardSplit]
    ) -> SplitEnumerator[ShardSplit]:
        """Return the enumerator of a new job."""
        return ShardEnumerator(self._streams, enum_context)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[ShardSplit], state: Any
    ) -> SplitEnumerator[ShardSplit]:
        """Return the enumerator of a job that continues."""
        return ShardEnumerator(self._streams, enum_context, state)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[ShardSplit]:
        """Return the reader of a subtask."""
        del reader_context
        return ShardReader(self._streams)


def _deserializer(
    used_by: str, given: Any
) -> tuple[Callable[[dict[str, Any]], Any], TypeInformation | None]:
    if isinstance(given, DeserializationSchema):
        return _OfData(given), message_type(given)
    if isinstance(given, KinesisDeserializationSchema) and given.function is not None:
        return given.function, given.type_info
    raise WrongArgumentError(
        f"{used_by} takes a DeserializationSchema or KinesisDeserializationSchema.of(…), got "
        f"{given!r}"
    )


class _OfData:
    """Deserialises the bytes of a record.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def __call__(self, record: dict[str, Any]) -> Any:
        """Return the converted record."""
        return self._schema.deserialize(record["Data"])


def _number(properties: dict[str, str], key: str) -> int:
    try:
        number = int(properties[key])
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidProgramError(
            f"FlinkKinesisConsumer: '{key}' is an integer of at least 1, got {properties[key]!r}"
        )
    return number
