"""A forked child leaves the threads, sockets and files of its parent alone (internals M7, M20).

Method: the child closes or drops its copies of the objects and ends; then the parent uses its own.
"""

import faulthandler
import gc
import os
import signal
import tempfile
import traceback
import warnings

import pytest
from penstock.errors import CancelTaskError
from support.patience import PATIENCE_S, eventually

from contract.plane import Background, Reading, Writing, partition_id


def in_a_child(act):
    """Call ``act`` in a forked child, which must end without an exception."""
    with tempfile.TemporaryFile("w+") as report:
        with warnings.catch_warnings():
            # Python warns of forks beside threads, which are the subject here.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            status = 1
            try:
                # A child that hangs shows where, and ends.
                faulthandler.dump_traceback_later(PATIENCE_S, exit=True, file=report)
                act()
                gc.collect()
                status = 0
            except BaseException:
                traceback.print_exc(file=report)
                report.flush()
            finally:
                os._exit(status)
        try:
            _, status = os.waitpid(child, 0)
        except BaseException:  # the limit of a test, or an interrupt
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        report.seek(0)
        assert status == 0, f"in the child:\n{report.read()}"


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
    producer, consumer = (plane.environment(num_segments=16, segment_size=64) for _ in range(2))
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
        plane.close()

    def drop():
        held.clear()
        plane.environments.clear()

    in_a_child(close)
    held |= {"objects": [partition, gate]}
    del producer, consumer, partition, gate, close
    in_a_child(drop)
    partition, gate = held["objects"]
    held["writing"].write(b"\0after")
    partition.finish()
    assert held["reading"].to_end().values[0] == [b"\0before", b"\0after"]
    gate.close()


def test_a_child_waits_for_no_thread_of_its_parent(plane):
    """A writer that waits for a buffer within a record locks its partition meanwhile."""
    producer = plane.environment(num_segments=4, segment_size=64)
    partition = producer.create_result_partition(partition_id(), 1)
    writer = Background(lambda: plane.writing(partition).write(bytes(1024)))
    eventually(lambda: not partition.is_available(), "the writer has all buffers")

    def close():
        partition.release()
        producer.close()

    in_a_child(close)
    partition.release()
    with pytest.raises(CancelTaskError):
        writer.result()


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
