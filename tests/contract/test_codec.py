"""Codecs: golden bytes, and declared types: alike in both runtimes, or rejected.

Goal: every type of ``Types``.  Method: golden bytes of docs/formats/codec.md, and values that are
converted.
"""

import collections
import datetime
import decimal
import math
import struct
import types
import uuid
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.common.time import Instant
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.errors import CorruptStreamError, PenstockError, SerializationError

from contract.codecs import (
    NATIVE_IS_BUILT,
    PERSON,
    UTC,
    WORD_COUNT,
    Point,
    as_name,
    codec_of,
)


def named(row):
    """Return a row's values, names and kind; equality does not compare all of these."""
    return list(row), row._field_names(), row.get_row_kind()


# -- golden bytes ------------------------------------------------------------------------------

GOLDEN = [
    (None, None, "00"),
    (None, False, "01"),
    (None, True, "02"),
    (None, 0, "c0"),
    (None, 63, "ff"),
    (None, -32, "a0"),
    (None, 64, "0340"),
    (None, -33, "03df"),
    (None, 128, "040080"),
    (None, 32768, "0500008000"),
    (None, 2**31, "060000000080000000"),
    (None, 2**63, "0709008000000000000000"),
    (None, -(2**63) - 1, "0709ff7fffffffffffffff"),
    (None, 1.5, "083ff8000000000000"),
    (None, "", "40"),
    (None, "word", "44776f7264"),
    (None, "é", "42c3a9"),
    (None, "a" * 64, "0940" + "61" * 64),
    (None, b"\x00\xff", "0a0200ff"),
    (None, bytearray(b"x"), "0b0178"),
    (None, (), "80"),
    (None, ("word", 1), "8244776f7264c1"),
    (None, tuple(range(16)), "0c10" + "".join(f"{0xC0 + i:02x}" for i in range(16))),
    (None, [1], "91c1"),
    (None, list(range(16)), "0d10" + "".join(f"{0xC0 + i:02x}" for i in range(16))),
    (None, {"a": 1}, "0e014161c1"),
    (None, {5}, "0f01c5"),
    (None, frozenset({5}), "2001c5"),
    (None, datetime.date(1970, 1, 1), "1105000af93b"),
    (None, decimal.Decimal("1.5"), "1643312e35"),
    (None, Row("a", 1), "1783c0008241" + "61c1"),
    (None, datetime.datetime(1970, 1, 1, 0, 0, 1), "108205000f4240c0"),
    (None, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), "1083c0c01481c0"),
    (None, datetime.timedelta(days=-1), "1306ffffffebe228a000"),
    (None, uuid.UUID(int=258), "23" + "00" * 14 + "0102"),
    (None, np.float64(1.5), "1c82433c66380a08000000000000f83f"),
    (None, np.int16(-2), "1c82433c69320a02feff"),
    (None, np.bool_(True), "1c82437c62310a0101"),
    (WORD_COUNT, ("word", 1), "0004776f726400000001"),
    (WORD_COUNT, ("word", None), "040204776f7264"),
    (PERSON, Row("a", 2), "00016100000002"),
    (PERSON, Row.of_kind(RowKind.DELETE, None, 2), "070100000002"),
    (Types.BYTE(), -1, "ff"),
    (Types.SHORT(), -2, "fffe"),
    (Types.INT(), 258, "00000102"),
    (Types.LONG(), -1, "ff" * 8),
    (Types.BIG_INT(), 255, "0200ff"),
    (Types.FLOAT(), 1.5, "3fc00000"),
    (Types.DOUBLE(), 1.5, "3ff8000000000000"),
    (Types.BOOLEAN(), True, "01"),
    (Types.CHAR(), "é", "02c3a9"),
    (Types.STRING(), "x" * 128, "8001" + "78" * 128),
    (Types.BIG_DEC(), decimal.Decimal("1.50"), "04312e3530"),
    (Types.SQL_DATE(), datetime.date(1970, 1, 2), "00000001"),
    (Types.SQL_TIME(), datetime.time(0, 0, 1), "00000000000f4240"),
    (Types.SQL_TIMESTAMP(), datetime.datetime(1970, 1, 1, 0, 0, 1), "00000000000f4240"),
    (
        Types.SQL_TIMESTAMP(),
        datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        "40000000000f4240",
    ),
    (
        Types.TIMESTAMP_LTZ(),
        datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        "00000000000f4240",
    ),
    (Types.INSTANT(), Instant(1, 2), "00000000000000000100000002"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x01", "0101"),
    (Types.PRIMITIVE_ARRAY(Types.SHORT()), [1, 2], "0200010002"),
    (Types.BASIC_ARRAY(Types.SHORT()), [1, None], "0204020001"),
    (Types.LIST(Types.SHORT()), [1], "01000001"),
    (Types.MAP(Types.STRING(), Types.SHORT()), {"a": 1}, "0100016100" + "01"),
]


