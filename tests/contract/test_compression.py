"""Buffers for other executors are compressed when that is asked for (C3, the compressed flag)."""

import random

import pytest
from penstock.errors import ConfigurationError, PenstockError

from contract.plane import (
    NATIVE_IS_BUILT,
    PATIENCE_MS,
    Plane,
    assert_all_returned,
    connect,
    exchanged,
    partition_id,
)

native = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built")
PID = partition_id()


@pytest.fixture
def native_plane(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", "native")
    plane = Plane("native")
    yield plane
    plane.close()


@native
@pytest.mark.parametrize("partition_type", ["PIPELINED_BOUNDED", "BLOCKING"])
def test_values_of_all_kinds(native_plane, partition_type):
    """What shrinks, what does not, what spans buffers, and events come through unharmed."""
    producer = native_plane.environment(compression_codec="lz4")
    consumer = native_plane.environment()
    partition = producer.create_result_partition(PID, 1, partition_type, flush_timeout_ms=1)
    gate = connect(native_plane, producer, consumer, [(PID, 0)], local=False)
    source = random.Random(5)
    values = [
        value
        for size in (0, 1, 70, 1000, 20_000)
        for value in (bytes(size), source.randbytes(size), b"abcd" * (size // 4))
    ] * 4
    assert exchanged(native_plane, native_plane, partition, gate, values) == values
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_unknown_codec(plane):
    """A codec that does not exist is named."""
    with pytest.raises(ConfigurationError, match="zip"):
        plane.environment(compression_codec="zip")


def test_pure_refuses_to_compress(monkeypatch):
    """The pure runtime says what to do instead."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    with pytest.raises(ConfigurationError, match=r"taskmanager\.network\.compression\.codec"):
        Plane("pure").environment(compression_codec="lz4")


@native
def test_pure_reader_of_compressed_buffers(native_plane):
    """It fails the channel with a reason that says what to do, and loses no buffer."""
    pure = Plane("pure")
    try:
        producer = native_plane.environment(compression_codec="lz4")
        consumer = pure.environment()
        partition = producer.create_result_partition(PID, 1, flush_timeout_ms=0)
        gate = connect(pure, producer, consumer, [(PID, 0)], local=False)
        native_plane.writing(partition, "GLOBAL").write(bytes(900))
        with pytest.raises(PenstockError, match="pure runtime cannot read"):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
        partition.release()
        assert_all_returned(producer, consumer)
    finally:
        pure.close()
