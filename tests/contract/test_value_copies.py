"""Copies of values: both runtimes copy alike, and as ``copy.deepcopy`` does.

Goal: a copy equals its original and shares nothing mutable with it; sharing within a value is
preserved.  Method: values of many kinds, compared part by part.
"""

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import importlib
import sys
import threading
import types
import uuid
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from penstock.common import Row
from penstock.common.types import RowKind
from penstock.errors import ValueCopyError

from contract.codecs import RUNTIMES, Colour


@pytest.fixture(params=RUNTIMES)
def copier(request):
    room = "_native.values" if request.param == "native" else "taskexecutor.compiled"
    return importlib.import_module(f"penstock.{room}.value_copies").ValueCopier(
        "operator 'o' emits"
    )


@dataclasses.dataclass
class Mutable:
    number: int
    parts: list


@dataclasses.dataclass(slots=True)
class Slotted:
    number: int
    parts: list


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: int
    parts: object


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlotted:
    number: int
    parts: object


class Pair(NamedTuple):
    first: object
    second: object


class Plain:
    def __init__(self, *parts):
        self.parts = list(parts)

    def __eq__(self, other):
        return type(other) is Plain and self.parts == other.parts

    def __repr__(self):
        return f"Plain({self.parts})"


class Derived(Mutable):
    """Has attributes that are not fields."""


class OwnWay(Plain):
    def __deepcopy__(self, memo):
        return OwnWay(*copy.deepcopy(self.parts, memo), "copied")


class Text(str):
    """A text with attributes."""


def derived():
    made = Derived(1, [2])
    made.more = [3]
    return made


def text():
    made = Text("abc")
    made.tags = ["d"]
    return made


def row():
    made = Row(a=1, b=[2])
    made.set_row_kind(RowKind.DELETE)
    return made


UNCHANGING = [
    None, True, 1, 2**80, 1.5, 1j, "é", b"b", (), (1, ("a", None)), range(3), ...,
    datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC), datetime.date(2020, 1, 2),
    datetime.time(1), datetime.timedelta(1), decimal.Decimal("1.5"), uuid.UUID(int=1),
    Colour.RED, int, len,
]  # fmt: skip

CHANGING = [
    [1, [2, "x"]], {"a": [1], (1, 2): {"b": 2}}, {1, 2}, (1, [2]), ((1, (2, [3])), 4),
    bytearray(b"x"), Mutable(1, [2, Mutable(3, [])]), Slotted(1, [2]), Frozen(1, [2]),
    Frozen(1, Frozen(2, (Frozen(3, [4]),))), FrozenSlotted(1, [2]), Pair(1, [2]), Plain(1, [2]),
    row(), Row(1, [2]), derived(), text(), collections.deque([[1]], 3),
    collections.defaultdict(list, a=[1]), collections.OrderedDict(a=[1]), collections.Counter("a"),
    [None, {"k": (1, {"l": {1, 2}})}],
]  # fmt: skip


def vars_of(value):
    # A row creates its own when it is read.
    return {} if isinstance(value, Row) else getattr(value, "__dict__", {})


def parts_that_change(value, found):
    """Return the identities of all mutable parts of a value."""
    if isinstance(value, (list, set, bytearray, collections.deque, Row, Plain, Mutable, Slotted)):
        found.add(id(value))
    if isinstance(value, dict):
        found.add(id(value))
        value = [*value, *value.values()]
    if isinstance(value, (Row, list, tuple, set, collections.deque)):
        for part in value:
            parts_that_change(part, found)
    for part in () if isinstance(value, enum.Enum) else vars_of(value).values():
        parts_that_change(part, found)
    for field in getattr(value, "__dataclass_fields__", ()):
        parts_that_change(getattr(value, field), found)
    return found


@pytest.mark.parametrize("value", UNCHANGING, ids=repr)
def test_immutable_values_are_not_copied(copier, value):
    assert copier.copied(value) is value


@pytest.mark.parametrize("value", CHANGING, ids=repr)
def test_a_copy_is_equal_and_shares_nothing_that_changes(copier, value):
    made = copier.copied(value)
    assert type(made) is type(value)
    assert made == value
    assert repr(made) == repr(value)
    assert vars_of(made) == vars_of(value)
    if isinstance(value, Row):
        assert made.get_row_kind() == value.get_row_kind()
        assert made._field_names() == value._field_names()
    assert parts_that_change(made, set()).isdisjoint(parts_that_change(value, set()))


@pytest.mark.parametrize(
    "value", [Frozen(1, (2, "x")), FrozenSlotted(1, None), Pair(1, (2,)), frozenset({1, (2,)})]
)
def test_a_copy_of_frozen_values_of_frozen_parts_is_equal(copier, value):
    assert copier.copied(value) == value
    assert copier.copied([value]) == [value]


@pytest.mark.parametrize(
    "value", [np.arange(6).reshape(2, 3), np.array([[1], "a"], dtype=object), np.zeros((), "i4,f8")]
)
def test_arrays_are_copied(copier, value):
    made = copier.copied([value])[0]
    assert made.dtype == value.dtype
    assert not np.shares_memory(made, value)
    assert np.array_equal(made, value)
    scalar = np.float64(2.5)
    assert copier.copied(scalar) == scalar


def test_within_a_value_what_is_shared_stays_shared(copier):
    part = [1]
    inner = Mutable(1, part)
    value = [part, (part,), {"a": part, "b": {"c": inner}}, inner, Frozen(1, part), Pair(1, part)]
    made = copier.copied(value)
    assert made[0] is not part
    assert made[1][0] is made[2]["a"] is made[3].parts is made[4].parts is made[5].second is made[0]
    assert made[2]["b"]["c"] is made[3]
    pair = (part, 1)
    first, second = copier.copied([pair, pair])
    assert first is second


