"""Objects of the data plane can be neither copied nor pickled."""

import copy
import pickle
import tempfile

import pytest

from contract.plane import TOKEN
from contract.test_twins import Facade


def test_objects_that_own_memory_are_not_copied(plane):
    """A copy would own the same segment, thread or file, and return or close it once more."""
    facade = Facade(plane.kind)
    environment = facade.NetworkEnvironment(
        executor_id="twin", token=TOKEN, num_segments=32, segment_size=64
    )
    network_pool = facade.NetworkBufferPool(4, 16)
    pool = network_pool.create_buffer_pool(1)
    builder = pool.request_builder()
    consumer = builder.create_buffer_consumer()
    codec, selector = facade.codec_for(None), facade.make_selector("GLOBAL", 1)
    with tempfile.TemporaryDirectory() as folder:
        manager = facade.IOManager([folder])
        channels = [manager.create_channel() for _ in range(2)]
        files = [
            manager.create_block_writer(channels[0]),
            manager.create_block_reader(channels[0]),
            manager.create_buffer_writer(channels[1]),
            manager.create_buffer_reader(channels[1]),
        ]
        identifier = facade.PartitionId.named("copies")
        partition = environment.create_result_partition(identifier, 1)
        gate = environment.create_input_gate([facade.InputChannelId(identifier)])
        for each in (
            facade.MemorySegment.allocate_heap(8),
            network_pool,
            *network_pool.request_unpooled_segments(1),
            pool,
            pool.available_future,
            pool.request_buffer(),
            builder,
            consumer,
            consumer.build(),
            manager,
            manager.create_channel_enumerator(),
            *channels,
            *files,
            facade.RecordSerializer(),
            facade.RecordDeserializer(),
            environment,
            partition,
            gate,
            environment.create_union_gate([gate]),
            facade.RecordWriter(partition, selector, codec),
            facade.StreamInputProcessor(gate, [codec], [facade.Input()], None),
            selector,
            codec,
        ):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot pickle"):
                    copied(each)
        for file in files:
            file.close()
        manager.close()
    environment.close()
