"""A FileSource that monitors a missing place: a bucket fails the job, a folder is awaited."""

import logging
import threading

import pytest
from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.errors import SourceError
from support.s3_server import BUCKET, s3_server


def lines(path, options):
    configuration = Configuration.from_dict({**options, "execution.target": "in-process"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), path)
    source = builder.monitor_continuously(Duration.of_millis(10)).build()
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")


def test_a_bucket_that_is_not_there_fails_the_job():
    with (
        s3_server() as server,
        pytest.raises(SourceError, match="cannot monitor 's3://nowhere/in': there is no bucket"),
        lines("s3://nowhere/in", server.options).execute_and_collect() as results,
    ):
        next(results)


class Told(logging.Handler):
    """Calls a function when the log reports that there is no file yet."""

    def __init__(self, call):
        super().__init__()
        self.places, self._call = [], call

    def emit(self, record):
        if "there is no file in" in record.getMessage():
            self.places.append(record.getMessage())
            threading.Thread(target=self._call).start()


def told_and_read(path, write, options):
    """Return the first record of a file, written once the log reports its absence, and the log."""
    log, handler = logging.getLogger("penstock"), Told(write)
    log.addHandler(handler)
    try:
        with lines(path, options).execute_and_collect() as results:
            return next(results), handler.places
    finally:
        log.removeHandler(handler)


def test_a_folder_may_come_later(tmp_path):
    def write():
        (tmp_path / "hidden").mkdir()
        (tmp_path / "hidden" / "a.txt").write_text("one\n")
        (tmp_path / "hidden").rename(tmp_path / "in")

    line, told = told_and_read(str(tmp_path / "in"), write, {})
    assert line == "one"
    assert told == [f"Source: lines (1/2): there is no file in {tmp_path}/in yet: waiting for some"]


def test_files_of_a_bucket_may_come_later():
    with s3_server() as server:

        def write():
            server.client.put_object(Bucket=BUCKET, Key="in/a.txt", Body=b"one\n")

        line, told = told_and_read(f"s3://{BUCKET}/in", write, server.options)
        assert line == "one"
        assert told == [
            f"Source: lines (1/2): there is no file in s3://{BUCKET}/in yet: waiting for some"
        ]
