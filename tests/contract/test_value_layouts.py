"""Instances of classes with a layout: dataclasses, named tuples, enums, also in the job's own code.

Goal: they are encoded without their class, by a number within the job and by name beyond it, and a
changed class is rejected.  Method: the same values through both codecs; record writers of both
runtimes for exchanges within the job.
"""

import dataclasses
import enum
import hashlib
import sys
import types
from typing import Any, NamedTuple

import cloudpickle
import pytest
from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization import value_layouts
from penstock.serialization.class_reference import noting_classes, reference_of, register, resolve
from penstock.serialization.extended_values import is_pickled
from penstock.serialization.pure.dynamic_codec import decode_dynamic, encode_dynamic
from penstock.serialization.pure.value_bytes import JobBytes, Reader
from penstock.serialization.value_layouts import layout_of, layout_signed, number_classes

from contract.codecs import NATIVE_IS_BUILT, Colour, Order, Plain, Point, codec_of


def own_classes():
    """Return new classes that cannot be imported, like those of a program's main module."""

    @dataclasses.dataclass
    class Trade:
        who: str
        amount: Any

    @dataclasses.dataclass(slots=True, frozen=True)
    class Tight:
        who: str
        amount: Any

    class Pair(NamedTuple):
        who: str
        amount: Any

    class Side(enum.Enum):
        BUY = 1

    return Trade, Tight, Pair, Side


def shipped(classes):
    """Register classes as a job does that ships them."""
    number_classes([(register(cls), cls) for cls in classes])


def in_job(value):
    out = JobBytes()
    encode_dynamic(out, value)
    return bytes(out)


def test_golden_bytes(codec):
    """docs/formats/codec.md"""
    point = codec.encode(Point(1, 2.5))
    signature = b"contract.codecs:Point(x,y)"
    assert point == b"\x22" + bytes([len(signature)]) + signature + b"\xc1\x08\x40\x04" + bytes(6)
    number = hashlib.blake2b(signature, digest_size=4).digest()
    shipped([Point])
    assert in_job(Point(1, 2.5)) == b"\x21" + number + b"\xc1\x08\x40\x04" + bytes(6)
    assert codec.decode(in_job(Point(1, 2.5))) == Point(1, 2.5)
    assert codec.encode(Point(1, 2.5)) == point


def test_the_jobs_own_classes_travel_by_name_and_number(codec):
    trade, tight, pair, side = own_classes()
    values = [trade("a", [1]), tight("b", side.BUY), pair("c", trade("d", pair("e", None)))]
    assert all(is_pickled(value) for value in values)
    shipped([trade, tight, pair, side])
    for value in values:
        assert not is_pickled(value)
        for data in (codec.encode(value), in_job(value)):
            back = codec.decode(data)
            assert back == value
            assert type(back) is type(value)
            assert b"cloudpickle" not in data
        assert len(in_job(value)) < len(codec.encode(value))
    assert codec.decode(codec.encode(side.BUY)) is side.BUY


def test_a_class_that_two_threads_meet_at_once_stays_itself(codec, monkeypatch):
    classes = [own_classes()[0] for _ in range(9)]
    shipped(classes)
    unmet = set(classes)

    def layout_beside_another_thread(cls):
        layout = layout_of(cls)
        if cls in unmet:
            # What the other thread does before this one continues.
            unmet.discard(cls)
            for _ in range(2):
                codec.encode(cls("beside", 0))
        return layout

    monkeypatch.setattr(value_layouts, "layout_of", layout_beside_another_thread)
    written = [codec.encode(cls("a", 1)) for cls in classes]
    for cls, data in zip(classes, written, strict=True):
        assert type(codec.decode(data)) is cls
    assert [codec.encode(cls("a", 1)) for cls in classes] == written


def test_classes_of_one_name_are_distinguished(codec):
    first, second = own_classes()[0], own_classes()[0]
    shipped([first])
    shipped([second])
    assert reference_of(first) != reference_of(second)
    for cls in (first, second):
        for data in (codec.encode(cls("a", 1)), in_job(cls("a", 1))):
            assert type(codec.decode(data)) is cls


