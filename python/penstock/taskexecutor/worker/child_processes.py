"""Child processes that user code started, which end with their worker.

A worker has its own process group, to which its children belong unless they leave it.  At its end
it terminates them, including those that left the group.  Its host terminates the rest of the group,
all of it if the worker crashed or was killed.  Children that left the group of such a worker are
found by a mark in their initial environment; a forked process that runs no new program and has left
the group has no mark, and survives.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import psutil

GRACE_S: Final = 1.0
"""Time that children have to end after SIGTERM."""

LEFT_BEHIND_GRACE_S: Final = 0.3
"""The same for children that a worker left: less than the driver waits for its exit status."""

_POLL_S: Final = 0.02

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a worker and its children; the kernel sends the second one if the parent died
while a process of its group was stopped."""

_MARK: Final = "PENSTOCK_WORKER_PROCESS"
"""The variable that marks programs with the worker that started them."""


def end_children(grace_s: float = GRACE_S, *, has_host: bool) -> None:
    """End all processes that this one started, and their descendants.

    Args:
        grace_s: Time that the processes have to end by themselves.
        has_host: Whether the host is alive to end the rest of the group.
    """
    if has_host and not _has_children():
        return  # the usual case, and importing psutil takes a while
    import psutil

    own = os.getpid()
    found = {process.pid: process for process in psutil.Process().children(recursive=True)}
    if os.getpgid(0) == own:
        for pid in psutil.pids():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if pid != own and pid not in found and os.getpgid(pid) == own:
                    found[pid] = psutil.Process(pid)
    _end([process for process in found.values() if not _is_resource_tracker(process)], grace_s)


def mark_children() -> None:
    """Mark the programs that this worker starts."""
    os.environ[_MARK] = str(os.getpid())


def end_marked_children(worker: int, grace_s: float = LEFT_BEHIND_GRACE_S) -> None:
    """End the programs of a worker that could not do so, whatever their process group."""
    import psutil

    mark, user = str(worker), os.geteuid()
    marked = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.uids().effective == user and process.environ().get(_MARK) == mark:
                marked.append(process)
    _end(marked, grace_s)


def _end(processes: list[psutil.Process], grace_s: float) -> None:
    import psutil

    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    deadline_s = time.monotonic() + grace_s
    while any(map(_is_alive, processes)) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def end_process_group(group: int, grace_s: float = LEFT_BEHIND_GRACE_S) -> None:
    """End the processes of a group whose leader has ended."""
    deadline_s = time.monotonic() + grace_s
    with suppress(ProcessLookupError, PermissionError):  # the group is empty
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)


def default_signals_in_children() -> None:
    """Restore the default handling of a worker's ending signals in processes forked by user code.

    Signals are blocked until then: Python loses those that arrive during a fork.
    """
    forking = threading.local()

    def before() -> None:
        forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)

    def after_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    def after_in_child() -> None:
        signal.set_wakeup_fd(-1)  # the descriptor belongs to the worker
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, forking.mask)

    os.register_at_fork(
        before=before, after_in_parent=after_in_parent, after_in_child=after_in_child
    )


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _is_alive(process: psutil.Process) -> bool:
    import psutil

    try:
        # Orphans stay zombies if the first process of a container does not reap them.
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_resource_tracker(process: psutil.Process) -> bool:
    """Return whether a process is multiprocessing's resource tracker, which ends by itself."""
    import psutil

    try:
        return any("multiprocessing.resource_tracker" in part for part in process.cmdline())
    except psutil.Error:
        return False
