"""Each setting of FileSink's builders, and of its file writers, is visible in the files.

Method: the operators of a built sink in harnesses, as in `test_file_sink`.
"""

import csv
import threading
import time

import fastavro
import pyarrow as pa
import pytest
from penstock.common import Configuration, Row, Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from penstock.datastream.formats.arrow import ArrowBulkWriters
from penstock.datastream.formats.avro import AvroBulkWriters, AvroSchema
from penstock.datastream.formats.csv import CsvBulkWriters, CsvSchema
from penstock.datastream.formats.orc import OrcBulkWriters
from penstock.datastream.formats.parquet import AvroParquetWriters, ParquetBulkWriters
from penstock.errors import FormatError, SinkError, WrongArgumentError
from penstock.formats.file_format import Batch
from penstock.testing import OneInputStreamOperatorTestHarness
from pyarrow import orc, parquet
from support.patience import PATIENCE_S
from unit.connectors.test_file_compaction import CompactingSink, every
from unit.connectors.test_file_sink import CHECKPOINTS

DECLARED = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
AVRO = AvroSchema(
    '{"type":"record","name":"A","fields":[{"name":"n","type":"int"},{"name":"s","type":"string"}]}'
)
#: 2020-01-01 at 20:30:40 in UTC.
EVENING_MS = 1_577_910_640_000


def texts(folder, kind=FileSink):
    return kind.for_row_format(str(folder), Encoder.simple_string_encoder())


def opened(builder):
    sink = builder.build()
    made = sink if isinstance(sink, FileSink) else sink._as_sink()
    test = OneInputStreamOperatorTestHarness(made.sink_operator(), configuration=CHECKPOINTS)
    test.open()
    return test


def final_names(test, folder):
    """Return the names that finished files will have."""
    test.snapshot(1)
    committables = [value.committable for value in test.values if hasattr(value, "committable")]
    return [file.final_path.removeprefix(f"{folder}/") for file in committables]


def written(builder, folder, *elements):
    """Return the name and the path of the only file with these records."""
    test = opened(builder)
    try:
        for element in elements:
            test.process_element(element)
        test.end_input()
        (name,) = final_names(test, folder)
        (path,) = [path for path in folder.rglob("*") if path.is_file()]
    finally:
        test.close()
    return name, path


@pytest.mark.parametrize("kind", [FileSink, StreamingFileSink])
@pytest.mark.parametrize(
    ("assigner", "bucket"),
    [
        (BucketAssigner.base_path_bucket_assigner(), ""),
        (BucketAssigner.date_time_bucket_assigner(timezone_id="UTC"), "2020-01-01--20/"),
        (BucketAssigner.date_time_bucket_assigner(timezone_id="Asia/Tokyo"), "2020-01-02--05/"),
        (BucketAssigner.date_time_bucket_assigner("yy/MMdd", "UTC"), "20/0101/"),
        (BucketAssigner.date_time_bucket_assigner("'at' HH.mm.ss", "UTC"), "at 20.30.40/"),
    ],
)
def test_the_folder_of_an_element(tmp_path, kind, assigner, bucket):
    test = opened(texts(tmp_path, kind).with_bucket_assigner(assigner))
    test.set_processing_time(EVENING_MS)
    test.process_element("a")
    test.end_input()
    (name,) = final_names(test, tmp_path)
    assert name.startswith(f"{bucket}part-")
    test.close()


class Chosen(BucketAssigner):
    """Uses the record as the name of its folder."""

    def __init__(self):
        super().__init__(None, None)

    def get_bucket_id(self, element, processing_time_ms):
        return element


def test_a_folder_of_the_user_s_own(tmp_path):
    name, path = written(texts(tmp_path).with_bucket_assigner(Chosen()), tmp_path, "a..b/.c")
    assert name.startswith("a..b/.c/part-")
    assert path.parent == tmp_path / "a..b" / ".c"


@pytest.mark.parametrize("bucket", ["/elsewhere", "../x", "a/../../x", "..", "a\0b", None, 5])
def test_a_folder_that_is_not_below_the_sink_s_is_refused(tmp_path, bucket):
    folder = tmp_path / "out"
    with pytest.raises(SinkError, match=r"Chosen.get_bucket_id must return a folder below .*out"):
        written(texts(folder).with_bucket_assigner(Chosen()), folder, bucket)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("zone", "bucket"), [("UTC", "20"), ("Asia/Tokyo", "05")])
