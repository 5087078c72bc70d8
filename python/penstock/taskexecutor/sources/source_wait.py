"""A source's wait, during which mails of its task can run."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress


class SourceWait:
    """A wait that another thread can end, combined with a wait for a socket if there is one.

    ``close`` must follow the first `wait`.
    """

    def __init__(self) -> None:
        """Open nothing: a task that is cancelled during its restore only closes what it opened."""
        self._lock = threading.Lock()
        # Free while a wake-up is pending.  Ending a wait at a lock costs no system call that
        # releases the interpreter's lock, unlike one at a socket.
        self._no_wakeup = threading.Lock()
        self._no_wakeup.acquire()
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._is_closed = False
        self.cancelled = False

    def wait(self, timeout_ms: float, readable: socket.socket | None = None) -> None:
        """Block until ``wakeup``, data of ``readable``, or the end of the time."""
        timeout_s = max(0.0, timeout_ms / 1000)
        if readable is None:
            if not self._is_closed:
                self._no_wakeup.acquire(timeout=timeout_s)
            return
        with self._lock:
            if self._is_closed or self._no_wakeup.acquire(blocking=False):
                return
            if self._pair is None:
                self._pair = socket.socketpair()
                for end in self._pair:
                    end.setblocking(False)
            reader = self._pair[0]
        ready, _, _ = select.select([reader, readable], [], [], timeout_s)
        if reader in ready:
            with suppress(BlockingIOError):
                reader.recv(4096)
            self._no_wakeup.acquire(blocking=False)

    def takes_wakeup(self) -> bool:
        """Consume a pending wake-up without blocking; return whether there was one."""
        return self._no_wakeup.acquire(blocking=False)

    def wakeup(self) -> None:
        """End a wait, or the next one; any thread."""
        with self._lock:
            if not self._no_wakeup.locked():
                return
            self._no_wakeup.release()
            if self._pair is not None:
                # Full means that the next wait ends anyway.
                with suppress(BlockingIOError):
                    self._pair[1].send(b"\0")

    def cancel(self) -> None:
        """Mark the source as cancelled, and wake it."""
        self.cancelled = True
        self.wakeup()

    def close(self) -> None:
        """Close the sockets; later waits return at once."""
        with self._lock:
            self._is_closed = True
            pair, self._pair = self._pair, None
        for end in pair or ():
            end.close()
