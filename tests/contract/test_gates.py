"""Reading several channels and several gates (internals M22, M23)."""

import pytest
from penstock.errors import (
    CancelTaskError,
    IllegalStateError,
    InsufficientBuffersError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier, EndOfData, EndOfPartition, serialize_event

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    partition_id,
)

PID = partition_id()


@pytest.mark.parametrize("channels", [2, 5])
def test_fairness(plane, pair, channels):
    """C-12: channels that always have data are served in turn, one buffer each."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, channels, flush_timeout_ms=-1)
    writing = plane.writing(partition)
    for channel in range(channels):
        value = plane.value_of_framed_size(1024, channel)
        writing.write(value, value)
    writing.flush()
    gate = connect(plane, producer, consumer, [(PID, n) for n in range(channels)], local=local)
    counts = [0] * channels
    for turn in range(2 * channels):
        counts[gate.next_buffer(PATIENCE_MS)[0]] += 1
        if local:
            assert max(counts) - min(counts) <= 1, f"turn {turn}: {counts}"
    assert counts == [2] * channels


def test_wakeup_is_sticky(plane, pair):
    """C-13: a wake-up before the read is not lost, and applies to only one read."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    gate.wakeup()
    gate.wakeup()
    assert gate.next_buffer(PATIENCE_MS) is None
    plane.writing(partition, "GLOBAL").write(b"x")
    partition.flush_all()
    assert gate.next_buffer(PATIENCE_MS) is not None


def test_wakeup_is_used_up_without_waiting(plane, pair):
    """C9: the call that a pending wake-up ends consumes it, even if it would not have waited."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=0)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    reading = plane.reading(gate)
    gate.wakeup()
    assert reading.step(0) == 0
    waiting = Background(reading.step)
    plane.writing(partition, "GLOBAL").write(b"a")
    assert waiting.result() == 1
    assert reading.seen.values[0] == [b"a"]


def test_wakeup_of_a_blocked_reader(plane, pair):
    """C-13: a wake-up during the read ends it."""
    producer, consumer, local = pair
    producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    reading = plane.reading(gate)
    reader = Background(reading.step)
    gate.wakeup()
    assert reader.result() == 0


def test_no_lost_notification(plane, pair):
    """C-13: one record at a time, each flushed and awaited, never leaves the reader asleep."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing, reading = plane.writing(partition, "GLOBAL"), plane.reading(gate)
    for n in range(300):
        writing.write(bytes([n % 256]))
        writing.flush()
        reading.until(lambda seen, n=n: len(seen.values[0]) == n + 1)


def test_blocking_event_and_resume(plane, pair):
    """C-6: until it is resumed, a channel behind its barrier is silent; the other one continues."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0), (PID, 1)], local=local)
    writing, reading = plane.writing(partition), plane.reading(gate)
    barriers = [CheckpointBarrier(n, n) for n in range(2)]
    writing.event(barriers[0])
    reading.until(lambda seen: all(seen.events[n] for n in range(2)))
    writing.write(b"\0a", b"\1b")
    writing.event(barriers[1])
    gate.resume_consumption(1)
    reading.until(lambda seen: len(seen.events[1]) == 2)
    assert reading.seen.everything[0] == [barriers[0]]
    assert reading.seen.everything[1] == [barriers[0], b"\1b", barriers[1]]
    gate.resume_consumption(0)
    reading.until(lambda seen: len(seen.events[0]) == 2)
    assert reading.seen.everything[0] == [barriers[0], b"\0a", barriers[1]]
    gate.resume_consumption(0)
    gate.resume_consumption(1)
    partition.finish()
    assert reading.to_end().events[0][-1] == EndOfPartition()


def test_gathered_barriers(plane, pair):
    """F4: all equal barriers but the last one are only counted; their channels stay blocked."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 4, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, n) for n in range(4)], local=local)
    writing, reading = plane.writing(partition), plane.reading(gate)
    first, second, third = (CheckpointBarrier(n, n) for n in (1, 2, 3))
    gate.gather_barriers(serialize_event(first), 4)
    writing.event(first)
    reading.until(lambda seen: any(seen.events[n] for n in range(4)))
    gathered, first_told = gate.take_gathered()
    assert first_told is None
    last = (set(range(4)) - set(gathered)).pop()
    assert len(gathered) == len(set(gathered)) == 3
    assert [len(reading.seen.events[n]) for n in range(4)] == [n == last for n in range(4)]
    assert gate.take_gathered() == ([], None)
    # No channel delivers anything before it is resumed.
    writing.write(*(bytes([n]) + b"x" for n in range(4)))
    writing.event(second)
    assert reading.step(0) == 0
    # Taking the last barrier ends the gathering; other barriers are not affected.
    gate.gather_barriers(serialize_event(first), 4)
    gate.resume_all(range(4))
    reading.until(lambda seen: all(second in seen.events[n] for n in range(4)))
    assert [reading.seen.values[n] for n in range(4)] == [[bytes([n]) + b"x"] for n in range(4)]
    assert gate.take_gathered() == ([], None)
    # Data, and other events, arrive while barriers are gathered.
    gate.gather_barriers(serialize_event(third), 4)
    gate.resume_all([2, 0])
    gate.resume_all([])
    writing.write(*(bytes([n]) + b"y" for n in (0, 2)))
    writing.event(third)
    reading.until(lambda seen: len(seen.values[0]) == len(seen.values[2]) == 2)
    gate.resume_all([1, 3])
    reading.until(lambda seen: any(third in seen.events[n] for n in range(4)))
    told = [n for n in range(4) if third in reading.seen.events[n]]
    assert len(told) == 1
    assert sorted(gate.take_gathered()[0] + told) == [0, 1, 2, 3]
    gate.resume_all(range(4))
    partition.finish()
    seen = reading.to_end()
    assert all(seen.events[n][-1] == EndOfPartition() for n in range(4))


