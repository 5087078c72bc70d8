"""The listening sockets of penstock under one interface: the control port and the data ports."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import socket
import struct
import threading

from penstock.rpc.client import dial
from penstock.rpc.control_credentials import ControlCredentials
from penstock.rpc.server import RpcServer
from penstock.taskexecutor import compiled as _compiled  # noqa: F401 -- of the runtime of all tests

from contract.plane import PATIENCE_MS, TOKEN, Plane, partition_id
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
        """Return the answer of a peer with the token to a challenge."""
        return bytes([len(ROLE)]) + ROLE + bytes(32) + _prove(TOKEN, nonce, ROLE)

    def slow_answer(self) -> bytes:
        """Return an answer of the greatest length that never becomes complete."""
        return bytes([32]) + bytes(32 + 63)

    def admits(self) -> None:
        """Check that a peer with the token is admitted."""
        dial(self.address, ControlCredentials(TOKEN), ROLE.decode()).close()

    def serves(self, address: tuple[str, int]) -> None:
        """Check that a worker is admitted, at the port itself or through a detour."""
        dial(address, ControlCredentials(TOKEN), ROLE.decode()).close()

    def close(self) -> None:
        self.server.close()


class DataDoor:
    """The data port of an environment, or its Unix socket."""

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

    def serves(self, address: tuple[str, int]) -> None:
        """Check that a consumer that reads from `address` receives a record of the environment."""
        consumer = self.plane.environment(same_host_path=False)
        exchange(self.plane, self.environment, consumer, address)
        consumer.close()

    def close(self) -> None:
        self.plane.close()


def exchange(plane: Plane, producer, consumer, address: tuple[str, int] | None = None) -> None:
    """Exchange a record."""
    partition = producer.create_result_partition(partition_id(), 1, flush_timeout_ms=1)
    gate = consumer.create_input_gate([(partition_id(), 0, address or producer.address)])
    gate.request_partitions()
    plane.writing(partition, "GLOBAL").write(b"healthy")
    partition.finish()
    assert plane.reading(gate).to_end().values[0] == [b"healthy"]
    gate.close()
    partition.release()


def connected(door, source: str | None = None) -> socket.socket:
    """Return a connection to a port, on which nothing has been sent yet."""
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
    """Return everything until the peer closes."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(4096):
            data += piece
    return data


class Siege:
    """Many connections to an address that send single bytes, and reconnect when dropped."""

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


DROPS = ("at once", "by a reset", "after its challenge", "after the answer")
"""The points of a handshake at which an end may drop the other."""


class Detour:
    """A path to a port that drops clients, once at each point, before it lets one pass."""

    def __init__(self, door) -> None:
        self._door = door
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE_MS / 1000)
        self.address = self._listener.getsockname()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        for manner in DROPS:
            peer, _ = self._listener.accept()
            with peer:
                peer.settimeout(PATIENCE_MS / 1000)
                self._drop(peer, manner)
        peer, _ = self._listener.accept()
        with peer, connected(self._door) as sock:
            _relay(peer, sock)

    def _drop(self, peer: socket.socket, manner: str) -> None:
        if manner == "by a reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if manner.startswith("after"):
            peer.sendall(bytes(NONCE_BYTES))
        if manner == "after the answer":
            exactly(peer, len(self._door.answer_to(bytes(NONCE_BYTES))))


def _relay(one: socket.socket, other: socket.socket) -> None:
    """Relay the traffic of both ends until one of them has closed."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select():
                try:
                    piece = key.fileobj.recv(1 << 16)
                    key.data.sendall(piece)
                except ConnectionError:
                    return
                if not piece:
                    return


@contextlib.contextmanager
def no_descriptors():
    """Prevent this process from opening files and sockets, even if another thread closes some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for standard_stream in range(3):
        os.fstat(standard_stream)  # no descriptor can be opened in its place
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
