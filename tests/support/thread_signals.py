"""Signals to a thread that is not a process's first, as the system may choose any."""

import ctypes

import psutil


def signal_another_thread(pid: int, number: int) -> None:
    """Send a signal to a thread of a process that is not its first, of which there are some."""
    # Numbers of threads begin anew at some time: those of later ones need not be higher.
    tid = max(thread.id for thread in psutil.Process(pid).threads() if thread.id != pid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.tgkill(pid, tid, int(number)) != 0:
        raise OSError(ctypes.get_errno(), f"thread {tid} of {pid} cannot be sent {number}")
