"""LogRelay: copies what a child process logs to this process's standard error."""

from __future__ import annotations

import collections
import sys
import threading
from typing import IO

TAIL_LINES = 50
TIMEOUT_S = 1.0


class LogRelay:
    """A thread that copies lines and keeps the last ones."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Start to copy a stream, which the relay owns."""
        self._stream = stream
        self._tail: collections.deque[bytes] = collections.deque(maxlen=TAIL_LINES)
        self._thread = threading.Thread(target=self._copy, name="log relay", daemon=True)
        self._thread.start()

    @property
    def tail(self) -> str:
        """The last lines; complete once the process has ended and `wait` was called."""
        return b"".join(self._tail).decode(errors="replace")

    def add(self, line: str) -> None:
        """Add a line to the tail."""
        self._tail.append(line.encode())

    def wait(self) -> None:
        """Wait for the end of the stream, but not for long.

        A child of the process that has ended may hold the stream open.
        """
        self._thread.join(TIMEOUT_S)

    def close(self) -> None:
        """Close the stream if it has ended."""
        self.wait()
        if not self._thread.is_alive():
            self._stream.close()

    def _copy(self) -> None:
        for line in self._stream:
            self._tail.append(line)
            try:
                sys.stderr.write(line.decode(errors="replace"))
            except (OSError, ValueError):
                # This process's own stderr is closed, or its disk full.  The child must not block
                # in a full pipe, and the tail is still wanted.
                continue
