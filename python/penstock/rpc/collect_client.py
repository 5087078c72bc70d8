"""The sink's end of a collect connection: results are sent directly to the driver.

`CollectClient.send` blocks while the driver does not read, so a slow consumer of results slows
the sink, and with it the job, instead of filling memory.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import TYPE_CHECKING, Final

from penstock.rpc.client import dial
from penstock.rpc.collect_messages import (
    CollectBatch,
    CollectCommitted,
    CollectFinished,
    CollectHello,
    CollectResume,
    CollectSync,
    collector_decoder,
)
from penstock.rpc.frames import framed, read_frame
from penstock.rpc.message import Message, encode_message
from penstock.rpc.messages import ROLE_COLLECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.rpc.control_credentials import ControlCredentials

CHUNK_BYTES = 1024 * 1024

PIECE_BYTES: Final = 16 * 1024
"""Bytes sent at once to a socket that has room: few enough that a wait is detected."""

UNREAD_S: Final = 10.0
"""Time after which a wait for the driver is reported: its program does not read the results."""


class CollectClient:
    """Sends the batches of one subtask to the driver's `CollectService`.

    Attributes:
        on_unread: Called once, during a wait for the driver, with the seconds it has lasted.

    Raises:
        AuthenticationError: the driver refused the token.
        OSError: the driver does not answer.
    """

    def __init__(
        self,
        address: tuple[str, int],
        credentials: ControlCredentials,
        *,
        job_id: bytes,
        collect_id: str,
        subtask: int,
        attempt_number: int,
    ) -> None:
        self._socket = dial(address, credentials, ROLE_COLLECT)
        self._lock = threading.Lock()
        self._closed = False
        self._is_asking = False
        self.on_unread: Callable[[float], None] | None = None
        hello = CollectHello(job_id, collect_id, subtask, attempt_number)
        # Without the answer, the job could end before the driver knows of this connection.
        self._ask(hello)

    def resume(self, offset: int) -> None:
        """Request that results are shown when checkpoints include them; before the first batch.

        Args:
            offset: Number of batches sent before the checkpoint that the sink resumes from.

        Raises:
            OSError: the driver accepts no more results; here and below.
        """
        self._ask(CollectResume(offset))

    def sync(self, offset: int) -> None:
        """Wait until the driver has all batches before ``offset``."""
        self._ask(CollectSync(offset))

    def commit(self, offset: int) -> None:
        """Report that a complete checkpoint includes all batches before ``offset``."""
        self._write(CollectCommitted(offset))

    def send(self, batch: bytes) -> None:
        """Send one batch of any size; block while the driver does not read.

        Raises:
            OSError: the driver closed the connection; it accepts no more results.
        """
        for start in range(0, max(1, len(batch)), CHUNK_BYTES):
            end = start + CHUNK_BYTES
            self._write(CollectBatch(batch[start:end], end >= len(batch)))

    def finish(self) -> None:
        """Report that all results were sent, and close."""
        self._write(CollectFinished())
        self.close()

    def close(self) -> None:
        """Close without finishing; wake a blocked `send` or `sync`.  Any thread, idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with contextlib.suppress(OSError):  # the driver closed first
            self._socket.shutdown(socket.SHUT_RDWR if self._is_asking else socket.SHUT_WR)
        self._socket.close()

    def _write(self, message: Message) -> None:
        data = memoryview(framed(encode_message(message)))
        for start in range(0, len(data), PIECE_BYTES):
            self._await(select.POLLOUT)
            self._socket.sendall(data[start : start + PIECE_BYTES])

    def _await(self, event: int) -> None:
        """Wait until the socket has room or bytes, or is broken; report a long wait."""
        poll = select.poll()
        try:
            poll.register(self._socket, event)
        except ValueError as error:
            raise ConnectionResetError("the connection of the sink is closed") from error
        while not poll.poll(UNREAD_S * 1000):
            tell, self.on_unread = self.on_unread, None
            if tell is not None:
                tell(UNREAD_S)

    def _ask(self, message: Message) -> None:
        self._is_asking = True
        self._write(message)
        self._await(select.POLLIN)
        answer = read_frame(self._socket)
        if answer is None:
            self.close()
            raise ConnectionResetError("the driver accepts no results of this sink")
        self._is_asking = False
        collector_decoder().decode(answer)
