"""Blocking partitions: written to a file, then read by any number of readers (M15)."""

import os
import resource

import pytest
from penstock.errors import NetworkError, PartitionNotFoundError, ProducerFailedError
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier, EndOfPartition

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    partition_id,
)

PID = partition_id()
VALUES = [bytes([n % 2]) * size for n, size in enumerate([1, 700, 1023, 5000, 0x20000, 3] * 5)]


def blocking(environment, subpartitions: int = 1):
    return environment.create_result_partition(PID, subpartitions, "BLOCKING")


def read(plane, producer, consumer, *, local: bool, subpartition: int = 0):
    """Read a subpartition to its end."""
    gate = connect(plane, producer, consumer, [(PID, subpartition)], local=local)
    seen = plane.reading(gate).to_end()
    gate.close()
    return seen.everything[0]


def files_in(directory) -> int:
    """Return the files of a directory that this process has open, named or not."""
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return sum(link.startswith(str(directory)) for link in links)


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
    """The writer fills the pool many times without a reader; afterwards it holds no buffer."""
    environment = plane.environment(num_segments=12, temp_directories=[str(tmp_path)])
    partition = blocking(environment, 2)
    values = [bytes([n % 2]) * 900 for n in range(500)]
    plane.writing(partition).write(*values)
    partition.finish()
    assert_all_returned(environment)
    other = plane.environment()
    assert read(plane, environment, other, local=False)[:-1] == values[::2]
    partition.release()


def test_blocking_events(plane, pair):
    """Each reader stops at a blocking event until it resumes."""
    producer, consumer, local = pair
    partition = blocking(producer)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(b"before")
    writing.event(CheckpointBarrier(1, 2))
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
    assert files_in(tmp_path) == 1
    match ending:
        case "release":
            partition.release()
        case "fail":
            partition.fail("done")
        case "close":
            environment.close()
    assert files_in(tmp_path) == 0


def test_full_disk(plane, tmp_path):
    """A failed write fails the partition: no reader mistakes a part for the whole."""
    environment = plane.environment(temp_directories=[str(tmp_path)])
    partition = blocking(environment)
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    writing = plane.writing(partition, "GLOBAL")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The interpreter ignores the signal, so writing fails with an error as on a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(NetworkError, match="writing a blocking partition"):
            for _ in range(100):
                writing.write(bytes(900))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(ProducerFailedError, match="writing a blocking partition"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert files_in(tmp_path) == 0
    partition.release()
    assert_all_returned(environment)


def test_no_directory(plane, tmp_path):
    """A missing directory is an error that names it."""
    environment = plane.environment(temp_directories=[str(tmp_path / "missing")])
    with pytest.raises(NetworkError, match="missing"):
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
