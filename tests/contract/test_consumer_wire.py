"""The consuming environment's protocol, seen from a hand-made producer (M17, M19, M20)."""

import contextlib
import struct

import pytest
from penstock.errors import (
    AuthenticationError,
    CancelTaskError,
    CorruptStreamError,
    NetworkError,
    PartitionConnectionError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.error_codes import ErrorCode
from penstock.network.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfPartition,
    serialize_event,
)
from penstock.network.pure.wire import messages as wire

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    partition_id,
)
from contract.raw_peer import RawProducer

PID = partition_id()
END = serialize_event(EndOfPartition())


@pytest.fixture
def producer():
    with RawProducer() as producer:
        yield producer


@pytest.fixture
def consumer(plane):
    return plane.environment()


def gate_on(consumer, producer, count=1):
    """Return a gate of ``count`` channels on the hand-made producer, requested."""
    gate = consumer.create_input_gate(
        [(partition_id(n), 0, producer.address) for n in range(count)]
    )
    gate.request_partitions()
    return gate


def requests_on(peer, count):
    """Return the partition requests that arrive, by partition."""
    requests = [peer.receive() for _ in range(count)]
    assert all(isinstance(request, wire.PartitionRequest) for request in requests)
    return {request.partition_id: request for request in requests}


def test_request_carries_the_exclusive_credit(plane, producer):
    """C5: the initial credit is the number of exclusive buffers; ids are forwarded unchanged."""
    consumer = plane.environment(exclusive_buffers_per_channel=3)
    gate = consumer.create_input_gate([(PID, 7, producer.address)])
    gate.request_partitions()
    with producer.accept() as peer:
        request = peer.receive()
    assert (request.partition_id, request.first, request.last) == (PID, 7, 7)
    assert request.credit == 3
    gate.close()
    assert_all_returned(consumer)


def test_one_connection_for_all_channels(consumer, producer):
    """C6: all channels between two executors share one connection, whatever their gate."""
    gates = [
        gate_on(consumer, producer, 3),
        consumer.create_input_gate([(partition_id(9), 0, producer.address)]),
    ]
    gates[1].request_partitions()
    with producer.accept() as peer:
        requests = requests_on(peer, 4)
        assert len({request.receiver for request in requests.values()}) == 4
        for gate in gates:
            gate.close()
    assert_all_returned(consumer)


def test_credit_follows_the_backlog(consumer, producer):
    """C-7, C-8: total credit = exclusive + floating buffers while the backlog requires more."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        granted = request.credit
        peer.send_buffer(request.receiver, 0, b"\0\0\0\1x", backlog=100)
        # 2 exclusive and 8 floating buffers: one is filled, so nine more can be outstanding.
        while granted < 10:
            message = peer.receive()
            assert message.receiver == request.receiver
            granted += message.credit
        assert granted == 10
        # Taking the buffer frees it, which adds exactly one credit.
        assert gate.next_buffer(PATIENCE_MS) == (0, DataType.DATA_BUFFER, b"\0\0\0\1x")
        assert peer.receive() == wire.AddCredit(1, request.receiver)
        gate.close()
        assert peer.receive() == wire.CancelPartitionRequest(request.receiver)
    assert_all_returned(consumer)


def test_credit_comes_while_the_reader_waits(consumer, producer):
    """C-7: a producer with nothing more to send still gets its credit."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        receiver = peer.receive().receiver
        reader = Background(lambda: [gate.next_buffer(PATIENCE_MS) for _ in range(5)])
        for number in range(4):
            peer.send_buffer(receiver, number, b"\0\0\0\1x")
            assert peer.receive() == wire.AddCredit(1, receiver)
        # Until now the reader has returned each time.
        peer.send_buffer(receiver, 4, b"\0\0\0\1x")
        assert len(reader.result()) == 5
        gate.close()
    assert_all_returned(consumer)


