"""Record writer and input processor: records in order, framed alike, through every selector.

Goal: operators behind the exchange receive what an operator emits (B-1, B-4, B-6). Method: both
runtimes over their own partitions and gates; the native ones also over a stand-in for the C
function table, which shows each call.
"""

import random
import struct

import pytest
from penstock.common.typeinfo import Types
from penstock.errors import (
    CancelTaskError,
    CorruptStreamError,
    IllegalStateError,
    InvalidProgramError,
    SerializationError,
)
from penstock.network.data_type import DataType
from penstock.network.events import CancelCheckpointMarker, EndOfPartition, serialize_event

from contract.codecs import codec_of
from contract.plane import (
    PATIENCE_MS,
    Background,
    Collected,
    Plane,
    connect,
    data_of,
    partition_id,
    raw_to_end,
)

PID = partition_id()
MIN = -(2**63)
MAX = 2**63 - 1
WORD_COUNT = Types.TUPLE([Types.STRING(), Types.INT()])


class Exchange:
    """One writer and a reader of each of its channels, in one environment."""

    def __init__(self, plane, selector, count, type_info=None, flush_timeout_ms=-1, **arguments):
        environment = plane.environment()
        self.partition = environment.create_result_partition(
            PID, count, flush_timeout_ms=flush_timeout_ms
        )
        self.codec = codec_of(plane.kind, type_info)
        chosen = plane.load("make_selector")(selector, count, **arguments)
        self.writer = plane.load("RecordWriter")(self.partition, chosen, self.codec)
        self.gates = [
            connect(plane, environment, environment, [(PID, i)], local=True) for i in range(count)
        ]
        self.seen = [Collected() for _ in range(count)]
        self.processors = [
            plane.load("StreamInputProcessor")(
                gate, [self.codec], [plane.input_for(self.take(i))], self.seen[i]
            )
            for i, gate in enumerate(self.gates)
        ]

    def take(self, channel):
        def process(value, timestamp):
            self.seen[channel].everything[0].append((value, timestamp))

        return process

    def finish(self):
        """Return all records of each channel, without the end of the partition."""
        self.partition.finish()
        return self.read_to_end()

    def read_to_end(self):
        """Return the records as :meth:`finish` does, if another thread finishes the partition."""
        for processor in self.processors:
            while processor.process_next(PATIENCE_MS) != 2:
                pass
        for seen in self.seen:
            assert seen.everything[0].pop() == EndOfPartition()
        return [seen.everything[0] for seen in self.seen]


def test_records_with_and_without_timestamp(plane):
    """Tags 0 and 1: the smallest timestamp means none and takes no bytes."""
    exchange = Exchange(plane, "FORWARD", 1, WORD_COUNT)
    for timestamp in (MIN, MIN + 1, -1, 0, MAX):
        exchange.writer.collect(("word", 1), timestamp)
    written = exchange.writer.bytes_out
    [elements] = exchange.finish()
    assert elements == [(("word", 1), t) for t in (MIN, MIN + 1, -1, 0, MAX)]
    assert written == 5 * (4 + 1 + 10) + 4 * 8
    assert exchange.writer.records_out == 5
    assert exchange.processors[0].records_in == 5
    assert exchange.processors[0].bytes_in == written + 4


def test_elements_other_than_records(plane):
    """Watermarks and status reach every channel in order, a latency marker one of them."""
    exchange = Exchange(plane, "REBALANCE", 3)
    writer = exchange.writer
    writer.emit_watermark(MIN + 1)
    for value in range(6):
        writer.collect(value, value)
    writer.emit_status(True)
    writer.emit_status(False)
    writer.emit_watermark(MAX)
    channels = exchange.finish()
    for elements in channels:
        assert elements[0] == ("watermark", MIN + 1)
        assert elements[3:] == ["idle", "active", ("watermark", MAX)]
    assert sorted(v for elements in channels for v, _ in elements[1:3]) == list(range(6))