def cycles():
    a_list = []
    a_list.append(a_list)
    a_dict = {}
    a_dict["self"] = [a_dict]
    a_tuple = ([],)
    a_tuple[0].append(a_tuple)
    an_instance = Mutable(1, [])
    an_instance.parts.append(an_instance)
    a_frozen = Frozen(1, [])
    a_frozen.parts.append(a_frozen)
    parent, child = Plain(), Plain()
    parent.parts.append(child)
    child.parts.append(parent)
    return [a_list, a_dict, a_tuple, an_instance, a_frozen, parent]


def steps(value, seen):
    """Return the shape of a value, with back references to parts that occurred before."""
    if id(value) in seen:
        return f"back to {seen[id(value)]}"
    content = value
    if isinstance(value, dict):
        content = list(value.items())
    elif dataclasses.is_dataclass(value):
        content = [value.number, value.parts]
    elif isinstance(value, Plain):
        content = value.parts
    elif not isinstance(value, (list, tuple)):
        return value
    seen[id(value)] = len(seen)
    return type(value).__name__, [steps(part, seen) for part in content]


@pytest.mark.parametrize("number", range(6))
def test_values_that_contain_themselves_are_copied(copier, number):
    value = cycles()[number]
    made = copier.copied(value)
    assert made is not value
    assert steps(made, {}) == steps(value, {})


def test_deep_values_and_those_too_deep(copier):
    value = []
    for _ in range(250):
        value = [value]
    assert copier.copied(value) == value
    for _ in range(2000):
        value = [value]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # another test's library may have raised it
    try:
        with pytest.raises(ValueCopyError, match="RecursionError"):
            copier.copied(value)
    finally:
        sys.setrecursionlimit(limit)


def test_a_class_may_say_how_it_is_copied(copier):
    assert copier.copied([OwnWay(1)])[0].parts == [1, "copied"]
    target = Plain()
    assert copier.copied([weakref.ref(target)])[0]() is target


@pytest.mark.parametrize(
    "value", [threading.Lock(), [threading.Lock()], Plain(threading.Lock()), (i for i in [1])]
)
def test_the_error_names_a_value_that_cannot_be_copied(copier, value):
    cls = type(value)
    with pytest.raises(ValueCopyError) as caught:
        copier.copied(value)
    message = str(caught.value)
    assert message.startswith(
        f"operator 'o' emits a value of {cls.__module__}.{cls.__qualname__} that cannot be copied"
    )
    assert "__deepcopy__" in message
    assert "enable_object_reuse()" in message
    assert copier.copied([1]) == [1]


def test_many_values_are_copied_one_by_one(copier):
    part = [1]
    first, second, third = copier.copied_all(iter([part, part, 2]))
    assert first == second == [1]
    assert third == 2
    assert len({id(part), id(first), id(second)}) == 3


def test_an_exception_of_a_value_is_the_cause(copier):
    class Breaks:
        def __deepcopy__(self, memo):
            raise OSError("gone")

    with pytest.raises(ValueCopyError, match="OSError: gone") as caught:
        copier.copied({"a": Breaks()})
    assert isinstance(caught.value.__cause__, OSError)


def test_a_class_that_came_without_its_slots_is_copied_by_its_attributes(copier):
    """cloudpickle restores a class with slots as one without."""
    back = types.new_class("Back", (), {}, lambda names: names.update(__slots__=()))
    back.__slots__ = ("number", "parts")
    loose = type("Loose", (back,), {})
    value = loose()
    value.number, value.parts = 1, [2]
    made = copier.copied(value)
    assert vars(made) == vars(value)
    assert made.parts is not value.parts


class Counter:
    """Neither dataclass nor slots: attributes set at any time."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def spread():
    value = Mutable(1, [2])
    value.later = {"a": [1]}
    del value.number
    return value


def with_a_dict():
    value = Mutable(1, [2])
    assert vars(value)
    return value


def many():
    value = object.__new__(Counter)
    for number in range(40):
        setattr(value, f"a{number}", [number])
    return value


@pytest.mark.parametrize("make", [spread, with_a_dict, many, lambda: Counter(x=[1])])
def test_attributes_are_copied_wherever_they_are_kept(copier, make):
    for _ in range(3):
        value = make()
        made = copier.copied(value)
        assert type(made) is type(value)
        assert list(vars(made).items()) == list(vars(value).items())
        for name, part in vars(value).items():
            assert (getattr(made, name) is part) == isinstance(part, int)
        made.other = 1
        assert not hasattr(value, "other")


class Meddling:
    """Mutates its holder while it is copied."""

    def __init__(self, change):
        self.change = change

    def __deepcopy__(self, memo):
        self.change()
        return "copied"


def test_attributes_may_change_while_they_are_copied(copier):
    """A change of the dict is an error, as in Python; nothing is read out of bounds."""
    for _ in range(3):
        value = Mutable(1, [2])
        value.number = Meddling(lambda held=value: setattr(held, "added", "x"))
        with pytest.raises(ValueCopyError, match="changed"):
            copier.copied(value)
        assert copier.copied(Mutable("b", [2])) == Mutable("b", [2])


def test_flat_dicts_are_copied(copier):
    value = {"a": 1, 2: "b", None: 1.5, b"c": True}
    made = copier.copied(value)
    assert made == value
    assert list(made) == list(value)
    made["d"] = 1
    assert "d" not in value
    holder = [value, value]
    copied = copier.copied(holder)
    assert copied[0] is copied[1]
    assert copied[0] is not value
