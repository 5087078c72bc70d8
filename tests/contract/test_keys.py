"""Keys are equal if their serialised forms are (internals M63, PyFlink's rule).

Goal: elements meet their key's state wherever they are processed, and no other.  Method: the groups
that key readers and channel selectors of both runtimes make, against groups by an independent
description of each key's bytes.
"""

import copy
import dataclasses
import datetime
import decimal
import importlib
import math
import struct
import threading
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.errors import SerializationError
from penstock.serialization.key_form import form_of
from penstock.serialization.key_types import exact_type, key_type_of, sent_key_type
from penstock.serialization.type_schema import schema_of

from contract.codecs import RUNTIMES, Colour, Frozen, Point, codec_of, module_of

NAN = float("nan")
OTHER_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]


class Slotted:
    """Is pickled; the pickle depends on what the fields share."""

    __slots__ = ("one", "two")

    def __init__(self, one, two):
        self.one = one
        self.two = two

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return True


class Text(str):
    pass


def keys_module(kind):
    return importlib.import_module(
        "penstock._native.keys.keys" if kind == "native" else "penstock.serialization.pure.keys"
    )


def reader(kind, type_info=None, selector=lambda value: value, position=-1):
    key_type = key_type_of(type_info)
    return keys_module(kind).KeyReader(selector, position, key_type.plain, key_type.convert)


def described(key):
    """Return a hashable value that identifies a key."""
    if isinstance(key, np.generic):
        return key.dtype.str, "nan" if key != key else key.tobytes()
    if type(key) is float:
        return float, "nan" if math.isnan(key) else struct.pack(">d", key)
    if type(key) in (tuple, list, Point):
        return type(key), tuple(map(described, key))
    if dataclasses.is_dataclass(key):
        return type(key), tuple(sorted((n, described(v)) for n, v in vars(key).items()))
    if type(key) is decimal.Decimal:
        return decimal.Decimal, str(key)
    if type(key) is frozenset:
        return frozenset, frozenset(map(described, key))
    return type(key), key


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.integers()
    | st.floats()
    | st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, NAN, OTHER_NAN, math.inf, 2.0**70])
    | st.sampled_from(["", "1", "a", b"", b"1", b"a"])
    | st.sampled_from([decimal.Decimal(t) for t in ("1", "1.0", "0", "-0", "NaN", "0.5")])
    | st.sampled_from([*Colour, datetime.date(1970, 1, 1), datetime.datetime(1970, 1, 1)])
    | st.sampled_from([np.int64(1), np.int32(1), np.float64(1), np.float64(NAN), np.bool_(True)])
    | st.sampled_from([Point(1, 1.0), Point(1, 1), Point(True, 1.0)])
    | st.builds(Frozen, st.sampled_from([datetime.datetime(1970, 1, 1), 1, 1.0, True]))
)
keys = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=2)
        | st.frozensets(st.sampled_from(["a", "b", 3, b"c"]), max_size=4)
    ),
    max_leaves=6,
)


def grouped(keys, group_of):
    groups = defaultdict(list)
    for number, key in enumerate(keys):
        groups[group_of(key)].append(number)
    return sorted(groups.values())


@pytest.mark.parametrize("kind", RUNTIMES)
@given(st.lists(keys, max_size=30))
@settings(max_examples=150, deadline=None)
def test_groups_are_those_of_the_serialised_form(kind, keys):
    expected = grouped(keys, described)
    assert grouped(keys, reader(kind).read) == expected
    copies = copy.deepcopy(keys)
    assert grouped(keys + copies, reader(kind).read) == [
        [*group, *(number + len(keys) for number in group)] for group in expected
    ]


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize("channels", [1, 2, 3])
@given(st.lists(keys, max_size=30))
@settings(max_examples=60, deadline=None)
def test_groups_do_not_depend_on_the_parallelism(kind, channels, keys):
    codec = codec_of(kind, None)
    selector = module_of(kind, "channel_selector").make_selector(
        "KEY_GROUP", channels, key_selector=lambda element: element[0], max_parallelism=128
    )
    read = reader(kind, selector=lambda element: element[0], position=0).read
    assert grouped(
        [(key,) for key in keys],
        lambda element: (selector.select(element), read(codec.decode(codec.encode(element)))),
    ) == grouped(keys, described)


@pytest.mark.parametrize("kind", RUNTIMES)
@given(keys)
def test_the_key_itself_is_kept(kind, key):
    module = keys_module(kind)
    assert described(module.key_of(module.identity_of(key))) == described(key)


@pytest.mark.parametrize("kind", RUNTIMES)
def test_ordinary_keys_stand_for_themselves(kind):
    """They cost nothing: no object is created for them."""
    read = reader(kind).read
    for key in ("a", 1, -(2**80), b"a", None, 0.5, ("a", 1), (("a",), b"b", None)):
        assert read(key) is key