@pytest.mark.parametrize(
    ("type_info", "record"),
    [
        (WORD_COUNT, lambda text, n: (text, n)),
        (Types.TUPLE([Types.INT(), Types.STRING()]), lambda text, n: (n, text)),
        (Types.TUPLE([Types.STRING(), Types.STRING()]), lambda text, n: (text, str(n))),
        (Types.STRING(), lambda text, n: text),
        (None, lambda text, n: (text, n)),
        (None, lambda text, n: n if n % 5 == 0 else {"text": text}),
    ],
)
def test_texts_that_come_again(plane, type_info, record):
    """A reader's prefetches are guesses: the records are those that were written."""
    source = random.Random(1)
    texts = ["x" * size + str(size) for size in range(40)] + ["", "\u4e2d", "caf\u00e9"]
    values = [record(source.choice(texts), source.randrange(100)) for _ in range(5_000)]
    exchange = Exchange(plane, "FORWARD", 1, type_info)
    expected = []

    def produce():
        for n, value in enumerate(values):
            exchange.writer.collect(value, n if n % 7 == 0 else MIN)
            if n % 11 == 0:
                exchange.writer.emit_watermark(n)
        exchange.partition.finish()

    for n, value in enumerate(values):
        expected.append((value, n if n % 7 == 0 else MIN))
        if n % 11 == 0:
            expected.append(("watermark", n))
    background = Background(produce)
    [elements] = exchange.read_to_end()
    background.result()
    assert elements == expected


# fmt: off
GOLDEN = [
    ("emit_watermark", (-2,), "00000009" "02" "fffffffffffffffe"),
    ("emit_latency_marker", (1, 2, 3, 4),
     "0000001d" "03" "0000000000000001" "0000000000000002" "0000000000000003" "00000004"),
    ("emit_status", (True,), "00000005" "04" "ffffffff"),
    ("emit_status", (False,), "00000005" "04" "00000000"),
    ("emit_record_attributes", (True,), "00000002" "05" "01"),
    ("emit_record_attributes", (False,), "00000002" "05" "00"),
    ("emit_internal_watermark", (MAX,), "0000000d" "06" "00000000" "7fffffffffffffff"),
]
# fmt: on


@pytest.mark.parametrize(("method", "arguments", "expected"), GOLDEN)
def test_bytes_of_elements(plane, method, arguments, expected):
    """B6: the bytes of each element that is not a record."""
    exchange = Exchange(plane, "FORWARD", 1)
    getattr(exchange.writer, method)(*arguments)
    exchange.partition.finish()
    assert data_of(raw_to_end(exchange.gates[0])) == [bytes.fromhex(expected)]
    assert exchange.writer.bytes_out == len(expected) // 2


@pytest.mark.parametrize("selector", ["REBALANCE", "BROADCAST"])
def test_attributes_and_internal_watermarks(plane, selector):
    """B6: both arrive at every channel in order; a watermark names its subpartition."""
    exchange = Exchange(plane, selector, 2)
    writer = exchange.writer
    writer.emit_record_attributes(True)
    writer.emit_internal_watermark(MIN)
    writer.broadcast_emit("value", 5)
    writer.emit_internal_watermark(MAX)
    writer.emit_record_attributes(False)
    for channel, elements in enumerate(exchange.finish()):
        least, most = ("watermark", MIN, channel), ("watermark", MAX, channel)
        assert elements == ["backlog", least, ("value", 5), most, "no backlog"]


def test_the_last_watermark_is_known(plane):
    exchange = Exchange(plane, "BROADCAST", 2)
    assert exchange.writer.last_watermark == MIN
    exchange.writer.emit_watermark(7)
    assert exchange.writer.last_watermark == 7
    exchange.finish()


def test_latency_marker(plane):
    """A latency marker goes to one channel with all its fields."""
    exchange = Exchange(plane, "BROADCAST", 3)
    exchange.writer.emit_latency_marker(123, -(2**63), 2**63 - 1, 7)
    channels = exchange.finish()
    assert sorted(map(len, channels)) == [0, 0, 1]
    assert max(channels, key=len) == [("latency", 123, -(2**63), 2**63 - 1, 7)]


