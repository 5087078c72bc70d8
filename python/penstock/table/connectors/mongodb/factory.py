"""The factory of mongodb: creates sources and sinks from options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.batching import BatchLimits
from penstock.connectors.mongodb.collection import CollectionAddress
from penstock.connectors.mongodb.sink import MongoWriter
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.table.connectors.interfaces import (
    SINK_PARALLELISM,
    ConnectorFactory,
    LookupTableSource,
    TableContext,
    TableSink,
    TableSource,
)
from penstock.table.connectors.lookup_cache import CACHE_OPTIONS, partial_cache
from penstock.table.connectors.mongodb.documents import RowOperations
from penstock.table.connectors.mongodb.lookup import MongoKeyLookup
from penstock.table.connectors.mongodb.scan import MongoRows
from penstock.table.connectors.record_types import batch_type
from penstock.table.connectors.row_sources import ChangeSink
from penstock.table.options.connector_options import (
    OptionSpec,
    choice,
    duration_ms,
    natural,
    positive,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table.connectors.interfaces import ExecutionContext, KeyLookup
    from penstock.table.types import RowType

_TIMEOUT_MS = 30_000


class MongoFactory(ConnectorFactory):
    """Creates sources and sinks of collections."""

    identifier = "mongodb"
    options: ClassVar[Mapping[str, OptionSpec]] = {
        "uri": OptionSpec(text, is_required=True),
        "database": OptionSpec(text, is_required=True),
        "collection": OptionSpec(text, is_required=True),
        "scan.fetch-size": OptionSpec(positive, 2048),
        "scan.partition.strategy": OptionSpec(choice("default", "single"), "default"),
        **CACHE_OPTIONS,
        "lookup.max-retries": OptionSpec(natural, 3),
        "lookup.retry.interval": OptionSpec(duration_ms, 1000),
        "sink.buffer-flush.max-rows": OptionSpec(natural, 1000),
        "sink.buffer-flush.interval": OptionSpec(duration_ms, 1000),
        "sink.max-retries": OptionSpec(natural, 3),
        "sink.retry.interval": OptionSpec(duration_ms, 1000),
        "sink.delivery-guarantee": OptionSpec(choice("none", "at-least-once"), "at-least-once"),
        "sink.parallelism": SINK_PARALLELISM,
    }

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table."""
        values = self.read_options(context)
        return MongoTableSource(_address(context, values), context.physical_type, values)

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table."""
        values = self.read_options(context)
        row_type = context.schema.to_sink_row_data_type()
        operations = RowOperations(row_type, context.key_positions(row_type))
        limits = BatchLimits(
            max_entries=max(values["sink.buffer-flush.max-rows"], 1),
            interval_ms=values["sink.buffer-flush.interval"],
            max_retries=values["sink.max-retries"],
            delay_ms=values["sink.retry.interval"],
            is_exponential=False,
            flushes_at_checkpoints=values["sink.delivery-guarantee"] == "at-least-once",
        )
        sink = MongoChanges(_address(context, values), limits, operations)
        return ChangeSink("mongodb", sink, operations.key, values["sink.parallelism"])


def _address(context: TableContext, values: Mapping[str, Any]) -> CollectionAddress:
    address = CollectionAddress(
        "connector 'mongodb'",
        values["uri"],
        values["database"],
        values["collection"],
        _TIMEOUT_MS,
    )
    with context.named_errors():
        address.check()
    return address


class MongoTableSource(LookupTableSource):
    """Reads a collection, or looks up its documents.

    Args:
        address: The collection.
        row_type: The physical columns.
        values: The options of the connector.
        read: The positions of the columns to read; None for all.
    """

    def __init__(
        self,
        address: CollectionAddress,
        row_type: RowType,
        values: Mapping[str, Any],
        read: Sequence[int] | None = None,
    ) -> None:
        self._address = address
        self._row_type = row_type
        self._values = dict(values)
        self._read = list(range(len(row_type))) if read is None else list(read)

    def with_columns(self, positions: Sequence[int]) -> TableSource:
        """Return a source that fetches only some of the fields."""
        return MongoTableSource(self._address, self._row_type, self._values, positions)

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator that reads the collection."""
        from penstock.common.watermark_strategy import WatermarkStrategy

        source = MongoRows(
            self._address, self._row_type, self._read, self._values["scan.fetch-size"]
        )
        stream = context.environment.from_source(
            source, WatermarkStrategy.no_watermarks(), "mongodb", batch_type(None)
        )
        return stream.transformation

    def key_lookup(self) -> KeyLookup:
        """Return the lookup of one subtask."""
        return MongoKeyLookup(
            self._address,
            self._row_type,
            partial_cache(self._values),
            self._values["lookup.max-retries"],
            self._values["lookup.retry.interval"],
        )


class MongoChanges(PythonSink[Any]):
    """Writes record batches of changes.

    Args:
        address: The collection.
        limits: The limits of a batch.
        operations: Returns the operations of a record batch.
    """

    def __init__(
        self, address: CollectionAddress, limits: BatchLimits, operations: RowOperations
    ) -> None:
        super().__init__()
        self.address = address
        self.limits = limits
        self.operations = operations

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask."""
        del context
        return MongoWriter(self.address, self.limits, self.operations)
