"""Text from a TCP server, cut at a delimiter."""

from __future__ import annotations

import codecs
import logging
import socket
import time
from typing import TYPE_CHECKING

from penstock.errors import SourceError
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MIN_TIMESTAMP,
    MORE_AVAILABLE,
    NOTHING_AVAILABLE,
    SourceOperator,
    StreamOperator,
)
from penstock.taskexecutor.sources.source_wait import SourceWait
from penstock.taskexecutor.sources.source_watermarks import with_watermarks

if TYPE_CHECKING:
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)

_READ_BYTES = 8192
_FOREVER = -1


def create_socket_text_source(
    context: OperatorContext, descriptor: operators.SocketTextSource
) -> StreamOperator:
    """Create the source of ``socket_text_stream``."""
    return with_watermarks(context, descriptor, SocketTextSource(context, descriptor))


class SocketTextSource(SourceOperator):
    """Reads from a server, and reconnects after the server has ended a connection.

    As in Flink, ended connections are counted, and the source reconnects while there were fewer
    than ``max_retry``.  A connection that is refused or breaks fails the task.

    Text behind the last delimiter is emitted when the source ends.  With the delimiter LF a CR
    before it is dropped.  Only the first subtask connects.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.SocketTextSource) -> None:
        """Create the source; the first step connects."""
        super().__init__()
        self.address = (descriptor.host, descriptor.port)
        self.delimiter = descriptor.delimiter
        self.max_retry = descriptor.max_retry
        self.retry_delay_ms = descriptor.retry_delay_ms
        self.connect_timeout_ms = descriptor.connect_timeout_ms
        self.is_reader = context.environment.subtask == 0
        self.wait = SourceWait()
        self.socket: socket.socket | None = None
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.rest = ""
        self.ended_connections = 0
        self.retry_at = 0.0

    def emit_next(self, limit: int) -> int:
        """Emit about ``limit`` records at most, without blocking."""
        del limit
        if not self.is_reader or self.wait.cancelled:
            return END_OF_DATA
        if self.socket is None:
            if time.monotonic() < self.retry_at:
                return NOTHING_AVAILABLE
            try:
                self._connect()
            except OSError as error:
                host, port = self.address
                raise SourceError(
                    f"the socket source cannot connect to {host}:{port} (connection "
                    f"{self.ended_connections + 1}): {error}"
                ) from error
        return self._read()

    def wait_available(self, timeout_ms: int) -> None:
        """Block until more text may be available, or the time is over."""
        if self.socket is None:
            rest_ms = max(0.0, (self.retry_at - time.monotonic()) * 1000)
            self.wait.wait(min(timeout_ms, rest_ms))
        else:
            self.wait.wait(timeout_ms, self.socket)

    def wakeup(self) -> None:
        """End a wait; any thread."""
        self.wait.wakeup()

    def cancel(self) -> None:
        """End the source early; any thread."""
        self.wait.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        self.wait.close()

    def _connect(self) -> None:
        timeout_s = self.connect_timeout_ms / 1000 if self.connect_timeout_ms > 0 else None
        self.socket = socket.create_connection(self.address, timeout_s)
        self.socket.setblocking(False)

    def _disconnect(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def _read(self) -> int:
        assert self.socket is not None
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return NOTHING_AVAILABLE
        except OSError as error:
            host, port = self.address
            raise SourceError(
                f"the socket source lost its connection to {host}:{port}: {error}"
            ) from error
        if data:
            self._emit(self.decoder.decode(data))
            return MORE_AVAILABLE
        self._disconnect()
        self._emit(self.decoder.decode(b"", final=True))
        self.decoder.reset()
        self.ended_connections += 1
        if self.max_retry == _FOREVER or self.ended_connections < self.max_retry:
            host, port = self.address
            logger.warning(
                "%s:%d ended the connection; reconnecting in %d ms",
                *(host, port, self.retry_delay_ms),
            )
            self.retry_at = time.monotonic() + self.retry_delay_ms / 1000
            return NOTHING_AVAILABLE
        if self.rest:
            self.output.collect(self.rest, MIN_TIMESTAMP)
            self.rest = ""
        return END_OF_DATA

    def _emit(self, text: str) -> None:
        records = (self.rest + text).split(self.delimiter)
        self.rest = records.pop()
        output = self.output
        strip = self.delimiter == "\n"
        for record in records:
            output.collect(
                record[:-1] if strip and record.endswith("\r") else record, MIN_TIMESTAMP
            )
