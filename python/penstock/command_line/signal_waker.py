"""A wait of the main thread that the handler of a signal is sure to interrupt."""

from __future__ import annotations

import contextlib
import signal
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class SignalWaker:
    """The main thread waits here for signals, and for other threads.

    The system may have any thread take a signal that was sent to the process.  Python runs the
    handler in the main thread, once that does something: one that waits for a lock or the end of a
    thread does nothing, unless it took the signal itself.  So this waits for a byte, which the
    interpreter writes in whichever thread takes the signal.
    """

    def __init__(self) -> None:
        """Do nothing yet."""
        self._reader, self._writer = socket.socketpair()
        self._before = -1

    def __enter__(self) -> Self:
        """Signal wake it from now on; in the main thread."""
        self._writer.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        """Signal do not wake it any more, nor may `wake` be called."""
        signal.set_wakeup_fd(self._before)
        self._reader.close()
        self._writer.close()

    def wake(self) -> None:
        """Make `wait` return; any thread, also from a signal's handler."""
        with contextlib.suppress(BlockingIOError):  # there is enough to wake it
            self._writer.send(b"\0")

    def wait(self) -> None:
        """Return once a signal's handler has run, or `wake` was called; perhaps before."""
        self._reader.recv(4096)