@pytest.mark.parametrize(("type_info", "value", "expected"), GOLDEN)
def test_golden_bytes(kind, type_info, value, expected):
    """Encode to the bytes of docs/formats/codec.md, and decode them."""
    codec = codec_of(kind, type_info)
    assert codec.encode(value).hex() == expected
    assert codec.encode(codec.decode(bytes.fromhex(expected))).hex() == expected


# -- declared types ----------------------------------------------------------------------------

DECLARED = [
    (Types.STRING(), ["", "word", "é", "€", "😀", "\ud800", "\0", "x" * 5000]),
    (Types.BYTE(), [-128, 127]),
    (Types.SHORT(), [-(2**15), 2**15 - 1]),
    (Types.INT(), [-(2**31), 0, 2**31 - 1]),
    (Types.LONG(), [-(2**63), 2**63 - 1]),
    (Types.BIG_INT(), [0, -1, 10**25, -(2**70)]),
    (Types.DOUBLE(), [0.1, -0.0, math.inf, 5e-324]),
    (Types.BOOLEAN(), [True, False]),
    (Types.CHAR(), ["x", "😀"]),
    (Types.BIG_DEC(), [decimal.Decimal("1.50"), decimal.Decimal("-1E+30")]),
    (Types.SQL_DATE(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
    (Types.SQL_TIME(), [datetime.time(0), datetime.time(23, 59, 59, 999_999)]),
    (
        Types.SQL_TIMESTAMP(),
        [datetime.datetime(1, 1, 1), datetime.datetime(2024, 1, 1, 1, 1, 1, 1)],
    ),
    (Types.INSTANT(), [Instant(-1, 999_999_999), Instant(2**40, 0)]),
    (WORD_COUNT, [("word", 1), (None, None)]),
    (Types.TUPLE([]), [()]),
    (Types.TUPLE([Types.INT()] * 20), [(*range(19), None)]),
    (Types.LIST(Types.INT()), [[], [1, None, 3], list(range(300))]),
    (Types.LIST(Types.LIST(Types.STRING())), [[["x"], [], None]]),
    (Types.BASIC_ARRAY(Types.DOUBLE()), [[1.0, None]]),
    (Types.OBJECT_ARRAY(WORD_COUNT), [[("a", 1), None]]),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), [[], [1, 2]]),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", bytes(range(256)) * 100]),
    (Types.MAP(Types.STRING(), Types.LONG()), [{}, {"a": 1, "b": None}]),
    (Types.MAP(Types.INT(), Types.LIST(Types.STRING())), [{1: ["a"], 2: []}]),
    (Types.PICKLED_BYTE_ARRAY(), [None, ("a", [1])]),
    (Types.TUPLE([Types.PICKLED_BYTE_ARRAY(), Types.INT()]), [({"a": 1}, 2), (None, 2)]),
]


@pytest.mark.parametrize(
    ("type_info", "value"), [(t, v) for t, values in DECLARED for v in values], ids=as_name
)
def test_declared_round_trip(kind, type_info, value):
    """A value of a declared type is decoded equal and of the same class."""
    back = codec_of(kind, type_info).decode(codec_of(kind, type_info).encode(value))
    assert back == value
    assert type(back) is type(value)


