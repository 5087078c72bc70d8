"""Control connections are encrypted if configured, by both ends or not at all.

Method: a real server on a loopback port.  A relay sees the bytes between the ends.
"""

import contextlib
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from penstock.errors import AuthenticationError, ConfigurationError
from penstock.jobmaster.workers.heartbeat_manager import HeartbeatManager
from penstock.rpc import messages
from penstock.rpc.authentication import authenticate_to_server, new_token
from penstock.rpc.client import dial, dial_unencrypted
from penstock.rpc.connection import Connection
from penstock.rpc.control_credentials import ControlCredentials
from penstock.rpc.encryption import EncryptedSocket
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.heartbeat import HeartbeatSender
from penstock.rpc.job_certificate import control_certificate, new_job_certificate
from penstock.rpc.message import encode_message
from penstock.rpc.server import RpcServer
from support.patience import PATIENCE_S
from support.relay import Relay

TOKEN = new_token()
IDENTITY = tuple(control_certificate(TOKEN))
OWN = ControlCredentials(TOKEN, IDENTITY, insists=True)
SECRET = b"what nobody else is to read"


class Served:
    """A server that runs a function once for each connection with the role "worker"."""

    def __init__(self, *, encrypts: bool = True) -> None:
        self.sockets: queue.Queue[socket.socket] = queue.Queue()
        self.server = RpcServer(
            TOKEN, handshake_timeout_s=PATIENCE_S, tls_identity=IDENTITY if encrypts else None
        )
        self.server.register("worker", lambda sock, peer: self.sockets.put(sock))
        self.server.start()
        self.address = self.server.address

    def next(self) -> socket.socket:
        sock = self.sockets.get(timeout=PATIENCE_S)
        sock.settimeout(PATIENCE_S)
        return sock


def await_handshakes() -> None:
    """Wait until the server's threads have reported the outcome of all started handshakes."""
    for thread in threading.enumerate():
        if thread.name.startswith("rpc connection"):
            thread.join(PATIENCE_S)


def put_all(inbox: queue.Queue[object], received: list[object]) -> None:
    for message in received:
        inbox.put(message)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.close()


@pytest.mark.parametrize(
    "credentials",
    [OWN, ControlCredentials.of_session(TOKEN), ControlCredentials.of_session(TOKEN, insists=True)],
    ids=["given", "follows", "insists"],
)
def test_eavesdroppers_read_nothing(served: Served, credentials: ControlCredentials) -> None:
    relay = Relay(served.address)
    with dial(relay.address, credentials, "worker") as ours, served.next() as theirs:
        write_frame(ours, SECRET + TOKEN)
        assert read_frame(theirs) == SECRET + TOKEN
        write_frame(theirs, TOKEN + SECRET)
        assert read_frame(ours) == TOKEN + SECRET
    relay.close()
    assert len(relay.seen) > 1000
    assert SECRET not in relay.seen
    assert TOKEN not in relay.seen


def test_frames_of_any_size_pass_in_both_directions_at_once(served: Served) -> None:
    """By a reading and a writing thread at each end, as in `Connection`."""
    parts = [bytes([number]) * size for number, size in enumerate((1, 70_000, 3_000_000, 9, 40))]
    sent = [messages.CodeChunk("name", part, False) for part in parts] * 3
    with contextlib.ExitStack() as stack:
        received: list[queue.Queue[object]] = []
        connections = []
        for sock in (dial(served.address, OWN, "worker"), served.next()):
            assert isinstance(sock, EncryptedSocket)
            inbox: queue.Queue[object] = queue.Queue()
            received.append(inbox)
            put = partial(put_all, inbox)
            connection = Connection(
                sock, messages.task_executor_decoder(), put, lambda reason: None, "one"
            )
            connection.start()
            stack.callback(connection.join, PATIENCE_S)
            stack.callback(connection.close, "over")
            connections.append(connection)
        for message in sent:
            for connection in connections:
                assert connection.send(message)
        for inbox in received:
            assert [inbox.get(timeout=PATIENCE_S) for _ in sent] == sent


def test_a_peer_learns_of_encryption_when_it_connects(served: Served) -> None:
    with pytest.raises(AuthenticationError, match="the server encrypts its connections"):
        dial(served.address, ControlCredentials(TOKEN), "worker")


@pytest.mark.parametrize(
    "credentials", [OWN, ControlCredentials.of_session(TOKEN, insists=True)], ids=["given", "own"]
)
def test_a_client_sends_nothing_to_a_server_that_does_not_encrypt(
    credentials: ControlCredentials,
) -> None:
    plain = Served(encrypts=False)
    relay = Relay(plain.address)
    try:
        with pytest.raises(AuthenticationError, match="does not encrypt its connections"):
            dial(relay.address, credentials, "worker")
        plain.next().close()
    finally:
        relay.close()
        plain.server.close()


