"""Key hashing and channel selection: golden vectors, both runtimes alike.

Goal: a key's channel is the same in every process, runtime and version.  Method: the vectors of
internals M73, and random keys compared between the runtimes.
"""

import decimal
import math
import operator
import re
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.common.typeinfo import Types
from penstock.common.types import Row, RowKind
from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import key_group, murmur_hash
from penstock.serialization.key_selection import Part, field_of, part_of

from contract.codecs import NATIVE_IS_BUILT, RUNTIMES, Colour, Point, codec_of, module_of


@pytest.fixture(params=RUNTIMES)
def kind(request):
    return request.param


@pytest.fixture
def key_hash(kind):
    return module_of(kind, "key_hash").key_hash


@pytest.fixture
def make_selector(kind):
    return module_of(kind, "channel_selector").make_selector


MURMUR = {
    0: 593689054, 1: 68075478, 2: 1085422463, 3: 847579505, 42: 1134849565, -1: 1982413648,
    2147483647: 1653689534, -2147483648: 1718298732,
}  # fmt: skip


def test_murmur_vectors():
    """The mixing function of key groups (J)."""
    assert {code: murmur_hash(code) for code in MURMUR} == MURMUR
    groups = [key_group(code, 128) for code in MURMUR]
    assert groups == [94, 86, 127, 113, 29, 80, 62, 108]


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@given(st.integers(-(2**31), 2**31 - 1))
def test_native_murmur_is_the_same(code):
    assert module_of("native", "key_hash").murmur_hash(code) == murmur_hash(code)


STRINGS = {
    "hello": (99162322, 35, 0), "flink": (97520992, 98, 2), "key-1": (101943363, 54, 1),
    "a": (97, 81, 1), "b": (98, 22, 0), "": (0, 94, 2),
}  # fmt: skip


@pytest.mark.parametrize(("key", "expected"), STRINGS.items())
def test_string_vectors(key_hash, make_selector, key, expected):
    """Hash, key group and channel of strings (J)."""
    code = key_hash()(key)
    selector = make_selector("KEY_GROUP", 3, key_selector=lambda v: v, max_parallelism=128)
    assert (code, key_group(code, 128), selector.select(key)) == expected


HASHES = [
    (None, None, 0),
    (None, True, 1231),
    (None, False, 1237),
    (None, 7, 7),
    (None, -1, -1),
    (None, 2**31 - 1, 2**31 - 1),
    (None, 2**31, -(2**31)),
    (None, -(2**31) - 1, -(2**31)),
    (None, 2**32, 1),
    (None, 2**64, 961),
    (None, -(2**64), -961),
    ("LONG", 7, 7),
    ("LONG", -1, 0),
    ("INT", -1, -1),
    ("BOOLEAN", 1, 1231),
    (None, 1.5, 1073217536),
    (None, 0.0, 0),
    (None, -0.0, -(2**31)),
    (None, math.nan, 2146959360),
    (None, -math.nan, 2146959360),
    ("DOUBLE", 1, 1072693248),
    ("FLOAT", 1.5, 1069547520),
    ("FLOAT", math.nan, 2143289344),
    (None, "é", 233),
    (None, "😀", 1772899),
    (None, b"\x01\xff", 30),
    (None, bytearray(b"\x01\xff"), 30),
    (None, ("a", 1), 31 * 97 + 1),
    (None, (), 0),
    (None, [], 1),
    (None, ["a", 1], (31 + 97) * 31 + 1),
    (None, Row("a", 1), 31 * 97 + 1),
    (None, Point(1, 0.0), 31),
    (None, ("a", (1, 2)), 31 * 97 + 33),
    (None, frozenset({1, 2}), 3),
    (None, {"a": 1}, 97 ^ 1),
    (None, np.int64(5), 5),
    (None, np.float64(1.5), 1073217536),
]


@pytest.mark.parametrize(("declared", "key", "expected"), HASHES, ids=repr)
def test_hash_vectors(key_hash, declared, key, expected):
    """The table of the hashing scheme."""
    assert key_hash(declared)(key) == expected


keys = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary()
    | st.integers(-(2**65), 2**65) | st.dates() | st.decimals() | st.just(Colour.RED),
    lambda inner: st.tuples(inner, inner) | st.frozensets(st.text()) | st.lists(inner),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@settings(deadline=None, max_examples=400)
@given(keys)
def test_runtimes_hash_alike(key):
    """Any key has one hash, a signed 32-bit number."""
    native, pure = (module_of(kind, "key_hash").key_hash()(key) for kind in ("native", "pure"))
    assert native == pure
    assert -(2**31) <= native < 2**31


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@pytest.mark.parametrize("declared", ["LONG", "FLOAT", "DOUBLE", "BOOLEAN", "INT"])
@given(st.integers(-(2**63), 2**63 - 1) | st.floats(-1e30, 1e30).map(int))
def test_runtimes_hash_declared_keys_alike(declared, key):
    native, pure = (
        module_of(kind, "key_hash").key_hash(declared)(key) for kind in ("native", "pure")
    )
    assert native == pure