def test_a_class_that_is_defined_again_takes_the_place_of_the_former(codec, monkeypatch):
    module = types.ModuleType("notebook_of_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    cloudpickle.register_pickle_by_value(module)
    try:
        for _ in range(2):
            cls = own_classes()[0]
            cls.__module__, cls.__qualname__, module.Trade = module.__name__, "Trade", cls
            shipped([cls])
            assert reference_of(cls) == "notebook_of_a_test:Trade"
            assert type(codec.decode(codec.encode(cls("a", 1)))) is cls
            assert type(codec.decode(in_job(cls("a", 1)))) is cls
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def test_written_classes_are_noted_for_shipping(codec):
    trade, tight, pair, side = own_classes()
    with noting_classes() as noted:
        data = [
            codec.encode(value) for value in (trade(1, tight(2, pair(3, side.BUY))), trade(1, 2))
        ]
    assert list(noted) == [trade, tight, pair, side]
    with noting_classes() as noted:
        codec.encode([trade(1, 2), side.BUY, Order("x", 1, [])])
    assert list(noted) == [trade, side]
    assert codec.decode(data[1]) == trade(1, 2)
    assert resolve(reference_of(trade)) is trade


def test_a_class_that_nobody_ships_is_pickled(codec):
    trade, _, _, side = own_classes()
    for value in (trade(1, 2), side.BUY):
        assert is_pickled(value)
        assert codec.decode(codec.encode(value)) == value
    shipped([trade, side])
    assert not is_pickled(trade(1, 2))
    assert not is_pickled(side.BUY)
    assert codec.decode(codec.encode(trade(1, 2))) == trade(1, 2)


def test_a_pickle_names_the_classes_that_the_job_ships(codec):
    trade, *_ = own_classes()

    class Box(Plain):
        """A class whose instances are pickled."""

        def __getstate__(self):
            return vars(self)

    shipped([trade, Box])
    box = Box(trade("a", 1))
    data = codec.encode(box)
    assert is_pickled(box)
    assert b"make_skeleton" not in data
    back = codec.decode(data)
    assert type(back) is Box
    assert back.number == trade("a", 1)


@dataclasses.dataclass
class Optional:
    first: int
    second: int = dataclasses.field(init=False)


@dataclasses.dataclass(slots=True)
class OptionalSlot:
    first: int
    second: int = dataclasses.field(init=False)


@dataclasses.dataclass
class Base:
    first: int


@dataclasses.dataclass
class Derived(Base):
    second: Any = None

    def __post_init__(self):
        self.calls = getattr(self, "calls", 0) + 1


class Wide(Point):
    """A named tuple with a method."""

    __slots__ = ()

    def total(self):
        return self.x + self.y


def with_more():
    made = Base(1)
    made.more = [2]
    return made


def reordered():
    made = Optional(1)
    made.__dict__.clear()
    made.second, made.first = 2, 1
    return made


@pytest.mark.parametrize(
    "value",
    [Optional(1), OptionalSlot(1), with_more(), reordered(), Derived(1, 2), Wide(1, 2.0)],
    ids=lambda value: type(value).__name__,
)
def test_instances_are_read_back_with_their_attributes(codec, value):
    back = codec.decode(codec.encode(value))
    assert type(back) is type(value)
    names = {*getattr(value, "__dict__", ()), "first", "second", "x", "y"}
    for name in names:
        missing = object()
        shown = getattr(back, name, missing) if hasattr(value, name) else missing
        assert hasattr(back, name) == hasattr(value, name)
        assert shown is missing or shown == getattr(value, name)


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")
def test_both_runtimes_write_the_same_bytes():
    values = [Optional(1), OptionalSlot(1), with_more(), reordered(), Derived(1, 2), Wide(1, 2.0)]
    for value in [*values, values, Colour.RED, [Colour.RED, Colour.BLUE]]:
        native, pure = (codec_of(kind, None).encode(value) for kind in ("native", "pure"))
        assert native == pure


def test_a_class_whose_fields_have_changed_is_refused_with_both_layouts(codec, monkeypatch):
    module = types.ModuleType("module_of_a_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def version(*names):
        cls = dataclasses.make_dataclass("Item", names)
        cls.__module__, module.Item = module.__name__, cls
        number_classes([(None, cls)])
        return cls

    old = version("name", "price")
    named = codec.encode(old("a", 1))
    assert codec.decode(named) == old("a", 1)
    version("name", "price", "currency")
    with pytest.raises(SerializationError) as caught:
        codec.decode(named)
    for part in ("module_of_a_test:Item", "(name, price)", "(name, price, currency)"):
        assert part in str(caught.value)
    module.Item = Plain
    number_classes([(None, Plain)])
    with pytest.raises(SerializationError, match="module_of_a_test:Item"):
        codec.decode(named)


def test_an_unknown_number_is_refused(codec):
    with pytest.raises(SerializationError, match="0x01020304"):
        codec.decode(b"\x21\x01\x02\x03\x04")


@pytest.mark.parametrize(
    "data", [b"\x21", b"\x21\x01\x02", b"\x22", b"\x22\x05ab", b"\x22\x02ab", b"\x22\x03a(b"]
)
def test_damaged_instances_are_refused(codec, data):
    with pytest.raises((CorruptStreamError, SerializationError)):
        codec.decode(data)


def test_a_signature_names_only_classes_with_a_layout(codec):
    for signature in (b"builtins:list()", b"contract.codecs:Text(number)", b"os:system()"):
        with pytest.raises(SerializationError):
            codec.decode(b"\x22" + bytes([len(signature)]) + signature + b"\xc1" * 3)


def test_layouts():
    assert layout_of(Point).names == ("x", "y")
    assert layout_of(Order).signature == "contract.codecs:Order(name,amount,tags)"
    assert layout_of(Plain).is_plain
    assert not layout_of(Point).is_plain
    assert layout_of(Colour) is None
    assert layout_signed("contract.codecs:Point(x,y)").cls is Point

    @dataclasses.dataclass
    class Picky:
        number: int

        def __reduce__(self):
            return Picky, (self.number,)

    register(Picky)
    assert layout_of(Picky) is None


def test_nested_instances_have_a_limit(codec):
    value = None
    for _ in range(150):
        value = Base(value)
    assert codec.decode(codec.encode(value)) == value
    for _ in range(100):
        value = Base(value)
    with pytest.raises(SerializationError, match="nests deeper"):
        codec.encode(value)
    with pytest.raises(CorruptStreamError, match="nests deeper"):
        signature = b"contract.test_value_layouts:Base(first)"
        codec.decode((b"\x22" + bytes([len(signature)]) + signature) * 250 + b"\x00")


def test_a_reader_needs_no_more_than_the_bytes(codec):
    data = codec.encode([Point(1, 2.5), Order("a", 1, [Colour.RED, Colour.RED])])
    assert decode_dynamic(Reader(data)) == codec.decode(data)
    for size in range(len(data)):
        with pytest.raises((CorruptStreamError, SerializationError)):
            codec.decode(data[:size])
