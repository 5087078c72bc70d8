"""FileSink's bulk formats: whole files that other readers read, through failures.

Method: as in `test_file_sink`; pyarrow, fastavro and the csv module read the files.
"""

import csv
import datetime
import json
import pickle
import sys
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from penstock.common import Configuration, Row, Types
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.formats.arrow import ArrowBulkWriters
from penstock.datastream.formats.avro import AvroBulkWriters, AvroSchema
from penstock.datastream.formats.csv import CsvBulkWriters, CsvSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
)
from penstock.errors import DependencyError, FormatError, InvalidProgramError, JvmOnlyError
from pyarrow import orc, parquet
from support.s3_server import BUCKET, s3_server
from unit.connectors.test_file_sink import CHECKPOINTS, Sink

DECLARED = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "A",
        "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": ["null", "string"]}],
    }
)


def csv_schema():
    return CsvSchema.builder().add_number_column("n").add_string_column("s").set_use_header()


def read_arrow(path):
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as opened:
        return opened.read_all().to_pylist()


def read_avro(path):
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def read_csv(path):
    with path.open(newline="") as file:
        return [{"n": int(row["n"]), "s": row["s"] or None} for row in csv.DictReader(file)]


FORMATS = {
    "parquet": (
        lambda: ParquetBulkWriters.for_row_type(DECLARED),
        lambda path: parquet.read_table(path).to_pylist(),
    ),
    "avro.parquet": (
        lambda: AvroParquetWriters.for_generic_record(AvroSchema(AVRO)),
        lambda path: parquet.read_table(path).to_pylist(),
    ),
    "orc": (
        lambda: OrcBulkWriters.for_row_type(DECLARED),
        lambda path: orc.read_table(path).to_pylist(),
    ),
    "arrow": (lambda: ArrowBulkWriters.for_row_type(DECLARED), read_arrow),
    "avro": (lambda: AvroBulkWriters.for_generic_record(AvroSchema(AVRO), "deflate"), read_avro),
    "csv": (lambda: CsvBulkWriters.for_schema(csv_schema().build()), read_csv),
}


def sink(folder, factory, restored=None, configuration=CHECKPOINTS):
    return Sink(
        folder,
        RollingPolicy.on_checkpoint_rolling_policy(),
        restored,
        configuration,
        encoder=None,
        bulk_writer_factory=pickle.loads(pickle.dumps(factory)),
    )


def finish(writing):
    """End the input, which makes the last files visible."""
    writing.end()
    writing.snapshot(9)
    writing.complete(9)
    writing.close()


def visible(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("part-"))


@pytest.mark.parametrize("name", list(FORMATS))
def test_files_are_whole_when_a_checkpoint_is_complete(tmp_path, name):
    make, read = FORMATS[name]
    writing = sink(tmp_path, make())
    writing.write(Row(n=1, s="a"), {"n": 2, "s": None}, (3, 'c"\n'))
    assert visible(tmp_path) == []
    snapshots = writing.snapshot(1)
    writing.write(Row(n=4, s="lost"))
    assert visible(tmp_path) == []
    writing.complete(1)
    (part,) = visible(tmp_path)
    expected = [{"n": 1, "s": "a"}, {"n": 2, "s": None}, {"n": 3, "s": 'c"\n'}]
    assert read(part) == expected
    writing.close()  # as in a failed task
    assert visible(tmp_path) == [part]
    again = sink(tmp_path, make(), snapshots)
    again.write(Row(n=5, s="e"))
    finish(again)
    found = [row for path in visible(tmp_path) for row in read(path)]
    assert sorted(found, key=str) == sorted([*expected, {"n": 5, "s": "e"}], key=str)
    assert len(list(tmp_path.iterdir())) == 2, "nothing hidden is left"


def test_many_rows_become_several_batches(tmp_path):
    writing = sink(tmp_path, ParquetBulkWriters.for_row_type(DECLARED))
    writing.write(*((n, str(n)) for n in range(20_000)))
    finish(writing)
    (part,) = visible(tmp_path)
    assert parquet.read_table(part)["n"].to_pylist() == list(range(20_000))


