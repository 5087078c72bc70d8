"""FileSink.enable_compact: few files instead of many, each record once, through failures.

Method: as in `test_file_sink`, with the compactor between the writer and the committer.
"""

import uuid

import pytest
from penstock.common import Row, Types
from penstock.common.serialization import Encoder, SimpleStringSchema
from penstock.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    RollingPolicy,
    StreamFormat,
)
from penstock.datastream.formats.csv import CsvBulkWriters, CsvSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.errors import InvalidProgramError, SinkError
from penstock.graph import operators
from penstock.testing import OneInputStreamOperatorTestHarness
from pyarrow import parquet
from support.s3_server import BUCKET, s3_server
from unit.connectors.test_file_sink import CHECKPOINTS, file_descriptor

LINES = StreamFormat.text_line_format()
DECLARED = Types.ROW_NAMED(["n"], [Types.LONG()])


def every(checkpoints):
    return FileCompactStrategy.builder().enable_compaction_on_checkpoint(checkpoints).build()


def of_size(size_bytes):
    return FileCompactStrategy.builder().set_size_threshold(size_bytes).build()


class Bucket:
    """Assigns a record to the bucket of its first character."""

    def get_bucket_id(self, element, current_processing_time):
        return element[0]


class CompactingSink:
    """A writer, the compactor and the committer, which take their snapshots together."""

    def __init__(self, folder, strategy, compactor=None, restored=None, options=(), **arguments):
        descriptor = file_descriptor(
            folder, RollingPolicy.on_checkpoint_rolling_policy(), **arguments
        )
        kinds = (
            operators.FileCommitter(),
            operators.FileCompactor(
                sink=descriptor,
                strategy=strategy,
                compactor=compactor or FileCompactor.concat_file_compactor(),
            ),
            descriptor,
        )
        self.committer, self.compactor, self.writer = self.harnesses = [
            OneInputStreamOperatorTestHarness(kind, configuration={**CHECKPOINTS, **dict(options)})
            for kind in kinds
        ]
        try:
            for harness, snapshot in zip(self.harnesses, restored or [None] * 3, strict=True):
                harness.initialize_state(snapshot)
                harness.open()
        except BaseException:
            self.close()
            raise
        self.sent = {self.writer: 0, self.compactor: 0}

    def write(self, *values):
        for value in values:
            self.writer.process_element(value)

    def hand_over(self, harness, to):
        for committable in harness.values[self.sent[harness] :]:
            to.process_element(committable)
        self.sent[harness] = len(harness.values)

    def snapshot(self, checkpoint_id):
        of_writer = self.writer.snapshot(checkpoint_id)
        self.hand_over(self.writer, self.compactor)
        of_compactor = self.compactor.snapshot(checkpoint_id)
        self.hand_over(self.compactor, self.committer)
        return self.committer.snapshot(checkpoint_id), of_compactor, of_writer

    def complete(self, checkpoint_id):
        self.committer.notify_checkpoint_complete(checkpoint_id)

    def checkpoint(self, checkpoint_id, *values):
        self.write(*values)
        snapshot = self.snapshot(checkpoint_id)
        self.complete(checkpoint_id)
        return snapshot

    def end(self, checkpoint_id):
        self.writer.end_input()
        self.hand_over(self.writer, self.compactor)
        self.compactor.end_input()
        self.hand_over(self.compactor, self.committer)
        self.committer.end_input()
        self.snapshot(checkpoint_id)
        self.complete(checkpoint_id)
        self.close()

    def close(self):
        for harness in self.harnesses:
            harness.close()


def names(folder):
    return sorted(path.name.partition("-")[0] for path in folder.rglob("*") if path.is_file())


def visible(folder):
    return sorted(p.read_text() for p in folder.rglob("*") if p.is_file() and p.name[0] != ".")


def test_files_are_one_after_so_many_checkpoints(tmp_path):
    sink = CompactingSink(tmp_path, every(2))
    sink.checkpoint(1, "a")
    sink.checkpoint(2, "b")
    assert visible(tmp_path) == []
    sink.checkpoint(3, "c")
    assert visible(tmp_path) == ["a\nb\n"]
    assert [p.name for p in tmp_path.glob("compacted-part-*")], "named by the first of them"
    sink.checkpoint(4)
    sink.checkpoint(5)
    assert visible(tmp_path) == ["a\nb\n", "c\n"]
    sink.write("d")
    sink.end(6)
    assert visible(tmp_path) == ["a\nb\n", "c\n", "d\n"]
    assert names(tmp_path) == ["compacted", "part", "part"], "nothing hidden is left"


