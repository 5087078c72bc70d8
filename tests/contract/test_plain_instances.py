"""Instances of plain classes, of slots and of attrs are encoded as their attributes if possible.

Goal: the kind of a program's own classes does not decide how fast they are. Method: values through
both codecs; values whose attributes may refer back to them are pickled, so that nothing is lost.
"""

import collections
import datetime
import enum
import importlib
import pickle
import sys

import attrs
import pytest
from penstock.errors import SerializationError
from penstock.serialization.class_reference import reference_of, register
from penstock.serialization.extended_values import is_pickled
from penstock.serialization.former_layouts import former_fields_taken
from penstock.serialization.key_form import form_of
from penstock.serialization.plain_instances import attributes_of
from penstock.serialization.pure import keys as pure_keys
from penstock.serialization.pure.dynamic_codec import encode_dynamic
from penstock.serialization.pure.key_hash import hash_any, hash_bytes
from penstock.serialization.pure.value_bytes import JobBytes
from penstock.serialization.value_layouts import layout_of, number_classes
from penstock.taskexecutor.copies.copy_plans import NAMED_TUPLE, plan_of

from contract.codecs import NATIVE_IS_BUILT, codec_of, versions_in

BUILT = ("native", "pure") if NATIVE_IS_BUILT else ("pure",)


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
    """A class with slots and a dict."""


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
    """Each instance has its own attributes; an unset slot stays unset."""
    account = Account("a", 1)
    account.note = "x"
    del account.amount
    through(codec, account)
    assert not hasattr(through(codec, Tight.__new__(Tight)), "owner")


class Settable(Account):
    """One of its attributes has another value in its dict."""

    def __init__(self, owner, amount):
        super().__init__(owner, amount)
        self.limit = 1

    limit = property(lambda self: self._limit, lambda self, value: self._set_limit(value))

    def _set_limit(self, limit):
        self._limit = limit * 2


class Basket:
    def __init__(self, names, prices, side=None):
        self.names, self.prices = names, prices
        if side is None:
            self.side = Side.BUY
        else:
            self.side = side
        self.side = min([self.side], key=lambda side: (side.name, self.names == names))


