"""Heartbeats: small fixed-size messages on a connection of their own.

They do not share the control connection, so that a thread which needs no interpreter lock can
answer them, and a large message in front of them cannot delay them.  After one
`HeartbeatHello` frame the driver sends requests and the TaskExecutor answers each at once:

======  =====  =======================================
offset  bytes  field
======  =====  =======================================
0       1      1 request (driver →), 2 answer (→ driver)
1       8      sequence number, unsigned, big-endian
======  =====  =======================================

A peer from which nothing has come for the heartbeat timeout counts as dead, on either side.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

from penstock.errors import CorruptStreamError
from penstock.rpc.frames import read_exactly

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = 1
ANSWER = 2
BEAT = struct.Struct(">BQ")


class HeartbeatResponder:
    """The TaskExecutor's side: answers the driver and notices when it falls silent."""

    def __init__(
        self, sock: socket.socket, timeout_ms: int, on_lost: Callable[[str], None]
    ) -> None:
        self._socket = sock
        self._timeout_ms = timeout_ms
        self._on_lost = on_lost
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Starts answering."""
        self._thread.start()

    def close(self) -> None:
        """Ends quietly; idempotent."""
        self._closed = True
        with contextlib.suppress(OSError):  # the driver was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(2.0)

    def _run(self) -> None:
        self._socket.settimeout(self._timeout_ms / 1000)
        try:
            while True:
                kind, sequence = BEAT.unpack(read_exactly(self._socket, BEAT.size))
                if kind != REQUEST:
                    reason = f"the driver sent a heartbeat of kind {kind}"
                    break
                self._socket.sendall(BEAT.pack(ANSWER, sequence))
        except TimeoutError:
            reason = f"no heartbeat from the driver for {self._timeout_ms} ms"
        except (OSError, CorruptStreamError) as error:
            reason = f"the heartbeat connection to the driver is lost: {error}"
        finally:
            self._socket.close()
        if not self._closed:
            self._on_lost(reason)
