"""Heartbeats whose beats need no interpreter lock: a thread of the native data plane sends them.

However busy user code keeps the interpreter, the driver receives this worker's beats.  Only the
detection of a silent *driver* uses a Python thread, which checks once per interval.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock._core import Heartbeat

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class NativeHeartbeatSender:
    """Does as `HeartbeatSender`; the bytes before the beats are an argument.

    Args:
        opening: the bytes to send first.
        tls_identity: the identity to encrypt with; None for a plain connection.
    """

    def __init__(
        self,
        sock: socket.socket,
        interval_ms: int,
        timeout_ms: int,
        on_lost: Callable[[str], None],
        opening: bytes = b"",
        tls_identity: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._socket = sock
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._on_lost = on_lost
        self._opening = opening
        self._tls_identity = tls_identity
        self._closed = threading.Event()
        self._heartbeat: Heartbeat | None = None
        self._thread = threading.Thread(target=self._watch, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start beating."""
        self._heartbeat = Heartbeat(
            self._socket.fileno(), self._interval_ms, self._opening, self._tls_identity
        )
        # The native thread has a descriptor of its own.
        self._socket.close()
        self._thread.start()

    def close(self) -> None:
        """Stop without a report; idempotent."""
        self._closed.set()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            if threading.current_thread() is not self._thread:
                self._thread.join(2.0)
        else:
            self._socket.close()

    def _watch(self) -> None:
        heartbeat = self._heartbeat
        assert heartbeat is not None
        while not self._closed.wait(self._interval_ms / 1000):
            if heartbeat.is_closed():
                reason = "the driver closed the heartbeat connection"
            elif heartbeat.millis_since_last_beat() >= self._timeout_ms:
                reason = f"no heartbeat from the driver for {self._timeout_ms / 1000:g} s"
            else:
                continue
            heartbeat.stop()
            if not self._closed.is_set():
                self._on_lost(reason)
            return