def test_numpy_booleans_have_a_hash(key_hash):
    """numpy's bool looks like an index but refuses to be one."""
    assert key_hash()(np.bool_(True)) != key_hash()(np.bool_(False))


def test_keys_of_the_wrong_type(key_hash):
    """A key that is not of its declared type is an error; it has no hash."""
    with pytest.raises(TypeError):
        key_hash("LONG")("a")
    with pytest.raises((TypeError, ValueError)):
        key_hash("DOUBLE")("a")


# -- selectors ---------------------------------------------------------------------------------


def channels(selector, count, value=None):
    return [selector.select(value) for _ in range(count)]


def test_fixed_selectors(make_selector):
    """FORWARD and GLOBAL choose channel 0, BROADCAST all."""
    assert channels(make_selector("FORWARD", 1), 3) == [0, 0, 0]
    assert channels(make_selector("GLOBAL", 4), 3) == [0, 0, 0]
    broadcast = make_selector("BROADCAST", 4)
    assert channels(broadcast, 2) == [-1, -1]
    assert broadcast.is_broadcast
    assert not make_selector("GLOBAL", 4).is_broadcast


def test_round_robin(make_selector):
    """RESCALE starts at 0, REBALANCE anywhere; both rotate."""
    assert channels(make_selector("RESCALE", 3), 7) == [0, 1, 2, 0, 1, 2, 0]
    starts = set()
    for _ in range(100):
        chosen = channels(make_selector("REBALANCE", 3), 6)
        assert chosen == [(chosen[0] + i) % 3 for i in range(6)]
        starts.add(chosen[0])
    assert starts == {0, 1, 2}
    assert channels(make_selector("REBALANCE", 1), 2) == [0, 0]


def test_shuffle_reaches_all_channels(make_selector):
    """SHUFFLE is uniform, as far as 10,000 draws can show."""
    counts = Counter(channels(make_selector("SHUFFLE", 4), 10_000))
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 2_000


def test_custom(make_selector):
    """CUSTOM calls the user's function with key and number of channels, and checks the result."""
    selector = make_selector(
        "CUSTOM", 4, key_selector=lambda v: v["k"], function=lambda key, n: (key + 1) % n
    )
    assert selector.select({"k": 3}) == 0
    for answer in (4, -1, "0", None, 1.0):
        wrong = make_selector("CUSTOM", 4, function=lambda key, n, answer=answer: answer)
        with pytest.raises(InvalidProgramError, match="none of the 4 channels"):
            wrong.select(0)
    assert make_selector("CUSTOM", 4, function=lambda key, n: np.int64(2)).select(0) == 2


def test_custom_chooses_several_channels(make_selector):
    """CUSTOM: a list or tuple names any number of channels, each of them once."""
    several = make_selector("CUSTOM", 4, function=lambda key, n: key)
    assert several.select([3, 0]) == [3, 0]
    assert several.select((np.int64(1),)) == [1]
    assert several.select([]) == []
    assert several.select(2) == 2
    with pytest.raises(InvalidProgramError, match="names a channel twice"):
        several.select([1, 1])
    with pytest.raises(InvalidProgramError, match="none of the 4 channels"):
        several.select([1, 4])


@pytest.mark.parametrize(
    ("name", "count", "arguments"),
    [
        ("HASH", 1, {}), ("FORWARD", 0, {}), ("KEY_GROUP", 2, {"max_parallelism": 128}),
        ("KEY_GROUP", 2, {"key_selector": id, "max_parallelism": 1}), ("CUSTOM", 2, {}),
    ],
)  # fmt: skip
def test_missing_arguments(make_selector, name, count, arguments):
    """An invalid selector is rejected when it is created."""
    with pytest.raises(ValueError):
        make_selector(name, count, **arguments)


def by_key(make_selector, selector):
    return make_selector("KEY_GROUP", 4, key_selector=selector, max_parallelism=128)


def def_field(t):
    """Return a function with a docstring."""
    return t[1]


FIELD_SELECTORS = [
    (lambda t: t[0], 0),
    (lambda element: element[3], 3),
    (operator.itemgetter(2), 2),
    (def_field, 1),
]

OTHER_SELECTORS = [
    lambda t: t[-1], lambda t: t["0"], lambda t: t[0:1], lambda t: t[0][0], lambda t, u=0: t[0],
    lambda *t: t[0], lambda t: t[1] + 0, lambda t: (t[0],), operator.itemgetter(0, 1),
    operator.itemgetter("a"), operator.itemgetter(-1), operator.attrgetter("x"), len, str,
    lambda t: FIELD_SELECTORS[0],
]  # fmt: skip


