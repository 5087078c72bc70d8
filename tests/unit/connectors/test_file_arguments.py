"""Invalid arguments of files and formats are rejected in the call that receives them."""

import sys

import pytest
from penstock.common import Encoder, SimpleStringSchema, Types
from penstock.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    OutputFileConfig,
    StreamFormat,
    StreamingFileSink,
)
from penstock.datastream.formats.avro import AvroBulkWriters, AvroSchema
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.dead_letters import DeserializeFunction
from penstock.datastream.formats.orc import OrcBulkWriters, OrcColumnarRowInputFormat
from penstock.datastream.formats.parquet import (
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    ParquetColumnInputFormat,
)
from penstock.errors import InvalidProgramError

ROW = Types.ROW_NAMED(["id"], [Types.LONG()])
AVRO = AvroSchema('{"type":"record","name":"A","fields":[{"name":"id","type":"long"}]}')
LINES, TEXTS = StreamFormat.text_line_format(), Encoder.simple_string_encoder()
PATH = "a path must be a string that is not empty"


def row_files(path):
    return FileSink.for_row_format(path, TEXTS)


def path_columns(*arguments):
    rows = ParquetColumnarRowInputFormat(ROW)
    return FileSource.for_bulk_file_format(rows, "/x").add_path_columns(*arguments)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FileSource.for_record_stream_format(LINES, ""), PATH),
        (lambda: FileSource.for_record_stream_format(LINES, ["/x"]), PATH),
        (lambda: row_files(""), PATH),
        (lambda: row_files(5), PATH),
        (lambda: FileSink.for_bulk_format(None, ParquetBulkWriters.for_row_type(ROW)), PATH),
        (lambda: StreamingFileSink.for_row_format("", TEXTS), PATH),
        (
            lambda: FileSource.for_record_stream_format(LINES, "/x", "foo://user:hidden@a/b"),
            "for_record_stream_format: foo://a/b: no installed package supports 'foo': use file",
        ),
        (
            lambda: FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(ROW), "1a://b"),
            "no installed package supports ''",
        ),
        (lambda: row_files("foo://a"), "for_row_format: foo://a: no installed package supports"),
        (
            lambda: FileSink.for_bulk_format("foo://a", ParquetBulkWriters.for_row_type(ROW)),
            "for_bulk_format: foo://a: no installed package",
        ),
        (
            lambda: StreamingFileSink.for_row_format("foo://a", TEXTS),
            "no installed package supports",
        ),
        (
            lambda: StreamingFileSink.for_row_format("/x", TEXTS).enable_compact(
                FileCompactStrategy.builder().set_size_threshold(1).build(),
                FileCompactor.concat_file_compactor(),
            ),
            "StreamingFileSink does not compact files: use FileSink",
        ),
        (lambda: row_files("s3://user@bucket"), "a URL of S3 must consist of a bucket and a path"),
        (lambda: OutputFileConfig.builder().with_part_prefix("a/b"), "with_part_prefix .* 'a/b'"),
        (lambda: OutputFileConfig.builder().with_part_suffix("/x"), "with_part_suffix .* '/x'"),
        (
            lambda: FileCompactStrategy.builder().enable_compaction_on_checkpoint("3"),
            "num_checkpoints_before_compaction must be a whole number",
        ),
        (lambda: FileCompactStrategy.builder().set_size_threshold(1.5), "size_threshold must be"),
        (lambda: FileCompactStrategy.builder().set_num_compact_threads(True), "must be a whole"),
        (lambda: path_columns(), "takes the name of a column for the path"),
        (lambda: path_columns(""), "takes the name of a column for the path"),
        (lambda: path_columns(None, ["day"]), "partition_columns must be a dictionary"),
        (lambda: path_columns(None, {"day": "STRING"}), "partition_columns must be a dictionary"),
        (lambda: path_columns("p", {"p": Types.STRING()}), "cannot be both path and partition"),
        (
            lambda: ParquetColumnarRowInputFormat(ROW, batch_size="5"),
            "batch_size must be a positive",
        ),
        (
            lambda: ParquetColumnarRowInputFormat(ROW, 5),
            "hadoop_config must be a Configuration, got 5",
        ),
        (
            lambda: ParquetColumnarRowInputFormat(ROW, is_case_sensitive="no"),
            "is_case_sensitive must be True or False, got 'no'",
        ),
        (lambda: OrcColumnarRowInputFormat(ROW, -1), "batch_size must be a positive"),
        (lambda: ParquetColumnInputFormat("", Types.LONG()), "column must be the name of a column"),
        (lambda: ParquetColumnInputFormat(5, Types.LONG()), "column must be the name of a column"),
        (lambda: ParquetBulkWriters.for_row_type(ROW, compression="x"), "one of none, snappy"),
        (lambda: ParquetBulkWriters.for_row_type(ROW, utc_timestamp=1), "utc_timestamp must be"),
        (lambda: AvroBulkWriters.for_generic_record(AVRO, "x"), "codec must be null, .* got 'x'"),
        (lambda: AvroBulkWriters.for_generic_record(AVRO, None), "codec must be null, .* got None"),
        (lambda: OrcBulkWriters.for_row_type(ROW, 5), "writer_properties must be a Configuration"),
        (
            lambda: OrcBulkWriters.for_row_type(
                Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.LIST(Types.SQL_TIME())])
            ),
            "ORC has no type for the field 'b' of list",
        ),
        (lambda: StreamFormat.line_format(SimpleStringSchema(), skip_malformed="x"), "True or Fal"),
        (lambda: DeserializeFunction(SimpleStringSchema(), skip_malformed=1), "True or False"),
        (
            lambda: CsvReaderFormat.for_schema(
                CsvSchema.builder().add_string_column("a").build(), skip_malformed="x"
            ),
            "skip_malformed must be True or False, got 'x'",
        ),
        (lambda: CsvSchema.builder().add_columns_from(5), "takes a CsvSchema, got 5"),
        (lambda: CsvSchema.builder().add_string_column(""), "needs a name, got ''"),
        (lambda: CsvSchema.builder().add_number_column("a", Types.STRING()), "a type of numbers"),
    ],
)
def test_senseless_arguments_are_rejected(make, words):
    with pytest.raises(InvalidProgramError, match=words):
        make()


@pytest.mark.parametrize("url", ["s3://a/b", "gs://a", "hdfs://h/a", "memory://a", "file:///a"])
def test_stores_that_are_known_are_not_asked(url):
    row_files(url)
    FileSource.for_record_stream_format(LINES, url)


def test_a_store_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    with pytest.raises(InvalidProgramError, match=r"pip install 'penstock-engine\[storage\]'"):
        row_files("s3://a/b")


@pytest.mark.parametrize("compression", ["NONE", "zstd", "lz4_raw", "Gzip"])
def test_compressions_that_there_are(compression, tmp_path):
    writers = ParquetBulkWriters.for_row_type(ROW, compression=compression)
    with (tmp_path / "file").open("wb") as file:
        writers.create(file).finish()
