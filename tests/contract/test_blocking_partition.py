"""Blocking partitions: written to a file, then read by any number of readers (M15)."""

import os
import resource

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.errors import (
    InsufficientBuffersError,
    NetworkError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier, EndOfPartition

from contract.plane import (
    NO_TIMESTAMP,
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    partition_id,
)

PID = partition_id()
LEAST_PAGE = 1024
VALUES = [bytes([n % 2]) * size for n, size in enumerate([1, 700, 1023, 5000, 0x20000, 3] * 5)]


def blocking(environment, subpartitions: int = 1, managed_bytes: int = 8 * LEAST_PAGE):
    return environment.create_result_partition(
        PID, subpartitions, "BLOCKING", managed_bytes=managed_bytes
    )


def read(plane, producer, consumer, *, local: bool, subpartition: int = 0):
    """Read a subpartition to its end."""
    gate = connect(plane, producer, consumer, [(PID, subpartition)], local=local)
    seen = plane.reading(gate).to_end()
    gate.close()
    return seen.everything[0]


def files_in(directory) -> list[int]:
    """Return the sizes of the files of a directory that this process has open, named or not."""
    sizes = []
    for number in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{number}"
        try:
            if os.readlink(path).startswith(str(directory)):
                sizes.append(os.stat(path).st_size)
        except FileNotFoundError:
            continue
    return sizes


def test_several_readers(plane, pair):
    """Every reader reads everything from the beginning, sequentially and in parallel."""
    producer, consumer, local = pair
    partition = blocking(producer, 2)
    writing = plane.writing(partition)
    writing.write(*VALUES[:15])
    writing.writer.emit_watermark(7)
    writing.write(*VALUES[15:])
    partition.finish()
    expected = [
        [v for v in VALUES[:15] if v[0] == n]
        + [("watermark", 7)]
        + [v for v in VALUES[15:] if v[0] == n]
        + [EndOfPartition()]
        for n in range(2)
    ]
    for _ in range(3):
        for index in range(2):
            got = read(plane, producer, consumer, local=local, subpartition=index)
            assert got == expected[index]
    together = [Background(lambda: read(plane, producer, consumer, local=local)) for _ in range(3)]
    assert [background.result() for background in together] == [expected[0]] * 3
    partition.release()
    assert_all_returned(producer, consumer)


def test_readable_when_finished(plane, pair):
    """An early reader waits for the end of writing, with and without flushes."""
    producer, consumer, local = pair
    partition = blocking(producer)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(*VALUES)
    writing.flush()
    assert gate.next_buffer(20) is None
    partition.finish()
    assert partition.wait_consumed(0), "a blocking partition waits for nobody"
    assert plane.reading(gate).to_end().values[0] == VALUES
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_writer_never_waits(plane, tmp_path):
    """The writer fills its memory many times without a reader; afterwards it holds none.

    It needs no network buffers.
    """
    environment = plane.environment(num_segments=1, temp_directories=[str(tmp_path)])
    partition = blocking(environment, 2)
    assert partition.buffers_total == 8
    values = [bytes([n % 2]) * 900 for n in range(500)]
    writing = plane.writing(partition)
    for value in values:
        writing.write(value)
        assert partition.is_available()
        assert partition.wait_available(0)
        assert 0 < partition.buffers_in_use <= 8
    partition.finish()
    assert partition.buffers_in_use == partition.buffers_queued == 0
    # Each region has all pages that are not open.
    assert 500 // 8 <= partition.regions_written <= 500 // (8 - 2) + 1
    assert_all_returned(environment)
    other = plane.environment()
    assert read(plane, environment, other, local=False)[:-1] == values[::2]
    partition.release()


def test_large_region(plane):
    """A region that needs several writes is read as it was written."""
    environment = plane.environment()
    partition = blocking(environment, 2, 600 * LEAST_PAGE)
    values = [bytes([n % 2]) + n.to_bytes(2, "big") * 400 for n in range(700)]
    plane.writing(partition).write(*values)
    assert partition.regions_written == 0
    partition.finish()
    assert partition.regions_written == 1
    for index in range(2):
        got = read(plane, environment, environment, local=True, subpartition=index)
        assert got == [*values[index::2], EndOfPartition()]
    partition.release()


STEPS = st.tuples(
    st.sampled_from(["record", "broadcast", "event", "flush"]),
    st.integers(0, 2),
    st.integers(1, 3000),
)


def test_order_and_bytes(plane):
    """However regions are cut, each consumer reads its records and events as they were written."""
    environment = plane.environment(segment_size=2048)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(STEPS, max_size=40), st.integers(4, 9))
    def check(steps, pages):
        partition = blocking(environment, 3, pages * LEAST_PAGE)
        writing = plane.writing(partition)
        expected = [[], [], []]
        for number, (step, channel, size) in enumerate(steps):
            value = bytes([channel]) + number.to_bytes(2, "big") * size
            match step:
                case "record":
                    writing.write(value)
                    expected[channel].append(value)
                case "broadcast":
                    writing.writer.broadcast_emit(value, NO_TIMESTAMP)
                case "event":
                    writing.writer.emit_watermark(number)
                case "flush":
                    writing.flush()
            if step in ("broadcast", "event"):
                for mine in expected:
                    mine.append(value if step == "broadcast" else ("watermark", number))
        partition.finish()
        for index, mine in enumerate(expected):
            got = read(plane, environment, environment, local=True, subpartition=index)
            assert got == [*mine, EndOfPartition()]
        partition.release()

    check()