COERCED = [
    (Types.FLOAT(), 0.1, struct.unpack("f", struct.pack("f", 0.1))[0]),
    (Types.FLOAT(), 1e300, math.inf),
    (Types.FLOAT(), -1e300, -math.inf),
    (Types.FLOAT(), 1, 1.0),
    (Types.DOUBLE(), 3, 3.0),
    (Types.DOUBLE(), np.float32(0.5), 0.5),
    (Types.INT(), True, 1),
    (Types.INT(), np.int64(7), 7),
    (Types.INT(), 1.5, 1),
    (Types.LONG(), -2.7, -2),
    (Types.BYTE(), decimal.Decimal("1.50"), 1),
    (Types.SHORT(), np.float32(2.5), 2),
    (Types.TUPLE([Types.INT(), Types.LONG()]), (1.5, -0.0), (1, 0)),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1.5, 2], [1, 2]),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1.5}, {"a": 1}),
    (Types.BIG_INT(), np.int8(-7), -7),
    (Types.BOOLEAN(), 1, True),
    (Types.BOOLEAN(), 0.0, False),
    (Types.BOOLEAN(), 255, True),
    (Types.BOOLEAN(), np.bool_(False), False),
    (Types.BIG_DEC(), 3, decimal.Decimal(3)),
    (Types.BIG_DEC(), "1.50", decimal.Decimal("1.50")),
    (Types.SQL_DATE(), datetime.datetime(2024, 1, 2, 3), datetime.date(2024, 1, 2)),
    (Types.SQL_TIME(), datetime.datetime(2024, 1, 2, 3, 4), datetime.time(3, 4)),
    (
        Types.TIMESTAMP_LTZ(),
        datetime.datetime(2024, 1, 2),
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
    ),
    (Types.TUPLE([Types.INT(), Types.DOUBLE()]), Point(1, 2.0), (1, 2.0)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), memoryview(b"abcd")[::2], b"ac"),
]


@pytest.mark.parametrize(("type_info", "value", "expected"), COERCED, ids=as_name)
def test_coercions(kind, type_info, value, expected):
    """A type accepts values of other classes and converts them."""
    back = codec_of(kind, type_info).decode(codec_of(kind, type_info).encode(value))
    assert back == expected
    assert type(back) is type(expected)


def test_a_map_may_change_while_it_is_encoded(kind):
    content = {}

    class Growing:
        def __index__(self):
            content["b"] = 2
            return 1

    content["a"] = Growing()
    codec = codec_of(kind, Types.MAP(Types.STRING(), Types.INT()))
    assert codec.decode(codec.encode(content)) in ({"a": 1}, {"a": 1, "b": 2})
    counts = {collections.UserString("a"): 1}
    with pytest.raises(SerializationError):
        codec_of(kind, Types.MAP(Types.STRING(), Types.INT())).encode(counts)
    mapping = types.MappingProxyType({"a": 1})
    assert codec.decode(codec.encode(mapping)) == {"a": 1}


def test_nan_passes(kind):
    """NaN stays NaN, in both widths and undeclared."""
    for type_info in (Types.FLOAT(), Types.DOUBLE(), None):
        codec = codec_of(kind, type_info)
        assert math.isnan(codec.decode(codec.encode(math.nan)))


@pytest.mark.parametrize(
    "value",
    [
        Row("ann", 3),
        Row(name="ann", age=3),
        Row(age=3, name="ann"),
        Row(age=3, height=180, name="ann"),
        Row(f0="ann", f1=3),  # as a type without names calls its fields
    ],
)
def test_row_forms(kind, value):
    """A Row is decoded with the declared names, and only with their fields."""
    codec = codec_of(kind, PERSON)
    assert named(codec.decode(codec.encode(value))) == (
        ["ann", 3], ["name", "age"], RowKind.INSERT,
    )  # fmt: skip


def test_row_nulls_kinds_and_default_names(kind):
    """Null fields, all row kinds, and f0, f1 for rows without declared names."""
    codec = codec_of(kind, Types.ROW([Types.INT()] * 9))
    for row_kind in RowKind:
        row = Row.of_kind(row_kind, *range(8), None)
        back = codec.decode(codec.encode(row))
        assert named(back) == ([*range(8), None], [f"f{i}" for i in range(9)], row_kind)
    named_so = codec.decode(codec.encode(Row(**{f"f{i}": i for i in range(9)})))
    assert list(named_so) == list(range(9))


# -- errors ------------------------------------------------------------------------------------

