"""A connection attempt."""

from __future__ import annotations

import errno
import os
import selectors
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.network.pure.transport.event_loop import EventLoop, Timer


class Connecting:
    """A socket that connects to the peer."""

    def __init__(
        self,
        loop: EventLoop,
        address: tuple[str, int],
        timeout_ms: int,
        done: Callable[[socket.socket | None, int, str], None],
    ) -> None:
        self._loop = loop
        self._done = done
        host, port = address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._timer: Timer | None = None
        self._ended = False
        code = self._socket.connect_ex((host, port))
        if code not in (0, errno.EINPROGRESS):
            self._end(code, os.strerror(code))
            return
        self._timer = loop.call_later(
            timeout_ms / 1000,
            lambda: self._end(errno.ETIMEDOUT, f"its host does not answer within {timeout_ms} ms"),
        )
        loop.register(self._socket, selectors.EVENT_WRITE, self)

    def on_ready(self, mask: int) -> None:
        """Handle the success or failure of the attempt."""
        del mask
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._end(code, os.strerror(code))

    def abort(self) -> None:
        """Abort without a notification."""
        self._done = lambda sock, *_: sock.close() if sock is not None else None
        self._end(errno.ECANCELED, "aborted")

    def _end(self, code: int, text: str) -> None:
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._loop.unregister(self._socket)
        if code:
            self._socket.close()
            self._done(None, code, text)
        else:
            self._done(self._socket, 0, "")