def test_files_in_a_store():
    with s3_server() as server:
        folder = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        writing = sink(
            folder,
            ParquetBulkWriters.for_row_type(DECLARED),
            configuration={**CHECKPOINTS, **server.options},
        )
        writing.write((1, "a"))
        writing.snapshot(1)
        writing.complete(1)
        writing.close()
        ((key, _),) = server.objects().items()
        body = server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert parquet.read_table(pa.BufferReader(body)).to_pylist() == [{"n": 1, "s": "a"}]


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("parquet", ("x", "a"), r"the field 'n' does not fit Integer: .*; the row is .*'x', 'a'"),
        ("parquet", (2**70, "a"), "the field 'n' does not fit Integer"),
        ("parquet", (1,), "1 fields, not the 2"),
        ("parquet", 5, "5 is not a row"),
        ("orc", (1, 2), "the field 's' does not fit String"),
        ("csv", ("x", "a"), "the field 'n': 'x' is not a whole number"),
        ("avro", ("x", "a"), "the field 'n': 'x' is not a valid "),
        ("avro", (1,), "1 fields, not the 2"),
    ],
)
def test_errors_name_the_field(tmp_path, name, row, message):
    writing = sink(tmp_path, FORMATS[name][0]())

    def write():
        writing.write((0, "good"), row)
        writing.snapshot(1)

    with pytest.raises(FormatError, match=message):
        write()
    writing.close()
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_a_field_that_does_not_fit(tmp_path):
    tags = Types.ROW_NAMED(["tags"], [Types.LIST(Types.INT())])
    declared = Types.ROW_NAMED(["m", "r"], [Types.MAP(Types.STRING(), Types.LONG()), tags])
    for row, message in (
        (({"k": 1}, Row(tags=[1, "x"])), "the field 'r.tags.1' does not fit Integer"),
        (({"k": 1, "l": "x"}, Row(tags=[])), "the field 'm.l' does not fit Long"),
        (({"k": 1}, 5), "the field 'r' does not fit RowTypeInfo"),
    ):
        writing = sink(tmp_path, ParquetBulkWriters.for_row_type(declared))
        writing.write(({}, Row(tags=[])), row)
        with pytest.raises(FormatError, match=message):
            writing.snapshot(1)
        writing.close()


def test_types_of_columns(tmp_path):
    declared = Types.ROW_NAMED(
        ["m", "l", "r", "t", "d", "b"],
        [
            Types.MAP(Types.STRING(), Types.LONG()),
            Types.OBJECT_ARRAY(Types.ROW_NAMED(["x"], [Types.LONG()])),
            Types.TUPLE([Types.INT(), Types.STRING()]),
            Types.SQL_TIMESTAMP(),
            Types.BIG_DEC(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
        ],
    )
    when = datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
    row = Row(m={"a": 1}, l=[Row(x=1)], r=(1, "x"), t=when, d=Decimal("1.5"), b=b"\1")
    for is_utc in (False, True):
        folder = tmp_path / str(is_utc)
        writing = sink(folder, ParquetBulkWriters.for_row_type(declared, utc_timestamp=is_utc))
        writing.write(row)
        finish(writing)
        (found,) = parquet.read_table(visible(folder)[0]).to_pylist()
        zone = found["t"].tzinfo
        assert (zone is not None) is is_utc
        assert found["t"].replace(tzinfo=None) == when
        assert found["m"] == [("a", 1)]
        assert found["l"] == [{"x": 1}]
        assert found["r"] == {"f0": 1, "f1": "x"}
        assert (found["d"], found["b"]) == (Decimal("1.5"), b"\1")


class Upper(BulkWriterFactory):
    """A user's own writer."""

    def create(self, file):
        return UpperWriter(file)


class UpperWriter(BulkWriter):
    def __init__(self, file):
        self.file = file
        self.kept = []

    def add_element(self, element):
        self.kept.append(element)

    def flush(self):
        self.file.write("".join(self.kept).upper().encode())
        self.kept = []

    def finish(self):
        self.flush()
        self.file.write(b"!")


def test_writers_of_users(tmp_path):
    writing = sink(tmp_path, Upper())
    writing.write("a", "b")
    finish(writing)
    assert visible(tmp_path)[0].read_text() == "AB!"


def test_invalid_settings_are_rejected(monkeypatch):
    with pytest.raises(InvalidProgramError, match="takes a BulkWriterFactory"):
        FileSink.for_bulk_format("/out", "x")
    builder = FileSink.for_bulk_format("/out", Upper())
    with pytest.raises(InvalidProgramError, match="on_checkpoint_rolling_policy"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())
    settings = Configuration()
    settings.set_string("orc.unknown", "1")
    for wrong in (
        lambda: ParquetBulkWriters.for_row_type("x"),
        lambda: ParquetBulkWriters.for_row_type(DECLARED, settings),
        lambda: OrcBulkWriters.for_row_type(DECLARED, settings),
        lambda: CsvBulkWriters.for_schema("x"),
        lambda: AvroBulkWriters.for_generic_record("x"),
        lambda: ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()])),
    ):
        with pytest.raises(InvalidProgramError):
            wrong()
    with pytest.raises(JvmOnlyError):
        BulkWriterFactory(object())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[storage\]"):
        ParquetBulkWriters.for_row_type(DECLARED)


@pytest.mark.parametrize("made", [AvroParquetReaders, AvroParquetWriters])
def test_columns_follow_from_schemas_of_records_alone(made):
    for given in (DECLARED, AvroSchema('"string"'), AVRO):
        with pytest.raises(InvalidProgramError, match="takes an AvroSchema of a record"):
            made.for_generic_record(given)


def test_a_field_of_several_types_is_no_column():
    union = AvroSchema(AVRO.replace('["null", "string"]', '["int", "string"]'))
    with pytest.raises(InvalidProgramError, match="Arrow has no type for"):
        AvroParquetWriters.for_generic_record(union)
