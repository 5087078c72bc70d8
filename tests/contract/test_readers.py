"""The older interface: step results, readers, supersteps (internals M9, M11, M14)."""

import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from penstock.errors import CorruptStreamError, IllegalStateError, NetworkError
from penstock.network.data_type import DataType
from penstock.network.events import (
    CheckpointBarrier,
    EndOfData,
    EndOfPartition,
    EndOfSuperstep,
    TaskEvent,
    data_type_of,
    serialize_event,
)
from penstock.network.legacy.readers import (
    AbstractReader,
    BufferReader,
    MutableRecordReader,
    RecordReader,
)
from penstock.network.legacy.spanning import (
    DeserializationResult,
    SerializationResult,
    SpanningRecordSerializer,
    SpillingAdaptiveSpanningRecordDeserializer,
)

from contract.plane import assert_all_returned, connect, partition_id

PARTIAL = SerializationResult.PARTIAL_RECORD_MEMORY_SEGMENT_FULL
EXACT = SerializationResult.FULL_RECORD_MEMORY_SEGMENT_FULL
FULL = SerializationResult.FULL_RECORD
AGAIN = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


class Text:
    """A record that reads all of its bytes, or a set number of them."""

    def __init__(self, takes=None):
        self.value = None
        self._takes = takes

    def read(self, payload):
        self.value = bytes(payload)
        return len(payload) if self._takes is None else self._takes


class ScriptedGate:
    """A gate that delivers a test's script."""

    def __init__(self, num_channels, items):
        self.num_channels = num_channels
        self.sent = []
        self._items = list(items)
        self._ended = 0

    def next_buffer(self, timeout_ms):
        assert timeout_ms < 0, "a reader waits for as long as it takes"
        if not self._items:
            return None
        channel, item = self._items.pop(0)
        if isinstance(item, bytes):
            return channel, int(DataType.DATA_BUFFER), item
        self._ended += isinstance(item, EndOfPartition)
        return channel, int(data_type_of(item)), serialize_event(item)

    def is_finished(self):
        return self._ended == self.num_channels

    def send_task_event(self, event):
        self.sent.append(event)


def framed(*records: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(record)) + record for record in records)


# -- serializer ---------------------------------------------------------------------------


def test_results_of_the_serializer(plane):
    """B2: each of the three results, and the pending bytes after it."""
    serializer = SpanningRecordSerializer()
    assert not serializer.has_serialized_data
    assert serializer.add_record(b"abcd") is PARTIAL, "there is no buffer yet"
    assert serializer.has_serialized_data
    first = bytearray(6)
    assert serializer.continue_writing_with_next_buffer(first) is PARTIAL
    second = bytearray(16)
    assert serializer.continue_writing_with_next_buffer(second) is FULL
    assert not serializer.has_serialized_data
    assert serializer.bytes_in_buffer == 2
    assert serializer.add_record(b"efgh") is FULL
    assert serializer.add_record(b"ij") is EXACT
    assert bytes(first + second) == framed(b"abcd", b"efgh", b"ij")


def test_exact_fill_asks_for_no_buffer(plane):
    """B-2: a record that ends with the buffer is full, and so is the buffer."""
    serializer = SpanningRecordSerializer()
    serializer.continue_writing_with_next_buffer(bytearray(8))
    result = serializer.add_record(b"abcd")
    assert result is EXACT
    assert result.is_full_record
    assert result.is_full_buffer
    assert not serializer.has_serialized_data


def test_pending_record_comes_first(plane):
    """B-3: no record starts before the previous one is written."""
    serializer = SpanningRecordSerializer()
    serializer.add_record(b"abcd")
    with pytest.raises(IllegalStateError, match="pending"):
        serializer.add_record(b"efgh")
    buffer = bytearray(16)
    assert serializer.continue_writing_with_next_buffer(buffer) is FULL
    serializer.clear_current_buffer()
    assert bytes(buffer[:8]) == framed(b"abcd")
    assert serializer.add_record(b"") is PARTIAL, "the buffer was given up"


@settings(max_examples=60, deadline=None, suppress_health_check=AGAIN)
@given(records=st.lists(st.binary(max_size=300), max_size=20), size=st.integers(1, 97))
def test_bytes_do_not_depend_on_the_buffer(plane, records, size):
    """B-1, B-8: any buffer size results in the same bytes, and these in the same records."""
    serializer, buffers, filled = SpanningRecordSerializer(), [bytearray(size)], []
    serializer.continue_writing_with_next_buffer(buffers[-1])
    for record in records:
        result = serializer.add_record(record)
        while result.is_full_buffer:
            filled.append(bytes(buffers[-1]))
            buffers.append(bytearray(size))
            done = result.is_full_record
            result = serializer.continue_writing_with_next_buffer(buffers[-1])
            assert not done or result is not PARTIAL
            if done:
                break
    filled.append(bytes(buffers[-1][: serializer.bytes_in_buffer]))
    assert b"".join(filled) == framed(*records)
    assert read_all(SpillingAdaptiveSpanningRecordDeserializer(), filled) == records


