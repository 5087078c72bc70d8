"""A relay between processes and a server: it records the traffic, delays it or cuts it off."""

import contextlib
import socket
import threading

import pytest
from penstock.errors import SinkError


class Relay:
    """Listens at ``address`` and connects each client to ``target``."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.seen = bytearray()
        self.accepted = 0
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._lock = threading.Lock()
        #: Pairs: that of a client, and that to its target.
        self._sockets: list[socket.socket] = []
        self._refused: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def turn(self, target: tuple[str, int]) -> None:
        """Connect later clients to another target, and cut off the present ones."""
        with self._lock:
            self._target = target
        self.cut()

    def hold(self) -> None:
        """Delay all traffic until `go_on`, without loss."""
        self._flows.clear()

    def go_on(self) -> None:
        self._flows.set()

    def cut(self, but: int = 0) -> None:
        """End all connections except the first ``but``."""
        with self._lock:  # a connection that is accepted has both of its ends
            sockets = self._sockets[2 * but :]
        for sock in sockets:
            # One end may have closed its side already, because the other end was cut.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections; return when all threads have ended."""
        # Closing would not wake the accepting thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.cut()
        self.go_on()
        for thread in self._threads:
            thread.join()
        for sock in self._sockets + self._refused:
            sock.close()

    def _begin(self, do, *arguments) -> None:
        thread = threading.Thread(target=do, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    self._refused.append(near)
                    with contextlib.suppress(OSError):  # the client may have gone already
                        near.shutdown(socket.SHUT_RDWR)
                    continue
                self._sockets += [near, far]
            self._begin(self._pass, near, far)
            self._begin(self._pass, far, near)

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.seen += data
                self._flows.wait()
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def assert_gives_up(writer, relay: Relay, match: str) -> None:
    """Assert that a sink's writer, whose broker the relay holds, fails with this `SinkError`."""
    try:
        writer.write("x", None)
        writer.flush(False)
        relay.hold()
        writer.write("y", None)
        with pytest.raises(SinkError, match=match):
            writer.flush(False)
    finally:
        relay.go_on()
        writer.close()
        relay.close()
