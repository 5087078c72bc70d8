"""A consumer whose producer does not answer in time reports whether it is slow or lost.

Method: listening sockets of the test, which accept connections and send nothing, or have no room
for another one.
"""

import contextlib
import socket

import pytest
from penstock.errors import PartitionConnectionError
from support.reserved_ports import reserved_ports

from contract.plane import PATIENCE_MS, partition_id
from contract.raw_peer import RawProducer


@pytest.fixture
def failure_of(plane):
    """Return the error of a gate that reads from an address."""
    plane.same_host_path = False

    def fail(address, **settings) -> str:
        gate = plane.environment(**settings).create_input_gate([(partition_id(), 0, address)])
        gate.request_partitions()
        with pytest.raises(PartitionConnectionError) as caught:
            gate.next_buffer(PATIENCE_MS)
        gate.close()
        return str(caught.value)

    return fail


def test_one_that_takes_the_connection_is_slow(failure_of):
    """Its machine is busy, or it was stopped: it is not reported as lost."""
    with RawProducer() as producer:
        said = failure_of(producer.address, handshake_timeout_ms=200)
    assert "it is slow or stopped" in said
    assert "handshake-timeout" in said
    assert str(producer.address[1]) in said
    assert "lost" not in said


def test_one_that_does_not_take_it_may_be_lost(failure_of):
    """As if its host were gone: connecting neither succeeds nor fails."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        # The kernel queues one connection more than requested.
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        said = failure_of(full.getsockname(), connect_timeout_ms=300)
    assert "host does not answer" in said
    assert "lost" in said


def test_one_that_refuses_it_was_lost(failure_of):
    """No process listens any more."""
    (port,) = reserved_ports()
    said = failure_of(("127.0.0.1", port))
    assert "refused" in said
    assert "lost" in said