def test_credit_comes_when_the_reader_stays_away(consumer, producer):
    """C-7: a producer that spends all its known credit gets the rest without the reader."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        assert request.credit == 2
        peer.send_buffer(request.receiver, 0, b"\0\0\0\1x")
        assert gate.next_buffer(PATIENCE_MS) is not None
        # The reader does not return.
        peer.send_buffer(request.receiver, 1, b"\0\0\0\1y")
        granted = 0
        while granted < 2:
            granted += peer.receive().credit
        assert granted == 2
        gate.close()
    assert_all_returned(consumer)


def test_exclusive_buffers_stay(plane, producer):
    """C-9: a channel can always use its exclusive buffers, however many another one takes."""
    consumer = plane.environment(exclusive_buffers_per_channel=2, floating_buffers_per_gate=1)
    gate = gate_on(consumer, producer, 2)
    with producer.accept() as peer:
        requests = requests_on(peer, 2)
        greedy, modest = (requests[partition_id(n)].receiver for n in range(2))
        peer.send_buffer(greedy, 0, b"\0\0\0\1x", backlog=100)
        assert peer.receive() == wire.AddCredit(1, greedy), "the floating one"
        for number in range(20):
            peer.send_buffer(modest, 2 * number, b"\0\0\0\1y", backlog=100)
            peer.send_buffer(modest, 2 * number + 1, b"\0\0\0\1z", backlog=100)
            taken = 0
            while taken < 2:
                channel, _, _ = gate.next_buffer(PATIENCE_MS)
                taken += channel == 1
            granted = []
            while sum(granted) < 2:
                message = peer.receive()
                if message.receiver == modest:
                    granted.append(message.credit)
            assert sum(granted) == 2
        gate.close()
    assert_all_returned(consumer)


def test_end_of_partition_cancels(consumer, producer):
    """C9: a channel that has ended returns its buffers at once and notifies the producer."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        peer.send_buffer(request.receiver, 0, END, data_type=DataType.END_OF_PARTITION)
        assert gate.next_buffer(PATIENCE_MS) == (0, DataType.END_OF_PARTITION, END)
        assert gate.is_finished()
        assert gate.next_buffer(PATIENCE_MS) is None
        assert peer.receive() == wire.CancelPartitionRequest(request.receiver)
    gate.close()
    assert_all_returned(consumer)


def test_sequence_gap_is_an_error(consumer, producer):
    """C-3: a buffer out of order fails its channel."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        peer.send_buffer(request.receiver, 0, b"\0\0\0\0")
        gate.next_buffer(PATIENCE_MS)
        peer.send_buffer(request.receiver, 2, b"\0\0\0\0")
        with pytest.raises(NetworkError, match="re-ordering"):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
    assert_all_returned(consumer)


def test_data_beyond_the_credit_is_an_error(consumer, producer):
    """C-7: the number of free buffers never becomes negative: data without credit is rejected."""
    gate = gate_on(consumer, producer)
    witness = consumer.create_input_gate([(partition_id(1), 0, producer.address)])
    witness.request_partitions()
    with producer.accept() as peer:
        requests = requests_on(peer, 2)
        greedy, honest = requests[partition_id(0)], requests[partition_id(1)]
        # Two exclusive and eight floating buffers can be granted; this is one more.
        for sequence in range(11):
            peer.send_buffer(greedy.receiver, sequence, b"\0\0\0\0")
        peer.send_buffer(honest.receiver, 0, b"\0\0\0\0")
        # Whether the channel or its connection fails, this arrives after the last buffer.
        with contextlib.suppress(NetworkError):
            witness.next_buffer(PATIENCE_MS)
        with pytest.raises(NetworkError):
            for _ in range(11):
                gate.next_buffer(PATIENCE_MS)
        gate.close()
        witness.close()
    assert_all_returned(consumer)


def test_buffer_larger_than_a_segment_is_an_error(consumer, producer):
    """C3: data larger than any segment fails the channel or its connection, and is not stored."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        peer.send_buffer(request.receiver, 0, bytes(1025))
        with pytest.raises(NetworkError):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
    assert_all_returned(consumer)


