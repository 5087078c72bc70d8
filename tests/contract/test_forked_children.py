"""A forked child leaves the threads, sockets and files of its parent alone (internals M7, M20).

Method: the child closes or drops its copies of the objects and ends; then the parent uses its own.
"""

import gc
import os
import warnings

import pytest
from support.patience import eventually

from contract.plane import TOKEN, Reading, Writing, partition_id


def in_a_child(act):
    """Call ``act`` in a forked child, which must end without an exception."""
    with warnings.catch_warnings():
        # Python warns of forks beside threads, which are the subject here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    ended = []

    def has_ended():
        ended[:] = os.waitpid(child, os.WNOHANG)
        return ended[0] == child

    eventually(has_ended, "the child ends")
    assert ended[1] == 0


def test_files_survive_a_child(plane, tmp_path):
    held = [plane.load("IOManager")([str(tmp_path)])]
    manager = held[0]
    writer = manager.create_buffer_writer(manager.create_channel())
    in_a_child(manager.close)
    del manager
    in_a_child(held.clear)
    assert len(list(tmp_path.iterdir())) == 1
    writer.write(b"content")
    writer.close()
    held.pop().close()
    assert list(tmp_path.iterdir()) == []


def test_an_exchange_survives_a_child(plane):
    """Peers learn nothing of a child that closes or drops an environment and its parts."""
    producer, consumer = (
        plane.load("NetworkEnvironment")(
            executor_id=name, token=TOKEN, num_segments=16, segment_size=64
        )
        for name in ("producer", "consumer")
    )
    partition = producer.create_result_partition(partition_id(), 1)
    gate = consumer.create_input_gate([(partition_id(), 0, producer.address)])
    gate.request_partitions()
    held = {"writing": Writing(plane, partition), "reading": Reading(plane, gate)}
    held["writing"].write(b"\0before")
    held["writing"].flush()
    held["reading"].until(lambda seen: seen.values[0])

    def close():
        gate.close()
        partition.release()
        producer.close()
        consumer.close()

    in_a_child(close)
    held |= {"objects": [producer, consumer, partition, gate]}
    del producer, consumer, partition, gate, close
    in_a_child(held.clear)
    producer, consumer, partition, gate = held["objects"]
    held["writing"].write(b"\0after")
    partition.finish()
    assert held["reading"].to_end().values[0] == [b"\0before", b"\0after"]
    gate.close()
    producer.close()
    consumer.close()


def test_a_dropped_manager_is_closed(plane, tmp_path):
    """Its threads end and its files disappear; so they do when a program ends."""
    manager = plane.load("IOManager")([str(tmp_path)])
    writer = manager.create_buffer_writer(manager.create_channel())
    assert len(list(tmp_path.iterdir())) == 1
    del manager
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BrokenPipeError, match="closed"):
        writer.write(b"late")
    writer.close()
