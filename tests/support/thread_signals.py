"""Signals to a thread that is not a process's first, as the system may choose any."""

import ctypes

import psutil


def signal_another_thread(pid: int, number: int) -> None:
    """Sends a signal to the youngest thread of a process."""
    tid = max(thread.id for thread in psutil.Process(pid).threads())
    assert tid != pid
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.tgkill(pid, tid, int(number)) != 0:
        raise OSError(ctypes.get_errno(), f"thread {tid} of {pid} cannot be sent {number}")
