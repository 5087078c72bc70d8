"""Records through partitions and gates, of all sizes (internals M8 to M14)."""

import itertools
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from penstock.errors import CancelTaskError, NetworkError
from penstock.network.data_type import DataType
from penstock.network.events import (
    CancelCheckpointMarker,
    EndOfData,
    EndOfPartition,
    parse_event,
)

from contract.plane import (
    Background,
    Plane,
    assert_all_returned,
    connect,
    data_of,
    eventually,
    exchanged,
    partition_id,
    raw_frames,
    raw_to_end,
)

PID = partition_id()


def exchange(plane, pair, values, *, flush_timeout_ms=-1):
    """Write values, finish, and read everything back."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=flush_timeout_ms)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing, reading = plane.writing(partition, "GLOBAL"), plane.reading(gate)

    def produce():
        writing.write(*values)
        partition.finish()
        assert partition.wait_consumed(20_000)

    background = Background(produce)
    seen = reading.to_end()
    background.result()
    gate.close()
    partition.release()
    return seen


def test_one_record(plane, pair):
    """The smallest exchange: a record and the end of the partition."""
    seen = exchange(plane, pair, [b"record"])
    assert seen.values[0] == [b"record"]
    assert seen.events[0] == [EndOfPartition()]
    assert seen.data_types == [DataType.END_OF_PARTITION]
    assert_all_returned(*plane.environments)


def test_no_record(plane, pair):
    """An empty partition delivers only its end."""
    seen = exchange(plane, pair, [])
    assert not seen.values[0]
    assert seen.events[0] == [EndOfPartition()]


@pytest.mark.parametrize("seed", range(3))
def test_random_sizes(plane, pair, seed):
    """B-8, B-10: records of sizes around and far beyond a segment arrive unchanged."""
    source = random.Random(seed)
    sizes = [source.choice((0, 1, 7, 1000, 1024, 1025, 5000, 70_000)) for _ in range(150)]
    values = [source.randbytes(size) for size in sizes]
    assert exchange(plane, pair, values).values[0] == values
    assert_all_returned(*plane.environments)


def test_spilled_record(plane, pair, tmp_path, monkeypatch):
    """B-10: a record above 5 MiB arrives intact and leaves no file."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    value = random.Random(1).randbytes((5 << 20) + 4321)
    seen = exchange(plane, pair, [b"before", value, b"after"])
    assert seen.values[0] == [b"before", value, b"after"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_union", [False, True])
def test_spill_threshold(plane, tmp_path, is_union):
    """B4: a record that spans buffers is spilled above the threshold, not up to it."""
    folder = tmp_path / "folder"
    environment = plane.environment(spill_threshold_bytes=200_000, temp_directories=[str(folder)])

    def arrives(number, value):
        pid = partition_id(number)
        partition = environment.create_result_partition(pid, 1, flush_timeout_ms=-1)
        gate = connect(plane, environment, environment, [(pid, 0)], local=True)
        if is_union:
            gate = environment.create_union_gate([gate])
        try:
            return exchanged(plane, plane, partition, gate, [value]) == [value]
        finally:
            gate.close()
            partition.release()

    short = plane.value_of_framed_size(4 + 200_000)
    long = plane.value_of_framed_size(4 + 200_001)
    assert arrives(0, short)
    with pytest.raises(NetworkError, match=str(folder)):
        arrives(1, long)
    folder.mkdir()
    assert arrives(2, long)
    assert not list(folder.iterdir())
    assert_all_returned(environment)


@pytest.mark.parametrize("segment_size", [64, 100, 256, 32768])
def test_bytes_do_not_depend_on_buffer_size(plane, segment_size):
    """B-1: the byte stream is the framing of the records, whatever the segments."""
    environment = plane.environment(segment_size=segment_size)
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    values = [bytes([n]) * n for n in range(60)]

    def produce():
        plane.writing(partition, "GLOBAL").write(*values)
        partition.finish()

    background = Background(produce)
    payloads = raw_frames(data_of(raw_to_end(gate)))
    background.result()
    assert payloads == [b"\1" + plane.codec.encode(value) for value in values]


@pytest.mark.parametrize(("extra", "buffers"), [(-1, 1), (0, 1), (1, 2)])
def test_exact_fill(plane, pair, extra, buffers):
    """B-2: a record that fills a segment to the last byte uses no other; one byte more does."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    value = plane.value_of_framed_size(1024 + extra)
    plane.writing(partition, "GLOBAL").write(value)
    partition.finish()
    data = data_of(raw_to_end(gate))
    assert [len(part) for part in data] == [1024, extra][:buffers] or extra < 0
    assert len(data) == buffers
    assert raw_frames(data) == [b"\1" + plane.codec.encode(value)]


def test_order_per_channel_and_events_in_place(plane, pair):
    """B-4: each channel sees its records in order, and events at their place among them."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 3, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, n) for n in range(3)], local=local)
    writing, reading = plane.writing(partition), plane.reading(gate)
    source = random.Random(5)
    expected = {channel: [] for channel in range(3)}

    def produce():
        for step in range(300):
            if step % 50 == 49:
                event = CancelCheckpointMarker(step)
                writing.event(event)
                for channel in expected:
                    expected[channel].append(event)
            channel = source.randrange(3)
            value = bytes([channel]) + source.randbytes(source.randrange(400))
            writing.write(value)
            expected[channel].append(value)
        writing.event(EndOfData())
        partition.finish()

    background = Background(produce)
    seen = reading.to_end()
    background.result()
    for channel, items in expected.items():
        assert seen.everything[channel] == [*items, EndOfData(), EndOfPartition()]


def test_flush_makes_everything_readable(plane, pair):
    """B-5: after a flush every byte is readable although nothing else is written."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0), (PID, 1)], local=local)
    writing, reading = plane.writing(partition), plane.reading(gate)
    for round_number in range(4):
        values = [bytes([0, round_number]), bytes([1, round_number]) * 700]
        writing.write(*values)
        writing.flush()
        seen = reading.until(
            lambda seen, n=round_number: len(seen.values[0]) > n and len(seen.values[1]) > n
        )
        assert [seen.values[0][-1], seen.values[1][-1]] == values


def test_without_flush_an_open_buffer_is_not_sent(plane):
    """B3: with timeout -1 a record in an open buffer crosses no network before a flush."""
    producer, consumer = plane.environment(), plane.environment()
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=False)
    writing, reading = plane.writing(partition, "GLOBAL"), plane.reading(gate)
    writing.write(b"first")
    while reading.step(0) == 1:
        pass
    assert not reading.seen.values[0]
    writing.flush()
    reading.until(lambda seen: seen.values[0] == [b"first"])


@pytest.mark.parametrize("flush_timeout_ms", [0, 1, 20])
def test_flush_policies(plane, pair, flush_timeout_ms):
    """B-6: with a timeout (0: at once) a record arrives without an explicit flush."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=flush_timeout_ms)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing, reading = plane.writing(partition, "GLOBAL"), plane.reading(gate)
    for n in range(5):
        writing.write(bytes([n]))
        reading.until(lambda seen, n=n: seen.values[0][-1:] == [bytes([n])])


def test_broadcast_and_unicast_mixed(plane, pair):
    """B-3, B-4: broadcast records keep their order among records for single channels."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0), (PID, 1)], local=local)
    writing, reading = plane.writing(partition, "BROADCAST"), plane.reading(gate)
    values = [bytes([n]) * (n * 31 % 1500) for n in range(200)]

    def produce():
        for n, value in enumerate(values):
            writing.write(value)
            writing.writer.emit_latency_marker(n, 1, 2, 3)
        partition.finish()

    background = Background(produce)
    seen = reading.to_end()
    background.result()
    markers = []
    for channel in range(2):
        items = seen.everything[channel][:-1]
        assert [item for item in items if isinstance(item, bytes)] == values
        for before, item in itertools.pairwise(items):
            if isinstance(item, tuple):
                assert before == values[item[1]], "the marker follows the record it was sent after"
                markers.append(item)
    assert sorted(markers) == [("latency", n, 1, 2, 3) for n in range(200)]
    gate.close()
    partition.release()
    assert_all_returned(*plane.environments)


def test_broadcast_shares_a_segment(plane):
    """B3: a broadcast record takes one segment for all its readers, not one each."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 4, flush_timeout_ms=-1)
    plane.writing(partition, "BROADCAST").write(b"x" * 100)
    assert partition.buffers_in_use == 1
    assert partition.buffers_queued == 4


def test_watermarks_and_status(plane, pair):
    """B6: watermarks, idleness and latency markers arrive at every channel, in order."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0), (PID, 1)], local=local)
    writing, reading = plane.writing(partition), plane.reading(gate)
    writing.write(b"\0a")
    writing.writer.emit_watermark(2**63 - 1)
    writing.writer.emit_status(True)
    writing.write(b"\1b")
    writing.writer.emit_status(False)
    writing.writer.emit_watermark(-5)
    partition.finish()
    seen = reading.to_end()
    most = ("watermark", 2**63 - 1)
    least = ("watermark", -5)
    end = EndOfPartition()
    assert seen.everything[0] == [b"\0a", most, "idle", "active", least, end]
    assert seen.everything[1] == [most, "idle", b"\1b", "active", least, end]


@pytest.mark.parametrize("ending", ["fail", "release"])
def test_blocked_writer_wakes(plane, ending):
    """B-7, A-22: a writer that waits for a buffer gets CancelTaskError, and nothing leaks."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1)
    writing = plane.writing(partition, "GLOBAL")

    def fill():
        while True:
            writing.write(b"x" * 1000)

    background = Background(fill)
    eventually(lambda: not partition.is_available(), "the pool never runs out")
    if ending == "fail":
        partition.fail("the test wants it so")
    else:
        partition.release()
    with pytest.raises(CancelTaskError):
        background.result()
    with pytest.raises(CancelTaskError):
        writing.write(b"x" * 5000)
    assert_all_returned(environment)


def test_events_are_not_pooled(plane):
    """A2: an event takes no segment, so it can be sent while the pool is empty."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 3, flush_timeout_ms=-1)
    plane.writing(partition).event(EndOfData())
    assert partition.buffers_in_use == 0
    assert partition.buffers_queued == 3
    gate = connect(plane, environment, environment, [(PID, 1)], local=True)
    channel, data_type, event = gate.next_buffer(20_000)
    assert (channel, data_type, parse_event(event)) == (0, DataType.END_OF_DATA, EndOfData())


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    sizes=st.lists(st.integers(0, 700), max_size=40),
    segment_size=st.integers(32, 300),
    flushes=st.sets(st.integers(0, 40)),
)
def test_any_split_gives_the_same_records(plane, sizes, segment_size, flushes):
    """A-10, B-8, C-5: any sizes, segments and flushes lose and duplicate no byte."""
    own = Plane(plane.kind)
    try:
        environment = own.environment(segment_size=segment_size, num_segments=512)
        partition = environment.create_result_partition(PID, 1, "PIPELINED", flush_timeout_ms=-1)
        gate = connect(own, environment, environment, [(PID, 0)], local=True)
        writing, reading = own.writing(partition, "GLOBAL"), own.reading(gate)
        values = [bytes([n % 251]) * size for n, size in enumerate(sizes)]

        def produce():
            for n, value in enumerate(values):
                writing.write(value)
                if n in flushes:
                    writing.flush()
            partition.finish()

        background = Background(produce)
        assert reading.to_end().values[0] == values
        background.result()
    finally:
        own.close()


def test_record_of_64_mb(plane):
    """A record of 64 MB crosses segments and the network intact."""
    producer = plane.environment(segment_size=32768)
    consumer = plane.environment(segment_size=32768)
    partition = producer.create_result_partition(PID, 1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=False)
    value = random.Random(64).randbytes(1 << 20) * 64

    def produce():
        plane.writing(partition, "GLOBAL").write(value)
        partition.finish()

    background = Background(produce)
    assert plane.reading(gate).to_end().values[0] == [value]
    background.result()
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)
