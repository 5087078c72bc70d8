"""Both runtimes reject wrong arguments alike, whichever of them is wrong.

Method: as in `test_twins`, by lists of calls, in which each argument is replaced by each of some
values of wrong types and sizes.
"""

import inspect
import tempfile

import pytest
from penstock.runtime import load

from contract.plane import NATIVE_IS_BUILT, TOKEN
from contract.test_twins import Facade, outcome

pytestmark = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built")

WRONG = (None, "text", b"ab", 1.5, -1, 2**31, 2**62, 2**63, 2**64, [1], True)
#: Rejected by numbers of blocks and bytes, as a file of so many is too long for a test.
EXCEPT_BLOCKS = tuple(value for value in WRONG if value not in (1.5, True))


def argument_calls(facade):
    """Each method with each of its arguments replaced by values of wrong types and sizes."""
    segment, other = (facade.MemorySegment.allocate_heap(16) for _ in range(2))
    network_pool = facade.NetworkBufferPool(4, 16)
    pool = network_pool.create_buffer_pool(1, 4, num_subpartitions=1)
    builder = pool.request_builder()
    builder.append_and_commit(b"content")
    consumer = builder.create_buffer_consumer_from_beginning()
    buffer = consumer.build()
    target = bytearray(16)
    with tempfile.TemporaryDirectory() as folder:
        manager = facade.IOManager([folder])
        blocks = manager.create_block_writer(manager.create_channel())
        buffers = manager.create_buffer_writer(manager.create_channel())
        for method, arguments in (
            (segment.get, (0,)),
            (segment.put, (0, 1)),
            (segment.wrap_range, (0, 4)),
            (segment.get_bytes, (0, target, 0, 4)),
            (segment.put_bytes, (0, b"content", 0, 4)),
            (segment.get_to_byte_buffer, (0, target, 0, 4)),
            (segment.put_from_byte_buffer, (0, b"content", 0, 4)),
            (segment.copy_to, (0, other, 8, 4)),
            (segment.swap_bytes, (target, other, 0, 8, 4)),
            (segment.compare, (other, 0, 0, 4, 4)),
            (lambda most: network_pool.create_buffer_pool(5, most), (9,)),
            (network_pool.request_unpooled_segments, (0,)),
            (lambda channel: pool.request_builder(channel).close(), (7,)),
            (pool.set_num_buffers, (4,)),
            (pool.reserve_segments, (1,)),
            (buffer.slice, (0, 4)),
            (builder.append, (b"",)),
            (builder.trim, (16,)),
            (consumer.skip, (0,)),
            (consumer.copy_with_reader_position, (9,)),
            (facade.BufferConsumer.of_event, (b"event", 1)),
            (facade.RecordSerializer().add_record, (b"record",)),
            (facade.RecordSerializer().take, (4,)),
            (facade.RecordDeserializer, ((), 100)),
            (facade.RecordDeserializer().records_of, (b"",)),
            (facade.IOManager, ([],)),
            (blocks.write_block, (b"",)),
            (buffers.write, (b"", 99)),
            (manager.create_block_reader, (None,)),
        ):
            yield from wrong_arguments(method, arguments)
        for name in ("capacity", "size", "reader_index", "is_compressed"):
            for value in WRONG:
                yield lambda name=name, value=value: setattr(buffer, name, value)
        wider = facade.IOManager([folder, folder])
        foreign = [wider.create_channel() for _ in range(2)]
        wider.close()
        yield lambda: manager.create_block_reader(foreign[0])
        with pytest.raises(ValueError, match="belongs to another I/O manager"):
            manager.create_block_reader(foreign[1])
        for size in EXCEPT_BLOCKS:
            yield lambda size=size: manager.read_bulk(foreign[0], size, 1)
            yield lambda size=size: manager.read_bulk(foreign[0], 1, size)
        blocks.close()
        buffers.close()
        manager.close()
        yield lambda: manager.create_block_reader(foreign[0])


