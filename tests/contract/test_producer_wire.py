"""The producing environment's protocol, seen from a hand-made consumer (internals M17, M18)."""

import socket

import pytest
from penstock.network.data_type import DataType
from penstock.network.error_codes import ErrorCode
from penstock.network.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    parse_event,
)
from penstock.network.pure.wire import messages as wire

from contract.plane import (
    PATIENCE_MS,
    assert_all_returned,
    eventually,
    partition_id,
    raw_frames,
)
from contract.raw_peer import RECEIVER, RawConsumer, RawPeer

PID = partition_id()


@pytest.fixture
def producer(plane):
    return plane.environment()


@pytest.fixture
def partition(producer):
    return producer.create_result_partition(PID, 1, flush_timeout_ms=-1)


def full_buffers(plane, partition, count):
    """Write ``count`` records that each fill a segment."""
    writing = plane.writing(partition, "GLOBAL")
    value = plane.value_of_framed_size(1024)
    writing.write(*[value] * count)
    writing.flush()
    return writing


def test_data_needs_credit(plane, producer, partition):
    """C-3, C-7: with credit 2 exactly two buffers arrive; each further credit brings one."""
    full_buffers(plane, partition, 6)
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=2)
        headers = [consumer.receive()[0] for _ in range(2)]
        # The answer to a second request shows that nothing was sent in between.
        other = b"another-receiver"
        for credit in (1, 3):
            consumer.request(partition_id(99), receiver=other, credit=0)
            consumer.send(wire.CancelPartitionRequest(other))
            consumer.send(wire.AddCredit(credit, RECEIVER))
            headers += [consumer.receive()[0] for _ in range(credit)]
    assert [header.sequence_number for header in headers] == list(range(6))
    assert {header.receiver for header in headers} == {RECEIVER}
    assert {header.size for header in headers} == {1024}
    assert [header.backlog for header in headers][:5] == [5, 4, 3, 2, 1]


def test_event_needs_no_credit(plane, producer, partition):
    """C4: an event is sent although the consumer has granted no credit."""
    plane.writing(partition).event(EndOfData())
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=0)
        header, event = consumer.receive()
    assert header.data_type == DataType.END_OF_DATA
    assert header.sequence_number == 0
    assert parse_event(event) == EndOfData()


def test_backlog_is_announced_without_credit(plane, producer, partition):
    """C4: a consumer without exclusive buffers learns of data by announcement."""
    full_buffers(plane, partition, 3)
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=0)
        announcement = wire.BacklogAnnouncement(3, RECEIVER)
        assert consumer.receive() == announcement
        consumer.send(wire.AddCredit(3, RECEIVER))
        # The backlog may be announced more than once before the credit arrives.
        while (first := consumer.receive()) == announcement:
            pass
        headers = [first[0], consumer.receive()[0], consumer.receive()[0]]
        assert [header.sequence_number for header in headers] == [0, 1, 2]


def test_a_reader_is_notified_once(plane, producer, partition):
    """C-4: data added before the reader has found nothing causes no further notification."""
    writing = plane.writing(partition, "GLOBAL")
    value = plane.value_of_framed_size(1024)
    writing.event(CancelCheckpointMarker(1))
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=0)
        assert consumer.receive()[0].data_type == DataType.EVENT_BUFFER
        # The second buffer shows that the first one is complete.
        writing.write(value, value)
        assert consumer.receive() == wire.BacklogAnnouncement(1, RECEIVER)
        writing.write(*[value] * 6)
        consumer.send(wire.AddCredit(7, RECEIVER))
        numbers, announced = [], 0
        while len(numbers) < 7:
            message = consumer.receive()
            if isinstance(message, wire.BacklogAnnouncement):
                announced += 1
            else:
                numbers.append(message[0].sequence_number)
        assert numbers == list(range(1, 8))
        # A sender that polls just when it is notified announces the backlog twice.
        assert announced <= 1


def test_only_the_last_buffer_is_open(plane, producer, partition):
    """C-1: a new buffer ends the one before, so all but the last can be read unflushed."""
    writing = plane.writing(partition, "GLOBAL")
    values = [b"x" * size for size in (1, 5000, 3)]
    for n, value in enumerate(values):
        writing.write(value)
        writing.event(CancelCheckpointMarker(n))
    writing.write(b"last")
    seen = []
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=20)
        while sum(header.data_type == DataType.EVENT_BUFFER for header, _ in seen) < 3:
            seen.append(consumer.receive())
        data = [payload for header, payload in seen if header.data_type == DataType.DATA_BUFFER]
        assert raw_frames(data) == [b"\1" + plane.codec.encode(value) for value in values]
        writing.flush()
        assert raw_frames([consumer.receive()[1]]) == [b"\1" + plane.codec.encode(b"last")]


