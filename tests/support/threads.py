"""Threads that a job in this process must not leave behind."""

import threading


def assert_over(threads):
    """Assert that there are no new threads, or that they end soon."""
    left = set(threading.enumerate()) - threads
    for thread in left:
        thread.join(30)
    assert [thread.name for thread in left if thread.is_alive()] == []
