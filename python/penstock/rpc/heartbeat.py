"""Heartbeats: small fixed-size messages on a connection of their own.

They do not share the control connection, so that a thread without the interpreter lock can
exchange them, and a large message cannot delay them.  After one `HeartbeatHello` frame both sides
send a beat at every heartbeat interval:

======  =====  =======================================
offset  bytes  field
======  =====  =======================================
0       8      the sender's counter, unsigned, big-endian
======  =====  =======================================

Either side declares a peer dead that was silent for the heartbeat timeout.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BEAT = struct.Struct(">Q")


class HeartbeatSender:
    """The TaskExecutor's side: sends beats, and detects a silent driver.

    Args:
        on_lost: called once with the reason, from the sender's thread; not after `close`.
    """

    def __init__(
        self,
        sock: socket.socket,
        interval_ms: int,
        timeout_ms: int,
        on_lost: Callable[[str], None],
    ) -> None:
        self._socket = sock
        self._interval_s = interval_ms / 1000
        self._timeout_s = timeout_ms / 1000
        self._on_lost = on_lost
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def close(self) -> None:
        """Stop without a report; idempotent."""
        self._closed = True
        if self._thread.ident is None:
            self._socket.close()
            return
        with contextlib.suppress(OSError):  # the driver closed first
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    def _run(self) -> None:
        try:
            reason = self._beat()
        except OSError as error:
            reason = f"the heartbeat connection to the driver is lost: {error}"
        finally:
            self._socket.close()
        if not self._closed:
            self._on_lost(reason)

    def _beat(self) -> str:
        """Send beats until the driver is silent or gone; return the reason."""
        heard_s = next_s = time.monotonic()
        counter = 0
        while True:
            now_s = time.monotonic()
            # A process that stood still for longer than the timeout finds beats received meanwhile.
            is_late = now_s - heard_s >= self._timeout_s
            if now_s >= next_s:
                counter += 1
                self._socket.settimeout(self._interval_s)
                self._socket.sendall(BEAT.pack(counter))
                next_s = now_s + self._interval_s
            until_s = min(next_s, heard_s + self._timeout_s)
            self._socket.settimeout(0 if is_late else max(0.001, until_s - now_s))
            try:
                if not self._socket.recv(4096):
                    return "the driver closed the heartbeat connection"
            except (TimeoutError, BlockingIOError):
                if is_late:
                    return f"no heartbeat from the driver for {self._timeout_s:g} s"
                continue
            heard_s = time.monotonic()
