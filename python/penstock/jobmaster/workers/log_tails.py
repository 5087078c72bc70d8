"""The last log lines of a cluster, for clients over the network.

The driver's log has everything its process logs, whatever handlers the program has set up; a
worker's log has what it sends, at the levels that the program has set.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final

DRIVER: Final = ""
MAX_CHARACTERS: Final = 1024 * 1024
MAX_LOGS: Final = 1000

FORMAT: Final = "%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s"


class LogTail:
    """The end of one log; any thread.

    Attributes:
        changed_s: When the last line was added, wall clock; 0 if there is none.
    """

    def __init__(self) -> None:
        """Create an empty log."""
        self._lines: deque[str] = deque()
        self._characters = 0
        self._position = 0
        self._lock = threading.Lock()
        self.changed_s = 0.0

    def append(self, text: str, created_s: float) -> None:
        """Add an entry, which may have several lines."""
        line = text[: MAX_CHARACTERS // 4] + "\n"
        with self._lock:
            self._lines.append(line)
            self._characters += len(line)
            self._position += len(line)
            self.changed_s = created_s
            while self._characters > MAX_CHARACTERS:
                self._characters -= len(self._lines.popleft())

    def read(self, since: int = 0) -> tuple[str, int]:
        """Return the retained log behind a position, and the position at its end."""
        with self._lock:
            text = "".join(self._lines) if since < self._position else ""
            start = self._position - self._characters
            return text[max(0, since - start) :], self._position


class LogTails:
    """The ends of all logs of a cluster."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._tails: dict[str, LogTail] = {}
        self._lock = threading.Lock()

    def of(self, source: str) -> LogTail:
        """Return the log of a worker, or of `DRIVER`."""
        with self._lock:
            found = self._tails.get(source)
            if found is None:
                found = self._tails[source] = LogTail()
                while len(self._tails) > MAX_LOGS:
                    oldest = next(name for name in self._tails if name != DRIVER)
                    del self._tails[oldest]
            return found

    def of_worker(self, executor_id: str) -> LogTail | None:
        """Return the log of a worker, also of a lost one; None if it has sent no line."""
        with self._lock:
            return self._tails.get(executor_id) if executor_id != DRIVER else None

    def workers(self) -> list[str]:
        """Return the ids of the workers that have sent a line, in the order of their first."""
        with self._lock:
            return [source for source in self._tails if source != DRIVER]


class DriverLog(logging.Handler):
    """Stores what this process logs, without changing where other handlers send it."""

    def __init__(self, tail: LogTail) -> None:
        """Create a handler for the root logger.

        Args:
            tail: Stores the entries.
        """
        super().__init__()
        self._tail = tail
        self.setFormatter(logging.Formatter(FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        """Store a record; if no other handler handles it, pass it to logging's last resort."""
        if not is_of_worker(record):
            try:
                self._tail.append(self.format(record), record.created)
            except Exception:  # a message that does not fit its arguments
                self.handleError(record)
        last = logging.lastResort
        if last is None or record.levelno < last.level:
            return
        if not has_handlers(logging.getLogger(record.name)):
            last.handle(record)


def has_handlers(target: logging.Logger) -> bool:
    """Return whether the program has set up a handler for a logger."""
    logger: logging.Logger | None = target
    while logger is not None:
        if any(not isinstance(handler, DriverLog) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def is_of_worker(record: logging.LogRecord) -> bool:
    """Return whether a record came from a worker: it names the operator that spoke, or none."""
    return hasattr(record, "operator") and hasattr(record, "subtask")
