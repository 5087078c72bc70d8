"""Instances of plain classes, of slots and of attrs travel as their attributes where that is all.

Goal: what a program's own classes are written with does not decide how fast they are.
Method: values through both codecs; those whose attributes may lead back to them are pickled, so
that nothing is lost.
"""

import collections
import datetime
import enum
import pickle

import attrs
import pytest
from penstock.serialization.class_reference import reference_of, register
from penstock.serialization.extended_values import is_pickled
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.key_hash import hash_any, hash_bytes
from penstock.serialization.value_layouts import layout_of, number_classes
from penstock.taskexecutor.copies.copy_plans import NAMED_TUPLE, plan_of

from contract.codecs import RUNTIMES, codec_of


class Account:
    def __init__(self, owner, amount):
        self.owner = owner
        self.amount = amount

    @property
    def doubled(self):
        return self.amount * 2


class Savings(Account):
    def __init__(self, owner, amount, rate):
        super().__init__(owner, amount)
        self.rate = rate


class Tight:
    __slots__ = ("_Tight__hidden", "owner")

    def __init__(self, owner):
        self.owner = owner


class Guarded:
    __slots__ = ("owner",)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value.upper())


class Both(Tight):
    """With slots and a dict."""


class Counted(dict):
    pass


class Told:
    def __init__(self):
        self.told = True

    def __getstate__(self):
        return {"told": True}


@attrs.define
class Order:
    owner: str
    amount: float


@attrs.frozen
class Frozen:
    owner: str


@attrs.define(slots=False)
class Loose:
    owner: str


@attrs.frozen(cache_hash=True)
class Hashed:
    owner: str


class Side(enum.Enum):
    BUY = 1
    SELL = 2


@pytest.fixture(params=RUNTIMES)
def codec(request):
    return codec_of(request.param, None)


def attributes(value):
    if hasattr(value, "__dict__"):
        return value.__dict__
    names = [name for base in type(value).__mro__ for name in vars(base).get("__slots__", ())]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def through(codec, value):
    back = codec.decode(codec.encode(value))
    assert type(back) is type(value)
    assert attributes(back) == attributes(value)
    return back


@pytest.mark.parametrize(
    "value",
    [
        Account("a", 1),
        Savings("b", 2.5, None),
        Account("c", datetime.date(2026, 1, 1)),
        Tight("d"),
        Order("e", 0.5),
        Frozen("f"),
        Loose("g"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_attributes_travel_without_a_pickle(codec, value):
    assert not is_pickled(value)
    through(codec, value)


def test_attributes_that_come_and_go(codec):
    """Each instance has its own; a slot that is not set stays so."""
    account = Account("a", 1)
    account.note = "x"
    del account.amount
    through(codec, account)
    assert not hasattr(through(codec, Tight.__new__(Tight)), "owner")


def test_what_may_lead_back_is_pickled(codec):
    """A tree whose nodes know their parents comes back as one."""
    parent = Account("root", 0)
    parent.children = [Account("leaf", 1)]
    parent.children[0].parent = parent
    assert is_pickled(parent)
    back = codec.decode(codec.encode(parent))
    assert back.children[0].parent is back


@pytest.mark.parametrize(
    "value",
    [Both("a"), Counted(a=1), Told(), Hashed("a")],
    ids=lambda value: type(value).__name__,
)
def test_other_ways_of_pickling_are_kept(codec, value):
    assert is_pickled(value)
    through(codec, value)


def test_slots_are_set_by_the_method_that_a_class_has_for_it(codec):
    value = Guarded()
    value.owner = "abc"
    assert is_pickled(value)
    assert through(codec, value).owner == "ABC"


def test_keys_meet_those_of_former_versions():
    """The form, by which a key has its key group, is that of a pickle taken apart."""
    for value in (Account("a", 1), Order("b", 2.0)):
        assert form_of(value)[0] == 0x1F
        assert form_of(value) == form_of(pickle.loads(pickle.dumps(value)))


def test_keys_that_are_members_of_enums():
    """Looked up from the second time on, also when the class has become the job's meanwhile."""
    for side in (Side.BUY, Side.SELL, Side.BUY):
        assert hash_any(side) == hash_bytes(form_of(side))
    assert form_of(Side.BUY) != form_of(Side.SELL)
    own = enum.Enum("Own", ["ONE"], module="__main__")
    before = form_of(own.ONE)
    number_classes([(register(own), own)])
    assert form_of(own.ONE) != before
    assert form_of(own.ONE) == form_of(own.ONE)


def test_a_named_tuple_of_collections_that_was_pickled_by_value(codec):
    """It comes back with room for attributes, which the class says it has not."""
    made = collections.namedtuple("made", "x y", module="__main__")  # noqa: PYI024 (it is about it)
    copied = type("made", (tuple,), {**vars(made), "__module__": "__main__"} | {"__slots__": ()})
    loose = type(
        "loose",
        (tuple,),
        {name: found for name, found in vars(made).items() if name != "__slots__"},
    )
    loose.__slots__ = ()
    for cls in (copied, loose):
        number_classes([(register(cls), cls)])
        assert reference_of(cls) is not None
        assert layout_of(cls) is not None
        value = cls(1, "a")
        assert plan_of(value).kind == NAMED_TUPLE
        back = codec.decode(codec.encode(value))
        assert type(back) is cls
        assert (back.x, back.y) == (1, "a")

    class WithNote(made):
        """A subclass that has attributes."""

    assert layout_of(WithNote) is None