def test_the_next_barrier_is_gathered_whichever_it_is(plane, pair):
    """F4: the last one reports also the first one's kind and time, and the bytes read before."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(3)]
    partitions = [producer.create_result_partition(pid, 1, flush_timeout_ms=-1) for pid in ids]
    gate = connect(plane, producer, consumer, [(pid, 0) for pid in ids], local=local)
    writings = [plane.writing(partition, "GLOBAL") for partition in partitions]
    reading = plane.reading(gate)
    for number in range(12):
        gate.gather_barriers(None, 3)
        if number % 2:
            writings[0].write(b"data")
            writings[0].flush()
            reading.until(lambda seen, count=number // 2 + 1: len(seen.values[0]) == count)
        before = reading.processor.bytes_in
        reader = Background(reading.step)
        barrier = CheckpointBarrier(number, number)
        writings[number % 3].event(barrier)
        if number % 4 == 3:
            gate.wakeup()
            assert reader.result() == 0
            reader = Background(reading.step)
        for other in (1, 2):
            writings[(number + other) % 3].event(barrier)
        assert reader.result() == 1
        channels, (event, age_ns, told_before) = gate.take_gathered()
        assert len(set(channels)) == 2
        assert (event, told_before) == (serialize_event(barrier), before)
        assert age_ns >= 0
        gate.resume_all(range(3))
    gate.gather_barriers(None, 3)
    partitions[0].finish()
    reading.until(lambda seen: EndOfPartition() in seen.events[0])
    assert gate.take_gathered() == ([], None)
    gate.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(*plane.environments)


def test_a_reader_that_gathers_hears_of_everything_else(plane, pair):
    """C-13: a reader sleeps through all barriers but the last one, and through nothing else."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(3)]
    partitions = [producer.create_result_partition(pid, 1, flush_timeout_ms=-1) for pid in ids]
    gate = connect(plane, producer, consumer, [(pid, 0) for pid in ids], local=local)
    writings = [plane.writing(partition, "GLOBAL") for partition in partitions]
    reading = plane.reading(gate)
    for number in range(1, 40):
        barrier = CheckpointBarrier(number, number)
        gate.gather_barriers(serialize_event(barrier), 3)
        reader = Background(reading.step)
        writings[number % 3].event(barrier)
        if number % 2:
            gate.wakeup()
            assert reader.result() == 0
        else:
            writings[(number + 1) % 3].write(b"data")
            writings[(number + 1) % 3].flush()
            assert reader.result() == 1
        reader = Background(reading.step)
        for other in (1, 2):
            writings[(number + other) % 3].event(barrier)
        assert reader.result() == 1
        assert len(gate.take_gathered()[0]) == 2
        gate.resume_all(range(3))
    barrier = CheckpointBarrier(40, 40)
    gate.gather_barriers(serialize_event(barrier), 3)
    reader = Background(reading.step)
    writings[0].event(barrier)
    partitions[1].finish()
    assert reader.result() == 1
    assert reading.seen.events[1][-1] == EndOfPartition()
    # Between processes the end of one channel may arrive before the barrier of another.
    assert gate.take_gathered()[0] in ([], [0])
    gate.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(*plane.environments)