def test_unknown_receiver_is_skipped(consumer, producer):
    """C3: a buffer for a removed channel is skipped and the stream stays in step."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        peer.send_buffer(b"?" * 16, 5, bytes(700), backlog=3)
        peer.send_buffer(b"?" * 16, 6, END, data_type=DataType.END_OF_PARTITION)
        peer.send_buffer(request.receiver, 0, b"\0\0\0\0")
        assert gate.next_buffer(PATIENCE_MS) == (0, DataType.DATA_BUFFER, b"\0\0\0\0")
        gate.close()
    assert_all_returned(consumer)


def test_buffer_in_single_bytes(consumer, producer):
    """C3: the byte stream is parsed in pieces of any size."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        header = wire.BufferHeader(request.receiver, 0, 0, 0, 1, False, 9)
        frame = wire.encode_buffer_header(header) + b"\0\0\0\5hello"
        for byte in frame:
            peer.socket.sendall(bytes([byte]))
        assert gate.next_buffer(PATIENCE_MS)[2] == b"\0\0\0\5hello"
        gate.close()


def test_announced_barrier_overtakes(consumer, producer):
    """C5: a timeoutable barrier is announced ahead of the data in front of it."""
    gate = gate_on(consumer, producer)
    barrier = serialize_event(CheckpointBarrier(3, 4, aligned_timeout_ms=50))
    kind = DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER
    with producer.accept() as peer:
        request = peer.receive()
        header = wire.BufferHeader(request.receiver, 0, 0, 0, 1, False, 4)
        second = wire.BufferHeader(request.receiver, 0, 1, 0, kind, False, len(barrier))
        peer.socket.sendall(
            wire.encode_buffer_header(header)
            + bytes(4)
            + wire.encode_buffer_header(second)
            + barrier
        )
        # The order of arrival and reading decides whether data or announcement is seen first, but
        # the announcement always precedes the barrier.
        seen = [gate.next_buffer(PATIENCE_MS)[1] for _ in range(3)]
        assert seen.index(DataType.PRIORITIZED_EVENT_BUFFER) < seen.index(kind)
        gate.resume_consumption(0)
        while not isinstance(message := peer.receive(), wire.ResumeConsumption):
            assert isinstance(message, wire.AddCredit)
        assert message.receiver == request.receiver
        gate.close()


def test_peer_killed_in_mid_frame(consumer, producer):
    """C-11: half a frame and a reset fail the channels of that connection; nothing leaks."""
    gate = gate_on(consumer, producer, 2)
    with RawProducer() as healthy_producer:
        healthy = consumer.create_input_gate([(partition_id(5), 0, healthy_producer.address)])
        healthy.request_partitions()
        with healthy_producer.accept() as healthy_peer:
            healthy_request = healthy_peer.receive()
            peer = producer.accept()
            request = requests_on(peer, 2)[partition_id(0)]
            header = wire.BufferHeader(request.receiver, 0, 0, 6, 1, False, 1000)
            peer.socket.sendall(wire.encode_buffer_header(header) + bytes(400))
            peer.reset()
            with pytest.raises(PartitionConnectionError, match=str(producer.address[1])):
                gate.next_buffer(PATIENCE_MS)
            with pytest.raises(PartitionConnectionError):
                gate.next_buffer(PATIENCE_MS)
            gate.close()
            healthy_peer.send_buffer(healthy_request.receiver, 0, b"\0\0\0\0")
            assert healthy.next_buffer(PATIENCE_MS)[2] == b"\0\0\0\0"
            healthy.close()
    assert_all_returned(consumer)


