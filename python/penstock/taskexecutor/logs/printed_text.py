"""Output of ``print()`` sinks: to this worker's streams, or to those of the driver.

A worker that does not own its streams, as in Spark's executors, sends the text over the control
connection.  The amount in flight is limited to what the driver's streams keep up with.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final, Protocol

from penstock.rpc.messages import PrintedText

if TYPE_CHECKING:
    from penstock.rpc.connection import Connection
    from penstock.rpc.messages import PrintedTextWritten

MAX_CHARACTERS: Final = 32 * 1024
"""Characters in a message, except that one record may exceed it."""

MAX_UNWRITTEN: Final = 16
"""Messages of a worker that the driver has not written yet; beyond, tasks wait."""

_POLL_S: Final = 0.1


class PrintedStream(Protocol):
    """Output of a print sink."""

    def write(self, text: str, /) -> object:
        """Write a text."""

    def flush(self) -> None:
        """Wait until all text is written."""


class PrintedTextSender:
    """Sends text to the driver; any thread."""

    def __init__(self, executor_id: str, connection: Connection) -> None:
        """Create a sender.

        Args:
            executor_id: This worker's id.
            connection: Connection to the driver.
        """
        self._executor_id = executor_id
        self._connection = connection
        self._changed = threading.Condition()
        self._sent = 0
        self._written = 0
        self._failure = ""

    def send(self, text: str, *, is_error: bool) -> int:
        """Send a text when the driver has written enough of those before; return its number.

        Raises:
            OSError: The driver cannot write the text, or is gone.
        """
        clean = text.encode("utf-8", "backslashreplace").decode()
        with self._changed:
            self._wait_for(self._sent - MAX_UNWRITTEN + 1)
            self._sent += 1
            message = PrintedText(self._executor_id, self._sent, is_error, clean)
            if not self._connection.send(message):
                self._failure = "the connection to the driver is closed"
                self._raise_failure()
            return self._sent

    def wait_written(self, number: int) -> None:
        """Wait until the driver has written a text and all before it.

        Raises:
            OSError: The driver cannot write the text, or is gone.
        """
        with self._changed:
            self._wait_for(number)

    def written(self, message: PrintedTextWritten) -> None:
        """Record the number of texts that the driver has written, or its failure."""
        with self._changed:
            self._written = max(self._written, message.number)
            self._failure = self._failure or message.failure
            self._changed.notify_all()

    def close(self) -> None:
        """End all waits because the worker ends."""
        with self._changed:
            self._failure = self._failure or "the worker ends"
            self._changed.notify_all()

    def _wait_for(self, number: int) -> None:
        self._raise_failure()
        while self._written < number:
            # A cancellation of the task interrupts it between two waits.
            self._changed.wait(_POLL_S)
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure:
            raise OSError(f"the driver cannot write the printed text: {self._failure}")


class ForwardedStream:
    """A stream of the driver, for one sink."""

    def __init__(self, sender: PrintedTextSender, *, is_error: bool) -> None:
        """Create a stream that buffers text up to a size, or until `flush`.

        Args:
            sender: Sends the text.
            is_error: Whether it is for standard error.
        """
        self._sender = sender
        self._is_error = is_error
        self._parts: list[str] = []
        self._size = 0
        self._last = 0

    def write(self, text: str, /) -> None:
        """Buffer a text."""
        self._parts.append(text)
        self._size += len(text)
        if self._size >= MAX_CHARACTERS:
            self._send()

    def flush(self) -> None:
        """Wait until all text is written."""
        self._send()
        if self._last:
            self._sender.wait_written(self._last)

    def _send(self) -> None:
        if self._parts:
            text = "".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._last = self._sender.send(text, is_error=self._is_error)


_sender: PrintedTextSender | None = None


def forward_printed_text(sender: PrintedTextSender) -> None:
    """Let all sinks of this process write to the driver's streams."""
    global _sender
    _sender = sender


def printed_stream(*, is_error: bool) -> PrintedStream:
    """Return the stream that a new sink writes to."""
    if _sender is not None:
        return ForwardedStream(_sender, is_error=is_error)
    return sys.stderr if is_error else sys.stdout