def test_records_of_a_consumer_lie_together(plane):
    """Pages of a region that follow each other are read as one buffer of the usual size."""
    producer = plane.environment(segment_size=32 << 10)
    consumer = plane.environment(segment_size=32 << 10)
    partition = blocking(producer, 2, 48 * LEAST_PAGE)
    plane.writing(partition).write(*(bytes([n % 2]) * 900 for n in range(160)))
    partition.finish()
    # A region has 11 or 12 pages of 4 KiB, half of them of each consumer.
    assert partition.buffers_total == 12
    assert partition.buffers_out == 2 * (4 + 1)
    for index in range(2):
        got = read(plane, producer, consumer, local=False, subpartition=index)
        assert got == [bytes([index]) * 900] * 80 + [EndOfPartition()]
    partition.release()
    assert_all_returned(producer, consumer)


def test_broadcast_is_stored_once(plane, tmp_path):
    """Data for all consumers is in the file once, and each of them reads it."""
    environment = plane.environment(temp_directories=[str(tmp_path)])
    partition = blocking(environment, 5)
    writer = plane.writing(partition).writer
    for _ in range(100):
        writer.broadcast_emit(b"x" * 900, NO_TIMESTAMP)
    partition.finish()
    assert 90_000 < sum(files_in(tmp_path)) < 100_000
    for index in range(5):
        got = read(plane, environment, environment, local=True, subpartition=index)
        assert got == [b"x" * 900] * 100 + [EndOfPartition()]
    partition.release()
    assert_all_returned(environment)


def test_too_little_memory(plane):
    """A partition whose subpartitions cannot each have a page is refused, with the least size."""
    environment = plane.environment(segment_size=32 << 10)
    with pytest.raises(InsufficientBuffersError, match="at least 9216 bytes of managed memory"):
        blocking(environment, 8, 9 * LEAST_PAGE - 1)
    partition = blocking(environment, 8, 9 * LEAST_PAGE)
    plane.writing(partition).write(*(bytes([n % 8]) * 3000 for n in range(80)))
    partition.finish()
    got = read(plane, environment, environment, local=True, subpartition=7)
    assert got == [bytes([7]) * 3000] * 10 + [EndOfPartition()]
    partition.release()
    assert_all_returned(environment)


def test_blocking_events(plane, pair):
    """Each reader stops at a blocking event until it resumes."""
    producer, consumer, local = pair
    partition = blocking(producer)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(b"before")
    writing.event(CheckpointBarrier(1, 2))
    assert partition.buffers_queued == 0, "events wait in no memory"
    writing.write(b"after")
    partition.finish()
    for _ in range(2):
        gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
        reading = plane.reading(gate)
        reading.until(lambda seen: seen.events[0])
        assert gate.next_buffer(20) is None
        gate.resume_consumption(0)
        assert reading.to_end().values[0] == [b"before", b"after"]
        gate.close()


def test_failure_and_release(plane, pair):
    """Readers of a partition that ends early get the cause; later ones do not find it."""
    producer, consumer, local = pair
    partition = blocking(producer)
    plane.writing(partition, "GLOBAL").write(*VALUES)
    partition.finish()
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    assert gate.next_buffer(PATIENCE_MS) is not None
    partition.fail("out of luck")
    with pytest.raises(ProducerFailedError, match="out of luck"):
        # Data in transit may arrive first.
        while gate.next_buffer(PATIENCE_MS) is not None:
            pass
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_not_found_once_released(plane):
    """A released partition is not found any more."""
    environment = plane.environment(partition_request_timeout_ms=20)
    partition = blocking(environment)
    partition.finish()
    partition.release()
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    with pytest.raises(PartitionNotFoundError):
        gate.next_buffer(PATIENCE_MS)
    gate.close()


@pytest.mark.parametrize("ending", ["release", "fail", "close"])
def test_nothing_left_on_disk(plane, tmp_path, ending):
    """The file has no name while it is in use, and occupies no space afterwards."""
    environment = plane.environment(temp_directories=[str(tmp_path)])
    partition = blocking(environment)
    plane.writing(partition, "GLOBAL").write(*VALUES)
    if ending != "fail":
        partition.finish()
    assert list(tmp_path.iterdir()) == []
    assert len(files_in(tmp_path)) == 1
    match ending:
        case "release":
            partition.release()
        case "fail":
            partition.fail("done")
        case "close":
            environment.close()
    assert files_in(tmp_path) == []


def test_full_disk(plane, tmp_path):
    """A failed write fails the partition: no reader mistakes a part for the whole."""
    environment = plane.environment(temp_directories=[str(tmp_path)])
    partition = blocking(environment)
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    writing = plane.writing(partition, "GLOBAL")
    message = rf"writing a blocking partition into {tmp_path}, after \d+ bytes \(make room"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The interpreter ignores the signal, so writing fails with an error as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(NetworkError, match=message):
            for _ in range(100):
                writing.write(bytes(900))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(ProducerFailedError, match=message):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert files_in(tmp_path) == []
    partition.release()
    assert_all_returned(environment)


def test_no_directory(plane, tmp_path):
    """A missing directory is an error that names it."""
    environment = plane.environment(temp_directories=[str(tmp_path / "missing")])
    with pytest.raises(NetworkError, match=r"a blocking partition needs .*missing"):
        blocking(environment)
    assert_all_returned(environment)


def test_raw_buffers(plane, pair):
    """Buffers keep their types and their sequence has no gap, which the gate would reject."""
    producer, consumer, local = pair
    partition = blocking(producer)
    plane.writing(partition, "GLOBAL").write(*VALUES)
    partition.finish()
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    kinds = []
    while not gate.is_finished():
        item = gate.next_buffer(PATIENCE_MS)
        assert item is not None
        kinds.append(item[1])
    assert set(kinds[:-1]) == {DataType.DATA_BUFFER}
    assert kinds[-1] == DataType.END_OF_PARTITION
    gate.close()
    partition.release()
