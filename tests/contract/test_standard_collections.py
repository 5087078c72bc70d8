"""``deque``, ``OrderedDict``, ``Counter`` and ``defaultdict`` are encoded as their contents.

Goal: they cost as much as a list or a dict, and are decoded unchanged.  Method: values through the
codecs of both runtimes and between them; those with further content are pickled.
"""

import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization.class_reference import noting_classes, register
from penstock.serialization.extended_values import is_always_pickled, is_pickled
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.key_hash import hash_any
from penstock.serialization.value_layouts import number_classes

from contract.codecs import NATIVE_IS_BUILT, codec_of

BUILT = ("native", "pure") if NATIVE_IS_BUILT else ("pure",)


@dataclass
class Held:
    values: Any
    note: str = ""


class Pair(NamedTuple):
    first: Any
    second: Any


class Basket:
    def __init__(self, lines, counts):
        self.lines = lines
        self.counts = counts

    def __repr__(self):
        return repr(vars(self))


def moved():
    found = OrderedDict(a=1, b=2, c=3)
    found.move_to_end("a")
    found.move_to_end("c", last=False)
    return found


VALUES = [
    deque(), deque([1, "a", (2.5, None)]), deque([[1]], 1), deque(maxlen=0), deque([deque([1], 2)]),
    OrderedDict(), OrderedDict(b=[1], a=None), moved(), OrderedDict({(1, 2): OrderedDict(x=1)}),
    Counter(), Counter("abracadabra"), Counter(a=-1, b=0.5),
    defaultdict(), defaultdict(None, a=1), defaultdict(list, a=[1], b=[]), defaultdict(int, {1: 2}),
    defaultdict(Counter, a=Counter("a")), defaultdict(Held, a=Held(deque([1]))),
    [deque([1]), {"k": Counter("a")}], Held(deque([Held(OrderedDict(a=1))], 3)),
    Pair(Counter("a"), defaultdict(set, a={1})), Basket(deque([1], 2), Counter("aab")),
    Basket([OrderedDict(a=1), moved()], defaultdict(dict, a={"b": deque()})),
]  # fmt: skip


def shown(value):
    """Return classes, values, order, limits and factories."""
    return repr(value), list(value) if isinstance(value, dict) else None


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_collections_are_read_back_unchanged(value):
    assert not is_pickled(value)
    data = {codec_of(runtime, None).encode(value) for runtime in BUILT}
    assert len(data) == 1
    assert b"\x80\x05" not in min(data)  # a pickle's first bytes
    for runtime in BUILT:
        back = codec_of(runtime, None).decode(*data)
        assert type(back) is type(value)
        assert shown(back) == shown(value)
        if type(value) is defaultdict:
            assert back.default_factory is value.default_factory


def test_bytes(codec):
    """docs/formats/codec.md"""
    for value, data in (
        (deque([1, 2], 3), "24 82 c3 92 c1 c2"),
        (deque(), "24 82 00 90"),
        (OrderedDict(b=1, a=2), "25 0e 02 41 62 c1 41 61 c2"),
        (Counter("aab"), "26 0e 02 41 61 c2 41 62 c1"),
        (defaultdict(int), "27 82 4c 62 75 69 6c 74 69 6e 73 3a 69 6e 74 0e 00"),
        (defaultdict(None, a=1), "27 82 00 0e 01 41 61 c1"),
    ):
        assert codec.encode(value) == bytes.fromhex(data)


def test_collections_with_more_than_their_contents_are_pickled(codec):
    noted, shared = OrderedDict(a=1), [1]
    noted.note = "x"
    for value in (
        noted, deque([shared, shared]), Counter(a=shared, b=shared), Held(deque([shared, shared])),
        defaultdict(lambda: 5, a=1), deque([defaultdict(len)]), deque([[n] for n in range(200)]),
        Basket(shared, deque([shared])), Basket(deque(), noted),
    ):  # fmt: skip
        parts = value.values if type(value) is Held else value
        assert is_pickled(parts), value
        back = codec.decode(codec.encode(value))
        assert type(back) is type(value)
        if not isinstance(parts, defaultdict) and type(value) is not deque:
            assert shown(back) == shown(value)
    back = codec.decode(codec.encode(deque([shared, shared])))
    assert back[0] is back[1]
    assert codec.decode(codec.encode(noted)).note == "x"
    assert codec.decode(codec.encode(defaultdict(lambda: 5)))["a"] == 5
    loop = deque()
    loop.append(loop)
    back = codec.decode(codec.encode(loop))
    assert back[0] is back


@pytest.mark.parametrize("count", [126, 127, 128])
def test_as_many_parts_as_within_an_instance(count):
    """The collection counts as one of them."""
    value = deque([n] for n in range(count))
    assert is_pickled(value) is (count > 127)
    assert len({codec_of(runtime, None).encode(value) for runtime in BUILT}) == 1


def test_a_factory_of_the_jobs_own(codec):
    @dataclass
    class Own:
        total: int = 0

    value = defaultdict(Own, a=1)
    assert is_pickled(value)
    assert codec.decode(codec.encode(value))["b"] == Own()
    number_classes([(register(Own), Own)])
    for _ in range(2):
        with noting_classes() as noted:
            data = codec.encode(value)
        assert list(noted) == [Own]
        back = codec.decode(data)
        assert back == value
        assert back.default_factory is Own
    assert not is_pickled(value)


@pytest.mark.parametrize(
    "data",
    ["24 c1", "24 82 c3 c1", "24 82 41 61 90", "24 81 90", "25 90", "26 c1", "26 82 00 0e 00",
     "27 0e 00", "27 82 00 90", "27 83 00 0e 00 00"],
)  # fmt: skip
def test_parts_of_another_kind_are_corrupt(codec, data):
    with pytest.raises(CorruptStreamError, match="bad parts of value tag 0x2"):
        codec.decode(bytes.fromhex(data))


def test_a_factory_that_is_not_here_is_named(codec):
    data = codec.encode(defaultdict(Counter)).replace(b"Counter", b"Cuonter")
    with pytest.raises(SerializationError, match="collections:Cuonter"):
        codec.decode(data)


def test_they_nest_as_deep_as_others(codec):
    for make in (lambda v: deque([v]), lambda v: OrderedDict(a=v), lambda v: defaultdict(int, a=v)):
        value = 1
        for _ in range(50):
            value = make(value)
        assert codec.decode(codec.encode(value)) == value
        for _ in range(60):
            value = make(value)
        with pytest.raises(SerializationError, match="nests deeper than 200"):
            codec.encode(value)


def test_programs_get_no_warning_about_pickles():
    for cls in (deque, OrderedDict, Counter, defaultdict):
        assert not is_always_pickled(cls)


@pytest.mark.parametrize("value", [v for v in VALUES if type(v).__module__ == "collections"])
def test_keys_are_those_of_former_versions(value):
    """Keys of the second and of transferred collections have the same key groups."""
    assert form_of(value)[0] == 0x1F
    for other in (value, pickle.loads(pickle.dumps(value))):
        assert form_of(other) == form_of(value)
    assert hash_any(value) == hash_any(value)
