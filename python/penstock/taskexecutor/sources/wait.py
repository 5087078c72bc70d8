"""How a source waits without blocking the mails of its task."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress


class SourceWait:
    """A wait that another thread can end, together with a wait for a socket if there is one.

    ``close`` must follow the first `wait`.
    """

    def __init__(self) -> None:
        """Opens nothing: a task that is cancelled while it is restored closes what it opened."""
        self._lock = threading.Lock()
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._is_woken = False
        self._is_closed = False
        self.cancelled = False

    def wait(self, timeout_ms: float, readable: socket.socket | None = None) -> None:
        """Blocks until ``wakeup``, data of ``readable``, or the end of the time."""
        with self._lock:
            if self._is_woken or self._is_closed:
                self._is_woken = False
                return
            if self._pair is None:
                self._pair = socket.socketpair()
                for end in self._pair:
                    end.setblocking(False)
            reader = self._pair[0]
        sockets = [reader] if readable is None else [reader, readable]
        ready, _, _ = select.select(sockets, [], [], timeout_ms / 1000)
        if reader in ready:
            with suppress(BlockingIOError):
                reader.recv(4096)

    def wakeup(self) -> None:
        """Ends a wait, or the next one, from any thread."""
        with self._lock:
            if self._pair is None:
                self._is_woken = True
                return
            # Full means that a wake-up is pending.
            with suppress(BlockingIOError):
                self._pair[1].send(b"\0")

    def cancel(self) -> None:
        """Notes that the source should end, and wakes it."""
        self.cancelled = True
        self.wakeup()

    def close(self) -> None:
        """Closes the sockets; nobody waits any more."""
        with self._lock:
            self._is_closed = True
            pair, self._pair = self._pair, None
        for end in pair or ():
            end.close()