def test_closed_in_mid_frame(consumer, producer):
    """C6: an orderly close is a lost connection, too, while channels are open."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        request = peer.receive()
        peer.socket.sendall(
            wire.encode_buffer_header(wire.BufferHeader(request.receiver, 0, 0, 0, 1, False, 500))
        )
    with pytest.raises(PartitionConnectionError, match="closed by remote"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(consumer)


def test_connection_refused(consumer):
    """C6: the error of a refused connection names the peer."""
    with RawProducer() as gone:
        address = gone.address
    gate = consumer.create_input_gate([(PID, 0, address)])
    gate.request_partitions()
    with pytest.raises(PartitionConnectionError, match=str(address[1])):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(consumer)


def test_failures_are_not_cached(consumer):
    """C6: after a failed attempt the next request connects again."""
    with RawProducer() as gone:
        address = gone.address
    for _ in range(2):
        gate = consumer.create_input_gate([(PID, 0, address)])
        gate.request_partitions()
        with pytest.raises(PartitionConnectionError):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
    assert_all_returned(consumer)


def test_producer_with_a_wrong_token(consumer, producer):
    """A producer that cannot prove the token is dropped, and its channels fail."""
    gate = gate_on(consumer, producer)
    with producer.accept(token=b"wrong") as peer:
        with pytest.raises(AuthenticationError):
            gate.next_buffer(PATIENCE_MS)
        assert peer.is_closed_by_peer()
    gate.close()
    assert_all_returned(consumer)


ANOTHER_VERSION = "does the peer run another version of penstock?"
GARBAGE = {
    "wrong magic": bytes(64),
    "unknown id": wire.frame(99, b""),
    "oversized": wire.FRAME_HEADER.pack(2**31 - 1, wire.MAGIC, wire.BUFFER_RESPONSE),
    "a client's message": wire.encode(wire.CloseRequest()),
    "announces more than it carries": wire.FRAME_HEADER.pack(50, wire.MAGIC, 0)
    + wire.BUFFER_HEADER.pack(b"?" * 16, 0, 0, 0, 1, 0, 1000),
    "unknown data type": wire.encode_buffer_header(
        wire.BufferHeader(b"?" * 16, 0, 0, 0, 77, False, 0)
    ),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_fails_the_channels(consumer, producer, name):
    """C3: a producer that sends an invalid frame is dropped, and its channels fail."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        peer.receive()
        peer.socket.sendall(GARBAGE[name])
        with pytest.raises(
            NetworkError, match=rf"with '?127\.0\.0\.1:{producer.address[1]}"
        ) as caught:
            gate.next_buffer(PATIENCE_MS)
        assert (ANOTHER_VERSION in str(caught.value)) == (name in ("wrong magic", "unknown id"))
        assert peer.is_closed_by_peer()
    gate.close()
    assert_all_returned(consumer)


def test_error_response_fails_one_channel(consumer, producer):
    """C10: the producer's error is raised with its cause and leaves other channels alone."""
    gate = gate_on(consumer, producer)
    other = consumer.create_input_gate([(partition_id(1), 0, producer.address)])
    with producer.accept() as peer:
        request = peer.receive()
        other.request_partitions()
        other_request = peer.receive()
        error = wire.RemoteError(ErrorCode.PRODUCER_FAILED, "boom")
        peer.send(wire.ErrorResponse(error, request.receiver))
        with pytest.raises(ProducerFailedError, match="boom"):
            gate.next_buffer(PATIENCE_MS)
        peer.send_buffer(other_request.receiver, 0, b"\0\0\0\0")
        assert other.next_buffer(PATIENCE_MS)[2] == b"\0\0\0\0"
        gate.close()
        other.close()
    assert_all_returned(consumer)


