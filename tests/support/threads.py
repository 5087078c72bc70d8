"""Threads that a job in this process must not leave behind."""

import threading

from support.patience import PATIENCE_S


def assert_over(threads):
    """Assert that there are no new threads, or that they end soon."""
    left = set(threading.enumerate()) - threads
    for thread in left:
        thread.join(PATIENCE_S)
    assert [thread.name for thread in left if thread.is_alive()] == []