@pytest.mark.parametrize("kind", RUNTIMES)
def test_pickled_keys_are_equal_whatever_their_fields_share(kind):
    read = reader(kind).read
    text = "".join(["sha", "red"])
    same, equal = Slotted(text, text), Slotted("shared", "".join(["s", "hared"]))
    assert read(same) == read(equal)
    assert hash(read(same)) == hash(read(equal))
    assert read(same) != read(Slotted("shared", "other"))
    hash_of = module_of(kind, "key_hash").key_hash()
    assert hash_of(same) == hash_of(equal)


@pytest.mark.parametrize("kind", RUNTIMES)
def test_subclasses_are_no_equals_of_their_base(kind):
    read = reader(kind).read
    assert len({read(Text("a")), read("a"), read(np.str_("a"))}) == 3


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_key_that_can_change_is_copied(kind):
    module = keys_module(kind)
    for key, change in (
        ([1], lambda k: k.append(2)),
        ({"a": 1}, lambda k: k.update(b=2)),
        (([1],), lambda k: k[0].append(2)),
    ):
        before = copy.deepcopy(key)
        identity = module.identity_of(key)
        change(key)
        assert module.key_of(identity) == before
        assert identity == module.identity_of(before)


@pytest.mark.parametrize("kind", RUNTIMES)
def test_order_matters_in_dictionaries_but_not_in_sets(kind):
    read = reader(kind).read
    assert read({"a": 1, "b": 2}) != read({"b": 2, "a": 1})
    many = [str(number) for number in range(50)]
    assert read(frozenset(many)) == read(frozenset(reversed(many)))
    assert read(set(many)) != read(frozenset(many))


@pytest.mark.parametrize("kind", RUNTIMES)
def test_keys_without_a_serialised_form_are_refused(kind):
    with pytest.raises(SerializationError, match="keys must be values that can be serialised"):
        reader(kind).read(threading.Lock())
    # Pickled by its name as a value, but its own method refuses.
    with pytest.raises(
        SerializationError, match="of type module is not such a value: cannot be pickled"
    ):
        reader(kind).read(threading)
    deep = ()
    for _ in range(300):
        deep = (deep,)
    with pytest.raises(SerializationError, match="nests deeper"):
        reader(kind).read(deep)


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize(
    ("declared", "given_key", "expected"),
    [
        (Types.DOUBLE(), 1, 1.0),
        (Types.DOUBLE(), True, 1.0),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.INT(), True, 1),
        (Types.LONG(), np.int64(5), 5),
        (Types.STRING(), Text("a"), "a"),
        (Types.BOOLEAN(), 2, True),
        (Types.BIG_DEC(), 1, decimal.Decimal(1)),
        (Types.TUPLE([Types.DOUBLE(), Types.STRING()]), (1, "a"), (1.0, "a")),
        (Types.TUPLE([Types.DOUBLE(), Types.STRING()]), (None, "a"), (None, "a")),
        (Types.LIST(Types.DOUBLE()), [1, 2], [1.0, 2.0]),
        (Types.INT(), None, None),
        (Types.PICKLED_BYTE_ARRAY(), True, True),
    ],
    ids=repr,
)
def test_keys_become_their_declared_type(kind, declared, given_key, expected):
    module = keys_module(kind)
    identity = reader(kind, declared).read(given_key)
    assert described(module.key_of(identity)) == described(expected)
    assert identity == reader(kind, declared).read(expected)
    key_type, _ = sent_key_type(declared, None, None)
    for channels in (2, 3, 100):
        select = (
            module_of(kind, "channel_selector")
            .make_selector(
                "KEY_GROUP",
                channels,
                key_selector=lambda v: v,
                key_type=key_type,
                max_parallelism=128,
            )
            .select
        )
        assert select(given_key) == select(expected)


ROWS = Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.STRING()])


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize(
    ("declared", "key"),
    [
        (Types.INT(), 2**31),
        (Types.INT(), -(2**31) - 1),
        (Types.BYTE(), 128),
        (Types.LONG(), 2**63),
        (Types.INT(), 2.0**31),
        (Types.INT(), "1"),
        (Types.STRING(), 1),
        (Types.TUPLE([Types.INT()]), (1, 2)),
        (Types.TUPLE([Types.INT()]), [1]),
        (Types.LIST(Types.INT()), (1,)),
        (ROWS, (1.0, "a")),
    ],
    ids=repr,
)
def test_keys_that_are_not_of_their_declared_type_are_refused(kind, declared, key):
    key_type, _ = sent_key_type(declared, None, None)
    selector = module_of(kind, "channel_selector").make_selector(
        "KEY_GROUP", 2, key_selector=lambda v: v, key_type=key_type, max_parallelism=128
    )
    with pytest.raises(SerializationError, match="a key is not of the declared type"):
        selector.select(key)


