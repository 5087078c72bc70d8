"""The native record writer: its requests for buffers, and the bytes that it shares with Python.

Method: a writer with one partition, whose buffers are read as bytes.
"""

import struct

import pytest
from penstock.common.typeinfo import Types
from penstock.errors import (
    CancelTaskError,
    NetworkError,
)
from support.capi_structures import ABI_VERSION

from contract.codecs import codec_of
from contract.fake_core import ALL, FakePartition
from contract.native_parts import core, framed, native_only
from contract.test_record_writer import MIN

__all__ = ["core"]


def native_writer(partition, selector, type_info=None, **arguments):
    from penstock._native.keys.channel_selector import make_selector
    from penstock._native.records.record_writer import RecordWriter

    chosen = make_selector(selector, partition.num_subpartitions, **arguments)
    return RecordWriter(partition, chosen, codec_of("native", type_info))


@native_only
def test_one_call_per_buffer(core):
    """Small records need a call only for a new buffer, and do not span buffers."""
    partition = FakePartition(core, 1, 256)
    writer = native_writer(partition, "FORWARD", Types.LONG())
    for i in range(100):
        writer.collect(i, MIN)
    assert partition.bytes_of(0) == framed(*range(100), type_info=Types.LONG())
    assert partition.calls == [("try_next", 0)] * 6
    assert all(segment.marker.value % 13 == 0 for segment in partition.streams[0])
    assert all(segment.dirty.value == 1 for segment in partition.streams[0])


@native_only
def test_large_records_span(core):
    """A record that would waste much of a buffer continues in the next one."""
    partition = FakePartition(core, 1, 256)
    writer = native_writer(partition, "FORWARD", Types.STRING())
    values = ["a" * 100, "b" * 200, "c" * 1000, "d"]
    for value in values:
        writer.collect(value, MIN)
    assert partition.bytes_of(0) == framed(*values, type_info=Types.STRING())
    assert partition.calls == [
        ("try_next", 0), ("append", 0, 207), ("append", 0, 1007),
    ]  # fmt: skip
    writer.collect("e", MIN)
    assert partition.calls[3:] == []


@native_only
def test_blocking_only_when_none_is_free(core):
    """The blocking request follows an attempt that found no buffer."""
    partition = FakePartition(core, 1, 64)
    partition.none_free = True
    writer = native_writer(partition, "FORWARD")
    writer.collect("x", MIN)
    assert partition.calls == [("try_next", 0), ("next", 0)]
    assert partition.bytes_of(0) == framed("x")


@native_only
def test_cursors_after_the_other_kind(core):
    """A broadcast buffer ends the unicast ones and vice versa (M10)."""
    partition = FakePartition(core, 2, 256)
    writer = native_writer(partition, "BROADCAST")
    writer.collect("all", MIN)
    writer.emit_latency_marker(1, 2, 3, 4)
    one = next(call[1] for call in partition.calls if call[1] != ALL)
    writer.collect("again", MIN)
    assert partition.calls == [("try_next", ALL), ("try_next", one), ("try_next", ALL)]
    for channel in range(2):
        marker = struct.pack(">iBqqqi", 29, 3, 1, 2, 3, 4) if channel == one else b""
        assert partition.bytes_of(channel) == framed("all") + marker + framed("again")


@native_only
def test_cursors_after_an_event(core):
    """An event ends every buffer."""
    partition = FakePartition(core, 2, 256)
    writer = native_writer(partition, "RESCALE")
    for value in "abcd":
        writer.collect(value, MIN)
    writer.broadcast_event(b"event", 2)
    writer.collect("e", MIN)
    assert partition.bytes_of(0) == framed("a", "c") + b"event" + framed("e")
    assert partition.bytes_of(1) == framed("b", "d") + b"event"


@native_only
def test_watermarks_keep_the_unicast_buffers(core):
    """A watermark is written into the channels' open buffers, which stay open."""
    partition = FakePartition(core, 2, 256)
    writer = native_writer(partition, "RESCALE")
    writer.collect("a", MIN)
    writer.collect("b", MIN)
    writer.emit_watermark(7)
    writer.collect("c", MIN)
    watermark = struct.pack(">iBq", 9, 2, 7)
    assert partition.bytes_of(0) == framed("a") + watermark + framed("c")
    assert partition.bytes_of(1) == framed("b") + watermark
    assert partition.calls == [("try_next", 0), ("try_next", 1)]
    assert writer.bytes_out == len(framed("a", "b", "c")) + 2 * 13


@native_only
def test_errors_of_the_table(core):
    """An error becomes the exception that it names; the writer drops its buffers."""
    partition = FakePartition(core, 1, 64)
    writer = native_writer(partition, "FORWARD")
    writer.collect("a", MIN)
    partition.error = ("CancelTaskError", "the partition was released")
    with pytest.raises(CancelTaskError, match=r"^the partition was released$"):
        writer.collect("b" * 100, MIN)
    partition.error = (99, "odd")
    with pytest.raises(NetworkError, match="error 99 of the data plane: odd"):
        writer.flush()
    with pytest.raises(NetworkError):
        writer.broadcast_event(b"e", 2)
    with pytest.raises(NetworkError):
        writer.collect("c", MIN)


@native_only
def test_wrong_table_version(core):
    """Extensions that were not built together are rejected."""
    core.table.abi_version = 99
    message = rf"exports C API 99 \(\d+ bytes\); this module needs {ABI_VERSION}"
    with pytest.raises(ImportError, match=message):
        native_writer(FakePartition(core, 1, 64), "FORWARD")