def test_files_of_a_bucket_are_one_when_they_are_large_enough(tmp_path):
    sink = CompactingSink(tmp_path, of_size(9), bucket_assigner=Bucket())
    sink.checkpoint(1, "a1", "b1")
    sink.checkpoint(2, "a2")
    sink.checkpoint(3, "a3")
    sink.checkpoint(4, "a4")
    assert visible(tmp_path) == ["a1\na2\na3\n"]
    assert [p.parent.name for p in tmp_path.rglob("compacted-*")] == ["a"]
    sink.end(5)
    assert visible(tmp_path) == ["a1\na2\na3\n", "a4\n", "b1\n"]


def test_a_delimiter_stands_between_files(tmp_path):
    sink = CompactingSink(tmp_path, every(9), FileCompactor.concat_file_compactor(b"--\n"))
    sink.checkpoint(1, "a")
    sink.checkpoint(2, "b")
    sink.checkpoint(3, "c")
    sink.end(4)
    assert visible(tmp_path) == ["a\n--\nb\n--\nc\n"]


def test_identical_files_get_their_own_names(tmp_path):
    sink = CompactingSink(tmp_path, every(2), FileCompactor.identical_file_compactor())
    sink.checkpoint(1, "a")
    sink.checkpoint(2, "b")
    assert visible(tmp_path) == ["a\n", "b\n"]
    sink.end(3)
    assert names(tmp_path) == ["part", "part"]


def test_records_are_written_as_the_sink_does(tmp_path):
    arguments = {
        "encoder": None,
        "bulk_writer_factory": ParquetBulkWriters.for_row_type(DECLARED),
        "part_suffix": ".parquet",
    }
    compactor = FileCompactor.record_wise_file_compactor(ParquetColumnarRowInputFormat(DECLARED))
    sink = CompactingSink(tmp_path, every(9), compactor, **arguments)
    for number in range(3):
        sink.checkpoint(number + 1, Row(n=number), Row(n=number * 10))
    sink.end(4)
    (path,) = tmp_path.iterdir()
    assert path.suffix == ".parquet"
    assert parquet.read_table(path)["n"].to_pylist() == [0, 0, 1, 10, 2, 20]


def test_records_of_a_row_format_are_encoded_again(tmp_path):
    sink = CompactingSink(tmp_path, every(9), FileCompactor.record_wise_file_compactor(LINES))
    sink.checkpoint(1, "a", "b")
    sink.checkpoint(2, "c")
    sink.end(3)
    assert visible(tmp_path) == ["a\nb\nc\n"]


@pytest.mark.parametrize("failed", [1, 2, 3, 4])
def test_each_record_is_there_once_after_a_failure(tmp_path, failed):
    """Whichever checkpoint is the last one, and whether or not its commit was carried out."""
    sink = CompactingSink(tmp_path, every(2))
    for number in range(1, failed):
        sink.checkpoint(number, f"x{number}")
    sink.write(f"x{failed}")
    restored = sink.snapshot(failed)
    if failed % 2:
        sink.complete(failed)
    # Files written and compacted since then are lost.
    sink.write("lost")
    sink.snapshot(failed + 1)
    sink.write("lost")
    sink.snapshot(failed + 2)
    sink.close()
    for _ in range(2):
        sink = CompactingSink(tmp_path, every(2), restored=restored)
        sink.write("lost")
        sink.close()
    sink = CompactingSink(tmp_path, every(2), restored=restored)
    for number in range(failed + 1, 7):
        sink.checkpoint(number, f"x{number}")
    sink.end(7)
    lines = sorted(line for text in visible(tmp_path) for line in text.split())
    assert lines == [f"x{number}" for number in range(1, 7)]
    assert "compacted" in names(tmp_path)


def test_a_repeated_commit_removes_the_sources_left_by_the_first(tmp_path):
    sink = CompactingSink(tmp_path, every(2))
    sink.checkpoint(1, "a")
    sink.checkpoint(2, "b")
    restored = sink.snapshot(3)
    (made,) = tmp_path.glob(".compacted-*")
    sources = list(tmp_path.glob(".part-*"))
    assert len(sources) == 2
    # Killed between the rename and the removal.
    made.rename(tmp_path / made.name[1:].partition(".inprogress")[0])
    sink.close()
    CompactingSink(tmp_path, every(2), restored=restored).end(4)
    assert visible(tmp_path) == ["a\nb\n"]
    assert names(tmp_path) == ["compacted"]


