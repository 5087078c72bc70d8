"""Finds tasks without progress in a worker whose heartbeats continue.

A task's thread runs mails between two records.  It gets an empty mail, the ping; if it has not run
it after `task.liveness.timeout`, the worker cannot recover: user code, a disk or a lock holds the
thread.  Time in which an output has no buffer does not count, since then another task is slow.

If a call holds the interpreter's lock, no Python thread can detect that; a timer in C then writes
the stacks of all threads to standard error, whose tail the driver receives, and ends the process.
"""

from __future__ import annotations

import faulthandler
import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: Number of checks within the shortest timeout.
_LOOKS: Final = 4


class Pinged(Protocol):
    """A task, as the watch sees it."""

    name: str

    def ping(self, answer: Callable[[], None]) -> bool:
        """Call ``answer`` soon in the task's thread, unless a ping is already waiting.

        Return False if the task runs no mails now.
        """

    def unhindered_s(self) -> float:
        """Return the seconds in which every output had a buffer."""


class _Watched:
    """One task; ``ping_s`` is the time of the ping that it has not answered."""

    def __init__(self, task: Pinged, timeout_s: float) -> None:
        self.task = task
        self.timeout_s = timeout_s
        self.ping_s: float | None = None

    def look(self) -> float:
        """Ping the task unless a ping waits; return the time for which it has not answered."""
        now_s = self.task.unhindered_s()
        if self.ping_s is None:
            self.ping_s = now_s
        if not self.task.ping(self._answer):
            self.ping_s = None
        ping_s = self.ping_s
        return 0.0 if ping_s is None else now_s - ping_s

    def _answer(self) -> None:
        self.ping_s = None


class LivenessWatch:
    """Watches a worker's tasks with a timeout, in a thread that exists while there are any."""

    def __init__(self, fatal_error: Callable[[str], None], *, owns_process: bool) -> None:
        """Create a watch of no task yet.

        Args:
            fatal_error: Ends the worker, with the reason.
            owns_process: Whether the process belongs to the worker alone, and may be ended from C.
        """
        self._fatal_error = fatal_error
        self._owns_process = owns_process
        self._changed = threading.Condition()
        self._watched: dict[Pinged, _Watched] = {}
        self._thread: threading.Thread | None = None

    def add(self, task: Pinged, timeout_ms: int) -> None:
        """Watch a task; a timeout of 0 disables the watch."""
        if timeout_ms == 0:
            return
        with self._changed:
            self._watched[task] = _Watched(task, timeout_ms / 1000)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="liveness", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def remove(self, task: Pinged) -> None:
        """Stop watching a task that has ended."""
        with self._changed:
            self._watched.pop(task, None)
            self._changed.notify_all()

    def close(self) -> None:
        """Stop watching all tasks."""
        with self._changed:
            self._watched.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._watched:
                    self._thread = None
                    if self._owns_process:
                        faulthandler.cancel_dump_traceback_later()
                    return
                watched = list(self._watched.values())
                shortest_s = min(one.timeout_s for one in watched)
                if self._owns_process:
                    # Restarted at each check; the extra time covers late checks.
                    faulthandler.dump_traceback_later(2 * shortest_s, exit=True)
            for one in watched:
                silent_s = one.look()
                if silent_s >= one.timeout_s:
                    self.close()
                    self._fatal_error(
                        f"{one.task.name} makes no progress: its thread has taken no mail for "
                        f"{silent_s:.0f} s (task.liveness.timeout)"
                    )
                    break
            with self._changed:
                if self._watched:
                    self._changed.wait(shortest_s / _LOOKS)
