"""One thread that serves all sockets and timers of an environment."""

from __future__ import annotations

import heapq
import itertools
import logging
import selectors
import socket
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_WAKE = b"\0"
RECEIVE_BYTES = 256 << 10
"""Largest number of bytes that one receive reads."""


class SocketHandler(Protocol):
    """Owner of a registered socket; called on the loop's thread."""

    def on_ready(self, mask: int) -> None:
        """Read or write."""


class Timer:
    """A pending call; ``cancel`` is for the loop's thread."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel the call."""
        self._call = None

    def fire(self) -> None:
        """Call, unless cancelled."""
        if self._call is not None:
            self._call()


class EventLoop:
    """Runs posted calls, timers and socket handlers, one after the other."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_receive, self._wake_send = socket.socketpair()
        self._wake_receive.setblocking(False)
        self._wake_send.setblocking(False)
        self._selector.register(self._wake_receive, selectors.EVENT_READ, None)
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        """Buffer into which connections receive in turn; no data stays in it."""
        self._posted: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._wake_sent = False
        self._closing = False
        self._closed = False
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_own_thread(self) -> bool:
        """Return whether the caller runs on the loop."""
        return threading.current_thread() is self._thread

    def post(self, call: Callable[[], None]) -> bool:
        """Run ``call`` on the loop soon, from any thread; return False once the loop is closed."""
        with self._lock:
            if self._closed:
                return False
            self._posted.append(call)
            if self._wake_sent:
                return True
            self._wake_sent = True
            # At most one byte is in flight, so the socket never fills.
            self._wake_send.send(_WAKE)
        return True

    def call_later(self, delay_seconds: float, call: Callable[[], None]) -> Timer:
        """Run ``call`` after a delay; for the loop's thread."""
        timer = Timer(call)
        heapq.heappush(self._timers, (time.monotonic() + delay_seconds, next(self._order), timer))
        return timer

    def register(self, sock: socket.socket, mask: int, handler: SocketHandler) -> None:
        """Watch a socket."""
        self._selector.register(sock, mask, handler)

    def modify(self, sock: socket.socket, mask: int, handler: SocketHandler) -> None:
        """Change the watched events."""
        self._selector.modify(sock, mask, handler)

    def unregister(self, sock: socket.socket) -> None:
        """Stop watching."""
        self._selector.unregister(sock)

    def close(self, before: Callable[[], None]) -> None:
        """Run all posted calls, then ``before``; end the thread and wait for it."""

        def end() -> None:
            try:
                before()
            finally:
                self._closing = True

        if self.post(end) and not self.is_own_thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            with self._lock:
                self._closed = True
                self._posted.clear()
            self._selector.close()
            self._wake_receive.close()
            self._wake_send.close()

    def _turn(self) -> None:
        timeout = None
        if self._timers:
            timeout = max(0.0, self._timers[0][0] - time.monotonic())
        for key, mask in self._selector.select(timeout):
            if key.data is None:
                with self._lock:
                    self._wake_receive.recv(16)
                    self._wake_sent = False
            else:
                self._guard(partial(key.data.on_ready, mask))
        for _ in range(len(self._posted)):
            self._guard(self._posted.popleft())
        while self._timers and self._timers[0][0] <= time.monotonic():
            self._guard(heapq.heappop(self._timers)[2].fire)

    @staticmethod
    def _guard(call: Callable[[], None]) -> None:
        """Keep the loop alive for other connections if a handler raises."""
        try:
            call()
        except Exception:
            logger.exception("network event loop: a handler failed")
