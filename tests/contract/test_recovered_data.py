"""In-flight data of a checkpoint precedes all new data (internals M57, M11).

F-11, F-12: a task that starts from an unaligned checkpoint gets each byte once, in order, whichever
side had stored it.
"""

import random

import pytest
from penstock.errors import CancelTaskError, IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.events import (
    Alignment,
    CheckpointBarrier,
    EndOfChannelState,
    data_type_of,
    serialize_event,
)

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    eventually,
    partition_id,
)

PID = partition_id()
TIMEOUTABLE = int(DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER)


def barrier(number: int) -> tuple[bytes, int]:
    """Return an unaligned barrier and its data type."""
    event = CheckpointBarrier(number, 0, alignment=Alignment.UNALIGNED)
    return serialize_event(event), int(data_type_of(event, priority=True))


def framed(plane, *values: bytes) -> bytes:
    """Return the bytes of values in a channel."""
    encoded = [b"\1" + plane.codec.encode(value) for value in values]
    return b"".join(len(each).to_bytes(4, "big") + each for each in encoded)


def cut(data: bytes, source: random.Random) -> list[bytes]:
    """Split the same bytes into buffers of any size."""
    buffers = []
    while data:
        size = source.randrange(1, 600)
        buffers.append(data[:size])
        data = data[size:]
    return buffers


