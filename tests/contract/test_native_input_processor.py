"""The native input processor: batches of records, events among them, and corrupt bytes.

Method: buffers of framed bytes in a gate of the test.
"""

import struct

import pytest
from penstock.errors import (
    CorruptStreamError,
    PartitionNotFoundError,
)
from penstock.network.events import CancelCheckpointMarker, serialize_event

from contract.codecs import codec_of
from contract.fake_core import FakeGate
from contract.native_parts import core, framed, native_only
from contract.plane import (
    Collected,
)
from contract.test_record_writer import MIN

__all__ = ["core"]


def native_processor(gate, handler=None, process=None):
    from penstock._native.operators.operator_loop import Input
    from penstock._native.records.input_processor import StreamInputProcessor

    taken = []

    class Take(Input):
        def process(self, value, timestamp):
            taken.append((value, timestamp))
            if process is not None:
                process(value, timestamp)

    count = gate.num_channels
    processor = StreamInputProcessor(
        gate, [codec_of("native", None)] * count, [Take()] * count, handler or Collected()
    )
    return processor, taken


@native_only
def test_batches(core):
    """Spanning record, region of records, event, end: one result for each buffer."""
    handler = Collected()
    gate = FakeGate(core, 2, [
        (1, 0, 1, framed("spanning")[4:], framed("a", "b")),
        (1, 1, 1, None, b""),
        (2, 1, 2, None, serialize_event(CancelCheckpointMarker(3))),
        (3, -1, 0, None, b""),
    ])  # fmt: skip
    processor, taken = native_processor(gate, handler)
    assert [processor.process_next(0) for _ in range(5)] == [1, 1, 1, 2, 0]
    assert taken == [("spanning", MIN), ("a", MIN), ("b", MIN)]
    assert handler.events[1] == [CancelCheckpointMarker(3)]
    assert (processor.records_in, processor.bytes_in) == (3, len(framed("spanning", "a", "b")) + 12)
    assert gate.waits == [0]


@native_only
def test_waits_only_when_nothing_is_there(core):
    """The call that consumes a wake-up follows one that found nothing."""
    gate = FakeGate(core, 1)
    processor, _ = native_processor(gate)
    assert processor.process_next(0) == 0
    assert processor.process_next(250) == 0
    assert gate.waits == [0, 250]


@native_only
def test_events_between_the_records_of_a_buffer(core):
    """They precede the next record, and see the rest of the buffer."""
    seen = []
    gate = FakeGate(core, 1, [(1, 0, 1, framed("spanning")[4:], framed("a", "b", "c"))])
    gate.unconsumed = lambda channel: b"begun"
    events = [CancelCheckpointMarker(number) for number in (3, 4, 5)]
    batches = [(2, 0, 3, None, serialize_event(event)) for event in events]

    class Handler(Collected):
        def on_event(self, channel, event, data_type):
            super().on_event(channel, event, data_type)
            seen.append((len(taken), processor.unconsumed(channel), processor.bytes_in))

    def process(value, timestamp):
        del timestamp
        if value == "spanning":
            gate.overtake(batches[0])
        elif value == "b":
            gate.overtake(*batches[1:])

    handler = Handler()
    processor, taken = native_processor(gate, handler, process)
    assert processor.process_next(0) == 1
    assert handler.events[0] == events
    assert [value for value, _ in taken] == ["spanning", "a", "b", "c"]
    after = 12 + len(framed("spanning"))
    assert seen == [
        (1, framed("a", "b", "c") + b"begun", after),
        (3, framed("c") + b"begun", after + 12 + len(framed("a", "b"))),
        (3, framed("c") + b"begun", after + 24 + len(framed("a", "b"))),
    ]
    assert processor.bytes_in == 36 + len(framed("spanning", "a", "b", "c"))
    assert processor.unconsumed(0) == b"begun"
    gate.overtake(batches[0])
    assert processor.is_urgent
    assert processor.process_urgent()
    assert not processor.process_urgent()


CORRUPT = [
    b"\0", struct.pack(">i", 5) + b"\x01", struct.pack(">i", -1) + b"\x01",
    struct.pack(">i", 0), struct.pack(">iB", 1, 1), struct.pack(">iBB", 2, 9, 0),
    struct.pack(">iB", 1, 0), struct.pack(">iBi", 5, 2, 0), struct.pack(">iBq", 9, 4, 0),
    struct.pack(">iBq", 9, 3, 0), struct.pack(">iBB", 2, 7, 0),
    struct.pack(">iB", 1, 5), struct.pack(">iBBB", 3, 5, 0, 0), struct.pack(">iBi", 5, 6, 0),
    struct.pack(">iBqq", 17, 6, 0, 0), struct.pack(">iBBB", 3, 1, 0xC0, 0),
]  # fmt: skip


@native_only
@pytest.mark.parametrize("region", CORRUPT, ids=bytes.hex)
def test_corrupt_regions(core, region):
    """Invalid elements are rejected; the elements in front of them were processed."""
    gate = FakeGate(core, 1, [(1, 0, 1, None, framed("a") + region)])
    processor, taken = native_processor(gate)
    with pytest.raises(CorruptStreamError):
        processor.process_next(0)
    assert taken == [("a", MIN)]


@native_only
def test_texts_cut_at_any_byte(core):
    """The prefetch of the next records only reads bytes that have arrived."""
    texts = ["first", "second", "third", "fourth", "fifth"]
    ends = [len(framed(*texts[:count])) for count in range(len(texts) + 1)]
    for cut in range(ends[-1] + 1):
        gate = FakeGate(core, 1, [(1, 0, 1, None, framed(*texts)[:cut])])
        processor, taken = native_processor(gate)
        if cut in ends:
            assert processor.process_next(0) == 1
        else:
            with pytest.raises(CorruptStreamError):
                processor.process_next(0)
        assert [text for text, _ in taken] == texts[: sum(cut >= end for end in ends) - 1]


@native_only
def test_errors_of_the_gate(core):
    """A channel's error becomes the exception that it names."""
    gate = FakeGate(core, 1, [("PartitionNotFoundError", "unknown")])
    processor, _ = native_processor(gate)
    with pytest.raises(PartitionNotFoundError, match="unknown"):
        processor.process_next(0)


@native_only
def test_reading_within_reading(core):
    """An operator that reads again would lose its own buffer, so this is an error."""
    gate = FakeGate(core, 1, [(1, 0, 1, None, framed("a"))])
    processor, _ = native_processor(gate, process=lambda *_: processor.process_next(0))
    with pytest.raises(RuntimeError, match="called by an operator"):
        processor.process_next(0)


@native_only
def test_only_native_parts(core):
    """A plain codec or input would silently be slow, so it is rejected."""
    from penstock._native.records.input_processor import StreamInputProcessor

    gate = FakeGate(core, 1)
    with pytest.raises(TypeError, match="native codec"):
        StreamInputProcessor(gate, [codec_of("pure", None)], [print], None)
    with pytest.raises(TypeError, match="native Input"):
        StreamInputProcessor(gate, [codec_of("native", None)], [print], None)