def test_files_of_a_former_job_get_their_names_without_compaction(tmp_path):
    sink = CompactingSink(tmp_path, every(9))
    restored = sink.checkpoint(1, "a", "b")
    sink.close()
    sink = CompactingSink(tmp_path, None, restored=restored)
    sink.checkpoint(2, "c")
    assert visible(tmp_path) == ["a\nb\n", "c\n"]
    sink.close()


def test_files_that_were_committed_before_are_left_out(tmp_path, caplog):
    """A savepoint may be older than the present state of its files."""
    sink = CompactingSink(tmp_path, every(9))
    restored = sink.checkpoint(1, "a")
    sink.end(2)
    assert visible(tmp_path) == ["a\n"]
    CompactingSink(tmp_path, every(9), restored=restored).end(2)
    assert visible(tmp_path) == ["a\n"]
    assert "was committed before" in caplog.text


def test_a_file_that_became_shorter_is_no_file_to_put_together(tmp_path):
    sink = CompactingSink(tmp_path, every(2))
    sink.checkpoint(1, "abc")
    (path,) = tmp_path.iterdir()
    path.write_text("a")
    sink.checkpoint(2, "b")
    with pytest.raises(SinkError, match=r"it has 1 bytes, but had 4 when it was closed"):
        sink.snapshot(3)
    sink.close()


def test_a_file_that_is_not_what_its_format_says_is_named(tmp_path):
    compactor = FileCompactor.record_wise_file_compactor(ParquetColumnarRowInputFormat(DECLARED))
    sink = CompactingSink(tmp_path, every(2), compactor)
    sink.checkpoint(1, "a")
    sink.checkpoint(2, "b")
    with pytest.raises(SinkError, match=r"cannot compact 2 files.*part-"):
        sink.snapshot(3)
    sink.close()
    assert names(tmp_path) == [".part", ".part"], "nothing half made is left"


def test_objects_of_a_store_are_put_together():
    with s3_server() as server:
        prefix = uuid.uuid4().hex
        base = f"s3://{BUCKET}/{prefix}"
        sink = CompactingSink(base, every(2), options=server.options, bucket_assigner=Bucket())
        sink.checkpoint(1, "a1", "b1")
        restored = sink.checkpoint(2, "a2")
        sink.close()
        sink = CompactingSink(
            base, every(2), restored=restored, options=server.options, bucket_assigner=Bucket()
        )
        sink.checkpoint(3, "a3")
        sink.end(4)
        found = [
            (key.split("/")[1], server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())
            for key in server.objects(prefix)
        ]
        assert sorted(found) == [("a", b"a1\na2\n"), ("a", b"a3\n"), ("b", b"b1\n")]


def builder():
    return FileSink.for_row_format("/out", Encoder.simple_string_encoder())


def test_invalid_settings_are_rejected():
    good = FileCompactor.concat_file_compactor()
    header = CsvSchema.builder().add_number_column("n").set_use_header().build()
    plain = CsvSchema.builder().add_number_column("n").build()
    skipping = StreamFormat.line_format(SimpleStringSchema(), skip_malformed=True)
    for wrong, said in [
        (lambda: builder().enable_compact(None, good), "a FileCompactStrategy"),
        (lambda: builder().enable_compact(every(1), None), "a FileCompactor"),
        (lambda: FileCompactor.concat_file_compactor("x"), "must be bytes"),
        (lambda: FileCompactor.record_wise_file_compactor("x"), "a format"),
        (lambda: FileCompactor.record_wise_file_compactor(skipping), "would lose"),
        (lambda: of_size(0), "must be positive"),
        (
            lambda: FileSink.for_bulk_format(
                "/out", CsvBulkWriters.for_schema(header)
            ).enable_compact(every(1), good),
            "record_wise_file_compactor",
        ),
        (
            lambda: FileSink.for_bulk_format(
                "/out", ParquetBulkWriters.for_row_type(DECLARED)
            ).enable_compact(every(1), good),
            "record_wise_file_compactor",
        ),
    ]:
        with pytest.raises(InvalidProgramError, match=said):
            wrong()
    FileSink.for_bulk_format("/out", CsvBulkWriters.for_schema(plain)).enable_compact(
        every(1), good
    )
