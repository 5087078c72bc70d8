"""Both runtimes agree on which values of a state are referenced elsewhere.

Goal: a value counts as held as long as a reference outside its state could mutate a part of it, but
not because of immutable parts.  Method: values of all kinds in a list that stands for the state,
with and without another reference to one of their parts.
"""

import collections
import dataclasses
import datetime
import importlib
from typing import Any, NamedTuple

import pytest
from penstock.common import Row

from contract.codecs import RUNTIMES


@pytest.fixture(params=RUNTIMES)
def is_held(request):
    room = "_native.values" if request.param == "native" else "taskexecutor.copies"
    return importlib.import_module(f"penstock.{room}.held_values").is_held


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("one", "other")

    def __init__(self, one, other):
        self.one, self.other = one, other


@dataclasses.dataclass
class Box:
    number: int
    items: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    items: Any


class Pair(NamedTuple):
    one: Any
    other: Any


#: Return a value around a part.
AROUND = {
    "list": lambda part: [1, part],
    "dict": lambda part: {"a": part, "b": (1, 2)},
    "tuple": lambda part: [("x", part)],
    "tuples": lambda part: (1, ("x", part)),
    "dataclass": lambda part: Box(1, part),
    "frozen": lambda part: [Frozen(part)],
    "slots": lambda part: Slotted("x", part),
    "instance": lambda part: Plain(a=1, part=part),
    "deep": lambda part: {"a": [Box(1, {"b": (Slotted(1, [part]),)})]},
    "named tuple": lambda part: [Pair(1, part)],
    "row": lambda part: Row("x", part),
    "named row": lambda part: Row(name="x", part=part),
    "deque": lambda part: collections.deque([part]),
    "defaultdict": lambda part: collections.defaultdict(list, a=part),
    "ordered": lambda part: collections.OrderedDict(a=part),
}


def held(is_held, state):
    """Return whether a value in a list is held elsewhere, but not by this test."""
    return is_held((*state,), 0)


@pytest.mark.parametrize("kind", list(AROUND))
def test_a_value_is_held_as_long_as_one_of_its_parts_is(is_held, kind):
    state = [AROUND[kind]([1, 2])]
    assert not held(is_held, state)
    part = [1, 2]
    state[0] = AROUND[kind](part)
    assert held(is_held, state)
    part = None
    assert not held(is_held, state)


@pytest.mark.parametrize("kind", list(AROUND))
def test_a_value_is_held_as_long_as_itself_is(is_held, kind):
    value = AROUND[kind]([1, 2])
    state = [value]
    assert held(is_held, state)
    value = None
    assert not held(is_held, state)


def test_immutable_values_do_not_count_as_held(is_held):
    text, number, moment = "".join(["a", "b"]), 2**70, datetime.datetime(2026, 1, 1)
    pair, frozen = (text, number), Frozen((1, text))
    nested = ((text, 1), (number, (2, pair)))
    names = frozenset([text, pair])
    for part in (text, number, moment, pair, frozen, nested, names, int, len, Pair(1, 2)):
        assert not held(is_held, [part])
        for around in AROUND.values():
            assert not held(is_held, [around(part)])


def test_a_part_that_a_value_has_twice_is_its_own(is_held):
    part = [1]
    state = [[part, {"again": part}]]
    assert held(is_held, state)
    part = None
    assert not held(is_held, state)


def test_a_circle_within_a_value_is_its_own(is_held):
    child = Plain(parent=None)
    parent = Plain(child=child)
    child.parent = parent
    state = [[parent]]
    assert held(is_held, state)
    parent = None
    assert held(is_held, state)
    child = None
    assert not held(is_held, state)


def test_a_value_that_a_fold_has_taken_apart(is_held):
    """The state holds the parts: only holders of the whole value can change them."""
    value = [[3], [4]]
    fold = [*value]
    lent = (value,)
    assert is_held(lent, 0)
    value = None
    assert not is_held(lent, 0)
    fold += fold
    assert is_held(lent, 0)


def test_arrays_of_numpy(is_held):
    numpy = pytest.importorskip("numpy")
    state = [[numpy.zeros(3)]]
    assert not held(is_held, state)
    seen = state[0][0][:2]
    assert held(is_held, state), "a view shows its changes"
    seen[0] = 1
    del seen
    assert not held(is_held, state)
    whole = numpy.zeros(3)
    state = [[whole[:2]]]
    assert held(is_held, state)
    del whole
    assert not held(is_held, state)
