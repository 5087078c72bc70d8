"""kafka and upsert-kafka: tables in topics."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.table.connectors.batches import rows_of
from penstock.table.connectors.changelog_normalize import normalized
from penstock.table.connectors.gathered_rows import GatheredRows
from penstock.table.connectors.interfaces import (
    ALL_KINDS,
    INSERT_ONLY,
    SINK_PARALLELISM,
    UPSERT_KINDS,
    ConnectorFactory,
    TableContext,
    TableSink,
    TableSource,
)
from penstock.table.connectors.kafka_messages import (
    EPOCH,
    METADATA,
    BlocksOfTable,
    Layout,
    MessageReader,
    told,
)
from penstock.table.connectors.kafka_options import (
    KAFKA_OPTIONS,
    UPSERT_OPTIONS,
    kafka_sink,
    kafka_source,
)
from penstock.table.connectors.record_types import batch_type
from penstock.table.exceptions import ValidationException
from penstock.table.plan.nodes import DELETE
from penstock.table.types import RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext
    from penstock.table.connectors.kafka_messages import Message
    from penstock.table.formats.row_format import KindedRow, RowFormat
    from penstock.table.options.connector_options import OptionSpec

_VALUE: Final = "value."

REGISTRY_FORMATS: Final = ("avro-confluent", "debezium-avro-confluent")
"""The formats that use a schema registry."""


class KafkaFactory(ConnectorFactory):
    """Creates sources and sinks of topics."""

    identifier = "kafka"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        **KAFKA_OPTIONS,
        "sink.parallelism": SINK_PARALLELISM,
    }
    prefixes = ("properties.",)
    is_upsert: ClassVar[bool] = False

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self._values(context)
        layout = self._layout(context, values, context.physical_type)
        return KafkaTableSource(layout, context.options, values)

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self._values(context)
        layout = self._layout(context, values, context.physical_type)
        if values["topic"] is None or ";" in values["topic"]:
            raise ValidationException(
                f"Table {context.name} can only be written with the option 'topic' of one topic"
            )
        written = context.schema.to_sink_row_data_type()
        metadata = {
            column.name: getattr(column, "key", column.name)
            for column in context.schema.columns
            if column.is_persisted() and not column.is_physical()
        }
        unknown = [key for key in metadata.values() if key not in ("headers", "timestamp")]
        if unknown:
            raise ValidationException(
                f"The metadata column '{unknown[0]}' of connector '{self.identifier}' can only be "
                "read: declare it VIRTUAL"
            )
        return KafkaTableSink(layout, written, metadata, context.options, values)

    def _values(self, context: TableContext) -> dict[str, Any]:
        values = self.read_options(context, format_keys=("format", "key.format", "value.format"))
        if "properties.bootstrap.servers" not in context.options:
            raise ValidationException(
                f"Missing required options of connector '{self.identifier}': "
                "properties.bootstrap.servers"
            )
        if (values["topic"] is None) == (values.get("topic-pattern") is None):
            raise ValidationException(
                f"Connector '{self.identifier}' needs one of the options 'topic' and "
                "'topic-pattern'"
            )
        return values

    def row_format(
        self, context: TableContext, row_type: RowType, key: str = "format"
    ) -> RowFormat:
        """Return the format that an option names; the topic determines its registry subject."""
        return super().row_format(with_subject(context, key), row_type, key)

    def _layout(self, context: TableContext, values: dict[str, Any], row_type: RowType) -> Layout:
        names = row_type.field_names()
        key_names = [name for name in (values["key.fields"] or "").split(";") if name]
        unknown = [name for name in key_names if name not in names]
        if unknown:
            raise ValidationException(
                f"Could not find the field '{unknown[0]}' of 'key.fields' in table {context.name}, "
                f"which has {', '.join(names)}"
            )
        key = [names.index(name) for name in key_names]
        prefix = values["key.fields-prefix"]
        all_fields = values["value.fields-include"] == "ALL"
        value = [i for i in range(len(names)) if all_fields or i not in key]
        key_format = None
        if values["key.format"] is not None:
            if not key:
                raise ValidationException(
                    "The option 'key.format' needs 'key.fields': the columns that keys hold"
                )
            key_format = self.row_format(context, _part(row_type, key, prefix), "key.format")
        elif key:
            raise ValidationException("The option 'key.fields' needs 'key.format'")
        option = "format" if values["format"] is not None else "value.format"
        value_format = self.row_format(context, _part(row_type, value, ""), option)
        return Layout(row_type, tuple(key), tuple(value), key_format, value_format)


def with_subject(context: TableContext, key: str) -> TableContext:
    """Return a table whose format has a schema registry subject derived from the topic.

    Args:
        context: The table.
        key: The option that names the format.
    """
    named, topic = context.options.get(key), context.options.get("topic")
    if named not in REGISTRY_FORMATS or topic is None or ";" in topic:
        return context
    prefix = f"{key.removesuffix('format')}{named}."
    given = (f"{prefix}subject", f"{prefix}schema-registry.subject")
    if any(option in context.options for option in given):
        return context
    subject = f"{topic}-{'key' if key == 'key.format' else 'value'}"
    return replace(context, options={**context.options, given[0]: subject})


def _part(row_type: RowType, positions: Sequence[int], prefix: str) -> RowType:
    fields = [row_type.fields[i] for i in positions]
    if prefix and not all(field.name.startswith(prefix) for field in fields):
        raise ValidationException(
            f"All fields in 'key.fields' must begin with 'key.fields-prefix' {prefix!r}"
        )
    return RowType([RowField(f.name.removeprefix(prefix), f.data_type) for f in fields])


class UpsertKafkaFactory(KafkaFactory):
    """Creates sources and sinks of topics in which only the last record of a key counts."""

    identifier = "upsert-kafka"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        **UPSERT_OPTIONS,
        "sink.parallelism": SINK_PARALLELISM,
    }
    is_upsert = True

    def _layout(self, context: TableContext, values: dict[str, Any], row_type: RowType) -> Layout:
        key = [
            i for i in context.schema.get_primary_key_indexes()
            if context.schema.columns[i].is_physical()
        ]  # fmt: skip
        if not key:
            raise ValidationException(
                "'upsert-kafka' tables require to define a PRIMARY KEY constraint. The PRIMARY "
                "KEY specifies which columns should be read from or write to the Kafka message key"
            )
        for option in ("key.format", "value.format"):
            if values[option] is None:
                raise ValidationException(
                    f"Missing required options of connector 'upsert-kafka': {option}"
                )
        names = row_type.field_names()
        key_names = [context.schema.columns[i].name for i in key]
        positions = [names.index(name) for name in key_names]
        all_fields = values["value.fields-include"] == "ALL"
        value = [i for i in range(len(names)) if all_fields or i not in positions]
        prefix = values["key.fields-prefix"]
        return Layout(
            row_type,
            tuple(positions),
            tuple(value),
            self.row_format(context, _part(row_type, positions, prefix), "key.format"),
            self.row_format(context, _part(row_type, value, ""), "value.format"),
            is_upsert=True,
        )


class KafkaTableSource(TableSource):
    """Reads topics.

    Args:
        layout: The parts of records that store the columns.
        options: The options of the table.
        values: The parsed values.
        keys: The requested metadata.
    """

    def __init__(
        self,
        layout: Layout,
        options: Mapping[str, str],
        values: Mapping[str, Any],
        keys: Sequence[str] = (),
    ) -> None:
        self._layout = layout
        self._options = dict(options)
        self._values = dict(values)
        self._keys = tuple(keys)
        self.kinds = ALL_KINDS if layout.is_upsert else layout.value_format.kinds_read
        self.is_bounded = values["scan.bounded.mode"] != "unbounded"
        of_format = layout.value_format.metadata.items()
        self.metadata = METADATA | {f"{_VALUE}{key}": kind for key, kind in of_format}

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return a source that reads metadata columns after the physical ones."""
        of_format = [key.removeprefix(_VALUE) for key in keys if key not in METADATA]
        value_format = self._layout.value_format.with_metadata(of_format)
        layout = replace(self._layout, value_format=value_format)
        return KafkaTableSource(layout, self._options, self._values, keys)

    def with_columns(self, positions: Sequence[int]) -> TableSource:
        """Return a source that parses only some of the columns of values.

        Upserts need all of them: a row is compared with the one before.
        """
        layout = self._layout
        if layout.is_upsert:
            return self
        wanted = [place for place, position in enumerate(layout.value) if position in positions]
        layout = replace(layout, value_format=layout.value_format.with_columns(wanted))
        return KafkaTableSource(layout, self._options, self._values, self._keys)

    def explanation(self) -> str | None:
        """Return whether blocks of messages are read as columns, and why not."""
        reason = self._layout.why_not_in_columns()
        return "blocks of messages as columns" if reason is None else f"row by row, {reason}"

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that reads the topics."""
        from penstock.common.watermark_strategy import WatermarkStrategy
        from penstock.connectors.kafka.deserialization import KafkaRecordDeserializationSchema

        layout = self._layout
        fields = [*layout.row_type.fields]
        fields += [RowField(f"$metadata${key}", self.metadata[key]) for key in self._keys]
        row_type = RowType(fields)
        schema: KafkaRecordDeserializationSchema
        if layout.is_upsert:
            of_record = [key for key in self._keys if key in METADATA]
            schema = KafkaRecordDeserializationSchema.of(MessageReader(of_record))
        else:
            with_kinds = self.kinds != INSERT_ONLY
            schema = BlocksOfTable(layout, row_type, self._keys, with_kinds=with_kinds)
        source = kafka_source(self._options, self._values, schema)
        stream = context.environment.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")
        if self._values.get("scan.parallelism") is not None:
            stream.set_parallelism(self._values["scan.parallelism"])
        if not layout.is_upsert:
            return stream.transformation
        rows = normalized(
            stream.flat_map(UpsertRows(layout, self._keys)), layout.key, context.state_ttl_ms
        )
        batches = UpsertBatches(row_type, with_kinds=True)
        # Compiled plans of version 1.0 have this name.
        return rows.transform("Map", batch_type(None), batches).transformation


class UpsertRows:
    """Creates the row of each message, with the kind UPDATE_AFTER or DELETE.

    Args:
        layout: The parts of records that store the columns.
        keys: The requested metadata.
    """

    def __init__(self, layout: Layout, keys: Sequence[str] = ()) -> None:
        self._layout = layout
        self._keys = tuple(keys)

    def __call__(self, message: Message) -> Iterator[Row]:
        """Yield the row of a message."""
        for kind, row, extra in self._layout.rows(message):
            made = RowKind.DELETE if kind == DELETE else RowKind.UPDATE_AFTER
            yield Row.of_kind(made, *row, *told(self._keys, message, extra))


class UpsertBatches(GatheredRows):
    """Builds the batches of a topic with upserts."""

    def row_of(self, value: Row, timestamp: int | None) -> KindedRow:
        """Return the kind and the values of a row."""
        del timestamp
        return value.get_row_kind().value, tuple(value)


class KafkaTableSink(TableSink):
    """Writes into a topic.

    Args:
        layout: The parts of records that store the columns.
        written: The columns of batches.
        metadata: The key of each written metadata column.
        options: The options of the table.
        values: The parsed values.
    """

    def __init__(
        self,
        layout: Layout,
        written: RowType,
        metadata: Mapping[str, str],
        options: Mapping[str, str],
        values: Mapping[str, Any],
    ) -> None:
        self._layout = layout
        self._written = written
        self._metadata = dict(metadata)
        self._options = dict(options)
        self._values = dict(values)
        self.kinds = UPSERT_KINDS if layout.is_upsert else layout.value_format.kinds_written
        self.parallelism = values["sink.parallelism"]
        if layout.is_upsert:
            names = layout.row_type.field_names()
            self.upsert_key = tuple(written.field_names().index(names[i]) for i in layout.key)

    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operators that write into the topic."""
        from penstock.table.connectors.interfaces import stream_of

        records = KafkaRecords(self._layout, self._written, self._metadata, self._values["topic"])
        stream = stream_of(transformation, context).flat_map(records)
        sink = stream.sink_to(kafka_sink(self._options, self._values)).name("kafka")
        if self.parallelism is not None:
            stream.set_parallelism(self.parallelism)
            sink.set_parallelism(self.parallelism)


class KafkaRecords:
    """Creates records from the rows of batches.

    Args:
        layout: The parts of records that store the columns.
        written: The columns of batches.
        metadata: The key of each written metadata column.
        topic: The topic.
    """

    def __init__(
        self, layout: Layout, written: RowType, metadata: Mapping[str, str], topic: str
    ) -> None:
        self._layout = layout
        self._written = written
        self._topic = topic
        names = written.field_names()
        self._physical = [names.index(name) for name in layout.row_type.field_names()]
        self._metadata = {key: names.index(name) for name, key in metadata.items()}

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield the record of each row."""
        from penstock.connectors.kafka.serialization import KafkaProducerRecord

        for kind, row in rows_of(batch, self._written):
            key, value = self._layout.record(kind, [row[i] for i in self._physical])
            headers, timestamp = None, None
            if "headers" in self._metadata:
                headers = list((row[self._metadata["headers"]] or {}).items())
            if "timestamp" in self._metadata:
                moment = row[self._metadata["timestamp"]]
                if moment is not None:
                    timestamp = (moment - EPOCH) // datetime.timedelta(milliseconds=1)
            yield KafkaProducerRecord(self._topic, value, key, headers, None, timestamp)
