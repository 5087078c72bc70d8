"""Every listening socket rejects peers without the token, without harm to others.

Method: raw sockets besiege the control port, and the data port and the same-host socket of either
runtime; then a peer with the token connects.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time

import pytest
from penstock.errors import AuthenticationError, PartitionConnectionError
from penstock.network.pure.transport import same_host
from penstock.rpc.authentication import authenticate_to_server

from contract.doors import (
    NONCE_BYTES,
    ControlDoor,
    DataDoor,
    Detour,
    Siege,
    connected,
    exactly,
    exchange,
    no_descriptors,
    rest_of,
)
from contract.plane import (
    NATIVE_IS_BUILT,
    PATIENCE_MS,
    TOKEN,
    Background,
    Plane,
    eventually,
    partition_id,
)
from contract.raw_peer import _prove

MANY = 300
"""More connections than a door keeps open for unauthenticated peers."""

native = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built")
DOORS = [
    "control",
    pytest.param("native tcp", marks=native),
    pytest.param("native same-host", marks=native),
    "pure tcp",
    "pure same-host",
]
TCP_DOORS = [DOORS[0], DOORS[1], DOORS[3]]
UNIX_DOORS = [DOORS[2], DOORS[4]]


@pytest.fixture
def native_log(tmp_path):
    """Redirect standard error to a file, for a test.

    Not capfd: output between its reading and its truncation would be lost.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((tmp_path / "stderr").open("a+b"))

        def redirect():
            stderr = os.dup(2)
            stack.callback(os.close, stderr)
            stack.callback(os.dup2, stderr, 2)
            os.dup2(file.fileno(), 2)
            return file

        yield redirect


@pytest.fixture
def opened(monkeypatch, native_log):
    """Open doors, and close them at the end."""
    with contextlib.ExitStack() as stack:

        def open_door(kind: str, handshake_timeout_ms: int = 60_000):
            runtime, _, path = kind.partition(" ")
            if kind == "control":
                door = ControlDoor(handshake_timeout_ms)
            else:
                monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
                door = DataDoor(runtime, handshake_timeout_ms, is_tcp=path == "tcp")
            stack.callback(door.close)
            door.log_file = native_log()
            return door

        yield open_door


@pytest.fixture
def log(caplog):
    """Return the log so far: Python's, and Rust's, whose lines go to standard error."""
    return lambda door: caplog.text + os.pread(door.log_file.fileno(), 1 << 20, 0).decode()


@pytest.mark.parametrize("kind", DOORS)
def test_one_deadline_for_all_of_the_handshake(opened, log, kind):
    """A peer that sends a byte now and then is dropped when its time is over."""
    door = opened(kind, handshake_timeout_ms=1_000)
    with connected(door) as sock:
        exactly(sock, NONCE_BYTES)
        sock.settimeout(0.05)  # between two bytes: all of them take longer than the deadline
        left = door.slow_answer()
        ended = False
        while left and not ended:
            try:
                sock.sendall(left[:1])
                left = left[1:]
                ended = sock.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
        assert ended
    eventually(lambda: "in time" in log(door), "no line in the log")
    eventually(lambda: is_admitted_by(door), "the token does not open")


def is_admitted_by(door):
    """Return whether a peer with the token is admitted; on a busy machine it may be too late."""
    with contextlib.suppress(EOFError, OSError, AuthenticationError):
        door.admits()
        return True
    return False


@pytest.mark.parametrize("kind", DOORS)
def test_silent_connections_lose_their_places(opened, log, kind):
    """The oldest unauthenticated connections go when there are too many; the token still works."""
    door = opened(kind)
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(door)) for _ in range(MANY)]
        door.admits()
        assert len(rest_of(silent[0])) in (0, NONCE_BYTES)
        assert len(exactly(silent[-1], NONCE_BYTES)) == NONCE_BYTES
        door.admits()
    eventually(lambda: "too many unauthenticated connections" in log(door), "no line in the log")


@pytest.mark.parametrize("kind", TCP_DOORS)
def test_places_are_lost_by_the_address_with_the_most(opened, kind):
    """Peers of other addresses keep their places, though they came first."""
    door = opened(kind)
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(connected(door, "127.0.0.2")) for _ in range(5)]
        nonces = [exactly(other, NONCE_BYTES) for other in others]
        silent = [stack.enter_context(connected(door, "127.0.0.3")) for _ in range(MANY)]
        assert len(rest_of(silent[0])) in (0, NONCE_BYTES)
        for other, nonce in zip(others, nonces, strict=True):
            other.sendall(door.answer_to(nonce))
            assert len(exactly(other, 32)) == 32


@pytest.mark.parametrize("kind", TCP_DOORS)
def test_a_siege_keeps_nobody_out(opened, kind):
    """Hundreds of connections send a byte and reconnect when dropped.

    A peer with the token needs milliseconds; on a busy machine it may have to reconnect.
    """
    door = opened(kind)
    with Siege(door.address, MANY):
        for _ in range(30):
            eventually(lambda: is_admitted_by(door), "the token does not open")


@pytest.mark.parametrize("kind", TCP_DOORS)
def test_workers_get_in_through_a_siege(opened, kind):
    """Workers reconnect by themselves when they are dropped among the strangers."""
    door = opened(kind)
    with Siege(door.address, MANY):
        for _ in range(20):
            door.serves(door.address)


@pytest.mark.parametrize("kind", TCP_DOORS)
def test_dropped_connections_come_again(opened, kind):
    """At whatever point of the handshake the other end has dropped them."""
    door = opened(kind)
    with Detour(door) as detour:
        door.serves(detour.address)