def test_emits_past_the_selector(plane):
    """B-4: a record goes where its selector says, to all channels, or to any; in order."""
    exchange = Exchange(plane, "GLOBAL", 3)
    writer = exchange.writer
    assert writer.is_available()
    for value in range(4):
        writer.emit(value)
        writer.broadcast_emit(-1 - value, value)
    for value in range(100, 400):
        writer.random_emit(value)
    assert writer.records_out == 4 + 4 + 300
    writer.flush_all()
    channels = exchange.finish()
    broadcast = [(-1 - n, n) for n in range(4)]
    assert channels[0][:8] == [e for n in range(4) for e in ((n, MIN), broadcast[n])]
    assert [elements[:4] for elements in channels[1:]] == [broadcast] * 2
    chosen = [channels[0][8:], channels[1][4:], channels[2][4:]]
    assert all(elements == sorted(elements) != [] for elements in chosen)
    assert sorted(e for elements in chosen for e in elements) == [(n, MIN) for n in range(100, 400)]


@pytest.mark.parametrize("length", [1, 1500])
def test_selector_of_several_channels(plane, length):
    """B-4: a partitioner may choose a channel, several, or none; also for records of many buffers.

    Method: the record names its channels, and the longer ones exceed the buffers of 1,024 bytes.
    """
    exchange = Exchange(plane, "CUSTOM", 3, None, key_selector=lambda v: v[1], function=first)
    choices = [0, [0, 2], (1,), [], [2, 1, 0], 2]
    records = [("r" * length, choice) for choice in choices]
    for timestamp, record in enumerate(records):
        exchange.writer.emit(record, timestamp)
    chosen = [[choice] if isinstance(choice, int) else choice for choice in choices]
    assert exchange.writer.records_out == sum(map(len, chosen))
    with pytest.raises(InvalidProgramError, match="names a channel twice"):
        exchange.writer.emit(("none", [1, 1]))
    with pytest.raises(InvalidProgramError, match="returned 3, which is none of the 3 channels"):
        exchange.writer.emit(("none", [1, 3]))
    assert exchange.finish() == [
        [(record, n) for n, record in enumerate(records) if channel in chosen[n]]
        for channel in range(3)
    ]


def first(key, num_channels):
    """Choose the channels that the key names."""
    assert num_channels == 3
    return key


def test_broadcast_record_shares_a_segment(plane):
    """B3: a record for all channels takes one segment, which returns with the last reader."""
    exchange = Exchange(plane, "GLOBAL", 3)
    exchange.writer.broadcast_emit(7)
    assert exchange.partition.buffers_in_use == 1
    assert exchange.finish() == [[(7, MIN)]] * 3
    assert exchange.partition.buffers_in_use == 0


@pytest.mark.parametrize("act", ["event", "overtake", "finish"])
def test_partition_used_beside_its_writer(plane, act):
    """B-4, B-3: data that the partition itself sends ends its writer's open buffers."""
    exchange = Exchange(plane, "FORWARD", 1)
    writer, partition = exchange.writer, exchange.partition
    writer.collect(1, MIN)
    event = serialize_event(CancelCheckpointMarker(5))
    if act == "finish":
        partition.finish()
        for write in (writer.collect, writer.broadcast_emit, writer.random_emit):
            with pytest.raises(IllegalStateError, match="finished"):
                write(2, MIN)
        assert exchange.read_to_end() == [[(1, MIN)]]
        return
    if act == "event":
        partition.broadcast_event(event, DataType.EVENT_BUFFER)
        expected = [(1, MIN), CancelCheckpointMarker(5), (2, MIN)]
    else:
        partition.overtake(event, DataType.PRIORITIZED_EVENT_BUFFER)
        expected = [CancelCheckpointMarker(5), (1, MIN), (2, MIN)]
    writer.collect(2, MIN)
    assert exchange.finish() == [expected]


