"""Aligned barriers that time out become unaligned ones, on either side (M16, M57)."""

import pytest
from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.events import (
    Alignment,
    CheckpointBarrier,
    EventAnnouncement,
    data_type_of,
    parse_event,
    serialize_event,
)
from penstock.network.pure.wire import messages as wire

from contract.plane import (
    PATIENCE_MS,
    assert_all_returned,
    connect,
    partition_id,
    raw_frames,
)
from contract.raw_peer import RECEIVER, RawConsumer, RawProducer

PID = partition_id()
TIMEOUTABLE = int(DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER)
PRIORITY = int(DataType.PRIORITIZED_EVENT_BUFFER)


def aligned(number: int) -> bytes:
    """Return a barrier that may time out."""
    event = CheckpointBarrier(number, 0, alignment=Alignment.ALIGNED, aligned_timeout_ms=100)
    assert data_type_of(event) == TIMEOUTABLE
    return serialize_event(event)


def unaligned(number: int) -> bytes:
    """Return the barrier after it became unaligned."""
    return serialize_event(CheckpointBarrier(number, 0, alignment=Alignment.UNALIGNED))


def test_barrier_in_the_queue(plane):
    """C2, F-11: on timeout it overtakes the data, which is returned for the checkpoint."""
    producer = plane.environment()
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    writing = plane.writing(partition, "GLOBAL")
    before, after = [b"1" * 900, b"2" * 900, b"3"], [b"4", b"5" * 900]
    with RawConsumer(producer.address) as consumer:
        consumer.request(PID, credit=0)
        writing.write(*before)
        writing.writer.broadcast_event(aligned(7), TIMEOUTABLE)
        writing.write(*after)
        writing.flush()
        assert partition.time_out_barrier(6, unaligned(6), PRIORITY) == [[]], "another checkpoint"
        [overtaken] = partition.time_out_barrier(7, unaligned(7), PRIORITY)
        framed = [b"\1" + plane.codec.encode(value) for value in before + after]
        assert raw_frames(overtaken) == framed[:3]
        assert partition.time_out_barrier(7, unaligned(7), PRIORITY) == [[]], "a second time"
        seen = []
        while not seen or len(raw_frames_so_far(seen)) < 5:
            message = consumer.receive()
            if isinstance(message, wire.BacklogAnnouncement):
                # Credit arrives after the barrier, which needs none.
                continue
            if not seen:
                consumer.send(wire.AddCredit(9, RECEIVER))
            seen.append(message)
    assert [header.sequence_number for header, _ in seen] == list(range(len(seen)))
    (first, event), data = seen[0], [payload for _, payload in seen[1:]]
    assert (first.data_type, event) == (PRIORITY, unaligned(7))
    # An unaligned barrier blocks nothing behind it.
    assert raw_frames(data) == framed
    partition.release()
    assert_all_returned(producer)


def raw_frames_so_far(seen) -> list[bytes]:
    """Return the whole records received after the barrier."""
    stream = b"".join(payload for _, payload in seen[1:])
    frames = []
    while len(stream) >= 4 and len(stream) >= (end := 4 + int.from_bytes(stream[:4], "big")):
        frames.append(stream[4:end])
        stream = stream[end:]
    return frames


def test_barrier_that_has_left(plane):
    """C2: a barrier that was read in time is unchanged; nothing is sent or returned."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 2, flush_timeout_ms=-1)
    specs = [(PID, 0), (PID, 1)]
    gate = connect(plane, environment, environment, specs, local=True)
    writing = plane.writing(partition)
    writing.write(b"\0x", b"\1y")
    writing.writer.broadcast_event(aligned(1), TIMEOUTABLE)
    taken = [gate.next_buffer(PATIENCE_MS)[:2] for _ in range(4)]
    assert sorted(taken) == [(0, 1), (0, TIMEOUTABLE), (1, 1), (1, TIMEOUTABLE)]
    assert partition.time_out_barrier(1, unaligned(1), PRIORITY) == [[], []]
    assert gate.next_buffer(0) is None
    with pytest.raises(IllegalStateError, match="overtakes nothing"):
        partition.time_out_barrier(1, aligned(1), TIMEOUTABLE)
    assert not gate.prioritize_barrier(0, 1)
    gate.close()
    partition.release()
    assert_all_returned(environment)


def test_barrier_in_the_channel(plane):
    """C5, F6, F-11: an announced barrier can be taken before the data that it then overtakes."""
    consumer = plane.environment()
    with RawProducer() as producer:
        gate = consumer.create_input_gate([(PID, 0, producer.address)])
        gate.request_partitions()
        with producer.accept() as peer:
            receiver = peer.receive().receiver
            peer.send_buffer(receiver, 0, b"\0\0\0\1a")
            peer.send_buffer(receiver, 1, b"\0\0\0\1b")
            peer.send_buffer(receiver, 2, aligned(3), data_type=TIMEOUTABLE)
            taken = [gate.next_buffer(PATIENCE_MS)]
            while taken[-1][1] != PRIORITY:
                taken.append(gate.next_buffer(PATIENCE_MS))
            announced = parse_event(taken.pop()[2])
            assert announced == EventAnnouncement(parse_event(aligned(3)), 2)
            assert not gate.prioritize_barrier(0, 4), "another checkpoint"
            assert gate.prioritize_barrier(0, 3)
            assert not gate.prioritize_barrier(0, 3), "a second time"
            assert gate.next_buffer(PATIENCE_MS) == (0, PRIORITY, aligned(3))
            gate.start_persisting(3)
            waiting = [b"\0\0\0\1a", b"\0\0\0\1b"][len(taken) :]
            assert gate.take_persisted(0) == (waiting, True)
            taken += [gate.next_buffer(PATIENCE_MS) for _ in waiting]
            assert taken == [(0, 1, b"\0\0\0\1a"), (0, 1, b"\0\0\0\1b")]
            with pytest.raises(IllegalStateError, match="channel 1"):
                gate.prioritize_barrier(1, 3)
            gate.close()
    assert_all_returned(consumer)
