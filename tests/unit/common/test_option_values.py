"""Values of options are read as Flink 2.3 reads them: the tables hold its answers."""

import pytest
from penstock.common.options.option import Option
from penstock.common.options.value_types import (
    INFINITE,
    BooleanType,
    ChoiceType,
    DurationType,
    FoldersType,
    IntegerType,
    ListType,
    MapType,
    MemorySizeType,
    NumberType,
    TextType,
)
from penstock.errors import ConfigurationError

DURATIONS = {
    "10": 10, "10 s": 10_000, " 10  S ": 10_000, "500ms": 500, "10 Sec": 10_000, "3 secs": 3_000,
    "2 min": 120_000, "10m": 600_000, "1 h": 3_600_000, "1d": 86_400_000, "10 Days": 864_000_000,
    "1500 µs": 1, "1500 micro": 1, "2000000 ns": 2, "PT1M30S": 90_000, "P1DT1S": 86_401_000,
    "pt0.5s": 500, "PT1.25S": 1_250, "P1D": 86_400_000,
}  # fmt: skip
SIZES = {
    "64": 64, "64 mb": 64 << 20, "64MB": 64 << 20, "64 m": 64 << 20, "64 mebibytes": 64 << 20,
    "1 k": 1024, "1 kb": 1024, "2 g": 2 << 30, "1 t": 1 << 40, "7 bytes": 7, "7b": 7,
}  # fmt: skip
LISTS = {
    "a;b": ("a", "b"), "a,b": ("a,b",), "[a, b]": ("a", "b"), '["a","b"]': ("a", "b"),
    "['a;x', b]": ("a;x", "b"), "a;;b": ("a", "", "b"), " a ; b ": ("a", "b"),
    '"a;b";c': ("a;b", "c"), "'a;b';c": ("a;b", "c"), "": (), "[]": (), "it's;b": ("it's", "b"),
}  # fmt: skip
MAPS = {
    "a:b,c:d": {"a": "b", "c": "d"}, "{a: b, c: d}": {"a": "b", "c": "d"},
    "{'a': 'b,c'}": {"a": "b,c"}, "": {}, "{}": {}, "a: b , c : d": {"a": "b", "c": "d"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [(DurationType(), *pair) for pair in DURATIONS.items()]
    + [(MemorySizeType(), *pair) for pair in SIZES.items()]
    + [(ListType(), *pair) for pair in LISTS.items()]
    + [(MapType(), *pair) for pair in MAPS.items()]
    + [(BooleanType(), text, text.lower() == "true") for text in ("true", "tRuE", "False")]
    + [(IntegerType(), text, int(text)) for text in ("1", "+1", "-1", "2147483647")]
    + [(NumberType(0), text, float(text)) for text in ("1", "1.5", " 1.5 ", "1e3")]
    + [(ChoiceType("NO_CLAIM", "B"), text, "NO_CLAIM") for text in ("no_claim", "No-Claim")]
    + [(FoldersType(), text, ("/a", "/b")) for text in ("/a,/b", "/a:/b", "/a|/b", "/a, /b,")],
)
def test_texts(value_type, text, value):
    assert value_type.parse(text) == value


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (DurationType(), text)
        for text in ("", "s", "-1 s", "1.5 s", "10 mins", "5 us", "10 parsecs", "P", "PT", "P1DT",
                     "infinite", "\uff11 s")
    ]
    + [(MemorySizeType(), text) for text in ("", "-1", "1.5 g", "64 MiB", "1 byte", "1 parsec")]
    + [(MapType(), text) for text in ("a", "a:b:c", "a:b,", "'a:b")]
    + [(ListType(), "'a;b")]
    + [(BooleanType(), text) for text in ("", " true", "yes", "1")]
    + [(IntegerType(), text) for text in ("", " 1", "1.0", "1e3", "0x10", "1_000", "2147483648")]
    + [(NumberType(0), text) for text in ("", "x", "-0.1", "nan", "inf")]
    + [(ChoiceType("hashmap", "b"), text) for text in ("", "hash", "hashmap b")],
)  # fmt: skip
def test_texts_that_are_no_value(value_type, text):
    with pytest.raises(ValueError):
        value_type.parse(text)


@pytest.mark.parametrize(
    ("value_type", "text", "says"),
    [
        (IntegerType(1, 32768), "32769", "must be a whole number from 1 to 32768"),
        (IntegerType(0, infinite=True), "-1", "must be a whole number from 0, or infinite"),
        (DurationType(10), "9 ms", "must be a duration, at least 10 ms: a number and a unit"),
        (DurationType(), "999 µs", "must be 0, or at least 1 ms"),
        (MemorySizeType(1 << 10, 1 << 20), "2 mb", "must be a memory size from 1 kb to 1 mb"),
        (MemorySizeType(1 << 20, may_be_zero=True), "1 kb", "must be a memory size from 1 mb"),
        (MemorySizeType(1 << 20, may_be_zero=True), "-1", "must be a memory size from 1 mb, or"),
        (NumberType(0, 1), "1.1", "must be a number from 0 to 1"),
        (ChoiceType("a", "b", "c"), "d", "must be one of a, b, c"),
        (ChoiceType("a", absent={"d_e": "set a"}), "D-E", "set a"),
    ],
)
def test_values_out_of_range_name_the_range(value_type, text, says):
    option = Option("the.key", value_type, None, "for the test")
    with pytest.raises(ConfigurationError) as raised:
        option.read({"the.key": text})
    assert str(raised.value).startswith(f"the.key: {text!r}: {says}")


@pytest.mark.parametrize(
    ("value_type", "value"),
    [
        (DurationType(), 0), (DurationType(), 1), (DurationType(), 90_000),
        (MemorySizeType(), 0), (MemorySizeType(), 1025), (MemorySizeType(), 3 << 30),
        (MapType(), {"a:b": "c,d", "e'f": "'g'", "": "x:y", " s ": "{", "q": '"'}),
        (ListType(), ("a", "b")), (FoldersType(), ("/a", "/b")), (BooleanType(), True),
        (IntegerType(0, infinite=True), INFINITE), (TextType(), "  any : thing;"),
    ],
)  # fmt: skip
def test_written_values_are_read_again(value_type, value):
    assert value_type.parse(value_type.text(value)) == value


def test_alternate_keys_count_where_the_key_is_not_set():
    option = Option("new", IntegerType(), 1, "for the test", alternate_keys=("old", "older"))
    assert option.read({}) == 1
    assert option.read({"older": "4"}) == 4
    assert option.read({"older": "4", "old": "3"}) == 3
    assert option.read({"older": "4", "old": "3", "new": "2"}) == 2
    with pytest.raises(ConfigurationError, match=r"^old: 'x'"):
        option.read({"old": "x"})