def test_a_peer_without_tls_is_dropped(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """Although it has the token: its bytes are no message."""
    with socket.create_connection(served.address, PATIENCE_S) as sock:
        assert authenticate_to_server(sock, TOKEN, "worker")
        write_frame(sock, encode_message(messages.FatalError("in the clear")))
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(4096):
                pass
    dial(served.address, OWN, "worker").close()
    await_handshakes()
    assert "dropped 127.0.0.1" in caplog.text
    assert "is to be encrypted (security.ssl.internal.enabled): TLS" in caplog.text
    served.next().close()
    assert served.sockets.empty()


def test_a_peer_with_another_certificate_is_refused(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """The token alone is not enough: a peer that obtained it elsewhere lacks the key."""
    other = ControlCredentials(TOKEN, tuple(new_job_certificate()), insists=True)
    with pytest.raises(AuthenticationError, match=r"TLS: CERTIFICATE_VERIFY_FAILED"):
        dial(served.address, other, "worker")
    dial(served.address, OWN, "worker").close()
    served.next().close()
    await_handshakes()
    assert served.sockets.empty()
    assert "security.ssl.internal.enabled" in caplog.text


def test_a_peer_that_shows_no_certificate_is_refused(served: Served) -> None:
    """The client checks the server's certificate, and has none of its own."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=IDENTITY[0])
    sock, _ = dial_unencrypted(served.address, OWN, "worker")
    sock.settimeout(PATIENCE_S)
    with context.wrap_socket(sock) as wrapped, pytest.raises(OSError, match="certificate required"):
        wrapped.recv(1)
    await_handshakes()
    assert served.sockets.empty()


def test_a_peer_that_breaks_off_within_the_handshake_disturbs_nobody(served: Served) -> None:
    sock, _ = dial_unencrypted(served.address, OWN, "worker")
    sock.close()
    dial(served.address, OWN, "worker").close()
    served.next().close()


def test_damaged_records_end_the_connection(served: Served) -> None:
    with dial(served.address, OWN, "worker") as ours, served.next() as theirs:
        socket.socket.sendall(ours, bytes(100))
        with pytest.raises(ConnectionAbortedError, match="TLS"):
            theirs.recv(1)


@pytest.mark.parametrize("kind", ["pure", "native"])
def test_beats_are_encrypted(served: Served, kind: str) -> None:
    """The native data plane's own thread sends its heartbeats."""
    relay = Relay(served.address)
    opening = b"a greeting that nobody else reads"
    reasons: queue.Queue[str] = queue.Queue()
    manager = HeartbeatManager(0.01, PATIENCE_S, lambda name, reason: None)
    manager.start()
    if kind == "native":
        native = pytest.importorskip("penstock.rpc.native_heartbeat")
        sock, identity = dial_unencrypted(relay.address, OWN, "worker")
        sender = native.NativeHeartbeatSender(sock, 10, 30_000, reasons.put, opening, identity)
    else:
        sock = dial(relay.address, OWN, "worker")
        sock.sendall(opening)
        sender = HeartbeatSender(sock, 10, 30_000, reasons.put)
    sender.start()
    theirs = served.next()
    received = b""
    while len(received) < len(opening):
        received += theirs.recv(len(opening) - len(received))
    assert received == opening
    beats = [theirs.recv(8) for _ in range(3)]
    assert beats[0] == bytes(7) + b"\x01"
    manager.watch("one", theirs)
    if kind == "native":
        while sender._heartbeat.beats_received() < 5:
            threading.Event().wait(0.005)
    heard = threading.Event()
    while manager.silence_s("one") > 1 and not heard.wait(0.01):
        pass
    sender.close()
    manager.close()
    relay.close()
    assert reasons.empty()
    assert opening not in relay.seen


def test_a_native_beat_with_another_certificate_is_lost(served: Served) -> None:
    native = pytest.importorskip("penstock.rpc.native_heartbeat")
    reasons: queue.Queue[str] = queue.Queue()
    sock, _ = dial_unencrypted(served.address, OWN, "worker")
    other = tuple(new_job_certificate())
    sender = native.NativeHeartbeatSender(sock, 10, 30_000, reasons.put, b"hello", other)
    sender.start()
    assert "closed the heartbeat connection" in reasons.get(timeout=PATIENCE_S)
    sender.close()
    await_handshakes()
    assert served.sockets.empty()


def test_a_session_without_the_package_says_what_to_install(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    control_certificate.cache_clear()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock-engine\[tls\]'"):
        dial(served.address, ControlCredentials.of_session(TOKEN), "worker")


def test_the_certificate_follows_from_the_token() -> None:
    """Each process derives the same certificate; another token has another one."""
    control_certificate.cache_clear()
    assert tuple(control_certificate(TOKEN)) == IDENTITY
    assert control_certificate(new_token()).certificate != IDENTITY[0]
