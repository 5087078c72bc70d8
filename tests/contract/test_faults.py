"""Exchanges that are interrupted at any point, and a full disk (internals M24, C-11)."""

import random
import resource

import pytest
from penstock.errors import CancelTaskError, NetworkError

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    partition_id,
)

PID = partition_id()


def quietly(call):
    """Run until the exchange is interrupted, by CancelTaskError or a NetworkError."""
    try:
        while call():
            pass
    except (CancelTaskError, NetworkError) as error:
        return error
    return None


@pytest.mark.parametrize("ending", ["close", "fail", "release", "consumed"])
@pytest.mark.parametrize("seed", range(4))
def test_broken_off(plane, pair, ending, seed):
    """C-11: however and whenever an exchange ends, both ends wake and nothing leaks."""
    producer, consumer, local = pair
    source = random.Random(f"{ending} {seed}")
    channels = source.randrange(1, 4)
    partition = producer.create_result_partition(PID, channels, flush_timeout_ms=1)
    gate = connect(plane, producer, consumer, [(PID, n) for n in range(channels)], local=local)
    writing, reading = plane.writing(partition), plane.reading(gate)

    def write():
        value = bytes([source.randrange(channels)]) + bytes(source.choice((10, 900, 5000)))
        writing.write(value)
        return True

    def write_some():
        for _ in range(50):
            write()
        partition.finish()
        return False

    writer = Background(lambda: quietly(write_some if ending == "consumed" else write))
    for _ in range(source.randrange(6)):
        reading.step()
    reader = Background(lambda: quietly(lambda: reading.step() == 1))
    if ending == "close":
        gate.close()
        partition.release()
    elif ending == "fail":
        partition.fail("the test wants it so")
    elif ending == "release":
        partition.release()
    writer.result()
    reader.result()
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_full_disk_while_spilling(plane, tmp_path, monkeypatch):
    """B4: a spill file that cannot be written is the reader's error, and nothing leaks."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    environment = plane.environment(segment_size=32768)
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, environment, environment, [(PID, 0)], local=True)
    writing, reading = plane.writing(partition, "GLOBAL"), plane.reading(gate)

    def write():
        writing.write(bytes(6 << 20))
        partition.finish()
        return False

    writer = Background(lambda: quietly(write))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(NetworkError, match=r"a long record .* \(make room .*: File too large"):
            while reading.step():
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    gate.close()
    partition.release()
    writer.result()
    assert not list(tmp_path.iterdir())
    assert_all_returned(environment)


def test_many_exchanges_one_after_the_other(plane, pair):
    """A-16, C6: successive exchanges over the same connection return every buffer."""
    producer, consumer, local = pair
    for number in range(30):
        pid = partition_id(number)
        partition = producer.create_result_partition(pid, 2, flush_timeout_ms=1)
        gate = connect(plane, producer, consumer, [(pid, 0), (pid, 1)], local=local)
        plane.writing(partition).write(b"\0a", b"\1b")
        partition.finish()
        seen = plane.reading(gate).to_end()
        assert (seen.values[0], seen.values[1]) == ([b"\0a"], [b"\1b"])
        assert partition.wait_consumed(PATIENCE_MS)
        gate.close()
        partition.release()
        assert_all_returned(producer, consumer)
