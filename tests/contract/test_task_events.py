"""Events upstream: from a gate to the tasks that write its partitions (internals M14)."""

import pytest
from penstock.errors import (
    CancelTaskError,
    CorruptStreamError,
    IllegalStateError,
    NetworkError,
    PartitionConnectionError,
)
from penstock.network.events import EndOfSuperstep, TaskEvent, serialize_event
from penstock.network.legacy.readers import BufferReader
from penstock.network.legacy.task_events import TaskEventDispatcher
from penstock.network.pure.wire import messages as wire

from contract.plane import (
    PATIENCE_MS,
    Background,
    assert_all_returned,
    connect,
    partition_id,
)
from contract.raw_peer import RECEIVER, RawConsumer


def test_event_reaches_its_listeners(plane, pair):
    """B7, C3: an event reaches the producer of every channel, once and in order."""
    producer, consumer, local = pair
    ids = [partition_id(number) for number in range(2)]
    partitions = [producer.create_result_partition(id_, 1) for id_ in ids]
    gate = connect(plane, producer, consumer, [(id_, 0) for id_ in ids], local=local)
    dispatcher, heard = TaskEventDispatcher(), {id_: [] for id_ in ids}
    for id_, partition in zip(ids, partitions, strict=True):
        dispatcher.register_partition(id_, partition)
        dispatcher.subscribe(id_, heard[id_].append, "converged")
    reader = BufferReader(gate)
    reader.send_task_event(TaskEvent("converged", b"1"))
    reader.send_task_event(TaskEvent("unheard"))
    reader.send_task_event(TaskEvent("converged", b"2" * 70_000))
    wanted = [TaskEvent("converged", b"1"), TaskEvent("converged", b"2" * 70_000)]
    # Wait for the last event to arrive; it is handed on as the dispatcher would.
    for id_, partition in zip(ids, partitions, strict=True):
        first = partition.next_task_event(PATIENCE_MS)
        assert first == serialize_event(wanted[0])
        assert partition.next_task_event(PATIENCE_MS) == serialize_event(TaskEvent("unheard"))
        assert partition.next_task_event(PATIENCE_MS) == serialize_event(wanted[1])
        assert partition.next_task_event(0) is None
        assert dispatcher.publish(id_, wanted[0])
        assert heard[id_] == wanted[:1]
    gate.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(producer, consumer)


def test_dispatch(plane):
    """B7: events that have arrived are dispatched in the thread that requests it."""
    environment = plane.environment()
    partition = environment.create_result_partition(partition_id(), 1)
    gate = connect(plane, environment, environment, [(partition_id(), 0)], local=True)
    dispatcher, heard = TaskEventDispatcher(), []
    dispatcher.register_partition(partition_id(), partition)
    with pytest.raises(IllegalStateError, match="registered already"):
        dispatcher.register_partition(partition_id(), partition)
    with pytest.raises(IllegalStateError, match="not registered"):
        dispatcher.subscribe(partition_id(7), heard.append, "x")
    dispatcher.subscribe(partition_id(), heard.append, "x")
    gate.send_task_event(serialize_event(TaskEvent("x", b"1")))
    gate.send_task_event(serialize_event(TaskEvent("y", b"2")))
    assert dispatcher.dispatch() == 2
    assert dispatcher.dispatch() == 0
    assert heard == [TaskEvent("x", b"1")]
    dispatcher.unregister_partition(partition_id())
    assert not dispatcher.publish(partition_id(), TaskEvent("x"))
    dispatcher.clear()
    gate.close()
    partition.release()
    assert_all_returned(environment)


