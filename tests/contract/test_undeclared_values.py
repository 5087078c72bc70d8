"""Values without a declared type: every kind is encoded and decoded, alike in both runtimes.

Method: random values, extreme ones and those with a form of their own.
"""

import datetime
import decimal
import uuid

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.common.types import Row
from penstock.errors import CorruptStreamError, SerializationError

from contract.codecs import (
    EXTENDED,
    NATIVE_IS_BUILT,
    UTC,
    Colour,
    Order,
    Plain,
    as_name,
    codec_of,
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.binary().map(bytearray)
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
)
hashable = st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
values = st.recursive(
    scalars | st.sets(hashable) | st.frozensets(hashable),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.lists(inner, max_size=20).map(tuple)
        | st.dictionaries(hashable, inner)
        | st.builds(Row, inner, inner)
        | st.builds(Order, st.text(), st.decimals(allow_nan=False), st.lists(inner))
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=300)
@given(values)
def test_undeclared_round_trip(value):
    """Any value is decoded equal and of its class, from the same bytes of both runtimes."""
    kinds = ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]
    encoded = {kind: codec_of(kind, None).encode(value) for kind in kinds}
    assert len(set(encoded.values())) == 1
    for kind in kinds:
        back = codec_of(kind, None).decode(encoded[kind])
        assert back == value
        assert type(back) is type(value)


prices = st.decimals(-100, 100, places=2) | st.sampled_from(
    ["0", "-0", "1E+5", "NaN", "sNaN2"]
).map(decimal.Decimal)
moments = st.datetimes(datetime.datetime(2024, 2, 27), datetime.datetime(2024, 3, 2))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(moments, prices), min_size=1, max_size=300))
def test_repeated_prices_and_days_are_read_back_unchanged(sales):
    """Values that a decoder caches are never returned for other values."""
    for kind in ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]:
        codec = codec_of(kind, None)
        back = [codec.decode(codec.encode(sale)) for sale in [*sales, *sales]]
        assert [(at, str(price)) for at, price in back] == 2 * [
            (at, str(price)) for at, price in sales
        ]


numbers_of_numpy = st.one_of(
    *(
        st.integers(int(np.iinfo(cls).min), int(np.iinfo(cls).max)).map(cls)
        for cls in (
            np.int8,
            np.int16,
            np.int32,
            np.int64,
            np.uint8,
            np.uint16,
            np.uint32,
            np.uint64,
        )
    ),
    st.floats(allow_nan=False).map(np.float64),
    st.floats(allow_nan=False, width=32).map(np.float32),
    st.floats(allow_nan=False, width=16).map(np.float16),
    st.booleans().map(np.bool_),
)
scalars_with_forms = st.one_of(
    st.datetimes(), st.datetimes(timezones=st.timezones()), st.datetimes(timezones=st.just(UTC)),
    st.dates(), st.times(), st.timedeltas(), st.decimals(allow_nan=False), st.uuids(),
    st.sampled_from(Colour), numbers_of_numpy,
)  # fmt: skip


@settings(deadline=None, max_examples=500)
@given(scalars_with_forms)
def test_scalars_with_forms_of_their_own(value):
    """Dates and times, decimals, UUIDs, members and numpy's numbers, in both runtimes alike."""
    kinds = ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]
    encoded = {kind: codec_of(kind, None).encode([value]) for kind in kinds}
    assert len(set(encoded.values())) == 1
    for kind in kinds:
        (back,) = codec_of(kind, None).decode(encoded[kind])
        assert back == value
        assert type(back) is type(value)
        assert getattr(back, "tzinfo", None) == getattr(value, "tzinfo", None)
        assert getattr(back, "fold", 0) == getattr(value, "fold", 0)


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime.min, datetime.datetime.max, datetime.date.min, datetime.date.max,
        datetime.timedelta.min, datetime.timedelta.max, datetime.datetime(2000, 2, 29),
        datetime.datetime(1900, 3, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe),
        decimal.Decimal("1" * 100), decimal.Decimal("sNaN"), np.float64("nan"), np.longdouble(1.5),
    ],
    ids=repr,
)  # fmt: skip
def test_extreme_scalars(kind, value):
    codec = codec_of(kind, None)
    back = codec.decode(codec.encode((value, 1)))[0]
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert getattr(back, "is_safe", None) is getattr(value, "is_safe", None)
    assert codec.encode((value, 1)) == codec_of("pure", None).encode((value, 1))


