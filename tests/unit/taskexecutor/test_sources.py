"""Sources: splits of ranges and files, lines, sockets, source functions."""

import socket
import struct
import sys
import threading
from itertools import chain, groupby

import pytest
from penstock.common import Duration, WatermarkStrategy
from penstock.common.watermark_generator import WatermarkGenerator
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.files import splits as file_splits
from penstock.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    StreamFormat,
)
from penstock.datastream.functions import SourceFunction
from penstock.errors import SourceError
from penstock.formats.lines import TextLines
from penstock.graph import operators
from penstock.metrics.values import read_metrics
from penstock.taskexecutor.compiled import END_OF_DATA
from penstock.taskexecutor.sources.number_sequence import part_of_range
from penstock.testing import OneInputStreamOperatorTestHarness
from support.reserved_ports import reserved_ports


def run(descriptor, **options):
    """Return the records of a source until its end."""
    with OneInputStreamOperatorTestHarness(descriptor, **options) as test:
        while test.operator.emit_next(100) != END_OF_DATA:
            test.operator.wait_available(1000)
        return test.values


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_parts_of_a_range_cover_it_once(parts):
    found = []
    for index in range(parts):
        first, last = part_of_range(5, 14, index, parts)
        found.extend(range(first, last + 1))
    assert found == list(range(5, 15))


def test_number_sequence_is_divided():
    descriptor = operators.NumberSequenceSource(start=1, end=10)
    parts = [run(descriptor, subtask=i, parallelism=3) for i in range(3)]
    assert parts == [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10]]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_every_line_belongs_to_one_split(tmp_path, monkeypatch, parallelism):
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 7)
    monkeypatch.setattr(file_splits, "_BLOCK_BYTES", 5)
    lines = ["", "a", "é" * 9, "line with\u2028separator", "", "x" * 30, "\x0b", "last"]
    for ending in ("\n", "\r\n"):
        for end in ("", ending):
            (tmp_path / "text").write_bytes((ending.join(lines) + end).encode())
            descriptor = operators.FileSource(paths=(str(tmp_path),), charset="utf-8")
            parts = [
                run(descriptor, subtask=i, parallelism=parallelism) for i in range(parallelism)
            ]
            assert sorted(chain.from_iterable(parts)) == sorted(lines)
            if parallelism == 1:
                assert parts[0] == lines


@pytest.mark.parametrize(
    ("enumerator", "expected"),
    [
        (None, [["a", "b"], ["c"]]),
        (FileEnumeratorProvider.default_splittable_file_enumerator(), [["a", "b"], ["c"]]),
        (FileEnumeratorProvider.default_non_splittable_file_enumerator(), [["a", "b", "c"], []]),
    ],
    ids=["default", "splittable", "whole"],
)
def test_files_are_divided_if_their_enumerator_says_so(tmp_path, monkeypatch, enumerator, expected):
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 4)
    (tmp_path / "text").write_text("a\nb\nc\n")
    lines = StreamFormat.text_line_format()
    builder = FileSource.for_record_stream_format(lines, str(tmp_path / "text"))
    if enumerator is not None:
        builder.set_file_enumerator(enumerator)
    descriptor = builder.build().source_operator()
    assert [run(descriptor, subtask=i, parallelism=2) for i in range(2)] == expected


def test_subtasks_read_a_file_side_by_side(tmp_path, monkeypatch):
    """With elements ordered by time, few of them then run ahead of event time."""
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 8)
    monkeypatch.setattr(file_splits, "_SPLIT_BYTES", 16)
    monkeypatch.setattr(file_splits, "_BLOCK_BYTES", 5)
    numbers = range(100, 160)
    (tmp_path / "ordered").write_text("".join(f"{number}\n" for number in numbers))
    descriptor = operators.FileSource(paths=(str(tmp_path),))
    parts = [[int(line) for line in run(descriptor, subtask=i, parallelism=2)] for i in range(2)]
    assert sorted(chain.from_iterable(parts)) == list(numbers)
    for part in parts:
        assert part == sorted(part)
    assert max(abs(one - other) for one, other in zip(*parts, strict=False)) <= 8


@pytest.mark.parametrize(
    ("path", "size", "parts", "lengths"),
    [
        ("a", 100 << 20, 1, {100 << 20}),
        ("a", 6 << 20, 2, {4 << 20, 2 << 20}),
        ("a", 64 << 20, 2, {8 << 20}),
        ("s3://b/a", 96 << 20, 2, {48 << 20}),
        ("s3://b/a", 1 << 30, 2, {64 << 20}),
        ("a", 1 << 40, 2, {512 << 20}),
        ("a.gz", 100 << 20, 2, {sys.maxsize}),
    ],
)
def test_splits_are_small_but_not_too_many(path, size, parts, lengths):
    splits = file_splits.divide([(path, size)], parts, TextLines("utf-8"))
    assert {split.end - split.start for split in splits} == lengths
    assert splits == sorted(splits, key=lambda split: split.start)