def test_events_do_not_count_in_backlog(plane, producer, partition):
    """C-2: the backlog counts only data buffers."""
    writing = full_buffers(plane, partition, 2)
    writing.event(EndOfData())
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=9)
        items = [consumer.receive() for _ in range(3)]
    assert [header.backlog for header, _ in items] == [1, 0, 0]


def test_blocking_event_stops_the_channel(plane, producer, partition):
    """C-6: behind an aligned barrier nothing is sent, not even events, until it is resumed."""
    writing = plane.writing(partition, "GLOBAL")
    barrier = CheckpointBarrier(1, 1000)
    writing.event(barrier)
    writing.write(b"after")
    writing.event(EndOfData())
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=5)
        header, event = consumer.receive()
        assert (header.data_type, header.backlog) == (DataType.ALIGNED_CHECKPOINT_BARRIER, 0)
        assert parse_event(event) == barrier
        consumer.send(wire.AddCredit(1, RECEIVER))
        consumer.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            consumer.receive()
        consumer.socket.settimeout(PATIENCE_MS / 1000)
        consumer.send(wire.ResumeConsumption(RECEIVER))
        data, end = consumer.receive(), consumer.receive()
    assert raw_frames([data[1]]) == [b"\1" + plane.codec.encode(b"after")]
    assert data[0].sequence_number == 1
    assert end[0].data_type == DataType.END_OF_DATA


def test_unfinished_buffer_comes_in_pieces(plane, producer, partition):
    """C-5: a flushed part of a buffer is sent once, the rest with its own number."""
    writing = plane.writing(partition, "GLOBAL")
    pieces = []
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=10)
        for n in range(3):
            writing.write(bytes([n]) * 10)
            writing.flush()
            pieces.append(consumer.receive())
    assert [header.sequence_number for header, _ in pieces] == [0, 1, 2]
    assert [header.backlog for header, _ in pieces] == [0, 0, 0]
    expected = [b"\1" + plane.codec.encode(bytes([n]) * 10) for n in range(3)]
    assert [raw_frames([data])[0] for _, data in pieces] == expected


def test_readers_take_turns(plane, producer):
    """C4: if several readers are ready, each sends one buffer in turn."""
    partition = producer.create_result_partition(PID, 3, flush_timeout_ms=-1)
    writing = plane.writing(partition)
    for channel in range(3):
        value = plane.value_of_framed_size(1024, channel)
        writing.write(*[value] * 3)
    writing.flush()
    receivers = [bytes([n]) * 16 for n in range(3)]
    with RawConsumer(producer.address) as consumer:
        for channel, receiver in enumerate(receivers):
            consumer.request(PID, subpartition=channel, receiver=receiver, credit=1)
        first = [consumer.receive()[0].receiver for _ in range(3)]
        consumer.send(*[wire.AddCredit(2, receiver) for receiver in receivers])
        rest = [consumer.receive()[0].receiver for _ in range(6)]
    assert sorted(first) == receivers
    assert sorted(rest) == sorted(receivers * 2)


def test_early_request_waits_for_the_partition(plane, producer):
    """C7: a request that arrives before its partition is served when it is registered."""
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=2)
        partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
        plane.writing(partition, "GLOBAL").write(b"here")
        partition.flush_all()
        header, _ = consumer.receive()
    assert header.sequence_number == 0


def test_unknown_partition_is_not_found(plane):
    """C7: after the request timeout the producer answers PartitionNotFound to that channel."""
    producer = plane.environment(partition_request_timeout_ms=30)
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID)
        answer = consumer.receive()
    assert isinstance(answer, wire.ErrorResponse)
    assert answer.receiver == RECEIVER
    assert answer.error.code == ErrorCode.PARTITION_NOT_FOUND


def test_second_reader_is_refused(plane, producer, partition):
    """C2: a pipelined subpartition is read once; only the second reader gets an error."""
    plane.writing(partition, "GLOBAL").write(b"one")
    partition.flush_all()
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=2)
        assert consumer.receive()[0].sequence_number == 0
        consumer.request(PID, receiver=b"2" * 16, credit=2)
        answer = consumer.receive()
        assert isinstance(answer, wire.ErrorResponse)
        assert answer.receiver == b"2" * 16
        plane.writing(partition, "GLOBAL").write(b"two")
        partition.flush_all()
        assert consumer.receive()[0].sequence_number == 1


