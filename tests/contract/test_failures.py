"""A partition that fails or ends tells its readers why, late ones included (internals M24)."""

import pytest
from penstock.errors import PartitionNotFoundError, ProducerFailedError

from contract.plane import PATIENCE_MS, assert_all_returned, connect, partition_id

PID = partition_id()


@pytest.mark.parametrize("partition_type", ["PIPELINED", "PIPELINED_BOUNDED", "BLOCKING"])
def test_readers_that_come_after_a_failure(plane, pair, partition_type):
    """C10: the cause outlives the data, until the partition is released."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2, partition_type, flush_timeout_ms=0)
    plane.writing(partition).write(b"\0lost")
    partition.fail("out of luck")
    for _ in range(2):
        gate = connect(plane, producer, consumer, [(PID, 0), (PID, 1)], local=local)
        with pytest.raises(ProducerFailedError, match="out of luck"):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_the_first_cause_stays(plane, pair):
    """A second failure changes nothing, and neither does one after the release."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1)
    partition.fail("first")
    partition.fail("second")
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    with pytest.raises(ProducerFailedError, match="first"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    partition.release()
    partition.fail("third")
    partition.release()
    assert_all_returned(producer, consumer)


def test_the_next_attempt_takes_the_name(plane, pair):
    """Once a partition is released, another one with its id can be created, once."""
    producer, consumer, local = pair
    first = producer.create_result_partition(PID, 1)
    first.fail("out of luck")
    first.release()
    second = producer.create_result_partition(PID, 1, flush_timeout_ms=0)
    first.release()
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    plane.writing(second, "GLOBAL").write(b"here")
    second.finish()
    assert plane.reading(gate).to_end().values[0] == [b"here"]
    gate.close()
    second.release()
    assert_all_returned(producer, consumer)


def test_no_such_subpartition(plane, pair):
    """C7: a subpartition that the partition does not have is not found."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2)
    gate = connect(plane, producer, consumer, [(PID, 2)], local=local)
    with pytest.raises(PartitionNotFoundError, match="subpartition 2"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)
