"""Both runtimes are one interface: the same members, signatures, results and errors.

Method: each class of the facade is compared with its twin member by member, and a list of calls is
executed on both, whose types of results and exceptions are compared.
"""

import ast
import inspect
import io
import tempfile
import textwrap
from pathlib import Path

import pytest
from penstock import network
from penstock.network import pure
from penstock.runtime import load

from contract.plane import NATIVE_IS_BUILT, TOKEN

pytestmark = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built")

PACKAGE = Path(network.__file__).parents[2]


def twins(name):
    return load(name, "native"), load(name, "pure")


def is_class(name):
    return inspect.isclass(load(name, "pure"))


CLASSES = [
    name
    for name in pure.__all__
    if is_class(name) and (not NATIVE_IS_BUILT or load(name, "native") is not load(name, "pure"))
]
FUNCTIONS = ["codec_for", "identity_of", "key_hash", "key_of", "make_selector"]
#: The native runtime overrides this one; the pure runtime inherits it, as its tests show.
BATCHES_ARE_NATIVE = {"collect_batch"}
#: Errors of a conversion or of a short file, whose texts are those of each runtime's library.
CONVERSIONS = (BufferError, EOFError, OverflowError, TypeError)


def public_members(cls):
    """Return a class's public names: those of its bases, and attributes set by its methods."""
    names = set(dir(cls))
    for each in cls.__mro__:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (TypeError, OSError):
            continue  # compiled: everything is in the class
        names |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }
    return {name for name in names if not name.startswith("_")}


def parameters(function):
    """Return name, kinds and defaults of a function's parameters; ignore the kind of ``self``."""
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]


def test_facades_have_the_same_names():
    assert network.__all__ == pure.__all__
    with pytest.raises(AttributeError, match="NoSuchClass"):
        _ = pure.NoSuchClass


@pytest.mark.parametrize("name", CLASSES)
def test_members(name):
    """A twin has the same public members as the other, and each method the same signature."""
    native, plain = twins(name)
    assert public_members(native) == public_members(plain)
    for member in sorted(public_members(native) - BATCHES_ARE_NATIVE):
        theirs, ours = getattr(native, member, None), getattr(plain, member, None)
        assert callable(theirs) == callable(ours), member
        if callable(ours):
            assert parameters(theirs) == parameters(ours), member
            assert ours.__doc__, member


@pytest.mark.parametrize(
    "name",
    ["IOManager", "NetworkBufferPool", "NetworkEnvironment", "RecordDeserializer"],
)
def test_constructors(name):
    """Both constructors have the same arguments and defaults."""
    native, plain = twins(name)
    shared = [each for each in parameters(plain) if each[0] != "is_shared"]
    assert parameters(native) == shared


