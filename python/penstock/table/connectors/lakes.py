"""delta and iceberg: versioned tables in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.table.connectors.interfaces import (
    ALL_KINDS,
    INSERT_ONLY,
    SINK_PARALLELISM,
    ConnectorFactory,
    TableContext,
    TableSink,
    TableSource,
)
from penstock.table.connectors.row_sources import RowSink, RowSource, stored_schema
from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    choice,
    duration_ms,
    integer,
    positive,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.connectors.base import Source

_STORAGE = "storage."


class DeltaFactory(ConnectorFactory):
    """Creates sources and sinks of Delta Lake tables."""

    identifier = "delta"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "table-path": OptionSpec(text, is_required=True),
        "mode": OptionSpec(choice("batch", "streaming"), "batch"),
        "versionAsOf": OptionSpec(integer),
        "startingVersion": OptionSpec(integer),
        "updateCheckIntervalMillis": OptionSpec(positive, 5000),
        "sink.parallelism": SINK_PARALLELISM,
    }
    prefixes = (_STORAGE,)

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context)
        columns = context.physical_type.field_names()
        is_bounded = values["mode"] == "batch"
        unfit = "startingVersion" if is_bounded else "versionAsOf"
        if values[unfit] is not None:
            raise ValidationException(
                f"The option '{unfit}' of table {context.name} is not for 'mode' = "
                f"'{values['mode']}'"
            )
        with context.named_errors():
            from penstock.connectors.delta.source import DeltaSource

            source: Source
            if is_bounded:
                source = DeltaSource.for_snapshot(
                    values["table-path"], columns, values["versionAsOf"], _storage(context)
                )
            else:
                source = DeltaSource.for_changes(
                    values["table-path"],
                    columns,
                    snapshot=values["startingVersion"] is None,
                    start_version=values["startingVersion"],
                    discovery_interval_ms=values["updateCheckIntervalMillis"],
                    storage_options=_storage(context),
                )
        return RowSource(
            "delta",
            source,
            context.physical_type,
            kinds=INSERT_ONLY if is_bounded else ALL_KINDS,
            is_bounded=is_bounded,
        )

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context)
        row_type = context.schema.to_sink_row_data_type()
        with context.named_errors():
            from penstock.connectors.delta.sink import DeltaSink

            sink = DeltaSink(
                values["table-path"],
                stored_schema(row_type),
                partition_by=context.partition_keys,
                storage_options=_storage(context),
                key=context.key_names,
            )
        key = context.key_positions(row_type)
        return RowSink("delta", sink, row_type, values["sink.parallelism"], key)


class IcebergFactory(ConnectorFactory):
    """Creates sources and sinks of Apache Iceberg tables."""

    identifier = "iceberg"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "catalog-name": OptionSpec(text, is_required=True),
        "catalog-type": OptionSpec(choice("rest", "sql", "jdbc", "glue", "hive", "in-memory")),
        "catalog-database": OptionSpec(text, "default_database"),
        "catalog-table": OptionSpec(text),
        "uri": OptionSpec(text),
        "warehouse": OptionSpec(text),
        "credential": OptionSpec(text),
        "token": OptionSpec(text),
        "scope": OptionSpec(text),
        "io-impl": OptionSpec(text),
        "streaming": OptionSpec(boolean, False),
        "monitor-interval": OptionSpec(duration_ms, 60_000),
        "snapshot-id": OptionSpec(integer),
        "start-snapshot-id": OptionSpec(integer),
        "format-version": OptionSpec(integer),
        "sink.parallelism": SINK_PARALLELISM,
    }
    prefixes = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "rest.", "oauth2")

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context)
        columns = context.physical_type.field_names()
        is_bounded = not values["streaming"]
        with context.named_errors():
            from penstock.connectors.iceberg.source import IcebergSource

            place: dict[str, Any] = {
                "catalog": self._properties(context, values),
                "name": values["catalog-name"],
            }
            table = self._table(context, values)
            if is_bounded:
                source = IcebergSource.for_snapshot(
                    table, columns, snapshot_id=values["snapshot-id"], **place
                )
            else:
                source = IcebergSource.for_appends(
                    table,
                    columns,
                    snapshot=values["start-snapshot-id"] is None,
                    start_snapshot_id=values["start-snapshot-id"],
                    discovery_interval_ms=values["monitor-interval"],
                    **place,
                )
        return RowSource("iceberg", source, context.physical_type, is_bounded=is_bounded)

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context)
        row_type = context.schema.to_sink_row_data_type()
        if context.partition_keys:
            raise ValidationException(
                f"Table {context.name} is PARTITIONED BY: penstock creates tables of Iceberg "
                "without partitions, and writes existing ones with their own"
            )
        with context.named_errors():
            from penstock.connectors.iceberg.sink import IcebergSink

            sink = IcebergSink(
                self._table(context, values),
                stored_schema(row_type),
                catalog=self._properties(context, values),
                name=values["catalog-name"],
                key=context.key_names,
            )
        key = context.key_positions(row_type)
        return RowSink("iceberg", sink, row_type, values["sink.parallelism"], key)

    @staticmethod
    def _table(context: TableContext, values: Mapping[str, Any]) -> str:
        """Return the name of the table in the catalog, with its namespace."""
        own = context.name.rpartition(".")[2].strip("`")
        return f"{values['catalog-database']}.{values['catalog-table'] or own}"

    def _properties(self, context: TableContext, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the properties of the catalog for pyiceberg."""
        properties = {
            key: values[key]
            for key in ("uri", "warehouse", "credential", "token", "scope")
            if values[key] is not None
        }
        kind = values["catalog-type"]
        if kind is not None:
            properties["type"] = "sql" if kind == "jdbc" else kind
        properties |= {
            key: value for key, value in context.options.items() if key.startswith(self.prefixes)
        }
        return properties


def _storage(context: TableContext) -> dict[str, str] | None:
    """Return the options of the store, without the prefix ``storage.``."""
    found = {
        key.removeprefix(_STORAGE): value
        for key, value in context.options.items()
        if key.startswith(_STORAGE)
    }
    return found or None