def test_hours_are_those_of_the_machine(tmp_path, monkeypatch, zone, bucket):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        test = opened(texts(tmp_path))
        test.set_processing_time(EVENING_MS)
        test.process_element("a")
        test.end_input()
        (name,) = final_names(test, tmp_path)
        assert name.partition("/")[0].endswith(f"--{bucket}")
        test.close()
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("kind", [FileSink, StreamingFileSink])
def test_names_of_files(tmp_path, kind):
    names = OutputFileConfig.builder().with_part_prefix("a").with_part_suffix(".txt").build()
    builder = texts(tmp_path, kind).with_output_file_config(names)
    base = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    name, _ = written(base, tmp_path, "x")
    assert name.startswith("a-")
    assert name.endswith("-0.txt")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, "-0.parquet"),
        (OutputFileConfig.builder().with_part_prefix("part").build(), "-0.parquet"),
        (OutputFileConfig.builder().with_part_suffix(".pq").build(), "-0.pq"),
        (OutputFileConfig.builder().with_part_suffix("").build(), "-0"),
        (OutputFileConfig("part", ""), "-0"),
    ],
)
def test_parts_of_parquet_are_called_so_unless_the_program_says_otherwise(
    tmp_path, config, expected
):
    row = Types.ROW_NAMED(["n"], [Types.LONG()])
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(row))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    if config is not None:
        builder.with_output_file_config(config)
    name, _ = written(builder, tmp_path, Row(n=1))
    assert name.startswith("part-")
    assert name.endswith(expected)


@pytest.mark.parametrize(("charset", "data"), [("UTF-8", b"\xc3\xa9\n"), ("latin-1", b"\xe9\n")])
def test_the_charset_of_an_encoder(tmp_path, charset, data):
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder(charset))
    assert written(builder, tmp_path, "é")[1].read_bytes() == data


@pytest.mark.parametrize("kind", [FileSink, StreamingFileSink])
@pytest.mark.parametrize(
    ("policy", "check_ms", "until_ms", "ended"),
    [
        (RollingPolicy.default_rolling_policy(part_size=1), 60_000, 0, 1),
        (RollingPolicy.default_rolling_policy(rollover_interval=50), 10, 40, 0),
        (RollingPolicy.default_rolling_policy(rollover_interval=50), 10, 50, 1),
        (RollingPolicy.default_rolling_policy(inactivity_interval=50), 10, 50, 1),
        (RollingPolicy.default_rolling_policy(inactivity_interval=50), 60_000, 59_000, 0),
        (RollingPolicy.on_checkpoint_rolling_policy(), 60_000, 0, 1),
    ],
)
def test_when_a_file_ends(tmp_path, kind, policy, check_ms, until_ms, ended):
    builder = texts(tmp_path, kind).with_rolling_policy(policy)
    test = opened(builder.with_bucket_check_interval(check_ms))
    test.process_element("a")
    for now_ms in range(0, until_ms + 1, 10):
        test.set_processing_time(now_ms)
    assert len(final_names(test, tmp_path)) == ended
    test.close()


class Meets(StreamFormat):
    """Reads the lines of files, two files at a time."""

    def __init__(self, others):
        super().__init__()
        self.others = others

    def can_be_cut(self):
        return False

    def get_produced_type(self):
        return Types.STRING()

    def read(self, file, what):
        self.others.wait()
        yield Batch(0, 0, [file.read().decode().strip()])


class FirstLetter:
    def get_bucket_id(self, element, processing_time_ms):
        return element[0]


def test_so_many_threads_put_files_together(tmp_path):
    """Two buckets of two files: files of both buckets are read at the same time."""
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2)
    compactor = FileCompactor.record_wise_file_compactor(
        Meets(threading.Barrier(2, timeout=PATIENCE_S))
    )
    threads = strategy.set_num_compact_threads(2).build()
    sink = CompactingSink(tmp_path, threads, compactor, bucket_assigner=FirstLetter())
    for number in range(4):
        sink.checkpoint(number, f"a{number}", f"b{number}")
    sink.end(9)
    assert len(list(tmp_path.rglob("compacted-*"))) == 4
    assert every(1).num_threads == 1


def bulk(folder, factory):
    base = BucketAssigner.base_path_bucket_assigner()
    return FileSink.for_bulk_format(str(folder), factory).with_bucket_assigner(base)


ROWS = [Row(n=n, s="x" * 50) for n in range(20_000)]


def codec_of_parquet(path):
    return parquet.ParquetFile(path).metadata.row_group(0).column(1).compression


def codec_of_avro(path):
    with path.open("rb") as file:
        return fastavro.reader(file).codec


