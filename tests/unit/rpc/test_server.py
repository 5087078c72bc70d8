"""The rpc server admits peers that prove the token, and safely drops all others.

Method: a real server on a loopback port; peers are raw sockets.
"""

import contextlib
import logging
import os
import queue
import socket
from collections.abc import Iterator

import pytest
from penstock.errors import AuthenticationError
from penstock.rpc import client, messages
from penstock.rpc.authentication import NONCE_BYTES, new_token
from penstock.rpc.client import dial
from penstock.rpc.connection import Connection
from penstock.rpc.control_credentials import ControlCredentials
from penstock.rpc.frames import MAX_FRAME_BYTES, write_frame
from penstock.rpc.message import encode_message
from penstock.rpc.server import RpcServer
from support.patience import PATIENCE_S
from support.processes import listens_at

TOKEN = new_token()


class Recorder:
    """Serves a role: messages and ends of connections are put into queues."""

    def __init__(self) -> None:
        self.received: queue.Queue[object] = queue.Queue()
        self.ended: queue.Queue[str] = queue.Queue()
        self.connections: list[Connection] = []

    def put(self, received: list[object]) -> None:
        for message in received:
            self.received.put(message)

    def __call__(self, sock: socket.socket, peer: str) -> None:
        connection = Connection(sock, messages.driver_decoder(), self.put, self.ended.put, peer)
        self.connections.append(connection)
        connection.start()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def server(recorder: Recorder) -> Iterator[RpcServer]:
    server = RpcServer(TOKEN)
    server.register("worker", recorder)
    server.start()
    yield server
    server.close()
    for connection in recorder.connections:
        connection.close("the test is over")
        assert connection.join(PATIENCE_S)


def still_serves(server: RpcServer, recorder: Recorder) -> None:
    with dial(server.address, ControlCredentials(TOKEN), "worker") as sock:
        write_frame(sock, encode_message(messages.FatalError("hello")))
        assert recorder.received.get(timeout=PATIENCE_S) == messages.FatalError("hello")


def read_to_end(sock: socket.socket) -> bytes:
    data = b""
    try:
        while chunk := sock.recv(4096):
            data += chunk
    except ConnectionResetError:
        pass
    return data


def test_a_peer_with_the_token_is_served(server: RpcServer, recorder: Recorder) -> None:
    still_serves(server, recorder)
    assert recorder.ended.get(timeout=PATIENCE_S) == "the peer closed the connection"


class PausesAlone:
    """A clock that only the pauses between attempts advance."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s


def test_a_wrong_token_is_dropped(
    server: RpcServer,
    recorder: Recorder,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "time", PausesAlone())
    with caplog.at_level(logging.WARNING), pytest.raises(AuthenticationError):
        dial(server.address, ControlCredentials(new_token()), "worker")
    still_serves(server, recorder)
    assert "does not hold the token" in caplog.text


@pytest.mark.parametrize("garbage", [b"", b"\0" * 500, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)])
def test_garbage_is_dropped(
    server: RpcServer, recorder: Recorder, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), socket.create_connection(server.address) as sock:
        sock.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError):  # dropped before it has sent everything
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
        assert len(read_to_end(sock)) <= NONCE_BYTES
    still_serves(server, recorder)
    assert "dropped 127.0.0.1" in caplog.text


def test_a_role_nobody_serves_is_dropped(server: RpcServer, recorder: Recorder) -> None:
    with dial(server.address, ControlCredentials(TOKEN), "nonsense") as sock:
        assert read_to_end(sock) == b""
    still_serves(server, recorder)


def test_an_oversized_frame_ends_the_connection(server: RpcServer, recorder: Recorder) -> None:
    with dial(server.address, ControlCredentials(TOKEN), "worker") as sock:
        sock.sendall((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))
        assert read_to_end(sock) == b""
    assert "announced" in recorder.ended.get(timeout=PATIENCE_S)
    still_serves(server, recorder)


def test_a_frame_that_is_no_message_ends_the_connection(
    server: RpcServer, recorder: Recorder
) -> None:
    with dial(server.address, ControlCredentials(TOKEN), "worker") as sock:
        write_frame(sock, b"\xc1 garbage")
        assert read_to_end(sock) == b""
    assert "not a message" in recorder.ended.get(timeout=PATIENCE_S)
    assert recorder.received.empty()


def test_a_server_without_the_token_is_not_trusted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
        with client, peer:
            from penstock.rpc.authentication import authenticate_to_server

            peer.sendall(bytes(NONCE_BYTES) + bytes(32))
            client.settimeout(PATIENCE_S)
            with pytest.raises(AuthenticationError, match="server does not hold"):
                authenticate_to_server(client, TOKEN, "worker")


def test_a_peer_that_does_not_read_is_cut_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    ended: queue.Queue[str] = queue.Queue()
    connection = Connection(
        sock, messages.task_executor_decoder(), lambda message: None, ended.put, "stuck"
    )
    connection.start()
    chunk = messages.CodeChunk("code", bytes(64 * 1024), False)
    with peer:
        while connection.send(chunk):
            pass
        assert "does not read" in ended.get(timeout=PATIENCE_S)
        assert connection.join(PATIENCE_S)


def test_closing_drops_peers_that_are_still_authenticating() -> None:
    server = RpcServer(TOKEN)
    server.start()
    with socket.create_connection(server.address) as sock:
        sock.settimeout(PATIENCE_S)
        assert len(sock.recv(NONCE_BYTES)) == NONCE_BYTES
        assert listens_at(server.address[1])
        server.close()
        assert read_to_end(sock) == b""
    assert not listens_at(server.address[1])
