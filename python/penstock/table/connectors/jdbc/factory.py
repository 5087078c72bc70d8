"""The factory of jdbc: creates sources and sinks from options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.jdbc.connection import JdbcConnectionOptions
from penstock.connectors.jdbc.dialect import TableStatements
from penstock.connectors.jdbc.sink import JdbcExecutionOptions
from penstock.table.connectors.batches import BATCH_ROWS
from penstock.table.connectors.interfaces import (
    SINK_PARALLELISM,
    ConnectorFactory,
    LookupTableSource,
    TableContext,
    TableSink,
    TableSource,
)
from penstock.table.connectors.jdbc.lookup import JdbcKeyLookup
from penstock.table.connectors.jdbc.scan import JdbcRows, TableRange, table_ranges
from penstock.table.connectors.jdbc.sink import JdbcChanges
from penstock.table.connectors.lookup_cache import CACHE_OPTIONS, CacheOptions, partial_cache
from penstock.table.connectors.record_types import batch_type
from penstock.table.connectors.row_sources import ChangeSink
from penstock.table.exceptions import ValidationException
from penstock.table.options.connector_options import (
    OptionSpec,
    boolean,
    duration_ms,
    integer,
    natural,
    positive,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table import types
    from penstock.table.connectors.interfaces import ExecutionContext, KeyLookup

_PARTITION = "scan.partition."


class JdbcFactory(ConnectorFactory):
    """Creates sources and sinks of database tables."""

    identifier = "jdbc"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "url": OptionSpec(text, is_required=True),
        "table-name": OptionSpec(text, is_required=True),
        "driver": OptionSpec(text),
        "username": OptionSpec(text),
        "password": OptionSpec(text),
        "connection.max-retry-timeout": OptionSpec(duration_ms, 60_000),
        "scan.partition.column": OptionSpec(text),
        "scan.partition.num": OptionSpec(positive),
        "scan.partition.lower-bound": OptionSpec(integer),
        "scan.partition.upper-bound": OptionSpec(integer),
        "scan.fetch-size": OptionSpec(natural, 0),
        "scan.auto-commit": OptionSpec(boolean, True),
        **CACHE_OPTIONS,
        "lookup.cache.max-rows": OptionSpec(positive),
        "lookup.cache.ttl": OptionSpec(duration_ms),
        "lookup.cache.caching-missing-key": OptionSpec(boolean, True),
        "lookup.max-retries": OptionSpec(natural, 3),
        "sink.buffer-flush.max-rows": OptionSpec(natural, 100),
        "sink.buffer-flush.interval": OptionSpec(duration_ms, 1000),
        "sink.max-retries": OptionSpec(natural, 3),
        "sink.parallelism": SINK_PARALLELISM,
    }

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context)
        row_type = context.physical_type
        return JdbcTableSource(
            self._connection(context, values),
            self._statements(values, row_type),
            row_type,
            context.key_names,
            _ranges(context, values, row_type),
            values,
        )

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context)
        row_type = context.schema.to_sink_row_data_type()
        key = context.key_positions(row_type)
        options = JdbcExecutionOptions(
            values["sink.buffer-flush.interval"],
            max(values["sink.buffer-flush.max-rows"], 1),
            values["sink.max-retries"],
        )
        changes = JdbcChanges(
            self._connection(context, values),
            self._statements(values, row_type),
            row_type,
            key,
            options,
        )
        return ChangeSink("jdbc", changes, key, values["sink.parallelism"])

    def _connection(
        self, context: TableContext, values: Mapping[str, Any]
    ) -> JdbcConnectionOptions:
        given = [key for key in ("username", "password") if values[key] is not None]
        if len(given) == 1:
            raise ValidationException(
                "Either all or none of the following options should be provided: username, "
                f"password; table {context.name} has {given[0]}"
            )
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        with context.named_errors():
            builder.with_url(values["url"])
            if values["driver"] is not None:
                builder.with_driver_name(values["driver"])
            if given:
                builder.with_user_name(values["username"]).with_password(values["password"])
            made = builder.build()
            made.check()
        return made

    @staticmethod
    def _statements(values: Mapping[str, Any], row_type: types.RowType) -> TableStatements:
        return TableStatements.of_url(values["url"], values["table-name"], row_type.field_names())


def _ranges(
    context: TableContext, values: Mapping[str, Any], row_type: types.RowType
) -> tuple[TableRange, ...]:
    """Return the ranges of the options ``scan.partition.*``; empty without them."""
    keys = [f"{_PARTITION}{name}" for name in ("column", "num", "lower-bound", "upper-bound")]
    given = [key for key in keys if values[key] is not None]
    if not given:
        return ()
    if len(given) < len(keys):
        raise ValidationException(
            f"Either all or none of the following options should be provided: {', '.join(keys)}; "
            f"table {context.name} has {', '.join(given)}"
        )
    column, number, lower, upper = (values[key] for key in keys)
    if column not in row_type.field_names():
        raise ValidationException(
            f"'{keys[0]}' is '{column}', which is not a column of {context.name}: it has "
            f"{', '.join(row_type.field_names())}"
        )
    if lower > upper:
        raise ValidationException(
            f"'{keys[2]}'='{lower}' must not be larger than '{keys[3]}'='{upper}'"
        )
    return tuple(table_ranges(lower, upper, number))


class JdbcTableSource(LookupTableSource):
    """Reads a database table, or looks up its rows.

    Args:
        connection: The database.
        statements: Builder of the statements.
        row_type: The physical columns.
        key: The names of the primary key.
        ranges: The ranges to read in parallel; empty for a single query.
        values: The options of the connector.
        read: The positions of the columns to read; None for all.
    """

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        statements: TableStatements,
        row_type: types.RowType,
        key: Sequence[str],
        ranges: Sequence[TableRange],
        values: Mapping[str, Any],
        read: Sequence[int] | None = None,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._row_type = row_type
        self._key = list(key)
        self._ranges = list(ranges)
        self._values = dict(values)
        self._read = list(range(len(row_type))) if read is None else list(read)

    def with_columns(self, positions: Sequence[int]) -> TableSource:
        """Return a source whose query selects only some of the columns."""
        return JdbcTableSource(
            self._connection,
            self._statements,
            self._row_type,
            self._key,
            self._ranges,
            self._values,
            positions,
        )

    @property
    def query(self) -> str:
        """The query of a scan."""
        names = self._row_type.field_names()
        column = self._values["scan.partition.column"]
        # Ordered, so that a restored job finds the rows that it has not read.
        return self._statements.select(
            [names[i] for i in self._read],
            where=self._statements.between(column) if self._ranges else "",
            order_by=self._key,
        )

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that reads the table."""
        from penstock.common.watermark_strategy import WatermarkStrategy

        source = JdbcRows(
            self._connection,
            self.query,
            self._ranges or [TableRange(0)],
            self._row_type,
            self._read,
            self._values["scan.fetch-size"] or BATCH_ROWS,
        )
        stream = context.environment.from_source(
            source, WatermarkStrategy.no_watermarks(), "jdbc", batch_type(None)
        )
        return stream.transformation

    def key_lookup(self) -> KeyLookup:
        """Return the lookup of one subtask."""
        return JdbcKeyLookup(
            self._connection,
            self._statements,
            self._row_type,
            self.cache_options,
            self._values["lookup.max-retries"],
        )

    @property
    def cache_options(self) -> CacheOptions | None:
        """The limits of the cache; None without a cache."""
        values = self._values
        if values["lookup.cache"] == "PARTIAL":
            return partial_cache(values)
        # Either of the older options enables a cache.
        if values["lookup.cache.max-rows"] is None and values["lookup.cache.ttl"] is None:
            return None
        return CacheOptions(
            values["lookup.cache.max-rows"],
            values["lookup.cache.ttl"],
            None,
            values["lookup.cache.caching-missing-key"],
        )