@pytest.mark.parametrize(
    ("factory", "read", "expected"),
    [
        (ParquetBulkWriters.for_row_type(DECLARED), codec_of_parquet, "SNAPPY"),
        (
            ParquetBulkWriters.for_row_type(DECLARED, compression="zstd"),
            codec_of_parquet,
            "ZSTD",
        ),
        (
            ParquetBulkWriters.for_row_type(DECLARED, compression="none"),
            codec_of_parquet,
            "UNCOMPRESSED",
        ),
        (AvroParquetWriters.for_generic_record(AVRO), codec_of_parquet, "SNAPPY"),
        (OrcBulkWriters.for_row_type(DECLARED), lambda path: orc.ORCFile(path).compression, "ZLIB"),
        (
            OrcBulkWriters.for_row_type(
                DECLARED, Configuration().set_string("orc.compress", "zstd")
            ),
            lambda path: orc.ORCFile(path).compression,
            "ZSTD",
        ),
        (
            OrcBulkWriters.for_row_type(
                DECLARED, Configuration().set_string("orc.stripe.size", "1000")
            ),
            lambda path: orc.ORCFile(path).nstripes > 1,
            True,
        ),
        (AvroBulkWriters.for_generic_record(AVRO), codec_of_avro, "null"),
        (AvroBulkWriters.for_generic_record(AVRO, "deflate"), codec_of_avro, "deflate"),
        (
            ArrowBulkWriters.for_row_type(pa.schema({"n": pa.int32(), "s": pa.string()})),
            lambda path: pa.ipc.open_file(path).schema.names,
            ["n", "s"],
        ),
    ],
)
def test_settings_of_files_of_columns(tmp_path, factory, read, expected):
    _, path = written(bulk(tmp_path, factory), tmp_path, *ROWS)
    assert read(path) == expected


def test_the_older_sink_writes_columns(tmp_path):
    builder = StreamingFileSink.for_bulk_format(
        str(tmp_path), AvroBulkWriters.for_generic_record(AVRO)
    )
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    builder.with_rolling_policy(policy=RollingPolicy.on_checkpoint_rolling_policy())
    name, path = written(builder, tmp_path, *ROWS)
    assert name.startswith("part-0-0")
    assert codec_of_avro(path) == "null"
    with pytest.raises(WrongArgumentError, match="takes a BulkWriterFactory"):
        StreamingFileSink.for_bulk_format(str(tmp_path), AVRO)


@pytest.mark.parametrize(
    ("adjust", "expected"),
    [
        (lambda b: b, b"1,a;b,\r"),
        (lambda b: b.set_use_header(), b"n,l,s\r1,a;b,\r"),
        (lambda b: b.set_column_separator(";"), b'1;"a;b";\r'),
        (lambda b: b.set_column_separator(";").set_quote_char("'"), b"1;'a;b';\r"),
        (lambda b: b.set_null_value("none"), b"1,a;b,none\r"),
        (lambda b: b.set_array_element_separator("+"), b'1,"a+b",\r'),
        (lambda b: b.set_line_separator("\r\n"), b"1,a;b,\r\n"),
        (lambda b: b.set_column_separator(";").disable_quote_char(), b"1;a;b;\r"),
    ],
)
def test_settings_of_csv_files(tmp_path, adjust, expected):
    schema = CsvSchema.builder().add_number_column("n").add_array_column("l", "")
    schema.add_string_column("s").set_line_separator("\r")
    factory = CsvBulkWriters.for_schema(adjust(schema).build())
    _, path = written(bulk(tmp_path, factory), tmp_path, Row(n=1, l=["a", "b"], s=None))
    assert path.read_bytes() == expected


def test_escapes_of_csv_files(tmp_path):
    schema = CsvSchema.builder().add_string_column("s").set_escape_char("\\").build()
    _, path = written(bulk(tmp_path, CsvBulkWriters.for_schema(schema)), tmp_path, Row(s='a\\"b'))
    (row,) = csv.reader(path.read_text().splitlines(), escapechar="\\")
    assert row == ['a\\"b']


def test_arrays_without_a_separator_have_one_element(tmp_path):
    schema = CsvSchema.builder().add_array_column("l", "").disable_array_element_separator()
    factory = CsvBulkWriters.for_schema(schema.build())
    _, path = written(bulk(tmp_path, factory), tmp_path, Row(l=["a"]))
    assert path.read_bytes() == b"a\n"
    path.unlink()
    with pytest.raises(FormatError, match="'l': there are 2 elements, and the schema has no sepa"):
        written(bulk(tmp_path, factory), tmp_path, Row(l=["a", "b"]))
