"""The driver's side of heartbeats: one thread for all TaskExecutors.

`HeartbeatMonitor` has the rules and takes the time as an argument; `HeartbeatManager` does the
I/O around it.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.rpc.heartbeat import BEAT

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class HeartbeatMonitor:
    """Schedules beats and detects silent peers.  Times in seconds, monotonic."""

    def __init__(self, interval_s: float, timeout_s: float) -> None:
        if not 0 < interval_s < timeout_s:
            raise ValueError(
                f"the heartbeat interval ({interval_s} s) must be shorter than "
                f"its timeout ({timeout_s} s)"
            )
        self.interval_s = interval_s
        self.timeout_s = timeout_s
        self._last_heard_s: dict[str, float] = {}
        self._next_beat_s: dict[str, float] = {}

    def watch(self, peer: str, now_s: float) -> None:
        """Start to watch a peer, as heard now; the first beat to it is due at once."""
        self._last_heard_s[peer] = now_s
        self._next_beat_s[peer] = now_s

    def forget(self, peer: str) -> None:
        """Stop watching a peer."""
        self._last_heard_s.pop(peer, None)
        self._next_beat_s.pop(peer, None)

    def heard(self, peer: str, now_s: float) -> None:
        """Note a beat of a peer; ignore one that is not watched."""
        if peer in self._last_heard_s:
            self._last_heard_s[peer] = now_s

    def silence_s(self, peer: str, now_s: float) -> float:
        """Return the time since a peer was last heard, in s; 0 if it is not monitored."""
        return max(0.0, now_s - self._last_heard_s.get(peer, now_s))

    def due(self, now_s: float) -> list[str]:
        """Return the peers to beat now; each is due again after the interval."""
        due = [peer for peer, at_s in self._next_beat_s.items() if at_s <= now_s]
        for peer in due:
            self._next_beat_s[peer] = now_s + self.interval_s
        return due

    def silent(self, now_s: float) -> list[str]:
        """Return the peers past the timeout and stop watching them."""
        lost = [
            peer
            for peer, heard_s in self._last_heard_s.items()
            if now_s - heard_s >= self.timeout_s
        ]
        for peer in lost:
            self.forget(peer)
        return lost

    def next_deadline_s(self) -> float | None:
        """Return when to call `due` or `silent` again; None if no peer is watched."""
        beats = self._next_beat_s.values()
        timeouts = (heard_s + self.timeout_s for heard_s in self._last_heard_s.values())
        return min([*beats, *timeouts], default=None)


@dataclass
class _Peer:
    name: str
    sock: socket.socket
    counter: int = 0


class HeartbeatManager:
    """Sends beats to every TaskExecutor at the interval and reports the silent ones.

    Args:
        on_timeout: called with the peer's name and the reason, from the manager's thread.
    """

    def __init__(
        self, interval_s: float, timeout_s: float, on_timeout: Callable[[str, str], None]
    ) -> None:
        self._monitor = HeartbeatMonitor(interval_s, timeout_s)
        self._on_timeout = on_timeout
        self._selector = selectors.DefaultSelector()
        self._peers: dict[str, _Peer] = {}
        self._arriving: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def admit(self, sock: socket.socket) -> None:
        """Own a connection until `watch` or `refuse` is called for it, or until the close."""
        with self._lock:
            if self._closed:
                sock.close()
            else:
                self._arriving.add(sock)

    def refuse(self, sock: socket.socket) -> None:
        """Close a connection of an unregistered peer."""
        with self._lock:
            self._arriving.discard(sock)
            sock.close()

    def watch(self, name: str, sock: socket.socket) -> None:
        """Take over the heartbeat connection of a registered TaskExecutor."""
        with self._lock:
            self._arriving.discard(sock)
            if self._closed:
                sock.close()
                return
            sock.setblocking(False)
            self._drop(name)
            peer = _Peer(name, sock)
            self._peers[name] = peer
            self._selector.register(sock, selectors.EVENT_READ, peer)
            self._monitor.watch(name, time.monotonic())
        self._wake()

    def silence_s(self, name: str) -> float:
        """Return the time since a peer was last heard, in s; 0 if it is not monitored."""
        with self._lock:
            return self._monitor.silence_s(name, time.monotonic())

    def forget(self, name: str) -> None:
        """Stop watching a peer, without a report."""
        with self._lock:
            self._drop(name)
        self._wake()

    def close(self) -> None:
        """End the thread and close the connections; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(5.0)
        with self._lock:
            for name in list(self._peers):
                self._drop(name)
            for sock in self._arriving:
                sock.close()
            self._selector.close()
            self._wake_reader.close()
            self._wake_writer.close()

    def _drop(self, name: str) -> None:
        peer = self._peers.pop(name, None)
        if peer is not None:
            self._close_socket(peer)
        self._monitor.forget(name)

    def _close_socket(self, peer: _Peer) -> None:
        if peer.sock.fileno() >= 0:
            self._selector.unregister(peer.sock)
            peer.sock.close()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # closed meanwhile
            self._wake_writer.send(b"\0")

    def _run(self) -> None:
        while not self._closed:
            with self._lock:
                deadline_s = self._monitor.next_deadline_s()
            # The time is read before the received beats: a driver that stood still for longer than
            # the timeout counts the beats that arrived meanwhile.
            now_s = time.monotonic()
            wait_s = None if deadline_s is None else max(0.0, deadline_s - now_s)
            events = self._selector.select(wait_s)
            with self._lock:
                for key, _ in events:
                    self._read(key.data)
                for name in self._monitor.due(now_s):
                    self._beat(self._peers[name])
                silent = self._monitor.silent(now_s)
                for name in silent:
                    self._drop(name)
            for name in silent:
                self._on_timeout(name, f"no heartbeat came for {self._monitor.timeout_s:g} s")

    def _read(self, peer: _Peer | None) -> None:
        if peer is None:
            with contextlib.suppress(BlockingIOError):  # another thread's wake-up was read before
                self._wake_reader.recv(4096)
            return
        if self._peers.get(peer.name) is not peer:
            return
        try:
            data = peer.sock.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # The control connection reports a loss; without it, silence leads to the timeout.
            self._close_socket(peer)
            return
        self._monitor.heard(peer.name, time.monotonic())

    def _beat(self, peer: _Peer) -> None:
        peer.counter += 1
        try:
            peer.sock.send(BEAT.pack(peer.counter))
        except OSError as error:
            logger.debug("heartbeat to %s not sent: %s", peer.name, error)
