"""The tables of the auction house as streams of rows: Parquet, or JSON in lines or in Kafka."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nexmark import topics
from nexmark.events import SCHEMAS
from nexmark.results import QUERIES
from penstock.common import Duration, Types, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import StreamExecutionEnvironment
    from penstock.datastream.data_stream import DataStream

TYPES = {"int64": Types.LONG(), "string": Types.STRING()}


class EventTime(TimestampAssigner):
    """Uses the time of a row."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value.dateTime


def row_type(query: str, table: str) -> Any:
    """Return the type of the rows that a query reads from a table."""
    columns = QUERIES[query].columns[table]
    return Types.ROW_NAMED(
        list(columns), [TYPES[str(SCHEMAS[table].field(name).type)] for name in columns]
    )


class Tables:
    """The tables of one query."""

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        folder: Path,
        query: str,
        form: str = "parquet",
        assigner: Any = None,
    ) -> None:
        """Prepare to read.

        Args:
            env: The environment.
            folder: A folder written by `events.write`.
            query: Names the columns.
            form: `parquet`, `json` or `kafka`.
            assigner: Returns the event time of a row; None for the plain function.
        """
        self._env = env
        self._folder = folder
        self._query = query
        self._form = form
        self._assigner = EventTime() if assigner is None else assigner

    def rows(self, table: str) -> DataStream[Any]:
        """Return the rows of a table, without timestamps."""
        return self._read(table, WatermarkStrategy.no_watermarks())

    def timed(self, table: str) -> DataStream[Any]:
        """Return the rows of a table with the timestamps of their events."""
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
        return self._read(table, strategy.with_timestamp_assigner(self._assigner))

    def _read(self, table: str, strategy: WatermarkStrategy) -> DataStream[Any]:
        of_rows = row_type(self._query, table)
        path = str(self._folder / table)
        json = JsonRowDeserializationSchema.builder().type_info(of_rows).build()
        source: Any
        if self._form == "json":
            lines = StreamFormat.line_format(json)
            source = FileSource.for_record_stream_format(lines, path).build()
        elif self._form == "kafka":
            source = (
                KafkaSource.builder()
                .set_bootstrap_servers(os.environ[topics.SERVERS])
                .set_topics(topics.topic(self._folder, table))
                .set_starting_offsets(KafkaOffsetsInitializer.earliest())
                .set_bounded(KafkaOffsetsInitializer.latest())
                .set_value_only_deserializer(json)
                .build()
            )
        else:
            columns = ParquetColumnarRowInputFormat(of_rows)
            source = FileSource.for_bulk_file_format(columns, path).build()
        return self._env.from_source(source, strategy, table)
