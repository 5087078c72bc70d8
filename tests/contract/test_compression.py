"""Buffers for other executors are compressed if configured (M17, the compressed flag)."""

import random

import pytest
from penstock.errors import ConfigurationError

from contract.plane import (
    NATIVE_IS_BUILT,
    Plane,
    assert_all_returned,
    connect,
    exchanged,
    partition_id,
)

PID = partition_id()
KINDS = ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]


@pytest.mark.parametrize("partition_type", ["PIPELINED_BOUNDED", "BLOCKING"])
@pytest.mark.parametrize("consuming", KINDS)
@pytest.mark.parametrize("same_host", [True, False])
def test_values_of_all_kinds(plane, partition_type, consuming, same_host):
    """Values that shrink, that grow, that span buffers, and events arrive intact."""
    plane.same_host_path = same_host
    other = Plane(consuming)
    other.same_host_path = same_host
    try:
        producer = plane.environment(compression_codec="lz4")
        consumer = other.environment()
        partition = producer.create_result_partition(PID, 1, partition_type, flush_timeout_ms=1)
        gate = connect(other, producer, consumer, [(PID, 0)], local=False)
        source = random.Random(5)
        values = [
            value
            for size in (0, 1, 70, 1000, 20_000)
            for value in (bytes(size), source.randbytes(size), b"abcd" * (size // 4))
        ] * 2
        assert exchanged(plane, other, partition, gate, values) == values
        gate.close()
        partition.release()
        assert_all_returned(producer, consumer)
    finally:
        other.close()


def test_unknown_codec(plane):
    """The error names an unknown codec."""
    with pytest.raises(ConfigurationError, match="zip"):
        plane.environment(compression_codec="zip")