@pytest.mark.parametrize("seed", range(3))
def test_records_that_span_both_sides(plane, pair, seed):
    """Input data, output data, then new data; a record may be cut anywhere."""
    producer, consumer, local = pair
    source = random.Random(seed)
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=-1)
    gate = consumer.create_input_gate(
        [(PID, n, None if local else producer.address) for n in range(2)]
    )
    values = [bytes([n % 2]) + source.randbytes(source.choice((3, 90, 2500))) for n in range(40)]
    old, new = values[:30], values[30:]
    for channel in range(2):
        data = framed(plane, *(value for value in old if value[0] == channel))
        place = source.randrange(len(data))
        gate.recover(channel, cut(data[:place], source))
        partition.recover(channel, cut(data[place:], source))
    gate.request_partitions()
    writing, reading = plane.writing(partition), plane.reading(gate)
    writing.write(*new)
    partition.finish()
    seen = reading.to_end()
    for channel in range(2):
        assert seen.values[channel] == [value for value in values if value[0] == channel]
        assert EndOfChannelState() in seen.events[channel]
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_buffers_longer_than_a_segment(plane, pair):
    """The segments of the previous run may have been longer."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    values = [bytes([n]) * 700 for n in range(20)]
    partition.recover(0, [framed(plane, *values)])
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    partition.finish()
    assert plane.reading(gate).to_end().values[0] == values
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_a_checkpoint_while_recovered_data_waits(plane, pair):
    """A barrier overtakes recovered data, which belongs to its checkpoint."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = consumer.create_input_gate([(PID, 0, None if local else producer.address)])
    values = [bytes([n]) * 20 for n in range(6)]
    pieces = [framed(plane, *values[n : n + 2]) for n in (0, 2, 4)]
    gate.recover(0, [pieces[0], pieces[1][:30], pieces[1][30:]])
    partition.recover(0, [pieces[2]])
    gate.request_partitions()
    reading = plane.reading(gate)
    reading.until(lambda seen: len(seen.values[0]) == 2)
    [overtaken] = partition.overtake(*barrier(1))
    reading.until(lambda seen: any(isinstance(e, CheckpointBarrier) for e in seen.events[0]))
    gate.start_persisting(1)
    kept, complete = gate.take_persisted(0)
    gate.stop_persisting(1)
    assert complete
    read = len(reading.seen.values[0])
    rest = reading.processor.unconsumed(0) + b"".join(kept + overtaken)
    assert rest == framed(plane, *values[read:])
    partition.finish()
    assert reading.to_end().values[0] == values
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_a_union_recovers_the_channels_of_its_gates(plane, pair):
    """The union may exist before its gates get their data."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1) for pid in ids]
    gates = [
        consumer.create_input_gate([(pid, 0, None if local else producer.address)]) for pid in ids
    ]
    union = consumer.create_union_gate(gates)
    union.recover(1, [framed(plane, b"one")])
    gates[0].recover(0, [framed(plane, b"zero")])
    reading = plane.reading(union)
    reading.until(lambda seen: len(seen.events[0]) + len(seen.events[1]) == 2)
    assert (reading.seen.values[0], reading.seen.values[1]) == ([b"zero"], [b"one"])
    union.request_partitions()
    for partition in partitions:
        partition.finish()
    reading.to_end()
    union.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


def test_data_that_cannot_be_recovered(plane):
    """Too late, no such channel, no in-flight data: the errors say so."""
    environment = plane.environment()
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = environment.create_input_gate([(PID, 0, None)])
    with pytest.raises(IllegalStateError, match="channel 1"):
        gate.recover(1, [])
    with pytest.raises(IllegalStateError, match="subpartition 1"):
        partition.recover(1, [])
    with pytest.raises(IllegalStateError, match="subpartition "):
        partition.recover(-1, [])
    gate.request_partitions()
    with pytest.raises(IllegalStateError, match="before the partitions are requested"):
        gate.recover(0, [b"late"])
    plane.writing(partition, "GLOBAL").write(b"x")
    with pytest.raises(IllegalStateError, match="before subpartition 0 is written to"):
        partition.recover(0, [b"late"])
    blocking = environment.create_result_partition(partition_id(1), 1, "BLOCKING")
    with pytest.raises(IllegalStateError, match="blocking"):
        blocking.recover(0, [b"x"])
    gate.close()
    with pytest.raises(CancelTaskError):
        gate.recover(0, [])
    partition.release()
    with pytest.raises(CancelTaskError):
        partition.recover(0, [])
    blocking.release()
    assert_all_returned(environment)


def test_a_barrier_between_the_records_of_a_buffer(plane, pair):
    """The barrier precedes the next record; the rest of the buffer belongs to its checkpoint."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing = plane.writing(partition, "GLOBAL")
    values = [bytes([n]) * 30 for n in range(20)]
    rest: list[bytes] = []
    overtaken: list[bytes] = []
    reading = plane.reading(gate)
    processor = reading.processor
    process, on_event = reading.seen.values[0].append, reading.seen.on_event

    def take(value, timestamp):
        del timestamp
        process(value)
        if len(reading.seen.values[0]) == 3:
            overtaken.extend(partition.overtake(*barrier(1))[0])
            eventually(lambda: reading.processor.is_urgent, "no barrier came")

    def event_comes(channel, event, data_type):
        on_event(channel, event, data_type)
        if not rest:
            rest.append(processor.unconsumed(0))
            gate.start_persisting(1)
            rest.extend(gate.take_persisted(0)[0])
            gate.stop_persisting(1)

    reading.seen.on_event = event_comes
    inputs = [plane.input_for(take)]
    reading.processor = processor = plane.load("StreamInputProcessor")(
        gate, [plane.codec], inputs, reading.seen
    )
    writing.write(*values)
    partition.flush_all()
    reading.until(lambda seen: seen.events[0])
    assert b"".join(rest + overtaken) == framed(plane, *values[3:])
    partition.finish()
    assert reading.to_end().values[0] == values
    assert not processor.process_urgent()
    assert processor.unconsumed(0) == b""
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_urgent_events_alone(plane, pair):
    """A task without room for output reads barriers and leaves the data."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1, flush_timeout_ms=-1) for pid in ids]
    gates = [connect(plane, producer, consumer, [(pid, 0)], local=local) for pid in ids]
    union = consumer.create_union_gate(gates)
    reading = plane.reading(union)
    assert not reading.processor.process_urgent()
    writing = [plane.writing(partition, "GLOBAL") for partition in partitions]
    for each, partition in zip(writing, partitions, strict=True):
        each.write(b"value")
        partition.flush_all()
        partition.overtake(*barrier(1))
    for channel in range(2):
        eventually(
            lambda: reading.processor.process_urgent() or bool(reading.seen.events[channel]),  # noqa: B023
            "no barrier came",
        )
    eventually(
        lambda: reading.processor.process_urgent() or len(reading.seen.events) == 2, "one barrier"
    )
    assert not reading.seen.values[0]
    assert not reading.seen.values[1]
    for partition in partitions:
        partition.finish()
    seen = reading.to_end()
    assert (seen.values[0], seen.values[1]) == ([b"value"], [b"value"])
    union.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


def test_waiting_until_a_barrier_has_left(plane, pair):
    """C2: the wait ends if the barrier is read or times out, or its partition is released."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    writing = plane.writing(partition, "GLOBAL")
    assert partition.wait_barrier_taken(1, 0), "there is none"

    def send(number):
        event = CheckpointBarrier(number, 0, alignment=Alignment.ALIGNED, aligned_timeout_ms=100)
        writing.writer.broadcast_event(serialize_event(event), TIMEOUTABLE)

    send(1)
    assert not partition.wait_barrier_taken(1, 1)
    assert partition.wait_barrier_taken(2, 0)
    waiting = Background(lambda: partition.wait_barrier_taken(1, PATIENCE_MS))
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    while gate.next_buffer(PATIENCE_MS)[1] != TIMEOUTABLE:
        pass
    assert waiting.result()
    # The channel is blocked from here on, so that the next barrier stays.
    send(2)
    waiting = Background(lambda: partition.wait_barrier_taken(2, PATIENCE_MS))
    partition.time_out_barrier(2, *barrier(2))
    assert waiting.result()
    send(3)
    waiting = Background(lambda: partition.wait_barrier_taken(3, PATIENCE_MS))
    partition.release()
    assert waiting.result()
    gate.close()
    assert_all_returned(producer, consumer)


def test_the_runtimes_recover_beside_each_other(plane, other_plane):
    """Each runtime reads the data that the other stored, before new data; barriers overtake it."""
    producer, consumer = plane.environment(), other_plane.environment()
    source = random.Random(plane.kind + other_plane.kind)
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = consumer.create_input_gate([(PID, 0, producer.address)])
    values = [source.randbytes(source.choice((3, 90, 2500))) for _ in range(30)]
    data = framed(plane, *values[:20])
    place = source.randrange(len(data))
    gate.recover(0, cut(data[:place], source))
    partition.recover(0, cut(data[place:], source))
    plane.writing(partition, "GLOBAL").write(*values[20:])
    [overtaken] = partition.overtake(*barrier(1))
    gate.request_partitions()
    reading = other_plane.reading(gate)
    reading.until(lambda seen: any(isinstance(e, CheckpointBarrier) for e in seen.events[0]))
    gate.start_persisting(1)
    kept, complete = gate.take_persisted(0)
    gate.stop_persisting(1)
    assert complete
    read = len(reading.seen.values[0])
    rest = reading.processor.unconsumed(0) + b"".join(kept + overtaken)
    assert rest == framed(plane, *values[read:])
    partition.finish()
    assert reading.to_end().values[0] == values
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)