@pytest.mark.parametrize("name", CLASSES + FUNCTIONS)
def test_an_interface_is_declared_once(name):
    """The stub of a native module imports what a plain class or function declares."""
    module = load(name, "native").__module__
    stub = PACKAGE.joinpath(*module.split(".")).with_suffix(".pyi")
    if not stub.exists():  # written in Python: a subclass for each runtime
        assert name == "codec_for" or issubclass(load(name, "pure"), load(name, "native"))
        return
    body = ast.parse(stub.read_text()).body
    assert not [node for node in body if getattr(node, "name", None) == name]
    imported = {
        (node.module, alias.name)
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    place = load(name, "pure").__module__
    assert {(place, name), (place, "*")} & imported


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    native, plain = twins(name)
    assert parameters(native) == parameters(plain)


def outcome(call):
    """Return the type of a result, down to the elements of a container, or an exception."""
    try:
        return kinds(call())
    except CONVERSIONS as error:
        return "raises", type(error)
    except OSError as error:
        return "raises", type(error), error.errno, error.filename is None
    except Exception as error:
        return "raises", type(error), str(error)


def kinds(value):
    if isinstance(value, (tuple, list)):
        return type(value), [kinds(each) for each in value]
    if type(value).__module__.startswith("penstock"):
        # The slice of a pure buffer is a class of its own.
        return type(value).__name__.replace("BufferSlice", "Buffer")
    if isinstance(value, memoryview):
        return memoryview, value.format, value.readonly, bytes(value)
    return type(value), value if isinstance(value, (bytes, bool, int)) else None


def segment_calls(facade):
    segment = facade.MemorySegment.allocate_heap(8)
    yield lambda: segment.put_int(0, 7)
    yield lambda: segment.get_int(0)
    yield lambda: segment.get_float(0)
    yield lambda: segment.get_int(7)
    yield lambda: segment.put_char(0, -1)
    yield lambda: segment.get_off_heap_buffer()
    yield lambda: segment.wrap_range(0, 4)
    yield segment.get_array
    yield segment.free
    yield segment.free
    yield lambda: segment.get(0)
    yield lambda: segment.wrap_range(0, 4)
    yield lambda: segment.is_off_heap
    yield lambda: segment.size
    unsafe = facade.MemorySegment.allocate_unsafe(8, lambda: None)
    yield lambda: unsafe.wrap_range(0, 4)


SIZES = {"char": 2, "short": 2, "int": 4, "long": 8, "float": 4, "double": 8}


def scalar_calls(facade):
    """Each accessor of a number within the segment, across its end, and with a wrong value."""
    segment = facade.MemorySegment.allocate_heap(8)
    for name in sorted(SIZES):
        value = 1.5 if name in {"float", "double"} else 65
        for order in ("", "_big_endian", "_little_endian"):
            put = getattr(segment, f"put_{name}{order}")
            get = getattr(segment, f"get_{name}{order}")
            yield lambda put=put: put(9, -(2**40))
            for index in (0, 9 - SIZES[name], -1):
                yield lambda put=put, index=index, value=value: put(index, value)
                yield lambda get=get, index=index: repr(get(index))
            yield lambda put=put: put(0, "text")
            yield lambda put=put: put(0, 2**80)


def bulk_calls(facade):
    """Bytes in and out of segments, and between them."""
    segment = facade.MemorySegment.wrap_copy(b"abcdefgh", 0, 8)
    other = facade.MemorySegment.allocate_off_heap(8)
    filled, target = bytearray(b"12345678"), bytearray(8)
    yield lambda: facade.MemorySegment.allocate_heap(-1)
    yield lambda: facade.MemorySegment.allocate_off_heap(-1)
    yield lambda: facade.MemorySegment.allocate_unsafe(-1, lambda: None)
    yield lambda: facade.MemorySegment.wrap(bytearray(3)).get_array()
    yield lambda: facade.MemorySegment.wrap(b"read-only")
    yield lambda: facade.MemorySegment.wrap_copy(b"abc", 2, 4)
    yield lambda: facade.MemorySegment.wrap_int(7)
    yield lambda: segment.get(3)
    yield lambda: segment.get(8)
    yield lambda: segment.put(0, 300)
    yield lambda: segment.put_boolean(0, value=True)
    yield lambda: segment.put_boolean(0, value=1)
    yield lambda: segment.get_boolean(0)
    for index, offset, length in ((2, 0, 3), (6, 0, 3), (0, 6, 3), (0, 0, -1)):
        where = (offset, length)
        yield lambda index=index, where=where: segment.get_bytes(index, target, *where)
        yield lambda index=index, where=where: segment.put_bytes(index, filled, *where)
        yield lambda index=index, where=where: segment.get_to_byte_buffer(index, target, *where)
        yield lambda index=index, where=where: segment.put_from_byte_buffer(index, filled, *where)
        yield lambda where=where: segment.copy_to(where[0], other, 0, where[1])
        yield lambda where=where: segment.compare(other, where[0], 0, where[1])
        yield lambda where=where: segment.equal_to(other, where[0], 0, where[1])
        yield lambda where=where: segment.swap_bytes(target, other, where[0], 0, where[1])
        yield lambda: bytes(target)
    yield lambda: segment.put_bytes(0, "text", 0, 4)
    yield lambda: segment.get_bytes(0, b"read-only", 0, 4)
    yield lambda: segment.get_to_byte_buffer(0, b"read-only", 0, 4)
    yield lambda: segment.put_from_byte_buffer(0, "text", 0, 4)
    yield lambda: segment.swap_bytes(bytearray(2), other, 0, 0, 8)
    yield lambda: segment.compare(other, 0, 0, 8, 4)
    yield lambda: segment.get_to_output(io.BytesIO(), 0, 8)
    yield lambda: segment.get_to_output(io.BytesIO(), 4, 8)
    yield lambda: segment.put_from_input(io.BytesIO(b"from a file"), 0, 8)
    yield lambda: segment.put_from_input(io.BytesIO(b"short"), 0, 8)
    yield lambda: bytes(segment.wrap_range(0, 8))
    yield lambda: segment.owner
    yield other.free
    yield lambda: other.is_freed
    for offset in (0, 9):
        yield lambda offset=offset: segment.copy_to(offset, other, 0, 8)
        yield lambda offset=offset: segment.compare(other, offset, 0, 8)
        yield lambda offset=offset: segment.swap_bytes(target, other, offset, 0, 8)


def file_calls(facade):
    """Files of buffers and of blocks, with missing data and after the end."""
    with tempfile.TemporaryDirectory() as folder:
        manager = facade.IOManager([folder])
        yield lambda: manager.directories == [folder]
        channel, other = manager.create_channel(), manager.create_channel()
        yield lambda: manager.create_buffer_reader(other)
        writer = manager.create_buffer_writer(channel)
        yield lambda: writer.write(b"content")
        yield lambda: writer.write(b"content", 99)
        yield writer.close
        yield writer.close
        yield lambda: writer.write(b"late")
        yield lambda: manager.create_buffer_writer(channel)
        reader = manager.create_buffer_reader(channel)
        yield reader.next
        for _ in range(2):
            yield lambda: reader.request(-1)
            yield lambda: reader.request(100)
            yield reader.next
        yield reader.close_and_delete
        yield lambda: reader.request(1)
        blocks = manager.create_block_writer(other)
        yield lambda: blocks.write_block(b"block")
        yield blocks.close
        block = manager.create_block_reader(other)
        for _ in range(2):
            yield lambda: block.request(3)
            yield block.next
        yield lambda: block.request(-1)
        yield lambda: block.close()
        yield block.next
        yield lambda: manager.read_bulk(other, -1, 5)
        yield lambda: manager.read_bulk(other, 1, -5)
        yield lambda: manager.read_bulk(other, 1, 5)
        yield lambda: manager.read_bulk(other, 1, 5)
        enumerator = manager.create_channel_enumerator()
        yield lambda: next(iter(enumerator))
        yield manager.close
        yield manager.create_channel


def pool_calls(facade):
    network_pool = facade.NetworkBufferPool(4, 16)
    yield lambda: network_pool.create_buffer_pool(-1)
    yield lambda: network_pool.create_buffer_pool(5)
    yield lambda: network_pool.available_future.wait(0)
    yield network_pool.usage_message
    exclusive = network_pool.request_unpooled_segments(1)
    yield lambda: exclusive
    yield lambda: network_pool.recycle_unpooled_segments(exclusive)
    yield lambda: network_pool.recycle_unpooled_segments(exclusive)
    pool = network_pool.create_buffer_pool(1, 2)
    yield lambda: pool.request_builder(3)
    yield lambda: pool.set_num_buffers(0)
    empty = pool.request_buffer()
    yield lambda: empty.slice(0, 2)
    yield empty.recycle
    yield lambda: empty.slice(-1, 0)
    unpublished = pool.request_builder()
    yield lambda: unpublished.append(b"content")
    position = unpublished.create_buffer_consumer()
    yield lambda: position.copy().close()
    position.close()
    unpublished.close()
    builder = pool.request_builder()
    yield lambda: builder.append_and_commit(b"content")
    yield lambda: builder.append(memoryview(b"more"))
    consumer = builder.create_buffer_consumer_from_beginning()
    yield builder.create_buffer_consumer
    for name in ("data_type", "is_buffer", "is_data_available", "partial_record_length"):
        yield lambda name=name: getattr(consumer, name)
    buffer = consumer.build()
    yield buffer.view
    yield lambda: buffer.slice(1, 3).view()
    yield lambda: buffer.slice(1, 100)
    for name in sorted(public_members(load("Buffer", "pure"))):
        yield lambda name=name: name if callable(getattr(buffer, name)) else getattr(buffer, name)
    view = buffer.view()
    # The builder and the consumer hold a reference, too; the native twin counts them separately.
    builder.close()
    consumer.close()
    for name in sorted(public_members(load("BufferBuilder", "pure")) - {"close"}):
        yield lambda name=name: call(builder, name)
    for name in sorted(public_members(load("BufferConsumer", "pure")) - {"close", "of_event"}):
        yield lambda name=name: call(consumer, name)
    yield buffer.recycle
    view.release()
    yield buffer.recycle
    yield buffer.recycle
    for name in sorted(public_members(load("Buffer", "pure"))):
        yield lambda name=name: call(buffer, name)
    yield lambda: pool.used_segments
    yield pool.lazy_destroy
    yield pool.request_buffer
    yield lambda: facade.BufferConsumer.of_event(b"event", 1)
    event = facade.BufferConsumer.of_event(b"event", 2)
    yield lambda: (event.data_type, event.is_buffer, event.is_finished)
    yield event.close
    yield network_pool.destroy


ARGUMENTS = {
    "append": (b"",),
    "append_and_commit": (b"",),
    "trim": (3,),
    "skip": (1,),
    "copy_with_reader_position": (0,),
    "slice": (0, 0),
}


def call(owner, name):
    """Return an attribute, or the result of a method of few arguments."""
    value = getattr(owner, name)
    return value(*ARGUMENTS.get(name, ())) if callable(value) else value


def record_calls(facade):
    serializer = facade.RecordSerializer()
    yield lambda: serializer.add_record(memoryview(b"record"))
    yield lambda: serializer.add_record(b"another")
    yield lambda: serializer.take(-1)
    yield lambda: serializer.take(4)
    yield lambda: serializer.take(100)
    deserializer = facade.RecordDeserializer()
    framed = b"\0\0\0\2ab\0\0\0\3cd"
    yield lambda: deserializer.records_of(framed)
    yield deserializer.unconsumed
    yield lambda: deserializer.records_of(memoryview(b"e"))
    yield lambda: deserializer.records_of(b"\xff\xff\xff\xff")
    for length in (b"\x7f\xff\xff\xff", b"\x80\0\0\0"):  # of the longest record, and one more
        yield lambda length=length: facade.RecordDeserializer().records_of(length)
    spanning = facade.SpillingAdaptiveSpanningRecordDeserializer()
    spanning.set_next_buffer(framed)
    yield lambda: spanning.get_next_record()[1]


def environment_calls(facade):
    environment = facade.NetworkEnvironment(
        executor_id="twin", token=TOKEN, num_segments=16, segment_size=64
    )
    try:
        yield lambda: environment.create_result_partition(b"short", 1)
        identifier = facade.PartitionId.named("twins")
        partition = environment.create_result_partition(identifier, 1)
        yield lambda: environment.create_result_partition(identifier, 1)
        gate = environment.create_input_gate([facade.InputChannelId(identifier)])
        gate.request_partitions()
        yield lambda: gate.next_buffer(0)
        codec = facade.codec_for(None)
        writer = facade.RecordWriter(partition, facade.make_selector("GLOBAL", 1), codec)
        yield lambda: writer.emit(b"value")
        yield writer.flush_all
        yield lambda: gate.next_buffer(-1)
        end = facade.serialize_event(facade.EndOfData())
        yield lambda: partition.broadcast_event(end, int(facade.DataType.END_OF_DATA))
        yield lambda: gate.next_buffer(-1)
        yield lambda: gate.take_persisted(7)
        yield lambda: gate.debloat(1.0)
        yield gate.buffer_usage
        yield partition.finish
        yield partition.finish
        yield lambda: gate.next_buffer(-1)
        yield gate.is_finished
        yield partition.release
        yield lambda: partition.recover(5, [])
        yield lambda: writer.emit(b"late")
        yield gate.close
        yield lambda: gate.next_buffer(0)
    finally:
        environment.close()
    yield lambda: environment.create_input_gate([])


def exchange_calls(facade):
    """Members of a partition, its writer, the gate and the reading loop that others leave out."""
    environment = facade.NetworkEnvironment(
        executor_id="twin",
        token=TOKEN,
        num_segments=16,
        segment_size=64,
        exclusive_buffers_per_channel=1,
        floating_buffers_per_gate=4,
    )
    try:
        identifier = facade.PartitionId.named("exchange")
        partition = environment.create_result_partition(identifier, 1)
        yield lambda: partition.buffers_total
        gate = environment.create_input_gate([facade.InputChannelId(identifier)])
        for name in ("available_segments", "total_segments"):
            yield lambda name=name: getattr(environment, name)
        codec = facade.codec_for(None)
        writer = facade.RecordWriter(
            partition=partition, selector=facade.make_selector("GLOBAL", 1), codec=codec
        )
        yield lambda: facade.RecordWriter(partition, facade.make_selector("GLOBAL", 1), codec)
        yield lambda: facade.RecordWriter(partition, facade.make_selector("GLOBAL", 2), codec)
        for name in sorted(n for n in public_members(load("ResultPartition", "pure"))):
            if name.startswith(("buffers_", "regions_", "hard_", "num_", "flush_t")):
                yield lambda name=name: getattr(partition, name)
        yield partition.is_available
        yield partition.take_longest_wait_ms
        yield lambda: partition.wait_available(0)
        yield lambda: partition.wait_consumed(0)
        yield lambda: partition.wait_barrier_taken(1, 0)
        yield lambda: partition.next_task_event(0)
        yield lambda: partition.recover(5, [b"data"])
        yield lambda: partition.recover(0, "text")
        yield lambda: partition.overtake(b"event", 0)
        yield lambda: partition.time_out_barrier(1, b"event", 0)
        yield lambda: partition.broadcast_event(b"", 2)
        yield lambda: partition.broadcast_event(b"event", 99)
        yield lambda: partition.broadcast_event("text", 2)
        for name in ("records_out", "records_computed", "bytes_out", "num_channels"):
            yield lambda name=name: getattr(writer, name)
        yield writer.is_available
        yield lambda: writer.collect("value", 7)
        yield lambda: writer.collect_all(["one", "two"], 8)
        yield lambda: writer.collect_side("tag", "value", 7)
        yield lambda: writer.broadcast_emit("to all", 9)
        yield lambda: writer.random_emit("to one", 9)
        yield lambda: writer.emit_watermark(10)
        yield lambda: writer.emit_internal_watermark(0, 10)
        yield lambda: writer.emit_status(0)
        yield lambda: writer.emit_record_attributes(b"")
        yield lambda: writer.emit_watermark("text")
        yield lambda: writer.emit_watermark(2**63)
        yield writer.flush
        yield lambda: writer.bytes_out
        loop = facade.StreamInputProcessor(
            gate=gate, codecs=[codec], inputs=[facade.Input()], handler=facade.ElementHandler()
        )
        yield lambda: gate.gather_barriers(None, -1)
        yield lambda: gate.resume_consumption(5)
        yield lambda: gate.resume_all([5])
        yield lambda: gate.unconsumed(5)
        yield lambda: gate.recover(5, [b"data"])
        yield gate.request_partitions
        yield gate.request_partitions
        yield lambda: gate.resume_consumption(0)
        yield lambda: gate.unconsumed(0)
        yield lambda: gate.recover(0, [b"data"])
        yield lambda: gate.prioritize_barrier(0, 1)
        yield lambda: gate.stop_persisting(1)
        yield lambda: gate.start_persisting(1)
        yield lambda: gate.take_persisted(5)
        yield lambda: gate.send_task_event(b"")
        yield lambda: gate.num_channels
        yield gate.take_gathered
        yield lambda: loop.idle_ns
        yield lambda: loop.is_urgent
        yield loop.process_urgent
        yield lambda: loop.unconsumed(0)
        # Arrived data is processed before a wakeup, which the call that finds none consumes.
        yield gate.wakeup
        yield lambda: loop.process_next(0)
        yield lambda: loop.process_next(-1)
        yield lambda: loop.process_next("text")
        yield gate.received
        yield lambda: partition.fail("out of luck")
        yield lambda: partition.fail("again")
        yield partition.finish
        yield lambda: partition.wait_consumed(0)
        yield lambda: partition.next_task_event(0)
        yield gate.close
        yield gate.close
        yield gate.wakeup
        yield gate.is_finished
        yield lambda: loop.process_next(0)
        partition.release()
    finally:
        environment.close()
    yield lambda: environment.create_result_partition(identifier, 1)
    yield lambda: environment.create_result_partition(b"short", 1)


class Facade:
    """The public names of one runtime."""

    def __init__(self, kind):
        self.kind = kind

    def __getattr__(self, name):
        return load(name, self.kind)


@pytest.mark.parametrize(
    "calls",
    [
        segment_calls,
        scalar_calls,
        bulk_calls,
        file_calls,
        pool_calls,
        record_calls,
        environment_calls,
        exchange_calls,
    ],
)
def test_results_and_errors(calls):
    """Each call of a list has the same result types, or raises the same error, on both."""
    native, plain = calls(Facade("native")), calls(Facade("pure"))
    for step, (theirs, ours) in enumerate(zip(native, plain, strict=True)):
        assert outcome(theirs) == outcome(ours), f"step {step}"
