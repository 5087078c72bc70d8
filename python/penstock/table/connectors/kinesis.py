"""kinesis: tables in Kinesis streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.common.serialization import SerializationSchema
from penstock.connectors.kinesis.client import ENDPOINT, REGION
from penstock.connectors.kinesis.shards import (
    INITIAL_POSITION,
    INITIAL_TIMESTAMP,
    KinesisShardAssigner,
)
from penstock.connectors.kinesis.sink import KinesisStreamsSink, PartitionKeyGenerator
from penstock.connectors.kinesis.source import FlinkKinesisConsumer, KinesisDeserializationSchema
from penstock.table.connectors.batches import record_batch, rows_of
from penstock.table.connectors.elasticsearch import key_text
from penstock.table.connectors.interfaces import (
    INSERT_ONLY,
    SINK_PARALLELISM,
    ConnectorFactory,
    TableContext,
    TableSink,
    TableSource,
    stream_of,
)
from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    choice,
    duration_ms,
    positive,
    text,
)
from penstock.table.types import DataTypes, RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table import types
    from penstock.table.connectors.interfaces import ExecutionContext
    from penstock.table.formats.row_format import RowFormat

METADATA: Final[dict[str, types.DataType]] = {
    "timestamp": DataTypes.TIMESTAMP_LTZ(3).not_null(),
    "sequence-number": DataTypes.VARCHAR(128).not_null(),
    "partition-key": DataTypes.VARCHAR(256).not_null(),
}
"""The metadata columns of records."""

_FIELDS: Final = {
    "timestamp": "ApproximateArrivalTimestamp",
    "sequence-number": "SequenceNumber",
    "partition-key": "PartitionKey",
}
"""The members of records with metadata."""

_POSITION: Final = OptionSpec(choice("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP"))


class KinesisFactory(ConnectorFactory):
    """Creates sources and sinks of streams."""

    identifier = "kinesis"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "stream.arn": OptionSpec(text),
        "stream": OptionSpec(text),
        REGION: OptionSpec(text),
        ENDPOINT: OptionSpec(text),
        "source.init.position": _POSITION,
        "source.init.timestamp": OptionSpec(text),
        "source.shard.assigner": OptionSpec(choice("default", "uniform"), "default"),
        "source.shard.discovery.interval": OptionSpec(duration_ms, 10_000),
        "source.shard.get-records.interval": OptionSpec(duration_ms, 200),
        "source.shard.get-records.max-record-count": OptionSpec(positive, 10_000),
        "scan.stream.initpos": _POSITION,
        "scan.stream.initpos-timestamp": OptionSpec(text),
        "sink.partitioner": OptionSpec(choice("random", "fixed"), "random"),
        "sink.partitioner-field-delimiter": OptionSpec(text, "|"),
        "sink.batch.max-size": OptionSpec(positive, 500),
        "sink.flush-buffer.size": OptionSpec(positive, 5 << 20),
        "sink.flush-buffer.timeout": OptionSpec(positive, 5000),
        "sink.requests.max-inflight": OptionSpec(positive),
        "sink.requests.max-buffered": OptionSpec(positive),
        "sink.fail-on-error": OptionSpec(boolean, False),
        "sink.parallelism": SINK_PARALLELISM,
    }
    prefixes = ("aws.credentials.",)

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context, format_keys=("format",))
        row_type = context.physical_type
        row_format = self.row_format(context, row_type)
        properties = _properties(context, values)
        position = values["source.init.position"] or values["scan.stream.initpos"] or "LATEST"
        moment = values["source.init.timestamp"] or values["scan.stream.initpos-timestamp"]
        properties[INITIAL_POSITION] = position
        if moment is not None:
            properties[INITIAL_TIMESTAMP] = moment
        for option, name in (
            ("source.shard.discovery.interval", "discovery.intervalmillis"),
            ("source.shard.get-records.interval", "getrecords.intervalmillis"),
            ("source.shard.get-records.max-record-count", "getrecords.maxrecordcount"),
        ):
            properties[f"flink.shard.{name}"] = str(values[option])
        is_uniform = values["source.shard.assigner"] == "uniform"
        source = KinesisTableSource(
            _stream(context, values), properties, row_type, row_format, is_uniform
        )
        with context.named_errors():
            source.consumer()
        return source

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context, format_keys=("format",))
        row_type = context.schema.to_sink_row_data_type()
        row_format = self.row_format(context, row_type)
        names = row_type.field_names()
        partition = [names.index(name) for name in context.partition_keys]
        if partition:
            key = PartitionKeyGenerator.of(_key_of)
        elif values["sink.partitioner"] == "fixed":
            key = PartitionKeyGenerator.fixed()
        else:
            key = PartitionKeyGenerator.random()
        with context.named_errors():
            builder = KinesisStreamsSink.builder().set_stream_name(_stream(context, values))
            builder.set_kinesis_client_properties(_properties(context, values))
            builder.set_serialization_schema(_OfRow()).set_partition_key_generator(key)
            builder.set_max_batch_size(values["sink.batch.max-size"])
            builder.set_max_batch_size_in_bytes(values["sink.flush-buffer.size"])
            builder.set_max_time_in_buffer_ms(values["sink.flush-buffer.timeout"])
            sink = builder.set_fail_on_error(values["sink.fail-on-error"]).build()
        records = StreamRecords(
            row_type, row_format, partition, values["sink.partitioner-field-delimiter"]
        )
        return KinesisTableSink(sink, records, values["sink.parallelism"])


def _stream(context: TableContext, values: Mapping[str, Any]) -> str:
    given = [values[key] for key in ("stream.arn", "stream") if values[key] is not None]
    if len(given) != 1:
        raise ValidationException(
            f"Table {context.name} needs one of the options 'stream.arn' and 'stream'"
        )
    stream: str = given[0]
    return stream


def _properties(context: TableContext, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of the client; the region is part of an ARN."""
    given = {key: value for key, value in context.options.items() if key.startswith("aws.")}
    parts = (values["stream.arn"] or "").split(":")
    if REGION not in given and len(parts) > 3:
        given[REGION] = parts[3]
    return given