def test_hidden_files_are_left_out_and_folders_searched(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b", ".hidden", "_hidden", "sub/a"):
        (tmp_path / name).write_text(name + "\n")
    descriptor = operators.FileSource(paths=(str(tmp_path),))
    assert run(descriptor) == ["b", "sub/a"]


def test_other_charsets_are_read_as_text(tmp_path):
    (tmp_path / "text").write_bytes("é\nb".encode("utf-16"))
    arguments = {"paths": (str(tmp_path / "text"),), "charset": "utf-16"}
    assert run(operators.FileSource(**arguments)) == ["é", "b"]


def test_missing_file_is_named(tmp_path):
    descriptor = operators.FileSource(paths=(str(tmp_path / "no"),))
    with pytest.raises(FileNotFoundError, match="no such file"):
        run(descriptor)


class Server:
    """Sends one text to each connection and closes it."""

    def __init__(self, *texts):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, args=(texts,), daemon=True)
        self.thread.start()

    def _serve(self, texts):
        for text in texts:
            connection, _ = self.socket.accept()
            with connection:
                connection.sendall(text)
        self.socket.close()


def socket_descriptor(port, **arguments):
    defaults = {"host": "127.0.0.1", "port": port, "retry_delay_ms": 1}
    return operators.SocketTextSource(**defaults, **arguments)


def test_socket_text_is_cut_and_the_rest_emitted():
    assert run(socket_descriptor(Server(b"a\r\nb\n\nrest").port)) == ["a", "b", "", "rest"]


def test_socket_delimiter_of_several_characters_keeps_cr():
    server = Server(b"a\r||b|c")
    assert run(socket_descriptor(server.port, delimiter="||")) == ["a\r", "b|c"]


def test_socket_is_connected_again_and_lines_continue():
    server = Server(b"a\nhal", b"f\nb\n")
    assert run(socket_descriptor(server.port, max_retry=2)) == ["a", "half", "b"]


@pytest.mark.parametrize(("max_retry", "connections"), [(0, 1), (1, 1), (2, 2), (4, 4)])
def test_socket_retries_count_the_ends_of_connections(max_retry, connections):
    """Flink's rule: reconnect while fewer than ``max_retry`` connections have ended (M34)."""
    server = Server(b"1", b"2", b"3", b"4", b"5", b"6")
    found = run(socket_descriptor(server.port, max_retry=max_retry))
    assert found == ["123456"[:connections]]


def test_socket_is_dialled_again_for_ever():
    server = Server(*[b"x"] * 20, b"end\n")
    descriptor = socket_descriptor(server.port, max_retry=-1)
    with OneInputStreamOperatorTestHarness(descriptor) as test:
        while not test.values:
            test.operator.emit_next(100)
            test.operator.wait_available(1000)
        assert test.values == ["x" * 20 + "end"]


def test_a_character_ends_with_its_connection():
    """Each connection is a separate text: the next one does not complete half a character."""
    server = Server("é".encode()[:1], b"\xa9b")
    assert run(socket_descriptor(server.port, max_retry=2)) == ["\ufffd\ufffdb"]


@pytest.mark.parametrize("max_retry", [0, 4, -1])
def test_absent_server_is_named(max_retry):
    (port,) = reserved_ports()
    with pytest.raises(SourceError, match=rf"127.0.0.1:{port} \(connection 1\)"):
        run(socket_descriptor(port, max_retry=max_retry))


def test_a_server_that_has_gone_fails_the_task():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = socket_descriptor(listening.getsockname()[1], max_retry=-1)
        with OneInputStreamOperatorTestHarness(descriptor) as test:
            test.operator.emit_next(100)
            connection, _ = listening.accept()
            listening.close()
            connection.close()
            with pytest.raises(SourceError, match=r"\(connection 2\)"):
                while test.operator.emit_next(100) != END_OF_DATA:
                    test.operator.wait_available(1000)