REFUSED = [
    (Types.INT(), 2**31, "2147483648", "INT"),
    (Types.INT(), -(2**31) - 1, "-2147483649", "INT"),
    (Types.INT(), "1", "'1'", "INT"),
    (Types.INT(), 1j, "1j", "INT"),
    (Types.INT(), math.nan, "nan", "INT"),
    (Types.INT(), -math.inf, "-inf", "INT"),
    (Types.INT(), 2.0**31, "2147483648.0", "INT"),
    (Types.LONG(), decimal.Decimal("NaN"), "Decimal('NaN')", "LONG"),
    (Types.INT(), None, "None", "INT"),
    (Types.BYTE(), 128, "128", "BYTE"),
    (Types.SHORT(), 2**15, "32768", "SHORT"),
    (Types.LONG(), 2**63, str(2**63), "LONG"),
    (Types.LONG(), 2**200, str(2**200)[:50], "LONG"),
    (Types.BIG_INT(), 1.5, "1.5", "BIG_INT"),
    (Types.FLOAT(), "1", "'1'", "FLOAT"),
    (Types.DOUBLE(), 10**400, "1000", "DOUBLE"),
    (Types.STRING(), b"a", "b'a'", "STRING"),
    (Types.STRING(), None, "None", "STRING"),
    (Types.CHAR(), "ab", "'ab'", "CHAR"),
    (Types.CHAR(), "", "''", "CHAR"),
    (Types.BIG_DEC(), "x", "'x'", "BIG_DEC"),
    (Types.SQL_DATE(), "2024-01-01", "2024-01-01", "SQL_DATE"),
    (Types.SQL_TIME(), 5, "5", "SQL_TIME"),
    (Types.SQL_TIMESTAMP(), datetime.date(2024, 1, 1), "date", "SQL_TIMESTAMP"),
    (Types.INSTANT(), 5, "5", "INSTANT"),
    (Types.INSTANT(), Instant(2**63, 0), "Instant", "INSTANT"),
    (WORD_COUNT, ("a",), "('a',)", "TUPLE(STRING, INT)"),
    (WORD_COUNT, ("a", 2**31), "2147483648", "[1] of TUPLE(STRING, INT)"),
    (WORD_COUNT, "ab", "'ab'", "TUPLE"),
    (Types.LIST(Types.INT()), [1, "x"], "'x'", "[1] of LIST(INT)"),
    (Types.LIST(Types.STRING()), "ab", "'ab'", "LIST"),
    (Types.LIST(Types.INT()), {1}, "{1}", "LIST"),
    (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None], "None", "[1] of PRIMITIVE_ARRAY(INT)"),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), [1], "[1]", "PRIMITIVE_ARRAY(BYTE)"),
    (Types.MAP(Types.INT(), Types.INT()), {"a": 1}, "'a'", ".keys() of MAP(INT, INT)"),
    (Types.MAP(Types.INT(), Types.INT()), {1: "b"}, "'b'", "[1] of MAP(INT, INT)"),
    (Types.MAP(Types.INT(), Types.INT()), {None: 1}, "None", "key"),
    (Types.MAP(Types.INT(), Types.INT()), [1], "[1]", "MAP"),
    (PERSON, Row(name="a", years=1), "years", "ROW(name: STRING, age: INT)"),
    (PERSON, {"name": "a", "age": 1}, "age", "ROW"),
    (PERSON, ("a", 1), "('a', 1)", "not a Row"),
    (PERSON, ["a", 1], "['a', 1]", "not a Row"),
    (Types.ROW([Types.INT()]), Row(a=1), "Row(a=1)", "not ['f0']"),
    (Types.BOOLEAN(), [], "[]", "BOOLEAN"),
    (Types.BOOLEAN(), "a", "'a'", "BOOLEAN"),
    (Types.BOOLEAN(), -1, "-1", "BOOLEAN"),
    (Types.BOOLEAN(), 256, "256", "BOOLEAN"),
    (Types.BOOLEAN(), None, "None", "BOOLEAN"),
    (WORD_COUNT, ["a", 1], "['a', 1]", "not a tuple"),
    (WORD_COUNT, Row("a", 1), "Row", "not a tuple"),
    (Types.LIST(Types.INT()), (1, 2), "(1, 2)", "not a list"),
    (Types.BASIC_ARRAY(Types.INT()), range(2), "range(0, 2)", "not a list"),
    (Types.LIST(Types.LONG()), np.arange(3), "array", "not a list"),
    (PERSON, Row("a", "b"), "'b'", ".age of ROW"),
    (PERSON, 5, "5", "ROW"),
    (
        Types.TUPLE([Types.LIST(PERSON), Types.INT()]),
        ([Row("a", 1), Row("b", "c")], 1),
        "'c'",
        "[0][1].age of TUPLE",
    ),
    (None, (x for x in ()), "generator", "pickled"),
]