def test_one_writer_at_a_time(plane):
    """B-3: a second record writer would write into the first one's buffers."""
    exchange = Exchange(plane, "FORWARD", 1)
    arguments = exchange.partition, exchange.writer.selector, exchange.codec
    with pytest.raises(IllegalStateError, match="record writer already"):
        plane.load("RecordWriter")(*arguments)
    exchange.writer.collect(1, MIN)
    exchange.writer = None
    successor = plane.load("RecordWriter")(*arguments)
    successor.collect(2, MIN)
    assert exchange.finish() == [[(1, MIN), (2, MIN)]]


def test_a_partitioner_sends_a_record_to_several_channels(plane):
    """CUSTOM: to each channel of a list, in order with records for one channel and for none."""
    exchange = Exchange(plane, "CUSTOM", 3, function=lambda key, n: key)
    for value in ([0, 2], 1, [], (2, 1)):
        exchange.writer.collect(value, 5)
    assert exchange.writer.records_out == 5
    assert exchange.finish() == [
        [([0, 2], 5)],
        [(1, 5), ((2, 1), 5)],
        [([0, 2], 5), ((2, 1), 5)],
    ]


def test_broadcast_between_random_elements(plane):
    """A broadcast writer sends all to all, also around records for one channel (M10)."""
    exchange = Exchange(plane, "BROADCAST", 2)
    for i in range(200):
        exchange.writer.collect(i, MIN)
        if i % 50 == 0:
            exchange.writer.emit_latency_marker(i, 0, 0, 0)
        if i % 70 == 0:
            exchange.writer.emit_watermark(i)
    channels = exchange.finish()
    for elements in channels:
        plain = [e for e in elements if e[0] != "latency"]
        wanted = []
        for i in range(200):
            wanted.append((i, MIN))
            if i % 70 == 0:
                wanted.append(("watermark", i))
        assert plain == wanted
    assert sum(e[0] == "latency" for elements in channels for e in elements) == 4


def test_key_groups_meet(plane):
    """Equal keys meet in one channel, in the order of writing."""
    exchange = Exchange(
        plane, "KEY_GROUP", 3, WORD_COUNT, key_selector=lambda t: t[0], max_parallelism=128
    )
    expected = {"hello": 0, "flink": 2, "key-1": 1, "a": 1, "b": 0, "": 2}
    for i in range(60):
        for key in expected:
            exchange.writer.collect((key, i), MIN)
    channels = exchange.finish()
    for key, channel in expected.items():
        for index, elements in enumerate(channels):
            mine = [v for v, _ in elements if v[0] == key]
            assert mine == ([(key, i) for i in range(60)] if index == channel else [])


@pytest.mark.parametrize("size", [0, 1, 1000, 1013, 1014, 1015, 1016, 1017, 1018, 1019, 1020, 9999])
def test_sizes_around_a_segment(plane, size):
    """Records that fill a buffer exactly, by one byte less or more, or several buffers (B-2)."""
    exchange = Exchange(plane, "FORWARD", 1, Types.STRING())
    values = ["a", "x" * size, "b", "y" * size, "c"]

    def write():
        for value in values:
            exchange.writer.collect(value, MIN)
        exchange.partition.finish()

    background = Background(write)
    [elements] = exchange.read_to_end()
    background.result()
    assert elements == [(value, MIN) for value in values]


def test_events_keep_their_place(plane):
    """An event stays between the records before and after it, in every channel (B-4)."""
    exchange = Exchange(plane, "BROADCAST", 2)
    event = CancelCheckpointMarker(5)
    exchange.writer.collect("before", MIN)
    exchange.writer.broadcast_event(serialize_event(event), DataType.EVENT_BUFFER)
    exchange.writer.collect("after", MIN)
    assert exchange.finish() == [[("before", MIN), event, ("after", MIN)]] * 2


