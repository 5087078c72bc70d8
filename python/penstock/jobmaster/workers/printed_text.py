"""Output of workers, written to the driver's streams by a thread of its own."""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Final

from penstock.rpc.messages import PrintedTextWritten

if TYPE_CHECKING:
    from penstock.rpc.connection import Connection
    from penstock.rpc.messages import PrintedText

CLOSE_TIMEOUT_S: Final = 5.0


class PrintedTextWriter:
    """Writes text of the workers of a cluster; any thread.

    A worker sends only a few texts before they are acknowledged as written, which bounds the queue.
    """

    def __init__(self) -> None:
        """Create a writer; the thread starts with the first text."""
        self._queue: queue.SimpleQueue[tuple[PrintedText, Connection] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def received(self, message: PrintedText, connection: Connection) -> None:
        """Queue a worker's text; return at once."""
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="printed text of workers", daemon=True
                )
                self._thread.start()
        self._queue.put((message, connection))

    def close(self) -> None:
        """Write the queued texts, and end the thread."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._queue.put(None)
            thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            message, connection = item
            failure = ""
            try:
                stream = sys.stderr if message.is_error else sys.stdout
                stream.write(message.text)
                stream.flush()
            except (OSError, ValueError, AttributeError) as error:
                failure = f"{type(error).__name__}: {error}"  # the worker's task fails with it
            connection.send(PrintedTextWritten(message.number, failure))