@pytest.mark.parametrize(
    ("sent", "raised"),
    [
        (ErrorCode.CANCEL_TASK, CancelTaskError),
        (ErrorCode.CORRUPT_STREAM, CorruptStreamError),
        (ErrorCode.PRODUCER_FAILED, ProducerFailedError),
        (ErrorCode.INSUFFICIENT_BUFFERS, PartitionConnectionError),
        (ErrorCode.PARTITION_CONNECTION, PartitionConnectionError),
        (ErrorCode.AUTHENTICATION, PartitionConnectionError),
        (ErrorCode.ILLEGAL_STATE, PartitionConnectionError),
        (ErrorCode.IO, PartitionConnectionError),
        (60_000, PartitionConnectionError),
    ],
)
def test_error_classes(consumer, producer, sent, raised):
    """C3, C10: an error keeps its kind if the kind is known here, and names the peer."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        error = wire.RemoteError(sent, "boom")
        peer.send(wire.ErrorResponse(error, peer.receive().receiver))
        with pytest.raises(raised, match=r"boom \(at remote task manager '127\.0\.0\.1:\d+'\)"):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
    assert_all_returned(consumer)


def test_fatal_error_response_fails_all_channels(consumer, producer):
    """C3: an error without a receiver applies to every channel of the connection."""
    gates = [gate_on(consumer, producer)]
    with producer.accept() as peer:
        peer.receive()
        gates.append(consumer.create_input_gate([(partition_id(1), 0, producer.address)]))
        gates[1].request_partitions()
        peer.receive()
        peer.send(wire.ErrorResponse(wire.RemoteError(ErrorCode.IO, "all is lost"), None))
        for gate in gates:
            with pytest.raises(NetworkError, match="all is lost"):
                gate.next_buffer(PATIENCE_MS)
            gate.close()
    assert_all_returned(consumer)


def test_not_found_fails_the_channel(plane, producer):
    """C7: the channel of a missing partition fails after two requests."""
    consumer = plane.environment(partition_request_timeout_ms=20)
    gate = gate_on(consumer, producer)
    error = wire.RemoteError(ErrorCode.PARTITION_NOT_FOUND, "no such partition")
    requests = []

    def answer(peer):
        with contextlib.suppress(EOFError, ConnectionResetError):
            while isinstance(request := peer.receive(), wire.PartitionRequest):
                requests.append(request)
                peer.send(wire.ErrorResponse(error, request.receiver))

    with producer.accept() as peer:
        answering = Background(lambda: answer(peer))
        with pytest.raises(PartitionNotFoundError, match="no such partition"):
            gate.next_buffer(PATIENCE_MS)
        gate.close()
        consumer.close()
        answering.result()
    assert len(set(requests)) == 1
    assert len(requests) == 2


def test_close_wakes_a_blocked_reader(consumer, producer):
    """C9: closing a gate wakes its reader with CancelTaskError; reading it raises again."""
    gate = gate_on(consumer, producer)
    with producer.accept() as peer:
        peer.receive()
        reader = Background(lambda: gate.next_buffer(PATIENCE_MS))
        gate.close()
        with pytest.raises(CancelTaskError):
            reader.result()
    with pytest.raises(CancelTaskError):
        gate.next_buffer(0)
    assert_all_returned(consumer)


def test_close_during_arrivals_leaks_nothing(consumer, producer):
    """C-11: a gate closed at any point of a stream returns every buffer."""
    for stop in range(6):
        gate = consumer.create_input_gate([(partition_id(stop), 0, producer.address)])
        gate.request_partitions()
        if stop == 0:
            peer = producer.accept()
        while not isinstance(request := peer.receive(), wire.PartitionRequest):
            pass
        for sequence in range(stop):
            peer.send_buffer(request.receiver, sequence, struct.pack(">i", 0), backlog=4)
            if sequence == 0:
                granted = request.credit
                while granted < 6:
                    granted += peer.receive().credit
        gate.close()
        assert_all_returned(consumer)
    peer.socket.close()


def test_event_between_parts_of_a_record_is_an_error(plane, consumer, producer):
    """B-11: an event within a record is a broken serialization."""
    gate = gate_on(consumer, producer)
    reading = plane.reading(gate)
    with producer.accept() as peer:
        request = peer.receive()
        peer.send_buffer(request.receiver, 0, b"\0\0\0\x09half")
        event = serialize_event(CancelCheckpointMarker(1))
        peer.send_buffer(request.receiver, 1, event, data_type=DataType.EVENT_BUFFER)
        with pytest.raises(CorruptStreamError):
            while reading.step():
                pass
        gate.close()


def test_negative_record_length_is_an_error(plane, consumer, producer):
    """B1: a record of negative length is a corrupt stream, not an endless wait."""
    gate = gate_on(consumer, producer)
    reading = plane.reading(gate)
    with producer.accept() as peer:
        request = peer.receive()
        peer.send_buffer(request.receiver, 0, b"\xff\xff\xff\xff")
        with pytest.raises(CorruptStreamError):
            reading.step()
        gate.close()