@pytest.mark.parametrize(("type_info", "value", "shown", "where"), REFUSED, ids=as_name)
def test_refusal_names_value_type_and_field(kind, type_info, value, shown, where):
    """The error for a value that does not fit locates the value."""
    codec = codec_of(kind, type_info)
    with pytest.raises(SerializationError) as refusal:
        codec.encode(value)
    assert shown in str(refusal.value)
    assert where in str(refusal.value)


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@pytest.mark.parametrize(("type_info", "value", "shown", "where"), REFUSED, ids=as_name)
def test_refusals_read_alike(type_info, value, shown, where):
    """Both runtimes raise the same messages."""
    texts = []
    for kind in ("native", "pure"):
        with pytest.raises(SerializationError) as refusal:
            codec_of(kind, type_info).encode(value)
        texts.append(str(refusal.value))
    assert texts[0] == texts[1]


def test_exceptions_of_a_value_pass(kind):
    """An exception of a user's method is not converted into a type error."""

    class Failing:
        def __index__(self):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        codec_of(kind, Types.INT()).encode(Failing())


def test_repr_that_fails(kind):
    """The error is raised even if the value's repr fails."""

    class Shy:
        def __repr__(self):
            raise RuntimeError("no")

    with pytest.raises(SerializationError, match="RuntimeError in its __repr__"):
        codec_of(kind, Types.INT()).encode(Shy())


# -- many values -------------------------------------------------------------------------------


def test_batches(kind):
    """Many values in one byte string, none of which is lost silently."""
    codec = codec_of(kind, WORD_COUNT)
    values = [("word", i) for i in range(1000)]
    data = codec.encode_batch(iter(values))
    assert codec.decode_batch(data) == values
    assert codec.decode_batch(b"") == []
    assert data[:14].hex() == "0000000a" + codec.encode(("word", 0)).hex()
    for size in (1, 3, 4, 13, 15, len(data) - 1):
        with pytest.raises(CorruptStreamError):
            codec.decode_batch(data[:size])
    with pytest.raises(SerializationError):
        codec.encode_batch([("word", 1), 5])


def test_decoding_takes_any_buffer(kind):
    """bytes, bytearray and memoryview are read alike."""
    codec = codec_of(kind, WORD_COUNT)
    data = codec.encode(("word", 1))
    for form in (data, bytearray(data), memoryview(data)):
        assert codec.decode(form) == ("word", 1)


def test_many_integers_in_fields(kind):
    """Repeated and distinct integers in the same field of one codec."""
    codec = codec_of(kind, Types.TUPLE([Types.LONG(), Types.INT()]))
    edges = [0, -1, 255, 256, 257, 2**30 - 1, 2**30, -(2**30), 2**31 - 1, -(2**31)]
    longs = [*edges, 2**60 - 1, 2**60, -(2**60), 2**63 - 1, -(2**63)]
    distinct = list(range(10_000, 60_000)) if kind == "native" else list(range(500))
    for numbers in (longs * 3, distinct, longs * 3, distinct):
        pairs = [(number, edges[i % len(edges)]) for i, number in enumerate(numbers)]
        assert codec.decode_batch(codec.encode_batch(pairs)) == pairs


def test_many_short_strings(kind):
    """Repeated and distinct strings."""
    codec = codec_of(kind, Types.STRING())
    known = ["", "a", "ab", "same length 1", "same length 2", "x" * 16, "x" * 17, "é", "日本"]
    distinct = [f"w{i}" for i in range(200_000 if kind == "native" else 1_000)]
    for texts in (known * 3, distinct, known * 3, distinct):
        assert codec.decode_batch(codec.encode_batch(texts)) == texts


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@given(st.datetimes(), st.datetimes(timezones=st.just(UTC)))
@settings(max_examples=50)
def test_declared_timestamps(naive, aware):
    """Both runtimes write the wall clock, or the instant, alike, and read it back."""
    for value in (naive, aware, naive.replace(fold=1)):
        for declared in (Types.SQL_TIMESTAMP(), Types.TIMESTAMP_LTZ()):
            codecs = [codec_of(kind, declared) for kind in ("native", "pure")]
            data = [codec.encode(value) for codec in codecs]
            assert data[0] == data[1]
            expected = value.replace(fold=0)
            if declared == Types.TIMESTAMP_LTZ():
                expected = expected.replace(tzinfo=UTC)
            for codec in codecs:
                back = codec.decode(data[0])
                assert (back, back.tzinfo) == (expected, expected.tzinfo)