def test_failure_reaches_the_reader(plane, producer, partition):
    """C10: the cause of a producer's failure is sent in an ErrorResponse to that channel."""
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID)
        plane.writing(partition, "GLOBAL").write(b"x")
        partition.flush_all()
        consumer.receive()
        partition.fail("division by zero in user code")
        answer = consumer.receive()
    assert isinstance(answer, wire.ErrorResponse)
    assert answer.receiver == RECEIVER
    assert answer.error.code == ErrorCode.PRODUCER_FAILED
    assert "division by zero in user code" in answer.error.message
    assert_all_returned(producer)


def test_cancel_releases_the_reader(plane, producer, partition):
    """C4, C-11: a cancelled request returns every buffer; cancelling twice has no effect."""
    full_buffers(plane, partition, 3)
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=0)
        consumer.receive()
        consumer.send(wire.CancelPartitionRequest(RECEIVER), wire.CancelPartitionRequest(RECEIVER))
        assert partition.wait_consumed(PATIENCE_MS)
        partition.release()
        assert_all_returned(producer)


def test_killed_consumer_returns_buffers(plane, producer, partition):
    """C-11: a killed consumer leaves no buffer behind, and other consumers continue."""
    other_id = partition_id(1)
    other = producer.create_result_partition(other_id, 1, flush_timeout_ms=-1)
    full_buffers(plane, partition, 5)
    with RawConsumer(producer.address) as survivor:
        survivor.request(other_id, credit=5)
        killed = RawConsumer(producer.address)
        killed.request(PID, credit=1)
        killed.receive()
        killed.reset()
        assert partition.wait_consumed(PATIENCE_MS)
        plane.writing(other, "GLOBAL").write(b"still here")
        other.flush_all()
        assert survivor.receive()[0].sequence_number == 0
    eventually(lambda: other.buffers_in_use <= 1, "the survivor's buffers stay")


GARBAGE = {
    "wrong magic": wire.encode(wire.CloseRequest()).replace(b"\xba\xdc", b"\xba\xdd"),
    "unknown id": wire.frame(77, b""),
    "oversized": wire.FRAME_HEADER.pack(2**31 - 1, wire.MAGIC, wire.ADD_CREDIT),
    "negative length": wire.FRAME_HEADER.pack(-1, wire.MAGIC, wire.ADD_CREDIT),
    "shorter than its header": wire.FRAME_HEADER.pack(8, wire.MAGIC, wire.CLOSE_REQUEST),
    "short body": wire.frame(wire.ADD_CREDIT, b"\0\0"),
    "long body": wire.frame(wire.CANCEL_PARTITION_REQUEST, bytes(17)),
    "a server's message": wire.encode(wire.BacklogAnnouncement(1, RECEIVER)),
    "a buffer": wire.encode_buffer_header(wire.BufferHeader(RECEIVER, 0, 0, 0, 1, False, 0)),
    "text": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_dropped(plane, producer, partition, name):
    """C3: a peer that sends an invalid frame is dropped, and the others continue."""
    with RawConsumer(producer.address) as good, RawConsumer(producer.address) as bad:
        good.request(PID, credit=2)
        bad.socket.sendall(GARBAGE[name])
        assert bad.is_closed_by_peer()
        plane.writing(partition, "GLOBAL").write(b"x")
        partition.flush_all()
        assert good.receive()[0].sequence_number == 0


def test_wrong_token_is_dropped(plane, producer, partition):
    """Nothing is parsed before the token is proved; a wrong proof ends the connection."""
    with pytest.raises((EOFError, ConnectionResetError)):
        RawConsumer(producer.address, token=b"wrong")
    with RawConsumer(producer.address) as good:
        good.request(PID, credit=2)
        plane.writing(partition, "GLOBAL").write(b"x")
        partition.flush_all()
        assert good.receive()[0].sequence_number == 0


def test_frames_before_proof_are_dropped(plane, producer):
    """A peer that skips the proof and sends a request is dropped without an answer."""
    with RawPeer(socket.create_connection(producer.address)) as peer:
        assert len(peer.exactly(32)) == 32
        peer.send(wire.PartitionRequest(PID, 0, 0, RECEIVER, 2))
        assert peer.is_closed_by_peer()


def test_chunks_of_any_size(plane, producer, partition):
    """C3: requests are parsed however the bytes are cut."""
    plane.writing(partition, "GLOBAL").write(b"x")
    partition.flush_all()
    with RawConsumer(producer.address) as consumer:
        consumer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in wire.encode(wire.PartitionRequest(PID, 0, 0, RECEIVER, 2)):
            consumer.socket.sendall(bytes([byte]))
        assert consumer.receive()[0].sequence_number == 0