def test_a_connection_that_breaks_fails_the_task():
    """A reset is not the end of the data, whatever was read before."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor = socket_descriptor(listening.getsockname()[1])
        with OneInputStreamOperatorTestHarness(descriptor) as test:
            test.operator.emit_next(100)
            connection, _ = listening.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            with pytest.raises(SourceError, match=r"lost its connection to 127\.0\.0\.1"):
                while test.operator.emit_next(100) != END_OF_DATA:
                    test.operator.wait_available(1000)


def test_source_function_runs_in_its_own_thread():
    class Count(SourceFunction):
        def run(self, ctx):
            for i in range(3):
                with ctx.get_checkpoint_lock():
                    ctx.collect_with_timestamp(i, i)

        def cancel(self):
            pass

    assert run(operators.FunctionSource(Count())) == [0, 1, 2]


def test_failure_of_a_source_function_reaches_the_task():
    class Broken(SourceFunction):
        def run(self, ctx):
            raise ValueError("broken source")

        def cancel(self):
            pass

    with pytest.raises(ValueError, match="broken source"):
        run(operators.FunctionSource(Broken()))


def test_hybrid_source_reads_one_after_the_other(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    files = operators.FileSource(paths=(str(tmp_path),))
    count = operators.NumberSequenceSource(start=3, end=4)
    descriptor = operators.HybridSource(sources=(files, count))
    assert run(descriptor) == ["1", "2", 3, 4]


def test_the_metrics_of_a_hybrid_source_are_those_of_what_it_reads(caplog):
    parts = [operators.NumberSequenceSource(start=0, end=end) for end in (2, 6)]
    with OneInputStreamOperatorTestHarness(operators.HybridSource(sources=tuple(parts))) as test:
        (metrics,) = test.operator.context.environment.operator_metrics.values()
        seen = []
        while test.operator.emit_next(1) != END_OF_DATA:
            gauges = read_metrics(metrics, "the source").gauges
            seen.append((gauges["assignedRecords"], gauges["pendingRecords"]))
    assert [assigned for assigned, _ in groupby(seen, lambda pair: pair[0])] == [3, 7]
    assert all(0 <= pending <= assigned for assigned, pending in seen)
    assert "already" not in caplog.text


class Told(WatermarkGenerator):
    """A generator that records the elements that it has seen."""

    def __init__(self, seen):
        self.seen = seen

    def on_event(self, event, event_timestamp, output):
        self.seen.append(event)

    def on_periodic_emit(self, output):
        pass


class TextIsTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value)


def told(generators):
    def made():
        generators.append([])
        return Told(generators[-1])

    return WatermarkStrategy.for_generator(made)


def test_each_split_has_a_watermark_generator_of_its_own(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    generators = []
    run(operators.FileSource(paths=(str(tmp_path),), watermark_strategy=told(generators)))
    assert generators == [["1", "2"], ["3"]]


def test_each_split_of_each_part_of_a_hybrid_source_has_a_generator_of_its_own(tmp_path):
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("2\n")
    files = operators.FileSource(paths=(str(tmp_path),))
    count = operators.NumberSequenceSource(start=3, end=4)
    generators = []
    run(operators.HybridSource(sources=(files, count), watermark_strategy=told(generators)))
    assert generators == [["1"], ["2"], [3, 4]]


def late_after_early(folder):
    """Return a source of two files, the first of which has the later times."""
    (folder / "a").write_text("1000\n")
    (folder / "b").write_text("10\n30\n")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TextIsTime())
    return operators.FileSource(paths=(str(folder),), watermark_strategy=strategy)


def test_event_time_waits_for_the_split_that_is_being_read(tmp_path):
    """Records of an earlier split do not make the records of the next one late."""
    with OneInputStreamOperatorTestHarness(late_after_early(tmp_path)) as test:
        while test.values != ["1000", "10"]:
            test.operator.emit_next(1)
        test.set_processing_time(200)
        assert test.output.watermarks == [9]


def test_event_time_never_goes_back_to_that_of_a_later_split(tmp_path):
    with OneInputStreamOperatorTestHarness(late_after_early(tmp_path)) as test:
        test.operator.emit_next(1)
        test.set_processing_time(200)
        while test.operator.emit_next(1) != END_OF_DATA:
            pass
        test.set_processing_time(400)
        assert test.output.watermarks == [999]


def test_a_split_is_active_when_it_is_begun(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3\n")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TextIsTime())
    strategy = strategy.with_idleness(Duration.of_millis(200))
    descriptor = operators.FileSource(paths=(str(tmp_path),), watermark_strategy=strategy)
    with OneInputStreamOperatorTestHarness(descriptor) as test:
        while test.values != ["1", "2"]:
            test.operator.emit_next(1)
        for now in (200, 400, 600):
            test.set_processing_time(now)
        assert test.output.statuses == [True]
        test.operator.emit_next(1)
        assert test.values == ["1", "2"], "nothing of it has been read"
        assert test.output.statuses == [True, False]
