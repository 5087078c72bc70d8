"""Listeners of the data port and of the same-host socket beside it."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from typing import TYPE_CHECKING

from penstock.network.pure.transport import same_host
from penstock.rpc.admission import (
    ACCEPT_PAUSE_S,
    ACCEPTS_PER_TURN,
    DropLog,
    is_scarcity,
    origin_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.network.pure.transport.event_loop import EventLoop, Timer

logger = logging.getLogger(__name__)

_SAME_HOST = "a process of this host"


class Drops:
    """The log of rejected connections of an environment; used by the event loop."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._log = DropLog(logger)
        self._timer: Timer | None = None

    def note(self, event: str) -> None:
        """Log a rejected connection."""
        now_s = time.monotonic()
        self._log.note(event, now_s)
        next_s = self._log.next_line_s()
        if next_s is not None and self._timer is None:
            self._timer = self._loop.call_later(next_s - now_s, self._tell)

    def _tell(self) -> None:
        self._timer = None
        self._log.tell(time.monotonic())


class Listener:
    """A listening socket; passes on accepted connections.

    Args:
        loop: serves the socket.
        sock: the socket, owned by the listener.
        drops: logs rejected connections.
        accepted: receives a connection, its peer for messages, and its admission.
        make_room: drops a connection for another one; returns whether one was dropped.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        drops: Drops,
        accepted: Callable[[socket.socket, str, str], None],
        make_room: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._drops = drops
        self._accepted = accepted
        self._make_room = make_room
        self._is_open = False
        self._is_closed = False

    def open(self) -> None:
        """Start to accept connections."""
        if not self._is_closed:
            self._is_open = True
            self._loop.register(self._socket, selectors.EVENT_READ, self)

    def close(self) -> None:
        """Close the socket."""
        self._is_closed = True
        self._pause()
        self._socket.close()

    def on_ready(self, mask: int) -> None:
        """Accept a waiting connection, after the events of the existing ones."""
        del mask
        self._loop.call_later(0.0, self._accept)

    def _accept(self) -> None:
        for accepted in range(ACCEPTS_PER_TURN):
            if not self._is_open:
                return
            try:
                sock, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if not is_scarcity(error):
                    # The connection was aborted before it was accepted; others may wait.
                    logger.debug("a connection was not accepted: %s", error)
                    continue
                if not accepted:
                    self._on_scarcity(error)
                # Otherwise no connection may be waiting any more; the system reports the same error
                # then.
                return
            if sock.family != socket.AF_UNIX:
                self._accepted(sock, f"{address[0]}:{address[1]}", origin_of(address[0]))
            elif same_host.is_own(sock):
                self._accepted(sock, _SAME_HOST, _SAME_HOST)
            else:
                sock.close()
                self._drops.note(f"dropped {_SAME_HOST}: it is another user's")

    def _on_scarcity(self, error: OSError) -> None:
        if not self._make_room():
            self._drops.note(f"no connection can be accepted for the moment: {error}")
            self._pause()
            self._loop.call_later(ACCEPT_PAUSE_S, self.open)

    def _pause(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.unregister(self._socket)
