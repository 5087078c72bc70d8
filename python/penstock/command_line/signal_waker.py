"""A wait of the main thread that a signal handler interrupts reliably."""

from __future__ import annotations

import contextlib
import signal
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class SignalWaker:
    """Lets the main thread wait for signals, and for other threads.

    The system may deliver a process's signal to any thread.  Python runs the handler in the main
    thread as soon as that executes bytecode: a thread that waits for a lock or the end of a thread
    does not, unless it received the signal itself.  So this class waits for a byte, which the
    interpreter writes in whichever thread receives the signal.
    """

    def __init__(self) -> None:
        """Create the waker; it is inactive outside a ``with`` statement."""
        self._reader, self._writer = socket.socketpair()
        self._before = -1

    def __enter__(self) -> Self:
        """Let signals wake it from now on; called in the main thread."""
        self._writer.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the former state; `wake` must not be called any more."""
        signal.set_wakeup_fd(self._before)
        self._reader.close()
        self._writer.close()

    def wake(self) -> None:
        """Make `wait` return; called by any thread, or by a signal handler."""
        with contextlib.suppress(BlockingIOError):  # the pipe holds enough bytes to wake it
            self._writer.send(b"\0")

    def wait(self) -> None:
        """Return once a signal's handler has run, or `wake` was called; perhaps earlier."""
        self._reader.recv(4096)
