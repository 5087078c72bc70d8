"""Threads that a job in this process must not leave behind."""

import threading


def assert_over(threads):
    """No thread is there that was not before, or it ends soon."""
    left = set(threading.enumerate()) - threads
    for thread in left:
        thread.join(30)
    assert [thread.name for thread in left if thread.is_alive()] == []