@pytest.mark.parametrize("kind", DOORS)
def test_a_line_a_second(opened, log, kind):
    """Frequent failures do not fill the log, but are all counted."""
    door = opened(kind)
    knocks, began_s = 60, time.monotonic()
    for _ in range(knocks):
        with connected(door) as sock:
            sock.sendall(door.answer_to(bytes(NONCE_BYTES)))
            assert len(rest_of(sock)) in (0, NONCE_BYTES)

    def told():
        counted = sum(int(count) - 1 for count in re.findall(r"(\d+) times more", log(door)))
        return counted + len(re.findall("dropped ", log(door)))

    eventually(lambda: told() == knocks, f"{told()} of {knocks} were told")
    assert len(re.findall("dropped ", log(door))) <= 2 + (time.monotonic() - began_s)


@pytest.mark.parametrize("kind", DOORS)
def test_accepting_continues_after_descriptors_ran_out(opened, log, kind):
    """A peer that connected meanwhile is accepted without another connection."""
    door = opened(kind)
    with door.socket() as early, door.socket() as late:
        early.settimeout(PATIENCE_MS / 1000)
        with no_descriptors():
            door.connect(early)
            eventually(lambda: "no connection can be accepted" in log(door), "nobody noticed")
        early.sendall(door.answer_to(exactly(early, NONCE_BYTES)))
        assert len(exactly(early, 32)) == 32
        late.settimeout(PATIENCE_MS / 1000)
        door.connect(late)
        assert len(exactly(late, NONCE_BYTES)) == NONCE_BYTES


@pytest.mark.parametrize("kind", DOORS)
def test_replayed_answers(opened, kind):
    """Another peer's answer is rejected, because each connection has its own challenge."""
    door = opened(kind)
    with connected(door) as sock:
        recorded = door.answer_to(exactly(sock, NONCE_BYTES))
        sock.sendall(recorded)
        proof = exactly(sock, 32)
    for said in (recorded, proof + proof, recorded[:-32] + proof):
        with connected(door) as sock:
            nonce = exactly(sock, NONCE_BYTES)
            assert nonce not in recorded
            sock.sendall(said)
            with contextlib.suppress(OSError):  # it may have been dropped already
                sock.shutdown(socket.SHUT_WR)
            assert rest_of(sock) == b""
    door.admits()


def test_replayed_driver():
    """A worker rejects a peer that replays messages of the driver or of itself."""
    for proof in (lambda _: _prove(TOKEN, bytes(32), b"driver"), lambda said: said[-32:]):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(bytes(32))
            ours.settimeout(PATIENCE_MS / 1000)
            theirs.settimeout(PATIENCE_MS / 1000)

            def play(sock=theirs, proof=proof):
                sock.sendall(proof(exactly(sock, 1 + len("worker") + 64)))

            playing = Background(play)
            with pytest.raises(AuthenticationError, match="does not hold the token"):
                authenticate_to_server(ours, TOKEN, "worker")
            playing.result()


def test_replayed_producer(plane):
    """A consumer rejects a peer that replays messages of a producer."""
    consumer = plane.environment()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_MS / 1000)
        gate = consumer.create_input_gate([(partition_id(), 0, listener.getsockname())])
        gate.request_partitions()
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(PATIENCE_MS / 1000)
            peer.sendall(bytes(32))
            said = exactly(peer, 64)
            peer.sendall(said[32:])
            with pytest.raises((AuthenticationError, PartitionConnectionError)):
                gate.next_buffer(PATIENCE_MS)
        gate.close()


AS_NOBODY = """
import os, socket, sys
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(60)
name = "\\0" + sys.argv[2]
if sys.argv[1] == "connect":
    sock.connect(name)
    try:
        print(len(sock.recv(1)))
    except ConnectionResetError:
        print(0)
else:
    sock.bind(name)
    sock.listen()
    print("squats", flush=True)
    sys.stdin.read()
"""
root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


@pytest.mark.process
@root
@pytest.mark.parametrize("kind", UNIX_DOORS)
def test_other_users_of_the_machine(opened, log, kind):
    """The same-host socket sends nothing to processes of other users."""
    door = opened(kind)
    command = [sys.executable, "-c", AS_NOBODY, "connect", door.name[1:]]
    said = subprocess.run(command, capture_output=True, check=True, text=True)
    assert said.stdout == "0\n"
    eventually(lambda: "another user's" in log(door), "no line in the log")
    door.admits()


@pytest.mark.process
@root
def test_names_squatted_by_other_users(plane):
    """If another user holds a port's name, the peer ignores that user and uses TCP."""
    producer = plane.environment(same_host_path=False)
    host, port = producer.address
    command = [sys.executable, "-c", AS_NOBODY, "squat", f"penstock-data/{host}/{port}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as squatter:
        assert squatter.stdout.readline() == "squats\n"
        exchange(plane, producer, plane.environment())
        squatter.communicate("")


def test_names_held_by_processes_of_the_same_user(monkeypatch):
    """A port with a taken name is given up: local consumers would connect to the name's holder."""
    held = []

    def listen(address, free=same_host.listen):
        if not held:
            held.append((address, free(address)))
        return free(address)

    monkeypatch.setattr(same_host, "listen", listen)
    plane = Plane("pure")
    try:
        producer = plane.environment()
        ((address, squatter),) = held
        with squatter:
            assert producer.address != address
            exchange(plane, producer, plane.environment())
    finally:
        plane.close()
