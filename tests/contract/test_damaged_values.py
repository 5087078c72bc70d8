"""Invalid bytes are rejected as such, or decoded as some value, never worse.

Method: truncated, flipped and random encodings, and known kinds of damage.
"""

import contextlib
import datetime
import decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.errors import CorruptStreamError, PenstockError

from contract.codecs import (
    EXTENDED,
    NATIVE_IS_BUILT,
    PERSON,
    WORD_COUNT,
    Point,
    codec_of,
)

SAMPLES = [
    (None, ("word", 1, 2.5, None, [1, {"a": {2}}], b"x", 2**70, -200, 70000, 2**40)),
    (None, EXTENDED[:13]),
    (None, [Row(a=1), Instant(1, 2), Point(1, 2.0), np.arange(3), np.int16(2)]),
    (WORD_COUNT, ("word", None)),
    (PERSON, Row("é", 3)),
    (Types.LIST(Types.MAP(Types.STRING(), Types.DOUBLE())), [{"a": 1.0}, None, {"b": None}]),
    (Types.TUPLE([Types.BIG_DEC(), Types.SQL_TIMESTAMP(), Types.INSTANT(), Types.CHAR()]),
     (decimal.Decimal("1.5"), datetime.datetime(2024, 1, 1), Instant(1, 2), "x")),
]  # fmt: skip


@pytest.mark.parametrize(("type_info", "value"), SAMPLES, ids=lambda v: str(v)[:30])
def test_every_truncation_is_refused(kind, type_info, value):
    """No prefix of an encoding can be decoded, nor can an encoding with an additional byte."""
    codec = codec_of(kind, type_info)
    data = codec.encode(value)
    for size in range(len(data)):
        with pytest.raises(PenstockError):
            codec.decode(data[:size])
    with pytest.raises(CorruptStreamError, match="1 bytes are left"):
        codec.decode(data + b"\0")


@pytest.mark.parametrize(("type_info", "value"), SAMPLES, ids=lambda v: str(v)[:30])
def test_every_flipped_bit_is_survived(kind, type_info, value):
    """A damaged encoding is decoded to another value, or raises one of our errors."""
    codec = codec_of(kind, type_info)
    data = bytearray(codec.encode(value))
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        if data[bit // 8] != 0x1F:  # a pickle may do anything
            with contextlib.suppress(PenstockError):
                codec.decode(bytes(data))
        data[bit // 8] ^= 1 << bit % 8


@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=60).filter(lambda data: 0x1F not in data))
def test_random_bytes_are_survived(data):
    """Both runtimes decode the same bytes to the same value, and reject the same bytes."""
    results = []
    for kind in ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]:
        for type_info in (None, WORD_COUNT, PERSON, SAMPLES[5][0], SAMPLES[6][0]):
            try:
                results.append(repr(codec_of(kind, type_info).decode(data)))
            except PenstockError as error:
                results.append(type(error).__name__)
    assert results[: len(results) // 2] == results[len(results) // 2 :] or not NATIVE_IS_BUILT


@pytest.mark.parametrize(
    "data",
    [
        "", "21", "3f", "09", "09ffffffffff", "0980808080", "0988888888" + "08", "0cff01",
        "0e01", "0700", "0e0191c1c0", "0f0191c1", "41ff", "4180", "1f00", "1040", "1140", "16c1",
        "17c1", "19820161c1", "1c82", "2091c1", "0e0190c0",
    ],
)  # fmt: skip
def test_corrupt_undeclared(kind, data):
    """Known kinds of damage are rejected as such."""
    with pytest.raises(PenstockError):
        codec_of(kind, None).decode(bytes.fromhex(data))


def test_counts_are_not_trusted(kind):
    """A huge count allocates nothing: it is compared with the number of remaining bytes."""
    for type_info, head in ((None, "0d"), (None, "0e"), (Types.LIST(Types.INT()), "")):
        with pytest.raises(CorruptStreamError, match="more elements than bytes"):
            codec_of(kind, type_info).decode(bytes.fromhex(head + "ffffffff07" + "00"))