def test_flush_makes_records_readable(plane):
    """Without a flush timeout everything is visible after a flush (B-5)."""
    exchange = Exchange(plane, "FORWARD", 1)
    exchange.writer.collect(1, MIN)
    exchange.writer.flush()
    assert exchange.processors[0].process_next(PATIENCE_MS) == 1
    assert exchange.seen[0].everything[0] == [(1, MIN)]


@pytest.mark.parametrize("selector", ["FORWARD", "BROADCAST"])
def test_flush_timeout_zero(plane, selector):
    """With flush timeout 0 every record is visible at once (B-6)."""
    exchange = Exchange(plane, selector, 1, flush_timeout_ms=0)
    for emit in (
        lambda: exchange.writer.collect(1, MIN),
        lambda: exchange.writer.emit_watermark(5),
        lambda: exchange.writer.emit_status(True),
        lambda: exchange.writer.emit_latency_marker(1, 2, 3, 4),
    ):
        count = len(exchange.seen[0].everything[0])
        emit()
        assert exchange.processors[0].process_next(PATIENCE_MS) == 1
        assert len(exchange.seen[0].everything[0]) == count + 1


def test_refused_value_leaves_no_trace(plane):
    """After a value that does not fit, the stream continues as if there had been none."""
    exchange = Exchange(plane, "FORWARD", 1, WORD_COUNT)
    exchange.writer.collect(("a", 1), MIN)
    for bad in (("x" * 5000, 2**31), ("b", "c"), None):
        with pytest.raises(SerializationError):
            exchange.writer.collect(bad, MIN)
    exchange.writer.collect(("d", 2), MIN)
    assert exchange.finish() == [[(("a", 1), MIN), (("d", 2), MIN)]]
    assert exchange.writer.records_out == 2


def test_failing_operator(plane):
    """An exception of an operator passes through the processor unchanged."""
    exchange = Exchange(plane, "FORWARD", 1)

    def fail(value, timestamp):
        raise ZeroDivisionError(value)

    processor = plane.load("StreamInputProcessor")(
        exchange.gates[0], [exchange.codec], [plane.input_for(fail)], Collected()
    )
    exchange.writer.collect("mine", MIN)
    exchange.writer.flush()
    with pytest.raises(ZeroDivisionError, match="mine"):
        processor.process_next(PATIENCE_MS)


def test_released_partition(plane):
    """Writing after a release raises the cancel error, at the next buffer at the latest."""
    exchange = Exchange(plane, "FORWARD", 1)
    exchange.writer.collect("x", MIN)
    exchange.partition.release()
    with pytest.raises(CancelTaskError):
        for _ in range(10_000):
            exchange.writer.collect("x" * 100, MIN)


def test_mismatched_parts_are_refused(plane):
    """There must be as many selectors, codecs and inputs as channels."""
    exchange = Exchange(plane, "FORWARD", 1)
    selector = plane.load("make_selector")("RESCALE", 2)
    with pytest.raises(ValueError, match="2 channels for a partition of 1"):
        plane.load("RecordWriter")(exchange.partition, selector, exchange.codec)
    with pytest.raises(ValueError, match="0 codecs and 1 inputs for 1 channels"):
        plane.load("StreamInputProcessor")(exchange.gates[0], [], [plane.input_for(print)], None)


@pytest.mark.parametrize(
    "payload", ["07", "0700", "02", "04", "05", "050000", "0600000000", "06" + 16 * "00"]
)
def test_corrupt_elements_in_python(payload):
    """B6: the plain reader, too, rejects unknown tags and records of another length."""
    plane = Plane("pure")
    try:
        exchange = Exchange(plane, "FORWARD", 1)
        element = bytes.fromhex(payload)
        exchange.partition._append_framed(0, struct.pack(">i", len(element)) + element)
        exchange.partition.finish()
        with pytest.raises(CorruptStreamError, match=f"tag {element[0]}, {len(element)} bytes"):
            exchange.processors[0].process_next(PATIENCE_MS)
    finally:
        plane.close()
