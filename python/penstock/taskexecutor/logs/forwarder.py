"""LogForwarder: forwards a worker's log records to the driver's log.

Records wait in a bounded queue for a thread that sends them in batches over the control connection.
Logging never blocks: if the queue is full, records are dropped and counted.
"""

from __future__ import annotations

import collections
import logging
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

from penstock.common.exception_text import encodable
from penstock.rpc.messages import LogEntry, LogRecords
from penstock.taskexecutor.logs.speaker import current_speaker, prefix
from penstock.taskexecutor.logs.standard_streams import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.rpc.connection import Connection

MAX_QUEUED_RECORDS: Final = 4096
BATCH_RECORDS: Final = 64
"""Records in one message: at most 2 MiB, since texts and tracebacks are cut."""

MAX_WAITING_MESSAGES: Final = 16
"""Messages on the connection; if more wait, log records wait too: task states come first."""

_POLL_S: Final = 0.05
FLUSH_TIMEOUT_S: Final = 1.0


class LogForwarder(logging.Handler):
    """Sends records to the driver; to standard error while there is no connection to it."""

    def __init__(self, executor_id: str) -> None:
        """Create a handler for the root logger; `connect` starts sending."""
        super().__init__()
        self._executor_id = executor_id
        self._queue: collections.deque[LogEntry] = collections.deque()
        self._changed = threading.Condition()
        self._dropped = 0
        self._sending = False
        self._connection: Connection | None = None
        self._closed = False
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="log forwarder", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record, without waiting for the driver."""
        try:
            entry = self._entry(record)
        except Exception:  # as all handlers do if a message does not fit its arguments
            self.handleError(record)
            return
        if os.getpid() != self._pid or self._closed:
            self._write(entry)  # a forked process of user code does not have the thread
            return
        with self._changed:
            if len(self._queue) >= MAX_QUEUED_RECORDS:
                self._dropped += 1
            else:
                self._queue.append(entry)
                self._changed.notify_all()

    def connect(self, connection: Connection) -> None:
        """Start sending, including the records logged before."""
        self._connection = connection
        self._thread.start()

    def finish(self) -> None:
        """Send the remaining records and stop; unsent records go to standard error."""
        if self._connection is not None:
            with self._changed:
                self._changed.wait_for(self._is_idle, FLUSH_TIMEOUT_S)
        with self._changed:
            self._closed = True
            left, dropped = list(self._queue), self._dropped
            self._queue.clear()
            self._changed.notify_all()
        self._lost(left, dropped)

    def _is_idle(self) -> bool:
        return not self._queue and not self._dropped and not self._sending

    def _run(self) -> None:
        connection = self._connection
        assert connection is not None, "connected"
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._queue or self._dropped)
                # Records logged at a high rate must not displace the reports of tasks.
                while connection.waiting >= MAX_WAITING_MESSAGES:
                    self._changed.wait(_POLL_S)
                    if self._closed:
                        return
                count = min(BATCH_RECORDS, len(self._queue))
                batch = tuple(self._queue.popleft() for _ in range(count))
                dropped, self._dropped = self._dropped, 0
                self._sending = True
            sent = connection.send(LogRecords(self._executor_id, batch, dropped))
            if not sent:
                self._lost(batch, dropped)
            with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _lost(self, batch: Sequence[LogEntry], dropped: int) -> None:
        for entry in batch:
            self._write(entry)
        if dropped:
            say(f"{dropped} log records were dropped\n")

    def _entry(self, record: logging.LogRecord) -> LogEntry:
        speaker = current_speaker()
        exception = record.exc_text or ""
        info = record.exc_info
        if info is not None and info[1] is not None and not exception:
            exception = "".join(traceback.format_exception(info[1])).rstrip("\n")
        if record.stack_info:
            exception = f"{exception}\n{record.stack_info}".strip("\n")
        return LogEntry(
            name=encodable(record.name),
            level=record.levelno,
            message=encodable(record.getMessage()),
            created_s=record.created,
            path=encodable(record.pathname),
            line=record.lineno,
            function=encodable(record.funcName or ""),
            thread=encodable(record.threadName or ""),
            operator="" if speaker is None else speaker.operator(sys._getframe(1)),
            subtask=-1 if speaker is None else speaker.subtask,
            parallelism=0 if speaker is None else speaker.parallelism,
            exception=encodable(exception),
        )

    def _write(self, entry: LogEntry) -> None:
        who = prefix(entry.operator, entry.subtask, entry.parallelism) if entry.operator else ""
        tail = f"\n{entry.exception}" if entry.exception else ""
        level = logging.getLevelName(entry.level)
        say(f"{level} {self._executor_id} {entry.name}: {who}{entry.message}{tail}\n")