def test_field_selectors_are_recognised():
    """Selectors that only read a field, and none that does more."""
    assert [field_of(selector) for selector, _ in FIELD_SELECTORS] == [0, 3, 2, 1]
    assert [field_of(selector) for selector in OTHER_SELECTORS] == [None] * len(OTHER_SELECTORS)


class Visit(NamedTuple):
    user: str
    name: str = "n"


def def_item(visit):
    """Return a function with a docstring."""
    return visit["user"]


PART_SELECTORS = [
    (lambda v: v.user, Part(True, "user")),
    (lambda visit: visit["user"], Part(False, "user")),
    (def_item, Part(False, "user")),
    (operator.attrgetter("user"), Part(True, "user")),
    (operator.itemgetter("user"), Part(False, "user")),
]

OTHER_PART_SELECTORS = [
    lambda v: v.user.name, lambda v: v[0], lambda v: v["user"]["name"], lambda v, w=0: v.user,
    lambda *v: v.user, lambda v: FIELD_SELECTORS.user, lambda v: v[b"user"], lambda v: v.user(),
    operator.attrgetter("user.name"), operator.attrgetter("user", "name"), operator.itemgetter(0),
    len, None, lambda v, *, w=0: v.user,
]  # fmt: skip


def test_selectors_of_a_part_are_recognised():
    """Selectors that only read an attribute or an item, and none that does more."""
    assert [part_of(selector) for selector, _ in PART_SELECTORS] == [p for _, p in PART_SELECTORS]
    assert [part_of(s) for s in OTHER_PART_SELECTORS] == [None] * len(OTHER_PART_SELECTORS)


@pytest.mark.parametrize("selector", [selector for selector, _ in PART_SELECTORS])
def test_recognised_parts_behave_as_written(make_selector, selector):
    """Same keys and same exceptions as calling the selector, whatever the records are."""
    asking = by_key(make_selector, lambda v: selector(v))
    taking = by_key(make_selector, selector)
    for number in range(20):
        for value in (Visit(f"u{number}"), {"user": f"u{number}"}, Row(user=f"u{number}"), 5, None):
            try:
                expected = asking.select(value)
            except Exception as error:
                with pytest.raises(type(error), match=re.escape(str(error))):
                    taking.select(value)
            else:
                assert taking.select(value) == expected


@pytest.mark.parametrize(("selector", "position"), FIELD_SELECTORS)
def test_recognised_selectors_behave_as_written(make_selector, selector, position):
    """Same keys and same exceptions as calling the selector, whatever the records are."""
    asking = by_key(make_selector, lambda t: selector(t))
    taking = by_key(make_selector, selector)
    for value in (tuple("abcd"), list("abcd"), "abcd", dict(enumerate("abcd"))):
        assert taking.select(value) == asking.select(value)
    for value in ((), [], 5, None, {}):
        with pytest.raises(Exception) as expected:
            selector(value)
        with pytest.raises(type(expected.value)) as raised:
            taking.select(value)
        assert str(raised.value) == str(expected.value)
        if not isinstance(selector, operator.itemgetter):
            assert raised.traceback[-1].path.name == "test_key_groups.py"


def test_key_groups_spread_by_range(make_selector):
    """The channel is that of the key group's range (M63)."""
    selector = make_selector("KEY_GROUP", 3, key_selector=lambda v: v, max_parallelism=10)
    for key in range(200):
        assert selector.select(key) == key_group(key, 10) * 3 // 10


def test_equal_decimals_and_scales(key_hash):
    """A key without a rule of its own hashes by its encoding, deterministically."""
    assert key_hash()(decimal.Decimal("1.5")) == key_hash()(decimal.Decimal("1.5"))


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@pytest.mark.parametrize("selector", [lambda r: r.f0, lambda r: r["f0"], lambda r: r[0]])
def test_rows_that_get_their_names_on_the_way(selector):
    """The sender uses the key that the receiver will read from the row, which then has names."""
    declared = Types.ROW([Types.STRING(), Types.INT()])
    native, pure = (
        module_of(kind, "channel_selector").make_selector(
            "KEY_GROUP",
            7,
            key_selector=selector,
            elements=codec_of(kind, declared),
            max_parallelism=128,
        )
        for kind in ("native", "pure")
    )
    for number in range(30):
        row = Row.of_kind(RowKind.DELETE, f"key{number}", number if number % 3 else None)
        assert native.select(row) == pure.select(row)
        assert row._field_names() is None
        # A field that exchange converts is identified by its bytes.
        loose = Row(f"key{number}", number + 0.5)
        assert native.select(loose) == pure.select(loose)