ELEMENTS = Types.TUPLE([Types.DOUBLE(), Types.INT(), Types.BOOLEAN(), Types.STRING()])


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize(
    ("elements", "selector", "position", "element"),
    [
        (ELEMENTS, lambda t: t[0], 0, (1, 1, True, "a")),
        (ELEMENTS, lambda t: t[1], 1, (1.0, True, True, "a")),
        (ELEMENTS, lambda t: t[2], 2, (1.0, 1, 7, "a")),
        (ELEMENTS, lambda t: t[3], 3, (1.0, 1, 7, Text("a"))),
        (ELEMENTS, lambda t: (t[0], t[2]), None, (1, 1, 1, "a")),
        (ELEMENTS, lambda t: (t[0], t[2]), None, (None, 1, 1, "a")),
        (ROWS, lambda row: (row[0], row[1]), None, Row(b="x", a=1)),
        (ROWS, lambda row: row[0], 0, Row(b="x", a=1)),
        (ROWS, lambda row: row.a, None, Row(1, "x")),
        (Types.DOUBLE(), lambda number: number, None, 3),
        (Types.LIST(Types.DOUBLE()), lambda numbers: numbers, None, [3, 4]),
    ],
)
def test_the_sender_takes_the_key_that_the_receiver_takes(
    kind, elements, selector, position, element
):
    """The exchange converts values to their declared type; both ends read the same key."""
    codec = codec_of(kind, elements)
    received = codec.decode(codec.encode(element))
    for declared in (None, Types.PICKLED_BYTE_ARRAY()):
        key_type, sent = sent_key_type(declared, elements, position)
        for channels in (2, 3, 100):
            select = (
                module_of(kind, "channel_selector")
                .make_selector(
                    "KEY_GROUP",
                    channels,
                    key_selector=selector,
                    key_type=key_type,
                    elements=None if sent is None else codec,
                    max_parallelism=128,
                )
                .select
            )
            assert select(element) == select(received)


def test_forms_are_not_mistaken_for_each_other():
    values = [(), [], {}, frozenset(), set(), (1,), [1], {1: 1}, frozenset([1]), {1}, ((),), [()]]
    assert len({form_of(value) for value in values}) == len(values)


def test_the_form_of_a_key_that_came_before():
    """The key is known by its bytes: mutation or another order never leads to another's."""
    names = {f"name {i}" for i in range(9)}
    others = {f"name {i}" for i in range(8, -1, -1)}
    changing = [Frozen("a"), {"b": 1}]
    before = form_of(changing)
    changing[1]["b"] = 2
    after = form_of(changing)
    assert form_of([Frozen("a"), {"b": 1}]) == before != after
    assert form_of([Frozen("a"), {"b": 2}]) == after
    assert form_of((Point(1, NAN), names)) == form_of((Point(1, OTHER_NAN), others))
    assert form_of(Point(1, 0.0)) != form_of(Point(True, 0.0)) != form_of(Point(1, -0.0))
    for i in range(10_000):
        assert form_of(decimal.Decimal(i)).endswith(str(i).encode())


DECLARED_KEYS = [
    Types.LONG(),
    Types.SHORT(),
    Types.STRING(),
    Types.BIG_INT(),
    Types.TUPLE([Types.LONG(), Types.STRING()]),
    Types.TUPLE([Types.BYTE(), Types.TUPLE([Types.BOOLEAN(), Types.DOUBLE()])]),
]
declared_keys = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-200, 200)
    | st.sampled_from([2**15, 2**63, -(2**63), 2**63 - 1, 2**70, 1.0, "a", b"a"]),
    lambda inner: st.tuples(inner, inner) | st.tuples(inner),
    max_leaves=4,
)


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize("type_info", DECLARED_KEYS, ids=repr)
@given(key=declared_keys)
def test_a_key_that_stays_as_it_is_is_what_its_codec_decodes(kind, type_info, key):
    found = []
    keys = keys_module(kind)
    exact = exact_type(schema_of(type_info), keys.ExactType)
    kept = keys.KeyConversion(exact, found.append)(key)
    if found == [key]:
        return
    assert kept is key
    if key is None:  # no codec can encode the key
        return
    decoded = codec_of(kind, type_info).decode(codec_of(kind, type_info).encode(key))
    assert described(decoded) == described(key)


@pytest.mark.parametrize("kind", RUNTIMES)
@pytest.mark.parametrize(
    ("type_info", "key"),
    [
        (Types.TUPLE([Types.LONG(), Types.LONG()]), (1000, 7)),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (2**63 - 1, None)),
        (Types.TUPLE([Types.TUPLE([Types.INT()]), Types.BOOLEAN()]), ((-(2**31),), True)),
        (Types.SHORT(), -(2**15)),
        (Types.LONG(), None),
    ],
)
def test_a_key_of_its_declared_type_is_not_converted(kind, type_info, key):
    def converted(key):
        pytest.fail(f"{key!r} was converted")

    keys = keys_module(kind)
    exact = exact_type(schema_of(type_info), keys.ExactType)
    reader = keys.KeyReader(lambda key: key, -1, None, keys.KeyConversion(exact, converted))
    assert keys.key_of(reader.read(key)) == key