@pytest.mark.parametrize("declared", [Types.SQL_TIMESTAMP(), Types.TIMESTAMP_LTZ()], ids=str)
def test_an_instant_of_another_zone_becomes_one_of_utc(kind, declared):
    codec = codec_of(kind, declared)
    for zone in (zoneinfo.ZoneInfo("Europe/Berlin"), datetime.timezone(datetime.timedelta(1 / 48))):
        for fold in (0, 1):  # the hour that occurs twice in Berlin
            given = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=fold)
            back = codec.decode(codec.encode(given))
            assert back == given.astimezone(UTC)
            assert back.tzinfo is UTC
    outside = datetime.datetime.min.replace(tzinfo=zoneinfo.ZoneInfo("Asia/Kolkata"))
    with pytest.raises(SerializationError, match="no moment that a datetime of UTC has"):
        codec.encode(outside)


@pytest.mark.parametrize("declared", [Types.SQL_TIMESTAMP(), Types.TIMESTAMP_LTZ()], ids=str)
def test_a_timestamp_beyond_the_calendar_is_refused(kind, declared):
    codec = codec_of(kind, declared)
    for micros in (-(2**63), 2**61 - 1, 2**61, 2**63 - 1):
        with pytest.raises(PenstockError):
            codec.decode(struct.pack(">q", micros))


class Shrinking:
    """Removes the fields of a row while one of them is pickled."""

    def __init__(self, values):
        self.values = values

    def __reduce__(self):
        self.values.clear()
        return str, ()


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="the fields are read in place")
def test_a_row_that_changes_while_it_is_written_is_refused():
    codec = codec_of("native", Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.LONG()]))
    row = Row(None, 1)
    row[0] = Shrinking(row._values)
    with pytest.raises(SerializationError):
        codec.encode(row)


@pytest.mark.parametrize("kind", ["native", "pure"])
def test_rows_are_written_alike_whichever_objects_their_names_are(kind):
    if kind == "native" and not NATIVE_IS_BUILT:
        pytest.skip("is not built")
    codec = codec_of(kind, PERSON)
    equal = Row(*("ann", 3))
    equal.set_field_names(["".join(list(name)) for name in ("name", "age")])
    other = Row(age=3, name="ann")
    assert codec.encode(equal) == codec.encode(Row(name="ann", age=3)) == codec.encode(other)


MIXED = Types.ROW_NAMED(
    ["a", "b", "c", "d"], [Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()]
)
FIELDS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**31 - 1, 2**31, -(2**31) - 1, 2**59, 2**60, 2**63 - 1, 2**63]),
    st.text(max_size=4),
    st.floats(),
    st.just(b"x"),
)


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="only the native codec tells")
@given(
    values=st.lists(FIELDS, min_size=3, max_size=5), names=st.sampled_from(["abcd", "abcde", ""])
)
def test_values_that_are_certainly_written_are_read_back(values, names):
    row = Row(*values)
    if names:
        row.set_field_names(list(names[: len(values)]))
    for declared, value in (
        (MIXED, row),
        (Types.TUPLE(MIXED.get_field_types()), tuple(values)),
    ):
        codec = codec_of("native", declared)
        if codec.certainly_writes(value):
            assert repr(list(codec.decode(codec.encode(value)))) == repr(list(value))


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="only the native codec tells")
def test_most_rows_and_tuples_are_certainly_written():
    row = Row(a=1, b=2, c="x", d=0.5)
    assert codec_of("native", MIXED).certainly_writes(row)
    assert codec_of("native", Types.TUPLE(MIXED.get_field_types())).certainly_writes(
        (1, 2, "x", 0.5)
    )
    row.set_row_kind(RowKind.DELETE)
    assert not codec_of("native", MIXED).certainly_writes(row)
