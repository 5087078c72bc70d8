"""Instances of subclasses of builtin classes are encoded as their value, with their class.

Goal: a text with a unit, or a list with a method, is no slower than a dataclass. Method: values
through both codecs; those with further content are pickled.
"""

import collections
import copyreg
import pickle
import sys
import types

import pytest
from penstock.errors import CorruptStreamError, SerializationError
from penstock.serialization.class_reference import register
from penstock.serialization.extended_values import is_pickled
from penstock.serialization.former_layouts import former_fields_taken
from penstock.serialization.key_form import form_of
from penstock.serialization.pure.dynamic_codec import encode_dynamic
from penstock.serialization.pure.key_hash import hash_any
from penstock.serialization.pure.value_bytes import JobBytes
from penstock.serialization.value_layouts import number_classes

from contract.codecs import NATIVE_IS_BUILT, codec_of

BUILT = ("native", "pure") if NATIVE_IS_BUILT else ("pure",)


class Name(str):
    """A text whose `__str__` differs from its value."""

    def __str__(self):
        return "no name"

    def __len__(self):
        return 0


class Slim(str):
    __slots__ = ()


class Celsius(float):
    def __float__(self):
        return 0.0


class Count(int):
    def __index__(self):
        return 0

    def __int__(self):
        return 0


class Upper(str):
    def __new__(cls, text):
        return super().__new__(cls, text.upper())


class Digest(bytes):
    pass


class Span(tuple):
    def __getitem__(self, index):
        raise IndexError(index)


class Lines(list):
    def __len__(self):
        return 0


class Settings(dict):
    __getattr__ = dict.__getitem__
    __slots__ = ()


class Labels(set):
    pass


class Fixed(frozenset):
    pass


VALUES = [
    Name("ä" * 70), Name("a"), Slim("b"), Upper("c"), Celsius(-0.5), Count(2**70), Count(-3),
    Digest(b"\0x"), Span((1, ("a",))), Span(()), Lines([1, [2]]), Settings(a=[1], b=None),
    Labels({1}), Fixed({"a"}), Lines([Settings(a=Name("a")), Settings(b=Count(1))]),
]  # fmt: skip


def plain(value):
    """Return the class and the content of a value and its parts, ignoring its methods."""
    if isinstance(value, set):
        return type(value), set(value)
    return pickle.dumps(value)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_value_travels_with_the_class(value):
    assert not is_pickled(value)
    data = {codec_of(runtime, None).encode(value) for runtime in BUILT}
    assert len(data) == 1
    assert f":{type(value).__name__}(*".encode() in min(data)
    for runtime in BUILT:
        back = codec_of(runtime, None).decode(*data)
        assert type(back) is type(value)
        assert plain(back) == plain(value)


def test_bytes():
    assert codec_of("pure", None).encode(Slim("b")) == (
        b"\x22\x2dcontract.test_builtin_subclasses:Slim(*str)\x41b".replace(
            b"\x2d", bytes([len("contract.test_builtin_subclasses:Slim(*str)")])
        )
    )


def test_in_a_job_a_number_names_the_class(codec):
    class Own(str):
        __slots__ = ()

    class OwnList(list):
        pass

    for value in (Own("a"), OwnList([1])):
        cls = type(value)
        assert is_pickled(value)
        number_classes([(register(cls), cls)])
        out = JobBytes()
        encode_dynamic(out, value)
        assert out[0] == 0x21
        for data in (bytes(out), codec.encode(value)):
            back = codec.decode(data)
            assert (type(back), back) == (cls, value)


class Noted(str):
    """A value with attributes."""


class Tally(collections.Counter):
    pass


class Sorted(collections.OrderedDict):
    pass


class Grouped(collections.defaultdict):
    pass


class Counted(dict):
    """Passes to pickling other pairs than it holds."""

    def items(self):
        return [(name, count + 1) for name, count in super().items()]


class Checked(dict):
    def __setitem__(self, name, value):
        super().__setitem__(name, value * 2)


class Slotted(list):
    __slots__ = ("note",)


class Reduced(int):
    def __reduce__(self):
        return Reduced, (int(self),)


class Stated(str):
    def __setstate__(self, state):
        raise AssertionError


class Registered(str):
    pass


copyreg.pickle(Registered, lambda value: (Registered, (str(value),)))


class Unit(collections.UserString, str):
    def __new__(cls, text):
        return str.__new__(cls, text)

    def __getnewargs__(self):
        return (self.data,)


def test_instances_with_more_than_their_value_are_pickled(codec):
    noted, slotted, loop = Noted("a"), Slotted([1]), Lines()
    noted.note = "x"
    slotted.note = "y"
    loop.append(loop)
    shared = Lines([1])
    for value in (
        noted, slotted, Counted(a=1), Checked(a=1), Reduced(1), Stated("a"), Registered("a"),
        Unit("a"), Lines([shared, shared]), Tally("aab"), Sorted(a=1), Grouped(int, a=1),
    ):  # fmt: skip
        assert is_pickled(value), type(value)
        back = codec.decode(codec.encode(value))
        assert plain(back) == plain(pickle.loads(pickle.dumps(value)))
    assert is_pickled(loop)
    back = codec.decode(codec.encode(loop))
    assert type(back) is Lines
    assert back[0] is back


def test_attributes_come_and_go(codec):
    """The instance decides, not the class."""
    for _ in range(3):
        bare, noted = Noted("a"), Noted("b")
        noted.note = "x"
        assert (is_pickled(bare), is_pickled(noted)) == (False, True)
        assert codec.decode(codec.encode(noted)).note == "x"
        del noted.note
        assert not is_pickled(noted)
        assert plain(codec.decode(codec.encode(noted))) == plain(noted)


@pytest.fixture
def version(monkeypatch):
    module = types.ModuleType("module_of_a_subclass")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def replaced_by(base, members=()):
        cls = type("Item", (base,), {"__module__": module.__name__, **dict(members)})
        module.Item = cls
        number_classes([(None, cls)])
        return cls

    return replaced_by


def test_a_changed_class_is_refused_with_both_layouts(codec, version):
    data = codec.encode(version(str)("a"))
    version(int)
    for restoring in (False, True):
        with pytest.raises(SerializationError) as caught:
            if restoring:
                with former_fields_taken():
                    codec.decode(data)
            codec.decode(data)
        for part in ("module_of_a_subclass:Item", "(*str)", "(*int)"):
            assert part in str(caught.value)

    def __init__(self):
        self.name = "a"

    version(object, {"__init__": __init__})
    with former_fields_taken(), pytest.raises(SerializationError, match=r"\*str.*\(name\)"):
        codec.decode(data)


class Money(float):
    def __new__(cls, amount, currency):
        return super().__new__(cls, amount)


def test_a_class_that_does_not_take_its_value(codec):
    with pytest.raises(
        SerializationError, match=r"Money\(\*float\) could not be restored.*currency"
    ):
        codec.decode(codec.encode(Money(1.5, "EUR")))


def test_a_value_of_another_class_is_corrupt(codec):
    data = bytearray(codec.encode(Slim("a")))
    data[-2:] = b"\xc1"
    with pytest.raises(CorruptStreamError, match=r"a int as the value of .*Slim\(\*str\)"):
        codec.decode(bytes(data))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_keys_are_those_of_former_versions(value):
    """Keys have the same key groups as before, when hashed again and after transfer."""
    assert form_of(value)[0] == 0x1F
    for other in (value, pickle.loads(pickle.dumps(value))):
        assert form_of(other) == form_of(value)
    assert hash_any(value) == hash_any(value)
    assert form_of(Slim("a")) != form_of(Slim("b")) != form_of("b")
