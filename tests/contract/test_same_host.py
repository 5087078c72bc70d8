"""Executors of one host exchange over a Unix socket, all others over TCP."""

import contextlib
import socket
import struct
from pathlib import Path

import pytest

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    partition_id,
)

_UNIX_SOCKETS = Path("/proc/net/unix")
pytestmark = pytest.mark.skipif(not _UNIX_SOCKETS.exists(), reason="abstract names are Linux's")


def _name(address) -> str:
    return f"penstock-data/{address[0]}/{address[1]}"


def _sockets_named(address) -> int:
    """Return the number of sockets in this network namespace with a data port's name."""
    lines = _UNIX_SOCKETS.read_text().splitlines()
    return sum(line.endswith("@" + _name(address)) for line in lines)


def _exchange(plane, producer, consumer, seen):
    pid = partition_id()
    partition = producer.create_result_partition(pid, 1, flush_timeout_ms=1)
    gate = connect(plane, producer, consumer, [(pid, 0)], local=False)
    values = [bytes([n]) * 700 for n in range(100)]

    def produce():
        plane.writing(partition, "GLOBAL").write(*values)
        partition.finish()

    background = Background(produce)
    reading = plane.reading(gate)
    reading.until(lambda collected: collected.values[0])
    seen.append(_sockets_named(producer.address))
    assert reading.to_end().values[0] == values
    background.result()
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


@pytest.mark.parametrize("bind_host", ["127.0.0.1", "localhost"])
def test_chosen_by_itself(plane, bind_host):
    """The listener and the accepted connection have the name; it vanishes with the environment."""
    producer = plane.environment(bind_host=bind_host)
    consumer = plane.environment()
    seen: list[int] = []
    _exchange(plane, producer, consumer, seen)
    assert seen == [2]
    address = producer.address
    plane.close()
    assert _sockets_named(address) == 0


@pytest.mark.parametrize("offered", [True, False])
def test_tcp_when_either_side_does_without(plane, offered):
    """A producer that does not offer the path, or a consumer that does not want it."""
    producer = plane.environment(same_host_path=offered)
    consumer = plane.environment(same_host_path=not offered)
    seen: list[int] = []
    _exchange(plane, producer, consumer, seen)
    assert seen == [1 if offered else 0]


def test_strangers_prove_the_token_here_too(plane):
    """The Unix socket requires the token before it parses anything, as the port does."""
    environment = plane.environment()
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with stranger:
        stranger.settimeout(PATIENCE_MS / 1000)
        stranger.connect("\0" + _name(environment.address))
        nonce = stranger.recv(32, socket.MSG_WAITALL)
        assert len(nonce) == 32
        stranger.sendall(bytes(64) + struct.pack(">iIB", 9, 0xBADC0FFE, 5))
        # Closed with unread bytes of ours, it may be reset, which is as good an end.
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    seen: list[int] = []
    _exchange(plane, environment, plane.environment(), seen)
