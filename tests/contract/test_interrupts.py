"""A signal ends a wait of the main thread, and its buffers return (M4, M5, B-7).

The handler raises wherever the main thread is: a signal before the wait ends the same call, so
nothing here depends on time.
"""

import contextlib
import signal
import threading

import pytest
from penstock.errors import CancelTaskError

from contract.plane import PATIENCE_MS, assert_all_returned, connect, partition_id

PID = partition_id()


class Stop(Exception):
    """Raised by the handler."""


@contextlib.contextmanager
def interrupted():
    """Check that the signal of another thread ends the block while it waits."""

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGUSR1, stop)
    main = threading.main_thread().ident
    timer = threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGUSR1))
    try:
        with pytest.raises(Stop):
            timer.start()
            yield
            pytest.fail("the wait ended by itself")
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_requests_of_segments(plane):
    """A-16, A-20: an interrupted request returns its segments and its promised ones."""
    pool = plane.load("NetworkBufferPool")(4, 16, PATIENCE_MS)
    local = pool.create_buffer_pool(1, 4)
    held = [local.request_buffer() for _ in range(3)]
    with interrupted():
        pool.request_unpooled_segments(2)
    other = pool.create_buffer_pool(3, 3)
    with interrupted():
        other.reserve_segments(3)
    with interrupted():
        while True:
            held.append(local.request_builder_blocking())
    with interrupted():
        local.available_future.wait()
    for one in held:
        getattr(one, "recycle", getattr(one, "close", None))()
    local.lazy_destroy()
    other.lazy_destroy()
    assert (pool.required_segments, pool.owed_segments, pool.available_segments) == (0, 0, 4)


def test_waits_of_a_reader(plane):
    """C9: a signal ends a wait at a gate, or at several, and reading can continue."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=0)
    gate = connect(plane, environment, environment, [(PID, 0)], local=False)
    with interrupted():
        gate.next_buffer(-1)
    with interrupted():
        gate.next_buffer(PATIENCE_MS)
    union = environment.create_union_gate([gate])
    with interrupted():
        union.next_buffer(-1)
    reading = plane.reading(union)
    for timeout_ms in (-1, PATIENCE_MS):
        with interrupted():
            reading.step(timeout_ms)
    union.wakeup()
    assert reading.step(-1) == 0
    plane.writing(partition, "GLOBAL").write(b"still there")
    assert reading.step(PATIENCE_MS) == 1
    union.close()
    with pytest.raises(CancelTaskError):
        reading.step()
    partition.release()
    assert_all_returned(environment)


def test_waits_of_a_partition(plane):
    """B-7: whatever a writer waits for, a signal ends it."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    with interrupted():
        partition.wait_consumed(PATIENCE_MS)
    with interrupted():
        partition.next_task_event(PATIENCE_MS)
    partition.release()
    assert_all_returned(environment)