@pytest.mark.parametrize(
    "data",
    [
        "1081c0", "1082c0c2", "1082c0", "1083c0c0c0", "1082067fffffffffffffffc0", "1082c043616263",
        "10840506", "11c0", "110500ffffff", "114161", "1306", "13067fffffffffffffff44", "134161",
        "1643616263", "16c0", "1c82433c66390a0800", "1c82433c66380a04000000", "1c82433c66380a0900",
        "1c82433c71380a080000000000000000", "23", "23" + "00" * 15, "1b8243613a6243616263",
        "1081", "10", "16", "1c", "1b", "1b82", "1b8243",
    ],
)  # fmt: skip
def test_corrupt_scalars(kind, data):
    with pytest.raises((CorruptStreamError, SerializationError)):
        codec_of(kind, None).decode(bytes.fromhex(data))


@pytest.mark.parametrize("value", EXTENDED, ids=as_name)
def test_extended_values(kind, value):
    """Values beyond the builtin types are decoded unchanged."""
    codec = codec_of(kind, None)
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)
    assert getattr(back, "tzinfo", None) == getattr(value, "tzinfo", None)
    assert getattr(back, "fold", 0) == getattr(value, "fold", 0)


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@pytest.mark.parametrize("value", EXTENDED, ids=as_name)
def test_extended_values_have_the_same_bytes(value):
    """Both runtimes write the same bytes."""
    assert codec_of("native", None).encode(value) == codec_of("pure", None).encode(value)


def test_local_classes_are_pickled(kind):
    """The class is pickled with its instance, because the other side cannot import it."""

    class Local:
        def __init__(self):
            self.number = 5

    codec = codec_of(kind, None)
    assert codec.decode(codec.encode(Local())).number == 5
    assert codec.decode(codec.encode(lambda x: x + 1))(1) == 2


@pytest.mark.parametrize(
    "value",
    [
        np.int64(5), np.float32(1.5), np.bool_(True), np.datetime64("2024-01-01"), np.str_("ab"),
        np.bytes_(b"x"), np.complex128(1j), np.uint8(255),
    ],
    ids=repr,
)  # fmt: skip
def test_numpy_scalars(kind, value):
    """A numpy scalar keeps its dtype."""
    codec = codec_of(kind, None)
    back = codec.decode(codec.encode(value))
    assert back == value
    assert type(back) is type(value)
    assert back.dtype == value.dtype


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3), np.array([]), np.array(5), np.array(["a", "bc"]),
        np.arange(12).reshape(3, 4)[:, ::2], np.array([1, None], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), np.zeros((0, 3)),
    ],
    ids=repr,
)  # fmt: skip
def test_numpy_arrays(kind, array):
    """An array keeps dtype and shape, and can be written to."""
    codec = codec_of(kind, None)
    back = codec.decode(codec.encode(array))
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert (back == array).all()
    back[...] = array


def test_deep_values(kind):
    """Nesting has the same limit in both runtimes, and a cycle is an error."""
    codec = codec_of(kind, None)
    value = []
    for _ in range(199):
        value = [value]
    assert codec.decode(codec.encode(value)) == value
    with pytest.raises(SerializationError, match="deeper than 200"):
        codec.encode([value])
    cycle = []
    cycle.append(cycle)
    with pytest.raises(SerializationError, match="recursive"):
        codec.encode(cycle)
    with pytest.raises(CorruptStreamError, match="deeper than 200"):
        codec.decode(b"\x91" * 201 + b"\x00")


def test_large_values(kind):
    """Sizes around the encoder's initial block, and far beyond."""
    codec = codec_of(kind, None)
    for size in (0, 1, 63, 64, 500, 511, 512, 513, 4096, 1 << 20):
        for value in (b"x" * size, "é" * size, ["ab"] * (size // 8), Plain(size)):
            assert codec.decode(codec.encode(value)) == value


def test_decimals_that_come_again(kind):
    """The same object, and the same text, repeatedly: never another one's number."""
    codec = codec_of(kind, None)
    cents = [decimal.Decimal(number).scaleb(-2) for number in range(50)]
    special = [decimal.Decimal(text) for text in ("1.50", "1.5", "-0", "NaN", "sNaN", "1E+400")]
    for _ in range(4):
        for value in (*cents, *special, decimal.Decimal("0.25"), decimal.Decimal("9" * 70)):
            back = codec.decode(codec.encode(value))
            assert str(back) == str(value)
            assert type(back) is decimal.Decimal
