"""Signals to a thread other than the process's first one: the system may choose any thread."""

import ctypes

import psutil


def signal_another_thread(pid: int, number: int) -> None:
    """Send a signal to a thread of a process other than its first one."""
    # Thread numbers wrap around: those of later threads need not be higher.
    tid = max(thread.id for thread in psutil.Process(pid).threads() if thread.id != pid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.tgkill(pid, tid, int(number)) != 0:
        raise OSError(ctypes.get_errno(), f"thread {tid} of {pid} cannot be sent {number}")
