"""The listening sockets of penstock under one interface: the control port and the data ports."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
import threading

from penstock.rpc.client import dial
from penstock.rpc.server import RpcServer

from contract.plane import PATIENCE_MS, TOKEN, Plane
from contract.raw_peer import RawConsumer, _prove

NONCE_BYTES = 32
ROLE = b"worker"


class ControlDoor:
    """The driver's port."""

    is_tcp = True

    def __init__(self, handshake_timeout_ms: int) -> None:
        self.server = RpcServer(TOKEN, handshake_timeout_s=handshake_timeout_ms / 1000)
        self.server.register(ROLE.decode(), lambda sock, _: sock.close())
        self.server.start()
        self.address = self.server.address

    def socket(self) -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def connect(self, sock: socket.socket) -> None:
        sock.connect(self.address)

    def answer_to(self, nonce: bytes) -> bytes:
        """What a peer with the token says to a challenge."""
        return bytes([len(ROLE)]) + ROLE + bytes(32) + _prove(TOKEN, nonce, ROLE)

    def slow_answer(self) -> bytes:
        """As long as an answer may be, and never complete."""
        return bytes([32]) + bytes(32 + 63)

    def admits(self) -> None:
        """A peer with the token gets in."""
        dial(self.address, TOKEN, ROLE.decode()).close()

    def close(self) -> None:
        self.server.close()


class DataDoor:
    """The data port of an environment, or the Unix socket beside it."""

    def __init__(self, runtime: str, handshake_timeout_ms: int, *, is_tcp: bool) -> None:
        self.is_tcp = is_tcp
        self.plane = Plane(runtime)
        self.environment = self.plane.environment(
            handshake_timeout_ms=handshake_timeout_ms, same_host_path=True
        )
        host, port = self.address = self.environment.address
        self.name = f"\0penstock-data/{host}/{port}"

    def socket(self) -> socket.socket:
        family = socket.AF_INET if self.is_tcp else socket.AF_UNIX
        return socket.socket(family, socket.SOCK_STREAM)

    def connect(self, sock: socket.socket) -> None:
        sock.connect(self.address if self.is_tcp else self.name)

    def answer_to(self, nonce: bytes) -> bytes:
        return bytes(32) + _prove(TOKEN, nonce, b"client")

    def slow_answer(self) -> bytes:
        return bytes(63)

    def admits(self) -> None:
        if self.is_tcp:
            RawConsumer(self.address).socket.close()
            return
        with connected(self) as sock:
            sock.sendall(self.answer_to(exactly(sock, NONCE_BYTES)))
            assert exactly(sock, 32) == _prove(TOKEN, bytes(32), b"server")

    def close(self) -> None:
        self.plane.close()


def connected(door, source: str | None = None) -> socket.socket:
    """A connection to a door, about which nobody has said anything yet."""
    sock = door.socket()
    sock.settimeout(PATIENCE_MS / 1000)
    if source is not None:
        sock.bind((source, 0))
    door.connect(sock)
    return sock


def exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError(f"{len(data)} of {count} bytes")
        data += piece
    return data


def rest_of(sock: socket.socket) -> bytes:
    """Everything up to the peer's close."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(4096):
            data += piece
    return data


class Siege:
    """Many connections to an address that say a byte now and then, and come again when dropped."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self._address = address
        self._count = count
        self._ending = threading.Event()
        self.stands = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self.stands.wait(PATIENCE_MS / 1000)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        sockets: set[socket.socket] = set()
        try:
            with selectors.DefaultSelector() as selector:
                while not self._ending.is_set():
                    self._besiege(selector, sockets)
        except ConnectionError:
            pass  # the door is closed
        finally:
            for sock in sockets:
                sock.close()

    def _besiege(self, selector: selectors.BaseSelector, sockets: set[socket.socket]) -> None:
        while len(sockets) < self._count:
            sock = socket.create_connection(self._address)
            sockets.add(sock)
            selector.register(sock, selectors.EVENT_READ)
        self.stands.set()
        for key, _ in selector.select(0.1):
            with contextlib.suppress(OSError):
                if key.fileobj.recv(4096):
                    key.fileobj.send(b"\x20")
                    continue
            selector.unregister(key.fileobj)
            sockets.discard(key.fileobj)
            key.fileobj.close()


@contextlib.contextmanager
def no_descriptors():
    """This process can open no file and no socket, even if another thread closes some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for standard_stream in range(3):
        os.fstat(standard_stream)  # nothing can be opened in its place
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
