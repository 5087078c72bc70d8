"""LZ4 blocks of the pure runtime."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import CorruptStreamError
from penstock.network.pure.wire import lz4

REPETITIVE = st.lists(
    st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 300)), min_size=1, max_size=8
).map(lambda parts: b"".join(piece * count for piece, count in parts))


@given(content=REPETITIVE)
def test_round_trip(content):
    """A block is smaller, decompresses to its content, and reports when the output is too small."""
    block = lz4.compress(content)
    if block is None:
        return
    assert len(block) < len(content)
    assert lz4.decompress(block, len(content)) == content
    with pytest.raises(CorruptStreamError):
        lz4.decompress(block, len(content) - 1)


@given(block=st.binary(max_size=200), limit=st.integers(0, 5000))
def test_any_bytes(block, limit):
    """Invalid bytes are rejected, or decompress to no more than the output can hold."""
    try:
        content = lz4.decompress(block, limit)
    except CorruptStreamError:
        return
    assert 0 < len(content) <= limit


def test_known_blocks():
    """Literals alone, a match that overlaps itself, and lengths that continue in further bytes."""
    assert lz4.decompress(b"\x50hello", 5) == b"hello"
    assert lz4.decompress(b"\x1fa\x01\x00\x05\x50bcdef", 100) == b"a" * 25 + b"bcdef"
    long = bytes(range(200))
    assert lz4.decompress(b"\xf0" + bytes([185]) + long, 200) == long


@pytest.mark.parametrize(
    "block",
    [b"", b"\x00", b"\x50hell", b"\x10a\x00\x00", b"\x10a\x02\x00\x00", b"\xff\xff", b"\x10a\x01"],
)
def test_corrupt_blocks(block):
    """Blocks that are truncated, empty, or refer to data that does not exist."""
    with pytest.raises(CorruptStreamError):
        lz4.decompress(block, 1 << 20)


def test_data_that_is_not_compressed():
    """Short data, and data that does not shrink."""
    assert lz4.compress(bytes(63)) is None
    assert lz4.compress(bytes(range(256))) is None
