"""Peers that are killed or fall silent during an exchange, in their own processes (M20, M24).

Method: a peer of either runtime endlessly writes or reads records of many buffers, so that a signal
hits it in the middle of frames; whatever was sent or lent, the survivor is notified and gets every
buffer back.
"""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from penstock.errors import CancelTaskError, PartitionConnectionError
from penstock.network.pure.wire import messages as wire

from contract.peer_process import CHANNELS, VALUE_BYTES
from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    eventually,
    partition_id,
)
from contract.raw_peer import RECEIVER, RawConsumer

SCRIPT = Path(__file__).with_name("peer_process.py")
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("no_memory_stays")]
CUTS = [1, 2, 7]
"""The number of buffers after which the peer is killed."""


@pytest.fixture(params=["same-host", "tcp"])
def link(request, plane):
    plane.same_host_path = request.param == "same-host"
    return request.param


@contextmanager
def peer(runtime, link, *arguments):
    """Start a peer of a runtime; return it and its output."""
    path = os.pathsep.join([str(SCRIPT.parents[1]), *sys.path])
    command = [sys.executable, str(SCRIPT), runtime, link, *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path, "PENSTOCK_RUNTIME": runtime},
    ) as process:
        try:
            yield process, process.stdout
        finally:
            process.kill()


def gate_on(consumer, address):
    gate = consumer.create_input_gate(
        [(partition_id(), channel, tuple(address)) for channel in range(CHANNELS)]
    )
    gate.request_partitions()
    return gate


def consuming_peer(runtime, link, producer):
    """Start a process that reads an environment's output."""
    host, port = producer.address
    return peer(runtime, link, "consume", host, str(port))


def writer_of_all_channels(plane, partition):
    """Return a function that writes a value to each channel."""
    writing = plane.writing(partition)
    values = [bytes([channel]) * VALUE_BYTES for channel in range(CHANNELS)]
    return lambda: writing.write(*values)


@pytest.mark.parametrize("cut", CUTS)
def test_producer_killed_in_mid_frame(plane, other_plane, link, cut):
    """C6, C-11: the channels of a killed producer fail, and every buffer returns."""
    consumer = plane.environment()
    with peer(other_plane.kind, link, "produce") as (process, says):
        gate = gate_on(consumer, json.loads(says.readline()))
        for _ in range(cut):
            assert gate.next_buffer(PATIENCE_MS) is not None
        process.kill()
        with pytest.raises(PartitionConnectionError):
            while gate.next_buffer(PATIENCE_MS) is not None:
                pass
    gate.close()
    assert_all_returned(consumer)


def test_consumer_killed_in_mid_frame(plane, other_plane, link):
    """C6, C-11: buffers for a killed consumer are recycled, and its writer continues."""
    producer = plane.environment()
    partition = producer.create_result_partition(partition_id(), CHANNELS)
    with consuming_peer(other_plane.kind, link, producer) as (process, says):
        write = writer_of_all_channels(plane, partition)

        def write_until_consumed():
            try:
                while not partition.wait_consumed(0):
                    write()
            except CancelTaskError:
                # The last reader's end releases the pure partition while its writer uses it.
                assert partition.wait_consumed(0)
            finally:
                partition.release()

        writer = Background(write_until_consumed)
        assert json.loads(says.readline()) == "reading"
        process.kill()
        writer.result()
    assert_all_returned(producer)


@pytest.mark.stops_processes
def test_silent_producer(plane, other_plane, link):
    """C6: a half-open connection blocks no other: closing returns every buffer at once."""
    consumer = plane.environment()
    with peer(other_plane.kind, link, "produce") as (process, says):
        gate = gate_on(consumer, json.loads(says.readline()))
        assert gate.next_buffer(PATIENCE_MS) is not None
        process.send_signal(signal.SIGSTOP)
        reader = Background(lambda: [gate.next_buffer(PATIENCE_MS) for _ in range(100_000)])
        # Everything in transit is read, then nothing arrives; the reader sleeps.
        gate.close()
        with pytest.raises(CancelTaskError):
            reader.result()
        assert_all_returned(consumer)
        consumer.close()


@pytest.mark.stops_processes
def test_silent_consumer(plane, other_plane, link):
    """C6: a consumer that stops reading blocks only its partition, until it is released."""
    producer = plane.environment()
    partition = producer.create_result_partition(partition_id(), CHANNELS)
    with consuming_peer(other_plane.kind, link, producer) as (process, says):
        write = writer_of_all_channels(plane, partition)

        def write_on():
            while True:
                write()

        writer = Background(write_on)
        assert json.loads(says.readline()) == "reading"
        process.send_signal(signal.SIGSTOP)
        eventually(lambda: not partition.is_available(), "the writer is never held up")
        partition.release()
        with pytest.raises(CancelTaskError):
            writer.result()
        process.kill()
        assert_all_returned(producer)


@pytest.mark.stops_processes
def test_many_consumers_at_once(plane, link):
    """A producer serves all consumers even if more have sent messages than it reads at once.

    It is stopped meanwhile, so that it finds all messages together.
    """
    consumers = 100
    with ExitStack() as stack:
        offered = peer(plane.kind, link, "offer", str(consumers))
        process, said = stack.enter_context(offered)
        address = tuple(json.loads(said.readline()))
        peers = [stack.enter_context(RawConsumer(address)) for _ in range(consumers)]
        for number, consumer in enumerate(peers):
            consumer.request(partition_id(), subpartition=number)
        for signal_number in (signal.SIGSTOP, signal.SIGCONT):
            process.send_signal(signal_number)
            for consumer in peers:
                consumer.send(wire.AddCredit(1, RECEIVER))
        RawConsumer(address).socket.close()
        process.communicate(b"")
