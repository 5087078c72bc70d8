"""Sinks: lines of print, part files, sink functions, collected batches."""

import resource
import struct
from contextlib import contextmanager

import pytest
from penstock.common.serialization import Encoder
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.datastream.connectors.file_system import BucketAssigner, RollingPolicy
from penstock.datastream.functions import SinkFunction
from penstock.errors import SinkError
from penstock.graph.operators import OperatorDescriptor
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.sinks.collect import CollectSink
from penstock.taskexecutor.sinks.element_text import flink_text
from penstock.testing import OneInputStreamOperatorTestHarness


@pytest.mark.parametrize(
    ("identifier", "parallelism", "prefix"),
    [("", 1, ""), ("", 2, "2> "), ("x", 1, "x> "), ("x", 2, "x:2> ")],
)
def test_print_prefixes_lines(capsys, identifier, parallelism, prefix):
    descriptor = OperatorDescriptor("print_sink", None, {"sink_identifier": identifier})
    subtask = parallelism - 1
    with OneInputStreamOperatorTestHarness(
        descriptor, subtask=subtask, parallelism=parallelism
    ) as test:
        test.process_element(("a", 1))
        test.end_input()
    assert capsys.readouterr().out == f"{prefix}('a', 1)\n"


def test_typed_values_are_printed_as_flink_does():
    row = Row.of_kind(RowKind.DELETE, "a", None)
    assert flink_text(("a", 1, True, None)) == "(a,1,true,null)"
    assert flink_text(row) == "-D[a, null]"
    assert flink_text([1, (2, "b")]) == "[1, (2,b)]"
    assert flink_text({"k": 1}) == "{k=1}"
    floats = [0.0, 0.1, 3.0, 0.001, 9999999.5, 1e7, 1e20, -1.25e-4, float("inf"), float("nan")]
    assert [flink_text(number) for number in floats] == [
        *("0.0", "0.1", "3.0", "0.001", "9999999.5", "1.0E7", "1.0E20", "-1.25E-4"),
        *("Infinity", "NaN"),
    ]


def file_descriptor(folder, policy=None, **arguments):
    defaults = {
        "base_path": str(folder),
        "encoder": Encoder.simple_string_encoder(),
        "bucket_assigner": BucketAssigner.base_path_bucket_assigner(),
        "rolling_policy": policy or RollingPolicy.default_rolling_policy(),
    }
    return OperatorDescriptor("file_sink", None, {**defaults, **arguments})


def test_part_file_shows_its_name_when_it_is_complete(tmp_path):
    with OneInputStreamOperatorTestHarness(file_descriptor(tmp_path), subtask=3) as test:
        test.process_element("a")
        assert [p.name.startswith(".part-3-0.inprogress") for p in tmp_path.iterdir()] == [True]
        test.end_input()
        assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"part-3-0": "a\n"}


def test_failed_task_leaves_no_part_file(tmp_path):
    with OneInputStreamOperatorTestHarness(file_descriptor(tmp_path)) as test:
        test.process_element("a")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_named_before_the_first_element(tmp_path):
    occupied = tmp_path / "occupied"
    occupied.touch()
    harness = OneInputStreamOperatorTestHarness(file_descriptor(occupied / "out"))
    with pytest.raises(SinkError, match=r"cannot write into .*occupied/out"):
        harness.open()


def test_existing_part_files_are_not_overwritten(tmp_path):
    for _ in range(2):
        with OneInputStreamOperatorTestHarness(file_descriptor(tmp_path)) as test:
            test.process_element("a")
            test.end_input()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["part-0-0", "part-0-1"]


def test_files_roll_by_size_age_and_inactivity(tmp_path):
    policy = RollingPolicy.default_rolling_policy(4, 100, 50)
    descriptor = file_descriptor(tmp_path, policy, bucket_check_interval_ms=10)
    with OneInputStreamOperatorTestHarness(descriptor) as test:
        test.process_element("abc")
        assert (tmp_path / "part-0-0").read_text() == "abc\n"
        test.process_element("b")
        test.set_processing_time(10)
        assert not (tmp_path / "part-0-1").exists()
        test.set_processing_time(60)
        assert (tmp_path / "part-0-1").read_text() == "b\n"


def test_sink_function_sees_time_and_timestamp():
    seen = []

    class Seeing(SinkFunction):
        def invoke(self, value, context):
            seen.append((value, context.timestamp(), context.current_watermark()))

    with OneInputStreamOperatorTestHarness(OperatorDescriptor("sink_function", Seeing())) as test:
        test.process_watermark(5)
        test.process_element("a", 7)
        test.process_element("b")
    assert seen == [("a", 7, 5), ("b", None, 5)]


class Client:
    def __init__(self, *, broken=False):
        self.batches = []
        self.finished = False
        self.broken = broken

    def send(self, batch):
        if self.broken:
            raise OSError("closed")
        self.batches.append(batch)

    def finish(self):
        self.finished = True

    def close(self):
        pass


def collect(client, values):
    descriptor = OperatorDescriptor("collect_sink", None, {"collect_id": "c", "type": Types.INT()})
    test = OneInputStreamOperatorTestHarness(descriptor)
    assert isinstance(test.operator, CollectSink)
    test.operator.context.environment.open_collect_channel = lambda collect_id: client
    with test:
        for value in values:
            test.process_element(value)
        test.end_input()


def test_collected_elements_have_their_length_in_front():
    client = Client()
    collect(client, [1, 2])
    codec = codec_for(Types.INT())
    expected = b"".join(struct.pack(">i", len(codec.encode(v))) + codec.encode(v) for v in (1, 2))
    assert b"".join(client.batches) == expected
    assert client.finished


def test_closed_collector_takes_no_more():
    collect(Client(broken=True), range(10))


@contextmanager
def disk_for(size_bytes):
    """Files cannot grow beyond a size, as on a full disk; the error is another one (EFBIG)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("elements", [1, 40], ids=["when it is published", "in the middle"])
def test_a_full_disk_is_named_and_leaves_nothing_that_is_not_whole(tmp_path, elements):
    policy = RollingPolicy.default_rolling_policy(16 * MEGABYTE, 100, 50)
    test = OneInputStreamOperatorTestHarness(file_descriptor(tmp_path, policy))
    test.open()
    for whole in ("0", "1"):
        test.process_element(whole)
        test.set_processing_time(test.operator.now() + 60_000)
    with disk_for(MEGABYTE), pytest.raises(SinkError) as caught:
        for _ in range(elements):
            test.process_element("x" * (3 * MEGABYTE // 2 // elements))
        test.end_input()
    message = str(caught.value)
    assert f"cannot write {tmp_path}/.part-0-2.inprogress." in message
    assert "File too large; make room there or give the sink another folder" in message
    assert test.operator.failed_with is caught.value
    test.close()
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {
        "part-0-0": "0\n",
        "part-0-1": "1\n",
    }


def test_a_file_that_rolls_by_time_onto_a_full_disk_names_the_sink(tmp_path):
    policy = RollingPolicy.default_rolling_policy(16 * MEGABYTE, 100, 50)
    test = OneInputStreamOperatorTestHarness(file_descriptor(tmp_path, policy))
    test.open()
    test.process_element("x" * 100_000)
    with disk_for(1000), pytest.raises(SinkError, match="100001 bytes until now"):
        test.set_processing_time(60_000)
    assert isinstance(test.operator.failed_with, SinkError)
    test.close()
    assert list(tmp_path.iterdir()) == []