def exchange_argument_calls(facade):
    """As `argument_calls`, of an environment, its partitions and gates, and a writer."""
    environment = facade.NetworkEnvironment(
        executor_id="twin", token=TOKEN, num_segments=16, segment_size=64
    )
    settings = {"executor_id": "other", "token": TOKEN, "num_segments": 8, "segment_size": 64}
    try:
        identifier = facade.PartitionId.named("arguments")
        partition = environment.create_result_partition(identifier, 1)
        channel = facade.InputChannelId(identifier)
        gates = [environment.create_input_gate([channel]) for _ in range(2)]
        union = environment.create_union_gate(gates)
        codec = facade.codec_for(None)
        writer = facade.RecordWriter(partition, facade.make_selector("GLOBAL", 1), codec)
        for name in inspect.signature(load("NetworkEnvironment", "pure")).parameters:
            for value in (None, 1.5, b"", [1], -1, 2**31, 2**64):
                # Each has another setting that is wrong, as each port would cost a thread.
                wrong = {**settings, "spill_threshold_bytes": -2, name: value}
                if (name, value) != ("spill_threshold_bytes", 1.5):
                    yield lambda wrong=wrong: facade.NetworkEnvironment(**wrong)
        event = facade.serialize_event(facade.CancelCheckpointMarker(1))
        bad = (identifier, 0, ("localhost", 70_000))
        for method, arguments in (
            (environment.create_result_partition, (identifier, 0, "PIPELINED", 100, 0)),
            (environment.create_input_gate, ([],)),
            (environment.create_input_gate, ([(bytearray(identifier), 0, None)],)),
            (environment.create_input_gate, ([(identifier, -1, None)],)),
            (environment.create_input_gate, ([bad],)),
            (environment.create_union_gate, ([],)),
            (partition.broadcast_event, (event, 1)),
            (partition.overtake, (event, 2)),
            (partition.time_out_barrier, (1, event, 2)),
            (partition.wait_barrier_taken, (1, 0)),
            (partition.next_task_event, (0,)),
            (partition.recover, (1, [b"data"])),
            (writer.broadcast_event, (event, 1)),
            (writer.overtake, (event, 2)),
            (writer.emit, (b"value", 1)),
            (writer.emit_watermark, (1,)),
            (union.resume_consumption, (2,)),
            (union.take_persisted, (2,)),
            (union.prioritize_barrier, (2, 1)),
            (union.recover, (2, [b"data"])),
            (union.unconsumed, (2,)),
            (gates[0].gather_barriers, (event, 1)),
            (gates[0].resume_all, ([0],)),
            (gates[0].send_task_event, (event,)),
            (gates[0].start_persisting, (1,)),
            (facade.make_selector, ("GLOBAL", 0)),
        ):
            if method == partition.wait_barrier_taken or method == partition.next_task_event:
                yield lambda method=method, arguments=arguments: method(*arguments[:-1], "text")
            else:
                yield from wrong_arguments(method, arguments)
        yield lambda: writer.last_watermark
        yield lambda: gates[0].debloat("text")
        yield lambda: partition.fail(1)
    finally:
        environment.close()


def wrong_arguments(method, arguments):
    """Call a method with its arguments, and with each of them replaced by each wrong value."""
    yield lambda: method(*arguments)
    for place in range(len(arguments)):
        for value in WRONG:
            wrong = (*arguments[:place], value, *arguments[place + 1 :])
            yield lambda wrong=wrong: method(*wrong)


@pytest.mark.parametrize("calls", [argument_calls, exchange_argument_calls])
def test_wrong_arguments(calls):
    """Each call has the same result types, or raises the same error, on both."""
    native, plain = calls(Facade("native")), calls(Facade("pure"))
    for step, (theirs, ours) in enumerate(zip(native, plain, strict=True)):
        assert outcome(theirs) == outcome(ours), f"step {step}"
