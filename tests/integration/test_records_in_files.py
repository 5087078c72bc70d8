"""Records of classes are written to files and tables, and read again as records.

Method: two records of a dataclass, a NamedTuple and a pydantic model go through each format.
"""

import datetime
import json
import sqlite3
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema
from penstock.datastream.formats.csv import (
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from penstock.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from penstock.datastream.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.errors import InvalidProgramError
from penstock.table import StreamTableEnvironment
from pydantic import BaseModel
from support.environments import in_process


@dataclass(frozen=True, slots=True)
class Cup:
    number: int
    note: str | None
    price: Decimal
    at: datetime.datetime


class Mug(NamedTuple):
    number: int
    note: str | None
    price: Decimal
    at: datetime.datetime


class Bowl(BaseModel):
    number: int
    note: str | None
    price: Decimal
    at: datetime.datetime


AVRO = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Cup",
            "fields": [
                {"name": "number", "type": "long"},
                {"name": "note", "type": ["null", "string"]},
                {
                    "name": "price",
                    "type": {
                        "type": "bytes",
                        "logicalType": "decimal",
                        "precision": 10,
                        "scale": 2,
                    },
                },
                {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            ],
        }
    )
)
COLUMNS = {
    "parquet": (ParquetBulkWriters, ParquetColumnarRowInputFormat),
    "orc": (OrcBulkWriters, OrcColumnarRowInputFormat),
}
NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def records(kind):
    at = datetime.datetime(2026, 3, 8, 2, 30, 1, 5)
    return [
        kind(number=1, note="é", price=Decimal("12.50"), at=at),
        kind(number=2, note=None, price=Decimal(-1), at=at),
    ]


def write(kind, sink):
    env = in_process(1)
    env.from_collection(records(kind)).sink_to(sink)
    env.execute()


def line_schemas(form, kind):
    typed = Types.of(kind)
    if form == "csv":
        reading = CsvRowDeserializationSchema.Builder(typed).set_null_literal("-").build()
        return CsvRowSerializationSchema.Builder(typed).set_null_literal("-").build(), reading
    writing = JsonRowSerializationSchema.builder().with_type_info(typed).build()
    return writing, JsonRowDeserializationSchema.builder().type_info(typed).build()


def collected(stream):
    with stream.execute_and_collect() as found:
        return sorted(found, key=lambda record: record.number)


@pytest.mark.parametrize("kind", [Cup, Mug, Bowl])
@pytest.mark.parametrize("form", COLUMNS)
def test_files_of_columns_are_read_as_the_records_that_were_written(form, kind, tmp_path):
    writers, reader = COLUMNS[form]
    folder, typed = str(tmp_path), Types.of(kind)
    write(kind, FileSink.for_bulk_format(folder, writers.for_row_type(typed)).build())
    source = FileSource.for_bulk_file_format(reader(typed), folder).build()
    env = in_process(1)
    assert collected(env.from_source(source, NO_WATERMARKS, "cups").as_records(kind)) == records(
        kind
    )


@pytest.mark.parametrize("kind", [Cup, Mug, Bowl])
@pytest.mark.parametrize("form", ["csv", "json"])
def test_lines_of_files_are_read_as_the_records_that_were_written(form, kind, tmp_path):
    writing, reading = line_schemas(form, kind)
    env = in_process(1)
    lines = env.from_collection(records(kind)).map(
        lambda record: writing.serialize(record).decode().rstrip(), Types.STRING()
    )
    encoder = Encoder.simple_string_encoder()
    lines.sink_to(FileSink.for_row_format(str(tmp_path), encoder).build())
    env.execute()
    lines_of_records = StreamFormat.line_format(reading)
    source = FileSource.for_record_stream_format(lines_of_records, str(tmp_path)).build()
    assert collected(in_process(1).from_source(source, NO_WATERMARKS, "cups")) == records(kind)


@pytest.mark.parametrize("kind", [Cup, Mug, Bowl])
def test_avro_files_are_read_as_the_records_that_were_written(kind, tmp_path):
    write(
        kind,
        FileSink.for_bulk_format(str(tmp_path), AvroBulkWriters.for_generic_record(AVRO)).build(),
    )
    rows = in_process(1).create_input(AvroInputFormat(str(tmp_path), AVRO))
    assert collected(rows.as_records(kind)) == records(kind)


@pytest.mark.parametrize("kind", [Cup, Mug, Bowl])
def test_a_table_of_a_database_is_read_as_the_records_that_were_written(kind, tmp_path):
    path = tmp_path / "cups.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE cups (number INTEGER, note TEXT, price TEXT, at TEXT)")
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}")
    insert = "INSERT INTO cups VALUES (?, ?, ?, ?)"
    env = in_process(1)
    env.from_collection(records(kind)).add_sink(
        JdbcSink.sink(insert, Types.of(kind), options.build())
    )
    env.execute()
    env = in_process(1)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE cups (number BIGINT, note STRING, price DECIMAL(10, 2), `at` TIMESTAMP(6))"
        f" WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 'cups')"
    )
    rows = tables.to_data_stream(tables.from_path("cups"))
    assert collected(rows.as_records(kind)) == records(kind)


def test_a_source_of_rows_is_not_declared_to_emit_records(tmp_path):
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(Types.of(Cup)), str(tmp_path)
    ).build()
    with pytest.raises(InvalidProgramError, match=r"from_source\(…\)\.as_records\(Cup\)"):
        in_process(1).from_source(source, NO_WATERMARKS, "cups", Types.of(Cup))
