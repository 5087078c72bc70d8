"""Formats and sinks read rows by position unless the program named the fields, as in Flink."""

import io
import json
import sqlite3
from contextlib import closing

import fastavro
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest
from penstock.common import Row, Types
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.datastream.formats.arrow import ArrowBulkWriters
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroRowSerializationSchema,
    AvroSchema,
)
from penstock.datastream.formats.csv import CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.errors import FormatError
from support.environments import in_process

INNER = Types.ROW_NAMED(["u", "v"], [Types.STRING(), Types.STRING()])
NAMED = Types.ROW_NAMED(["x", "y"], [Types.INT(), INNER])
UNNAMED = Types.ROW([Types.INT(), Types.ROW([Types.STRING(), Types.STRING()])])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Outer",
        "fields": [
            {"name": "x", "type": "int"},
            {
                "name": "y",
                "type": {
                    "type": "record",
                    "name": "Inner",
                    "fields": [{"name": name, "type": "string"} for name in "uv"],
                },
            },
        ],
    }
)
WRITTEN = {"x": 1, "y": {"u": "a", "v": "b"}}


def of_csv(text):
    number, inner = text.decode().strip().split(",")
    u, v = inner.split(";")
    return {"x": int(number), "y": {"u": u, "v": v}}


def in_file(factory, read):
    def write(row):
        file = io.BytesIO()
        writer = factory.create(file)
        writer.add_element(row)
        writer.finish()
        file.seek(0)
        return read(file)

    return write


def single_row(table):
    (row,) = table.to_pylist()
    return row


def serialized(schema, read):
    return lambda row: read(schema.serialize(row))


WRITERS = {
    "json": serialized(
        JsonRowSerializationSchema.builder().with_type_info(NAMED).build(), json.loads
    ),
    "csv": serialized(
        CsvRowSerializationSchema.Builder(NAMED).disable_quote_character().build(), of_csv
    ),
    "avro": serialized(
        AvroRowSerializationSchema(avro_schema_string=AVRO),
        lambda data: fastavro.schemaless_reader(io.BytesIO(data), json.loads(AVRO)),
    ),
    "avro file": in_file(
        AvroBulkWriters.for_generic_record(AvroSchema.parse_string(AVRO)),
        lambda file: next(iter(fastavro.reader(file))),
    ),
    "parquet": in_file(
        ParquetBulkWriters.for_row_type(NAMED),
        lambda file: single_row(pyarrow.parquet.read_table(file)),
    ),
    "orc": in_file(
        OrcBulkWriters.for_row_type(NAMED),
        lambda file: single_row(pyarrow.orc.ORCFile(file).read()),
    ),
    "arrow": in_file(
        ArrowBulkWriters.for_row_type(NAMED),
        lambda file: single_row(pyarrow.feather.read_table(file)),
    ),
}


def as_of_a_type_without_names(row):
    row.set_field_names([f"f{i}" for i in range(len(row))])
    return row


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_rows_of_a_type_without_names_go_by_position(write):
    inner = as_of_a_type_without_names(Row("a", "b"))
    assert write(as_of_a_type_without_names(Row(1, inner))) == WRITTEN
    assert write(Row(1, Row("a", "b"))) == WRITTEN


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_rows_that_the_program_named_go_by_name(write):
    assert write(Row(y=Row(v="b", u="a"), x=1)) == WRITTEN


@pytest.mark.parametrize(
    ("row", "own", "wanted"),
    [
        (Row(x=1, z=Row("a", "b")), "['x', 'z']", "['x', 'y']"),
        (Row(x=1, y=Row(u="a", w="b")), "['u', 'w']", "['u', 'v']"),
        (Row(x=1, y=Row("a", "b"), z=2), "3 fields", "['x', 'y']"),
    ],
)
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_rows_that_the_program_named_otherwise_are_refused_with_both_names(write, row, own, wanted):
    with pytest.raises(FormatError) as caught:
        write(row)
    assert own in str(caught.value)
    assert wanted in str(caught.value)


def test_the_origin_of_a_row_makes_no_difference():
    """A declared type names the fields of rows at each exchange, and in from_collection."""
    env = in_process()
    schema = JsonRowSerializationSchema.builder().with_type_info(NAMED).build()
    given = env.from_collection([Row(1, Row("a", "b"))], UNNAMED)
    made = env.from_collection([0]).map(lambda _: Row(1, Row("a", "b")), UNNAMED)
    found = [
        stream.map(schema.serialize)
        for rows in (given, made)
        for stream in (
            rows,
            rows.rebalance(),
            rows.key_by(lambda row: row[0], Types.INT()),
            rows.map(lambda row: row, NAMED).rebalance(),
            rows.rebalance().map(lambda row: row, NAMED).rebalance(),
        )
    ]
    with found[0].union(*found[1:]).execute_and_collect() as results:
        assert [json.loads(text) for text in results] == [WRITTEN] * 10


@pytest.mark.parametrize("way", ["chain", "exchange"])
def test_the_names_of_a_stream_count_for_a_sink_in_its_chain(tmp_path, way):
    """The function makes rows without names; the declared type names them, in another order."""
    database = tmp_path / "rows.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE t (x INT, y TEXT)")
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    sink = JdbcSink.sink(
        "INSERT INTO t VALUES (?, ?)",
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]),
        options.with_url(f"jdbc:sqlite:{database}").build(),
    )
    env = in_process()
    swapped = Types.ROW_NAMED(["y", "x"], [Types.STRING(), Types.INT()])
    rows = env.from_collection([7]).map(lambda number: Row("seven", number), swapped)
    (rows if way == "chain" else rows.rebalance()).add_sink(sink)
    env.execute()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [(7, "seven")]
