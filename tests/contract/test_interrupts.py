"""A signal ends a wait of the main thread, and its buffers return (M4, M5, B-7).

The handler raises wherever the main thread is: a signal before the wait ends the same call, so
nothing here depends on time.
"""

import signal
import threading
from functools import partial

import pytest
from penstock.errors import CancelTaskError

from contract.plane import PATIENCE_MS, assert_all_returned, connect, partition_id

PID = partition_id()


class Stop(Exception):
    """Raised by the handler."""


def interrupt(wait):
    """Check that a call ends by the signal that another thread sends while it waits."""

    def stop(*_):
        raise Stop

    def send():
        assert begun.wait(PATIENCE_MS / 1000)
        pause.wait(0.05)
        signal.pthread_kill(main, signal.SIGUSR1)

    begun, pause = threading.Event(), threading.Event()
    before = signal.signal(signal.SIGUSR1, stop)
    main = threading.main_thread().ident
    sender = threading.Thread(target=send)
    sender.start()
    try:
        # No signal is sent outside of this block, however late this thread is.
        with pytest.raises(Stop):
            begun.set()
            wait()
            pytest.fail("the wait ended by itself")
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_requests_of_segments(plane):
    """A-16, A-20: an interrupted request returns its segments and its promised ones."""
    pool = plane.load("NetworkBufferPool")(4, 16, PATIENCE_MS)
    local = pool.create_buffer_pool(1, 4)
    held = [local.request_buffer() for _ in range(3)]
    interrupt(lambda: pool.request_unpooled_segments(2))
    other = pool.create_buffer_pool(3, 3)
    interrupt(lambda: other.reserve_segments(3))
    while (builder := local.request_builder()) is not None:
        held.append(builder)
    interrupt(local.request_builder_blocking)
    interrupt(local.available_future.wait)
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
    interrupt(lambda: gate.next_buffer(-1))
    interrupt(lambda: gate.next_buffer(PATIENCE_MS))
    union = environment.create_union_gate([gate])
    interrupt(lambda: union.next_buffer(-1))
    reading = plane.reading(union)
    for timeout_ms in (-1, PATIENCE_MS):
        interrupt(partial(reading.step, timeout_ms))
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
    interrupt(lambda: partition.wait_consumed(PATIENCE_MS))
    interrupt(lambda: partition.next_task_event(PATIENCE_MS))
    partition.release()
    assert_all_returned(environment)