def same_bytes(value):
    """Check that both codecs write the same, and that each reads it."""
    written = {codec_of(runtime, None).encode(value) for runtime in BUILT}
    assert len(written) == 1
    for runtime in BUILT:
        back = codec_of(runtime, None).decode(*written)
        assert type(back) is type(value)
        assert list(attributes(back).items()) == list(attributes(value).items())
    return written.pop()


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (Account("a", 1), b"owner,amount"),
        (Savings("b", 2.5, None), b"owner,amount,rate"),
        (Order("e", 0.5), b"owner,amount"),
        (Frozen("f"), b"owner"),
        (Loose("g"), b"owner"),
        (Basket(["x", "y"], {"x": 1.5}), b"names,prices,side"),
        (Basket(("x",), {1, 2}, Side.SELL), b"names,prices,side"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_attributes_are_a_layout_of_the_class(value, names):
    data = same_bytes(value)
    cls = type(value)
    assert data[2:].startswith(f"{cls.__module__}:{cls.__name__}(".encode() + names + b")")


@pytest.mark.parametrize("cls", [Account, Savings, Settable])
def test_instances_that_are_not_as_the_layout_keep_what_they_have(cls):
    """Other attributes, fewer, or the same in another order, with and without a dict."""
    made = cls("a", 1) if cls is not Savings else cls("a", 1, 2)
    for _ in range(3):
        more, fewer, turned = (cls.__new__(cls) for _ in range(3))
        for value in (more, turned):
            value.amount, value.owner = 1, "a"
        more.__dict__.update(note="x", **{"no name": None})
        fewer.owner = "b"
        for value in (made, more, fewer, turned):
            same_bytes(value)
        assert vars(more)["no name"] is None
        assert list(vars(turned)) == ["amount", "owner"]


def test_names_in_a_dict_that_are_equal_texts():
    """Both runtimes compare the text of names, not the object."""
    made, within = (Account.__new__(Account) for _ in range(2))
    for value in (made, within):
        value.__dict__ = {"".join(letters): 1 for letters in ("owner", "amount")}
    assert same_bytes(made) == same_bytes(Account(1, 1))
    outer = Basket(within, None)
    assert len({codec_of(runtime, None).encode(outer) for runtime in BUILT}) == 1


def test_a_shared_part_stays_shared(codec):
    names = ["x"]
    for value in (Basket(names, names), Basket([names], {"x": names})):
        assert is_pickled(value)
        same = codec.decode(codec.encode(value))
        held = same.names if value.names is names else same.names[0]
        assert held is (same.prices if value.prices is names else same.prices["x"])
    alone = Basket(["x"], ["x"])
    assert not is_pickled(alone)
    back = codec.decode(codec.encode(alone))
    assert back.names is not back.prices
    many = Account("a", 1)
    for i in range(200):
        setattr(many, f"tags{i}", [i])
    assert is_pickled(many)
    same_bytes(many)


def test_in_a_job_a_number_names_class_and_attributes(codec):
    class Own:
        def __init__(self, owner):
            self.owner = owner

    class OwnSlots:
        __slots__ = ("__secret", "owner")

        def __init__(self, owner):
            self.owner, self.__secret = owner, 1

    @attrs.define
    class OwnAttrs:
        owner: str

    for cls in (Own, OwnSlots, OwnAttrs):
        assert is_pickled(cls("a"))
        number_classes([(register(cls), cls)])
        out = JobBytes()
        encode_dynamic(out, cls("a"))
        assert out[0] == 0x21
        for data in (bytes(out), codec.encode(cls("a"))):
            back = codec.decode(data)
            assert type(back) is cls
            assert attributes(back) == attributes(cls("a"))


def test_a_pickle_names_a_class_that_the_job_knows(codec):
    class Name(str):
        """A class of the job's own code."""

        __slots__ = ()

    before = codec.encode(Name("a"))
    assert b"cloudpickle" in before
    number_classes([(register(Name), Name)])
    data = codec.encode(Name("a"))
    assert b"cloudpickle" not in data
    assert (codec.decode(data), type(codec.decode(data))) == ("a", Name)


def test_slots_that_were_pickled_by_value_have_the_same_layout():
    """The class is restored without its slots, but still names them."""
    loose = type("Tight", (), {"__init__": Tight.__init__, "__module__": Tight.__module__})
    loose.__slots__ = Tight.__slots__
    assert tuple(attributes_of(loose)) == tuple(attributes_of(Tight)) == Tight.__slots__


@pytest.fixture
def version(monkeypatch):
    return versions_in("module_of_a_plain_class", monkeypatch)


def item(*names, slots=False):
    """Return a class whose instances have these attributes."""
    code = "".join(f"        self.{name} = {name}\n" for name in names)
    slots_line = f"    __slots__ = {names!r}\n" if slots else ""
    found = {}
    init = f"    def __init__(self, {', '.join(names)}):\n{code}"
    exec(f"class Item:\n{slots_line}{init}", found)
    return found["Item"]


@pytest.mark.parametrize("slots", [False, True])
def test_a_changed_class_is_refused_with_both_layouts(codec, version, slots):
    data = codec.encode(version(item("name", "price", slots=slots))("a", 1))
    version(item("name", "currency", slots=slots))
    with pytest.raises(SerializationError) as caught:
        codec.decode(data)
    for part in ("module_of_a_plain_class:Item", "(name, price)", "(name, currency)"):
        assert part in str(caught.value)


def test_restored_state_has_the_attributes_that_were_written(codec, version):
    """As unpickling does; attributes without a slot are dropped."""
    data = codec.encode(version(item("name", "price"))("a", 1))
    version(item("name", "currency"))
    with former_fields_taken():
        back = codec.decode(data)
        assert vars(back) == {"name": "a", "price": 1}
        version(item("price", "name", slots=True))
        back = codec.decode(data)
        assert (back.name, back.price) == ("a", 1)
        version(item("name", slots=True))
        back = codec.decode(data)
        assert (back.name, hasattr(back, "price")) == ("a", False)


@pytest.mark.parametrize(
    "value",
    [
        Basket(Account("a", 1), [Account("b", 2), Account("c", [3, [4]])]),
        Basket({"a": Order("b", 0.5)}, Frozen("c")),
        Basket([Frozen("a"), ()], [()]),
        Basket(Account(Account(Account("deep", 1), 2), 3), None),
        Basket([Account("a", n) for n in range(100)], None),
    ],
    ids=["list", "attrs", "slots", "deep", "many"],
)
def test_instances_within_an_instance_travel_by_their_layouts(value):
    assert not is_pickled(value)
    for runtime in BUILT:
        codec = codec_of(runtime, None)
        back = codec.decode(codec.encode(value))
        assert codec.encode(back) == codec.encode(value)
        assert pickle.dumps(back) == pickle.dumps(pickle.loads(pickle.dumps(value)))
    assert len({codec_of(runtime, None).encode(value) for runtime in BUILT}) == 1


def test_instances_that_are_not_as_their_class_says_within_one():
    """Both runtimes recognise them: the whole instance is pickled."""
    short, odd, turned = Account("a", 1), Account("b", 2), Account.__new__(Account)
    del short.amount
    odd.note = "x"
    turned.amount, turned.owner = 1, "c"
    shared = Account("d", 1)
    for names in (short, odd, turned, Tight.__new__(Tight), [shared, shared], Told(), range(3)):
        value = Basket(names, [1])
        assert is_pickled(value)
        for runtime in BUILT:
            codec = codec_of(runtime, None)
            assert pickle.dumps(codec.decode(codec.encode(value))) == pickle.dumps(
                pickle.loads(pickle.dumps(value))
            )
        assert len({codec_of(runtime, None).encode(value) for runtime in BUILT}) == 1


def test_cyclic_instances_are_pickled(codec):
    """A tree whose nodes know their parents is restored as one tree."""
    parent = Account("root", 0)
    parent.children = [Account("leaf", 1)]
    parent.children[0].parent = parent
    assert is_pickled(parent)
    back = codec.decode(codec.encode(parent))
    assert back.children[0].parent is back


@pytest.mark.parametrize(
    "value",
    [Both("a"), Told(), Hashed("a")],
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
    """The form that determines a key's key group is that of a pickle taken apart."""
    for value in (Account("a", 1), Order("b", 2.0)):
        assert form_of(value)[0] == 0x1F
        assert form_of(value) == form_of(pickle.loads(pickle.dumps(value)))


def test_keys_that_are_members_of_enums():
    """They are looked up from the second time on, even if the class became the job's meanwhile."""
    for side in (Side.BUY, Side.SELL, Side.BUY):
        assert hash_any(side) == hash_bytes(form_of(side))
    assert form_of(Side.BUY) != form_of(Side.SELL)
    own = enum.Enum("Own", ["ONE"], module="__main__")
    before = form_of(own.ONE)
    number_classes([(register(own), own)])
    assert form_of(own.ONE) != before
    assert form_of(own.ONE) == form_of(own.ONE)
    assert hash_any(own.ONE) == hash_bytes(form_of(own.ONE))


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="the native data plane is not built")
@pytest.mark.parametrize("kind", [enum.Enum, enum.IntEnum, enum.StrEnum, enum.Flag])
def test_members_are_hashed_and_held_alike_by_both_runtimes(kind, monkeypatch):
    """Members that are numbers or texts equal the keys with their value."""
    keys = importlib.import_module("penstock._native.keys.keys")
    native_hash = importlib.import_module("penstock._native.keys.key_hash").key_hash()
    member = kind("Kind", {"ONE": "1" if kind is enum.StrEnum else 1}, module=__name__).ONE
    monkeypatch.setattr(sys.modules[__name__], "Kind", type(member), raising=False)
    for _ in range(3):
        assert native_hash(member) == hash_any(member)
        for identity_of in (keys.identity_of, pure_keys.identity_of):
            identity = identity_of(member)
            assert identity.key is member
            assert identity.form == form_of(member)
            assert hash(identity) == hash(form_of(member))
    if kind in (enum.IntEnum, enum.StrEnum):
        assert hash_any(member) == hash_any(member.value)


def test_a_named_tuple_of_collections_that_was_pickled_by_value(codec):
    """The instance is restored with room for attributes, which its class does not declare."""
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
        """A subclass with attributes."""

    assert layout_of(WithNote) is None