def test_resuming_what_is_not_there(plane, pair):
    """C9: a channel that has ended, or does not exist, is rejected by name."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    partition.finish()
    plane.reading(gate).to_end()
    with pytest.raises(IllegalStateError, match="channel 0 has ended"):
        gate.resume_all([0])
    with pytest.raises(IllegalStateError, match="channel 1 of a gate with 1"):
        gate.resume_all([1])


def test_priority_event_overtakes(plane, pair):
    """C2: a priority event overtakes the waiting buffers."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(b"x" * 3000)
    barrier = CheckpointBarrier(1, 1)
    writing.event(barrier, priority=True)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    channel, data_type, _ = gate.next_buffer(PATIENCE_MS)
    assert (channel, data_type) == (0, DataType.PRIORITIZED_EVENT_BUFFER)
    partition.finish()
    assert [item[1] for item in iter(lambda: gate.next_buffer(PATIENCE_MS), None)][-1] == (
        DataType.END_OF_PARTITION
    )


def test_union_gate(plane, pair):
    """C9: a union reads all gates; a channel's index is its own plus the offset of its gate."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(3)]
    widths = [2, 1, 3]
    partitions = [
        producer.create_result_partition(pid, width, flush_timeout_ms=-1)
        for pid, width in zip(ids, widths, strict=True)
    ]
    gates = [
        consumer.create_input_gate(
            [(pid, n, None if local else producer.address) for n in range(width)]
        )
        for pid, width in zip(ids, widths, strict=True)
    ]
    union = consumer.create_union_gate(gates)
    assert union.num_channels == 6
    union.request_partitions()
    reading = plane.reading(union)
    offset = 0
    expected = {}
    for number, (partition, width) in enumerate(zip(partitions, widths, strict=True)):
        writing = plane.writing(partition)
        for channel in range(width):
            value = bytes([channel, number]) * 10
            writing.write(value)
            expected[offset + channel] = [value, EndOfPartition()]
        offset += width
        partition.finish()
    seen = reading.to_end()
    assert dict(seen.everything) == expected
    assert union.is_finished()
    union.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(*plane.environments)


def test_union_gate_control(plane, pair):
    """C9: wake-up, resumption and closing of a union reach the right gate."""
    producer, consumer, local = pair
    ids = [partition_id(n) for n in range(2)]
    partitions = [producer.create_result_partition(pid, 1, flush_timeout_ms=-1) for pid in ids]
    address = None if local else producer.address
    gates = [consumer.create_input_gate([(pid, 0, address)]) for pid in ids]
    union = consumer.create_union_gate(gates)
    union.request_partitions()
    reading = plane.reading(union)
    reader = Background(reading.step)
    union.wakeup()
    assert reader.result() == 0
    gates[1].wakeup()  # only who reads this gate by itself would notice
    second = plane.writing(partitions[1], "GLOBAL")
    second.event(CheckpointBarrier(1, 1))
    second.write(b"behind")
    second.flush()
    reading.until(lambda seen: seen.events[1])
    union.resume_consumption(1)
    reading.until(lambda seen: seen.values[1] == [b"behind"])
    barrier = CheckpointBarrier(2, 2)
    union.gather_barriers(serialize_event(barrier), 2)
    first = plane.writing(partitions[0], "GLOBAL")
    first.event(barrier)
    second.event(barrier)
    reading.until(lambda seen: barrier in seen.events[0] + seen.events[1])
    assert len(union.take_gathered()[0]) == 1
    union.resume_all([0, 1])
    for writing in (first, second):
        writing.write(b"next")
        writing.flush()
    reading.until(lambda seen: all(b"next" in seen.values[n] for n in range(2)))
    reader = Background(reading.step)
    union.close()
    with pytest.raises(CancelTaskError):
        reader.result()
    for partition in partitions:
        partition.release()
    assert_all_returned(*plane.environments)


def test_closed_gate(plane, pair):
    """C9: reading a closed gate raises CancelTaskError; closing twice does nothing."""
    producer, consumer, local = pair
    producer.create_result_partition(PID, 1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    gate.close()
    gate.close()
    with pytest.raises(CancelTaskError):
        gate.next_buffer(0)


def test_end_of_data_precedes_the_end(plane, pair):
    """C9: EndOfData is an event like others; only EndOfPartition finishes the gate."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    plane.writing(partition, "GLOBAL").event(EndOfData())
    assert gate.next_buffer(PATIENCE_MS)[1] == DataType.END_OF_DATA
    assert not gate.is_finished()
    partition.finish()
    assert gate.next_buffer(PATIENCE_MS)[1] == DataType.END_OF_PARTITION
    assert gate.is_finished()
    assert gate.next_buffer(PATIENCE_MS) is None