def _key_of(record: tuple[str, bytes]) -> str:
    return record[0]


class _OfRow(SerializationSchema):
    """Returns the bytes of a pair of a partition key and bytes."""

    def __init__(self) -> None:
        super().__init__()

    def serialize(self, element: tuple[str, bytes]) -> bytes:
        """Return the bytes."""
        return element[1]


class MessageReader:
    """Extracts the bytes and the requested metadata of the client's records.

    Args:
        keys: The requested metadata.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._fields = [_FIELDS[key] for key in keys]

    def __call__(self, record: Mapping[str, Any]) -> tuple[bytes, list[Any]]:
        """Return the bytes and the metadata of a record."""
        return record["Data"], [record[name] for name in self._fields]


class KinesisTableSource(TableSource):
    """Reads a stream.

    Args:
        stream: The name or the ARN of the stream.
        properties: The properties of the consumer.
        row_type: The physical columns.
        row_format: The format of records.
        is_uniform: Whether shards are assigned by their hash keys.
        keys: The requested metadata.
    """

    is_bounded = False
    metadata = METADATA

    def __init__(
        self,
        stream: str,
        properties: Mapping[str, str],
        row_type: RowType,
        row_format: RowFormat,
        is_uniform: bool,
        keys: Sequence[str] = (),
    ) -> None:
        self._stream = stream
        self._properties = dict(properties)
        self._row_type = row_type
        self._format = row_format
        self._is_uniform = is_uniform
        self._keys = tuple(keys)
        self.kinds = row_format.kinds_read

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return a source that reads metadata columns after the physical ones."""
        return KinesisTableSource(
            self._stream, self._properties, self._row_type, self._format, self._is_uniform, keys
        )

    def consumer(self) -> FlinkKinesisConsumer:
        """Return the source of records.

        Raises:
            InvalidProgramError: An option is invalid.
            DependencyError: boto3 is not installed.
        """
        schema = KinesisDeserializationSchema.of(MessageReader(self._keys))
        made = FlinkKinesisConsumer(self._stream, schema, self._properties)
        if self._is_uniform:
            made.set_shard_assigner(KinesisShardAssigner.uniform_shard_assigner())
        return made

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operators that read the stream."""
        stream = context.environment.add_source(self.consumer(), "kinesis")
        fields = [*self._row_type.fields]
        fields += [RowField(f"$metadata${key}", METADATA[key]) for key in self._keys]
        batches = MessageBatches(self._format, RowType(fields), self.kinds != INSERT_ONLY)
        return stream.flat_map(batches).transformation


class MessageBatches:
    """Creates a batch from the rows of each record.

    Args:
        row_format: The format of records.
        row_type: The columns of the batches, including metadata.
        with_kinds: Whether batches have a column of row kinds.
    """

    def __init__(self, row_format: RowFormat, row_type: RowType, with_kinds: bool) -> None:
        self._format = row_format
        self._row_type = row_type
        self._with_kinds = with_kinds

    def __call__(self, message: tuple[bytes, list[Any]]) -> Iterator[Any]:
        """Yield the batch of a record, unless it has no rows."""
        data, metadata = message
        rows = [(kind, [*row, *metadata]) for kind, row in self._format.decode(data)]
        if rows:
            yield record_batch(rows, self._row_type, with_kinds=self._with_kinds)


class StreamRecords:
    """Creates pairs of a partition key and bytes from the rows of batches.

    Args:
        row_type: The columns.
        row_format: The format of records.
        partition: The positions of the partition key's columns; empty for none.
        delimiter: The text between them.
    """

    def __init__(
        self, row_type: RowType, row_format: RowFormat, partition: Sequence[int], delimiter: str
    ) -> None:
        self._row_type = row_type
        self.format = row_format
        self._partition = list(partition)
        self._delimiter = delimiter

    def __call__(self, batch: Any) -> Iterator[tuple[str, bytes]]:
        """Yield the pair of each row."""
        for kind, row in rows_of(batch, self._row_type):
            key = self._delimiter.join(key_text(row[i]) for i in self._partition)
            yield key, self.format.encode(kind, row)


class KinesisTableSink(TableSink):
    """Writes into a stream.

    Args:
        sink: The sink.
        records: Creates the records.
        parallelism: The number of subtasks; None for the query's.
    """

    def __init__(
        self, sink: KinesisStreamsSink, records: StreamRecords, parallelism: int | None
    ) -> None:
        self._sink = sink
        self._records = records
        self.kinds = records.format.kinds_written
        self.parallelism = parallelism

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operators that write into the stream."""
        stream = stream_of(transformation, context).flat_map(self._records)
        sink = stream.sink_to(self._sink).name("kinesis")
        if self.parallelism is not None:
            stream.set_parallelism(self.parallelism)
            sink.set_parallelism(self.parallelism)
