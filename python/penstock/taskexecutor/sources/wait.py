"""How a source waits without blocking the mails of its task."""

from __future__ import annotations

import select
import socket
from contextlib import suppress


class SourceWait:
    """A wait that another thread can end, together with a wait for a socket if there is one."""

    def __init__(self) -> None:
        """Creates it; ``close`` must follow."""
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self.cancelled = False

    def wait(self, timeout_ms: float, readable: socket.socket | None = None) -> None:
        """Blocks until ``wakeup``, data of ``readable``, or the end of the time."""
        sockets = [self._reader] if readable is None else [self._reader, readable]
        ready, _, _ = select.select(sockets, [], [], timeout_ms / 1000)
        if self._reader in ready:
            with suppress(BlockingIOError):
                self._reader.recv(4096)

    def wakeup(self) -> None:
        """Ends a wait, or the next one, from any thread."""
        # Full means that a wake-up is pending; closed that nobody waits any more.
        with suppress(OSError):
            self._writer.send(b"\0")

    def cancel(self) -> None:
        """Notes that the source should end, and wakes it."""
        self.cancelled = True
        self.wakeup()

    def close(self) -> None:
        """Closes the sockets."""
        self._reader.close()
        self._writer.close()