def test_wait_consumed(plane, pair):
    """C10: a partition is consumed only when every reader has taken its end."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 2, flush_timeout_ms=-1)
    gates = [connect(plane, producer, consumer, [(PID, n)], local=local) for n in range(2)]
    partition.finish()
    assert not partition.wait_consumed(0)
    assert plane.reading(gates[0]).to_end().events[0] == [EndOfPartition()]
    assert not partition.wait_consumed(0)
    assert plane.reading(gates[1]).to_end().events[0] == [EndOfPartition()]
    assert partition.wait_consumed(PATIENCE_MS)


def test_failed_producer(plane, pair):
    """C10: readers of a failed partition get ProducerFailedError with its cause."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    writing = plane.writing(partition, "GLOBAL")
    writing.write(b"x")
    writing.flush()
    assert gate.next_buffer(PATIENCE_MS) is not None
    reader = Background(lambda: gate.next_buffer(PATIENCE_MS))
    partition.fail("the user function divided by zero")
    with pytest.raises(ProducerFailedError, match="divided by zero"):
        reader.result()
    with pytest.raises(ProducerFailedError, match="divided by zero"):
        gate.next_buffer(0)
    gate.close()
    assert_all_returned(*plane.environments)


def test_released_producer(plane, pair):
    """C8, C10: readers of a released partition do not wait for ever."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=0)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    plane.writing(partition, "GLOBAL").write(b"x")
    assert gate.next_buffer(PATIENCE_MS) is not None
    partition.release()
    with pytest.raises((CancelTaskError, ProducerFailedError)):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(*plane.environments)


def test_partition_comes_after_its_consumer(plane, pair):
    """C7: an early consumer is served when the partition is created."""
    producer, consumer, local = pair
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    reading = plane.reading(gate)
    partition = producer.create_result_partition(PID, 1, flush_timeout_ms=-1)
    plane.writing(partition, "GLOBAL").write(b"late")
    partition.finish()
    assert reading.to_end().values[0] == [b"late"]


@pytest.mark.parametrize("local", [True, False])
def test_partition_that_never_comes(plane, local):
    """C7: a partition that stays unknown raises PartitionNotFoundError, which names it."""
    producer = plane.environment(partition_request_timeout_ms=20)
    consumer = producer if local else plane.environment(partition_request_timeout_ms=20)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=local)
    # Between TaskExecutors errors are texts: the JobMaster reads the partition from them.
    with pytest.raises(PartitionNotFoundError, match=rf"\bpartition {PID.hex()}\b"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(*plane.environments)


def test_insufficient_buffers(plane):
    """A4: buffers that cannot be promised are refused at once, and none are taken."""
    environment = plane.environment(num_segments=8)
    with pytest.raises(InsufficientBuffersError, match="Insufficient number of network buffers"):
        environment.create_result_partition(PID, 100)
    with pytest.raises(InsufficientBuffersError):
        environment.create_input_gate([(partition_id(n), 0, ("127.0.0.1", 1)) for n in range(20)])
    assert_all_returned(environment)
    partition = environment.create_result_partition(PID, 7)
    partition.release()
    assert_all_returned(environment)


def test_environment_closes_everything(plane):
    """Closing an environment wakes its readers and writers, whatever they wait for."""
    producer, consumer = plane.environment(), plane.environment()
    partition = producer.create_result_partition(PID, 1)
    gate = connect(plane, producer, consumer, [(PID, 0)], local=False)
    reader = Background(lambda: gate.next_buffer(PATIENCE_MS))
    consumer.close()
    with pytest.raises(CancelTaskError):
        reader.result()

    def fill():
        writing = plane.writing(partition, "GLOBAL")
        while True:
            writing.write(b"x" * 1000)

    writer = Background(fill)
    producer.close()
    with pytest.raises(CancelTaskError):
        writer.result()


def test_addresses_are_chosen_by_the_kernel(plane):
    """Every environment has its own port on the host that it was told to bind."""
    first, second = plane.environment(), plane.environment()
    assert first.address[0] == second.address[0] == "127.0.0.1"
    assert first.address[1] != second.address[1] > 0
