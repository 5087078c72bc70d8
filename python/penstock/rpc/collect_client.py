"""The sink's end of a collect connection: results travel straight to the driver.

`CollectClient.send` blocks while the driver does not read, so a slow consumer of results slows
the sink, and with it the job, instead of filling memory.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from penstock.rpc.client import dial
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.messages import (
    ROLE_COLLECT,
    CollectBatch,
    CollectFinished,
    CollectHello,
    collector_decoder,
    encode_message,
)

CHUNK_BYTES = 1024 * 1024


class CollectClient:
    """Sends the batches of one subtask to the driver's `CollectService`.

    Raises:
        AuthenticationError: the driver refused the token.
        OSError: the driver does not answer.
    """

    def __init__(
        self,
        address: tuple[str, int],
        token: bytes,
        *,
        job_id: bytes,
        collect_id: str,
        subtask: int,
        attempt_number: int,
    ) -> None:
        self._socket = dial(address, token, ROLE_COLLECT)
        self._lock = threading.Lock()
        self._closed = False
        hello = CollectHello(job_id, collect_id, subtask, attempt_number)
        write_frame(self._socket, encode_message(hello))
        # Without the answer, the job could end before the driver knows that results are coming.
        answer = read_frame(self._socket)
        if answer is None:
            self.close()
            raise ConnectionResetError("the driver takes no results of this sink")
        collector_decoder().decode(answer)

    def send(self, batch: bytes) -> None:
        """Sends one batch of any size; blocks while the driver does not read.

        Raises:
            OSError: the driver closed the connection; it wants no more results.
        """
        for start in range(0, max(1, len(batch)), CHUNK_BYTES):
            end = start + CHUNK_BYTES
            write_frame(
                self._socket, encode_message(CollectBatch(batch[start:end], end >= len(batch)))
            )

    def finish(self) -> None:
        """Says that all results were sent, and closes."""
        write_frame(self._socket, encode_message(CollectFinished()))
        self.close()

    def close(self) -> None:
        """Closes without finishing; wakes a blocked `send`.  Any thread, idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        with contextlib.suppress(OSError):  # the driver closed first
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()