# -- deserializer -------------------------------------------------------------------------


def read_all(deserializer, buffers) -> list[bytes]:
    records = []
    for buffer in buffers:
        deserializer.set_next_buffer(buffer)
        while True:
            result, payload = deserializer.get_next_record()
            assert result.is_full_record == (payload is not None)
            if payload is not None:
                records.append(bytes(payload))
            if result.is_buffer_consumed:
                break
    return records


def test_results_of_the_deserializer(plane):
    """B4: each of the three results."""
    deserializer = SpillingAdaptiveSpanningRecordDeserializer()
    stream = framed(b"one", b"two", b"three")
    deserializer.set_next_buffer(stream[:16])
    results = [deserializer.get_next_record() for _ in range(3)]
    assert [result for result, _ in results] == [
        DeserializationResult.INTERMEDIATE_RECORD_FROM_BUFFER,
        DeserializationResult.INTERMEDIATE_RECORD_FROM_BUFFER,
        DeserializationResult.PARTIAL_RECORD,
    ]
    assert deserializer.has_unfinished_data
    deserializer.set_next_buffer(stream[16:])
    result, payload = deserializer.get_next_record()
    assert result is DeserializationResult.LAST_RECORD_FROM_BUFFER
    assert bytes(payload) == b"three"
    assert not deserializer.has_unfinished_data