def test_waiting_task(plane, pair):
    """B7: a task that waits for an event wakes up for it, and at the end of its partition."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(partition_id(), 1)
    gate = connect(plane, producer, consumer, [(partition_id(), 0)], local=local)
    event = serialize_event(TaskEvent("x"))
    waiting = Background(lambda: partition.next_task_event(PATIENCE_MS))
    gate.send_task_event(event)
    assert waiting.result() == event
    waiting = Background(lambda: partition.next_task_event(PATIENCE_MS))
    partition.release()
    with pytest.raises(CancelTaskError):
        waiting.result()
    gate.close()
    assert_all_returned(producer, consumer)


def test_refused_where_it_is_sent(plane):
    """B7: only task events of a gate that reads can be sent, and only up to a length."""
    environment = plane.environment()
    partition = environment.create_result_partition(partition_id(), 1)
    gate = environment.create_input_gate([(partition_id(), 0, None)])
    event = serialize_event(TaskEvent("x"))
    with pytest.raises(IllegalStateError, match="before"):
        gate.send_task_event(event)
    gate.request_partitions()
    with pytest.raises(CorruptStreamError, match="against the stream"):
        gate.send_task_event(serialize_event(EndOfSuperstep()))
    for garbage in (b"", b"\0\0\0", b"\xff\xff\xff\xff"):
        with pytest.raises(CorruptStreamError):
            gate.send_task_event(garbage)
    with pytest.raises(IllegalStateError, match="at most"):
        gate.send_task_event(serialize_event(TaskEvent("x", bytes(1 << 20))))
    gate.close()
    with pytest.raises(CancelTaskError):
        gate.send_task_event(event)
    with pytest.raises(CancelTaskError):
        gate.request_partitions()
    partition.release()
    assert_all_returned(environment)


def test_too_many_wait(plane, pair):
    """B7: a producer that reads no events fails the channel once a mebibyte of them waits."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(partition_id(), 1)
    gate = connect(plane, producer, consumer, [(partition_id(), 0)], local=local)
    event = serialize_event(TaskEvent("x", bytes(300_000)))
    for _ in range(4):
        gate.send_task_event(event)
    refused = IllegalStateError if local else PartitionConnectionError
    with pytest.raises(refused, match="wait for the producing task"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


def test_unknown_partition(plane):
    """B7: an event for a partition without a writer fails its channel, no other."""
    producer = plane.environment()
    partition = producer.create_result_partition(partition_id(), 1)
    event = serialize_event(TaskEvent("x"))
    with RawConsumer(producer.address) as peer:
        peer.send(wire.TaskEventRequest(event, partition_id(7), RECEIVER))
        peer.request(partition_id())
        peer.send(wire.TaskEventRequest(event, partition_id(), RECEIVER))
        assert partition.next_task_event(PATIENCE_MS) == event
        peer.send(wire.TaskEventRequest(event, partition_id(7), RECEIVER))
        answer = peer.receive()
        assert isinstance(answer, wire.ErrorResponse)
        assert answer.receiver == RECEIVER
        assert "no task that writes" in answer.error.message
    partition.release()
    assert_all_returned(producer)


@pytest.mark.parametrize("event", [b"", b"\0\0\0\0", b"\0\0\0\x63garbage"])
def test_garbage_ends_the_connection(plane, event):
    """C3: an invalid task event is a corrupt stream."""
    producer = plane.environment()
    with RawConsumer(producer.address) as peer:
        peer.send(wire.TaskEventRequest(event, partition_id(), RECEIVER))
        assert peer.is_closed_by_peer()
    assert_all_returned(producer)


def test_ended_channel_takes_no_event(plane, pair):
    """C9: a channel that has ended is skipped, whatever the state of its producer."""
    producer, consumer, local = pair
    partitions = [producer.create_result_partition(partition_id(n), 1) for n in range(2)]
    specs = [(partition_id(n), 0) for n in range(2)]
    gate = connect(plane, producer, consumer, specs, local=local)
    partitions[0].finish()
    assert gate.next_buffer(PATIENCE_MS)[0] == 0
    partitions[0].release()
    event = serialize_event(TaskEvent("x"))
    gate.send_task_event(event)
    assert partitions[1].next_task_event(PATIENCE_MS) == event
    assert gate.next_buffer(0) is None
    gate.close()
    partitions[1].release()
    assert_all_returned(producer, consumer)


def test_union_sends_to_all_gates(plane):
    """C9: a union of gates sends to the producers of each."""
    environment = plane.environment()
    partitions = [environment.create_result_partition(partition_id(n), 1) for n in range(2)]
    gates = [environment.create_input_gate([(partition_id(n), 0, None)]) for n in range(2)]
    union = environment.create_union_gate(gates)
    union.request_partitions()
    event = serialize_event(TaskEvent("x"))
    union.send_task_event(event)
    assert [partition.next_task_event(0) for partition in partitions] == [event, event]
    union.close()
    for partition in partitions:
        partition.release()
    assert_all_returned(environment)


def test_lost_producer(plane):
    """C6: events for an unreachable executor fail the channel, not the sender."""
    producer, consumer = plane.environment(), plane.environment()
    address = producer.address
    producer.close()
    gate = consumer.create_input_gate([(partition_id(), 0, address)])
    gate.request_partitions()
    gate.send_task_event(serialize_event(TaskEvent("x")))
    with pytest.raises(NetworkError):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(consumer)
