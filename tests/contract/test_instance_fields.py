"""Instances of dataclasses, whatever the origin of their attributes: same bytes, same attributes.

Invariant: the native codec reads attributes from the interpreter's storage, the pure one calls
getattr; the results are the same.
"""

import dataclasses
import gc
import sys

import pytest

from contract.codecs import NATIVE_IS_BUILT, codec_of


@dataclasses.dataclass
class Order:
    user: object
    amount: float
    note: str = "none"


@dataclasses.dataclass(slots=True)
class Slotted:
    user: object
    amount: float


class Answering(Slotted):
    """Computes the value of an unset slot."""

    __slots__ = ()

    def __getattr__(self, name):
        if name == "amount":
            return 0.25
        raise AttributeError(name)


class Hiding(Slotted):
    """Hides a slot behind a property."""

    __slots__ = ()

    @property
    def user(self):
        return "of the property"


def as_made():
    return Order(1, 2.5)


def asked_for_its_dict():
    order = Order(1, 2.5)
    assert len(vars(order)) == 3
    return order


def in_another_order():
    order = object.__new__(Order)
    order.note, order.amount, order.user = "last", 2.5, 1
    return order


def set_again():
    order = Order(1, 2.5)
    del order.amount
    order.amount = 7.5
    return order


def with_another_attribute():
    order = Order(1, 2.5)
    order.seen = True
    return order


def with_another_in_the_place_of_one():
    order = Order(1, 2.5)
    del order.amount
    order.seen = True
    return order


def without_one():
    order = Order(1, 2.5)
    del order.amount
    return order


def without_one_of_a_class_with_a_default():
    order = Order(1, 2.5)
    del order.note
    return order


def nested():
    return Order(Order(Slotted(1, 2.0), 1.5), 2.5, "outer")


def slotted():
    return Slotted([1], 2.5)


def slotted_without_one():
    value = Slotted(1, 2.5)
    del value.amount
    return value


def answering():
    value = Answering(1, 2.5)
    del value.amount
    return value


def hiding():
    value = object.__new__(Hiding)
    value.amount = 2.5
    return value


MAKERS = [
    as_made, asked_for_its_dict, in_another_order, set_again, with_another_attribute,
    with_another_in_the_place_of_one, without_one, without_one_of_a_class_with_a_default, nested,
    slotted, slotted_without_one, answering, hiding,
]  # fmt: skip


def attributes(value):
    """Return the attributes that are set, in order, with those of nested instances."""
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return type(value), {
        name: attributes(held) if dataclasses.is_dataclass(held) else held
        for name, held in found.items()
    }


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
@pytest.mark.parametrize("make", MAKERS)
def test_both_write_the_same(make):
    """Also the second time, when the native codec knows the class."""
    data = codec_of("pure", None).encode(make())
    assert [codec_of("native", None).encode(make()) for _ in range(3)] == [data] * 3


@pytest.mark.parametrize("make", [m for m in MAKERS if m not in (answering, hiding)])
def test_attributes_are_read_back(codec, make):
    """Only the set attributes come back, and the copy can be mutated like the original."""
    for _ in range(3):
        value = make()
        before = attributes(value)
        back = codec.decode(codec.encode(value))
        assert attributes(value) == before
        given = dict(before[1])
        assert attributes(back) == (before[0], given)
        if hasattr(back, "__dict__"):
            back.later = 1
            assert vars(back) == {**vars(value), "later": 1}
            back.user = "changed"
            del back.later
        back.user = "changed"
        assert back.user == "changed"


def test_instances_hold_what_they_were_given_once(codec):
    """Neither writing nor reading leaks or loses a reference."""
    held = "held by " + str(id(codec))
    values = [Order(held, 1.0), Slotted(held, 1.0)]
    for value in values:
        codec.decode(codec.encode(value))
    before = sys.getrefcount(held)
    for _ in range(50):
        for value in values:
            back = codec.decode(codec.encode(value))
            assert back == value
    del back
    gc.collect()
    assert sys.getrefcount(held) == before


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
def test_a_dict_that_nobody_asked_for_is_not_made():
    """Writing must not make instances larger."""
    codec = codec_of("native", None)
    codec.encode(Order(1, 2.5))
    value = Order(1, 2.5)
    before = len(gc.get_referents(value))
    codec.encode(value)
    back = codec.decode(codec.encode(value))
    # The attributes themselves, not a dict of them.
    assert len(gc.get_referents(value)) == before
    assert not any(type(held) is dict for held in gc.get_referents(back))
