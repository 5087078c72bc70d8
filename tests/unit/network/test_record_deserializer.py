"""Buffers back into records (internals M11)."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import CorruptStreamError, NetworkError
from penstock.network.pure.framing.deserializer import RecordDeserializer


def framed(*records):
    return b"".join(struct.pack(">i", len(record)) + record for record in records)


def pieces_of(stream, cuts):
    """Return the stream, cut at the given positions."""
    places = sorted({cut % (len(stream) + 1) for cut in cuts} | {0, len(stream)})
    return [memoryview(stream)[start:end] for start, end in itertools.pairwise(places)]


@given(st.lists(st.binary(max_size=30), max_size=10), st.lists(st.integers(0, 400), max_size=30))
def test_any_split(records, cuts):
    """B-8: any split of the stream returns the same records and leaves nothing."""
    deserializer = RecordDeserializer()
    seen = []
    for piece in pieces_of(framed(*records), cuts):
        seen += [bytes(record) for record in deserializer.records_of(piece)]
    assert seen == records
    assert not deserializer.has_pending_bytes


@given(
    st.lists(st.binary(max_size=30), min_size=1, max_size=6),
    st.lists(st.integers(0, 200), max_size=10),
    st.integers(0, 200),
)
def test_unconsumed_bytes_replay(records, cuts, stop):
    """B-9: from the pending bytes and the remaining stream, a fresh deserializer reads the rest."""
    stream = framed(*records)
    stop %= len(stream) + 1
    first, fresh = RecordDeserializer(), RecordDeserializer()
    seen = []
    for piece in pieces_of(stream[:stop], cuts):
        seen += [bytes(record) for record in first.records_of(piece)]
    rest = first.unconsumed() + stream[stop:]
    seen += [bytes(record) for record in fresh.records_of(memoryview(rest))]
    assert seen == records
    first.clear()
    assert not first.has_pending_bytes
    assert first.unconsumed() == b""


THRESHOLD = 100 << 10


@pytest.mark.parametrize("size", [THRESHOLD - 1, THRESHOLD, THRESHOLD + 1, 3 * THRESHOLD])
def test_spilling(tmp_path, size):
    """B-8, B-9, B-10: a long record is spilled to a file that is never left behind."""
    record = bytes(range(256)) * (size // 256 + 1)
    record = record[:size]
    stream = framed(b"before", record, b"after")
    deserializer = RecordDeserializer([str(tmp_path)], THRESHOLD)
    seen = []
    for start in range(0, len(stream), 32768):
        seen += [bytes(r) for r in deserializer.records_of(memoryview(stream)[start:][:32768])]
        replay = deserializer.unconsumed() + stream[start + 32768 :]
        again = RecordDeserializer([str(tmp_path)], THRESHOLD)
        assert [bytes(r) for r in again.records_of(memoryview(replay))] == [
            b"before",
            record,
            b"after",
        ][len(seen) :]
    assert seen == [b"before", record, b"after"]
    assert not list(tmp_path.iterdir())


def test_spill_directory_that_fails(tmp_path):
    """The next directory replaces a failing one; the last one's error is raised."""
    record = bytes(THRESHOLD + 10)
    part = memoryview(framed(record))[:5000]
    for _ in range(5):
        good = RecordDeserializer([str(tmp_path / "absent"), str(tmp_path)], THRESHOLD)
        assert good.records_of(part) == []
        good.clear()
    bad = RecordDeserializer([str(tmp_path / "absent")], THRESHOLD)
    with pytest.raises(NetworkError, match=r"absent .*: No such file"):
        bad.records_of(part)


def test_negative_length():
    """A negative length is corrupt, whether it arrives whole or byte by byte."""
    with pytest.raises(CorruptStreamError):
        RecordDeserializer().records_of(memoryview(b"\xff\xff\xff\xff"))
    deserializer = RecordDeserializer()
    assert deserializer.records_of(memoryview(b"\xff\xff")) == []
    with pytest.raises(CorruptStreamError):
        deserializer.records_of(memoryview(b"\xff\xff"))
