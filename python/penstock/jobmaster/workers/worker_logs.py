"""WorkerLogs: passes the workers' log records to the driver's own logging.

Its own thread passes them to the handlers, which may be slow; records that exceed its bounded queue
are dropped and counted.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from typing import TYPE_CHECKING, Final

from penstock.jobmaster.workers.log_tails import FORMAT, LogTails, has_handlers
from penstock.taskexecutor.logs.speaker import prefix

if TYPE_CHECKING:
    from penstock.rpc.messages import LogEntry, LogRecords

MAX_QUEUED_BATCHES: Final = 256
CLOSE_TIMEOUT_S: Final = 5.0
MAX_LEVELS: Final = 1000

logger = logging.getLogger(__name__)

_FORMAT: Final = "%(asctime)s %(levelname)s %(processName)s %(name)s: %(message)s"


class WorkerLogs:
    """Handles the log records of all workers of a cluster; any thread."""

    def __init__(self, tails: LogTails) -> None:
        """Create a handler; the thread starts with the first record.

        Args:
            tails: Stores the last records.
        """
        self._tails = tails
        self._tail_format = logging.Formatter(FORMAT)
        self._queue: queue.Queue[LogRecords | None] = queue.Queue(MAX_QUEUED_BATCHES)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._dropped = 0
        self._closed = False
        # A program that has not set up logging sees the levels it set for its workers.
        self._fallback = logging.StreamHandler()
        self._fallback.setFormatter(logging.Formatter(_FORMAT))

    def received(self, message: LogRecords) -> None:
        """Queue a worker's records; return at once."""
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="worker logs", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            with self._lock:
                self._dropped += len(message.entries) + message.dropped

    def worker_lost(self, executor_id: str, message: str) -> None:
        """Add a line to the log of a lost worker: how it ended, and what its host knows of it."""
        record = logging.LogRecord(__name__, logging.ERROR, "", 0, message, None, None)
        self._keep(executor_id, record)

    def close(self) -> None:
        """Handle the queued records, and end the thread."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            try:
                self._queue.put(None, timeout=CLOSE_TIMEOUT_S)
            except queue.Full:
                logger.error("the handlers of the log do not keep up with what workers logged")
                return
            thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (message := self._queue.get()) is not None:
            for entry in message.entries:
                self._log(entry, message.executor_id)
            with self._lock:
                own, self._dropped = self._dropped, 0
            if message.dropped or own:
                logger.warning(
                    "%d log records of %s and %d on their way to this log were dropped: "
                    "they came faster than they could be handled",
                    message.dropped,
                    message.executor_id,
                    own,
                )

    def _log(self, entry: LogEntry, executor_id: str) -> None:
        target = logging.getLogger(entry.name)
        record = _record(entry, executor_id)
        self._keep(executor_id, record)
        try:
            if has_handlers(target):
                target.handle(record)
            else:
                self._fallback.setStream(sys.stderr)
                self._fallback.handle(record)
        except Exception:
            # A failing handler of the program must not block later records.
            logger.exception("a record of %s could not be logged", executor_id)

    def _keep(self, executor_id: str, record: logging.LogRecord) -> None:
        """Add a record to the end of a worker's log."""
        self._tails.of(executor_id).append(self._tail_format.format(record), record.created)


def levels(*, is_chosen: bool) -> dict[str, int]:
    """Return the levels that the program has set, by logger; "" is the root.

    If the program has set none, it sees INFO, the useful level of workers' logs, of all loggers
    but penstock's own.

    Args:
        is_chosen: Whether the level of the workers' root logger is an option of the job.
    """
    root = logging.getLogger()
    found = {"": root.level}
    if not (is_chosen or has_handlers(root)) and root.level == logging.WARNING:
        found = {"": logging.INFO, __name__.partition(".")[0]: logging.WARNING}
    for name, one in list(logging.root.manager.loggerDict.items()):
        if isinstance(one, logging.Logger) and one.level != logging.NOTSET:
            found[name] = one.level
            if len(found) >= MAX_LEVELS:
                break
    return found


def _record(entry: LogEntry, executor_id: str) -> logging.LogRecord:
    before = ""
    if entry.operator:
        before = prefix(entry.operator, entry.subtask, entry.parallelism)
    record = logging.LogRecord(
        entry.name,
        entry.level,
        entry.path,
        entry.line,
        before + entry.message,
        None,
        None,
        entry.function or None,
    )
    record.created = entry.created_s
    record.msecs = (entry.created_s % 1) * 1000
    record.threadName = entry.thread
    record.processName = executor_id
    record.exc_text = entry.exception or None
    record.operator = entry.operator or None
    record.subtask = entry.subtask if entry.operator else None
    return record