def test_the_adaptive_deserializer_assembles_long_records_in_memory(plane, tmp_path, monkeypatch):
    """B4: a record above the spilling one's threshold never reaches a file."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    record = bytes(6 << 20)
    framed_record = framed(record)
    deserializer = plane.load("AdaptiveSpanningRecordDeserializer")()
    results = []
    for start in range(0, len(framed_record), 1 << 20):
        deserializer.set_next_buffer(framed_record[start : start + (1 << 20)])
        results.append(deserializer.get_next_record())
    assert [result for result, _ in results[:-1]] == [DeserializationResult.PARTIAL_RECORD] * 6
    assert results[-1] == (DeserializationResult.LAST_RECORD_FROM_BUFFER, record)
    assert not deserializer.has_unfinished_data


def test_buffer_before_the_last_is_read(plane):
    """B4: a buffer is accepted once the previous one is consumed."""
    deserializer = SpillingAdaptiveSpanningRecordDeserializer()
    deserializer.set_next_buffer(framed(b"one"))
    with pytest.raises(IllegalStateError, match="were not read"):
        deserializer.set_next_buffer(framed(b"two"))
    deserializer.clear()
    assert deserializer.get_next_record() == (DeserializationResult.PARTIAL_RECORD, None)


@settings(max_examples=60, deadline=None, suppress_health_check=AGAIN)
@given(
    records=st.lists(st.binary(max_size=40), min_size=1, max_size=12),
    cut=st.integers(0, 400),
    read=st.integers(0, 12),
)
def test_unconsumed_bytes_replay(plane, records, cut, read):
    """B-9: unread bytes, replayed before the rest, result in the same records."""
    stream = framed(*records)
    first, rest = stream[:cut], stream[cut:]
    deserializer, seen = SpillingAdaptiveSpanningRecordDeserializer(), []
    deserializer.set_next_buffer(first)
    for _ in range(read):
        result, payload = deserializer.get_next_record()
        if payload is not None:
            seen.append(bytes(payload))
        if result.is_buffer_consumed:
            break
    fresh = SpillingAdaptiveSpanningRecordDeserializer()
    assert seen + read_all(fresh, [deserializer.unconsumed(), rest]) == records


@pytest.mark.parametrize("length", [100 << 10, (100 << 10) + 1, 1 << 20])
def test_spilled_record_replays(plane, tmp_path, length):
    """B-9, B-10: a record in a file is replayed whole, and no file is left."""
    record = bytes(range(256)) * (length // 256) + bytes(length % 256)
    stream = framed(b"head", record, b"tail")
    arguments = ([str(tmp_path)], 100 << 10)
    deserializer = SpillingAdaptiveSpanningRecordDeserializer(*arguments)
    deserializer.set_next_buffer(stream[:5000])
    assert deserializer.get_next_record()[1] == b"head"
    unconsumed = deserializer.unconsumed()
    assert unconsumed == stream[8:5000]
    deserializer.clear()
    fresh = SpillingAdaptiveSpanningRecordDeserializer(*arguments)
    assert read_all(fresh, [unconsumed, stream[5000:]]) == [record, b"tail"]
    assert list(tmp_path.iterdir()) == []


# -- readers ------------------------------------------------------------------------------


def test_superstep_logic(plane):
    """B7: every order of the calls that ends and starts supersteps."""
    reader = AbstractReader(ScriptedGate(2, []))
    with pytest.raises(NetworkError) as raised:
        reader.handle_event(EndOfSuperstep())
    assert isinstance(raised.value.__cause__, IllegalStateError)
    with pytest.raises(IllegalStateError, match="not iterative"):
        reader.start_next_superstep()
    reader.set_iterative_reader()
    with pytest.raises(IllegalStateError, match="cannot start"):
        reader.start_next_superstep()
    for _ in range(3):
        assert not reader.has_reached_end_of_superstep
        assert not reader.handle_event(EndOfSuperstep())
        assert reader.handle_event(EndOfSuperstep())
        assert reader.has_reached_end_of_superstep
        with pytest.raises(NetworkError, match="more than once"):
            reader.handle_event(EndOfSuperstep())
        reader.start_next_superstep()


def test_events_of_a_reader(plane):
    """B7: task events go to their listeners; an unexpected event is an error with its cause."""
    reader, heard = AbstractReader(ScriptedGate(1, [])), []
    reader.register_task_event_listener(heard.append, "round")
    assert reader.handle_event(EndOfPartition())
    assert not reader.handle_event(TaskEvent("round", b"1"))
    assert not reader.handle_event(TaskEvent("other", b"2"))
    assert heard == [TaskEvent("round", b"1")]
    for event in (EndOfData(), CheckpointBarrier(1, 2)):
        with pytest.raises(NetworkError) as raised:
            reader.handle_event(event)
        assert isinstance(raised.value.__cause__, IllegalStateError)


def test_buffer_reader(plane):
    """B7: buffers arrive until a partition or a superstep ends."""
    gate = ScriptedGate(
        1, [(0, b"a"), (0, TaskEvent("x")), (0, b"b"), (0, EndOfSuperstep()), (0, b"c")]
    )
    reader = BufferReader(gate)
    reader.set_iterative_reader()
    assert [reader.get_next_buffer() for _ in range(3)] == [b"a", b"b", None]
    assert reader.has_reached_end_of_superstep
    reader.start_next_superstep()
    assert reader.get_next_buffer() == b"c"


def test_records_over_supersteps(plane):
    """B7: each superstep is read to its end, channels mixed and records split."""
    items = [
        (0, framed(b"a")[:3]),
        (1, framed(b"x", b"y")),
        (0, framed(b"a")[3:] + framed(b"b")),
        (0, EndOfSuperstep()),
        (1, EndOfSuperstep()),
        (1, framed(b"z")),
        (1, EndOfSuperstep()),
        (0, EndOfSuperstep()),
        (0, EndOfPartition()),
        (1, EndOfPartition()),
    ]
    reader = RecordReader(ScriptedGate(2, items), Text)
    reader.set_iterative_reader()
    assert [record.value for record in reader] == [b"x", b"y", b"a", b"b"]
    assert reader.has_reached_end_of_superstep
    reader.start_next_superstep()
    assert reader.has_next()
    assert [record.value for record in reader] == [b"z"]
    reader.start_next_superstep()
    assert not reader.has_next()
    assert reader.next() is None
    assert reader.is_finished


def test_event_inside_a_record(plane):
    """B-11: an event on a channel with part of a record is broken serialization."""
    items = [(0, framed(b"abc")[:5]), (1, EndOfPartition()), (0, EndOfPartition())]
    reader = MutableRecordReader(ScriptedGate(2, items))
    with pytest.raises(CorruptStreamError, match="broken serialization"):
        reader.next(Text())
    reader.clear_buffers()


@pytest.mark.parametrize("takes", [0, 2, 4])
def test_record_that_reads_another_length(plane, takes):
    """B4: a record that reads more or fewer than its bytes is an error."""
    reader = MutableRecordReader(ScriptedGate(1, [(0, framed(b"abc", b"d"))]))
    with pytest.raises(CorruptStreamError, match=f"read {takes} of 3 bytes"):
        reader.next(Text(takes))


def test_readers_over_the_data_plane(plane, pair):
    """B7: records, supersteps and task events through partition, transport and gate."""
    producer, consumer, local = pair
    partition = producer.create_result_partition(partition_id(), 1, flush_timeout_ms=0)
    writing = plane.writing(partition)
    gate = connect(plane, producer, consumer, [(partition_id(), 0)], local=local)
    reader, heard = MutableRecordReader(gate), []
    reader.set_iterative_reader()
    reader.register_task_event_listener(heard.append, "round")
    target = Text()
    for round_number in range(3):
        values = [bytes([0, round_number]), b"\0" * 5000]
        writing.write(*values)
        writing.event(TaskEvent("round", bytes([round_number])))
        writing.event(EndOfSuperstep())
        sizes = []
        while reader.next(target):
            sizes.append(len(target.value) + 4)
        assert sizes == [plane.framed_size(value) for value in values]
        assert heard.pop() == TaskEvent("round", bytes([round_number]))
        reader.start_next_superstep()
    partition.finish()
    assert not reader.next(target)
    assert reader.is_finished
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)
