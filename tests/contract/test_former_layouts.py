"""Values whose classes had other fields when they were written, read while state is restored.

Method: a class of a module is replaced by one of the same name with other fields, as a new version
of a program does.
"""

import dataclasses
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import NamedTuple

import attrs
import pytest
from penstock.errors import SerializationError
from penstock.serialization.former_layouts import former_fields_taken
from penstock.serialization.value_layouts import number_classes

from contract.codecs import RUNTIMES, codec_of

MODULE = "classes_of_a_program"


@pytest.fixture
def version(monkeypatch):
    """Return a function that replaces the module's class by another version."""
    module = ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)

    def replaced_by(cls):
        cls.__module__, cls.__qualname__, cls.__name__ = MODULE, "Place", "Place"
        module.Place = cls
        number_classes([(None, cls)])
        return cls

    return replaced_by


@dataclass
class Plain:
    x: int
    y: int


@dataclass(slots=True)
class Slotted:
    x: int
    y: int


@dataclass(frozen=True)
class Frozen:
    x: int
    y: int


class Tuple(NamedTuple):
    x: int
    y: int


def later(kind):
    """Return the second version of a class: `y` is removed, two fields are added."""
    if kind is Tuple:

        class TupleLater(NamedTuple):
            x: int
            name: str = "none"
            more: tuple = ()

        return TupleLater
    options = {Plain: {}, Slotted: {"slots": True}, Frozen: {"frozen": True}}[kind]
    return dataclasses.make_dataclass(
        "Later",
        [
            ("name", str, field(default="none", kw_only=True)),
            ("x", int),
            ("more", list, field(default_factory=list)),
        ],
        **options,
    )


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", [Plain, Slotted, Frozen, Tuple])
def test_fields_are_found_by_their_names(version, runtime, kind):
    """Removed fields are dropped, added ones have their default; values nest."""
    first = version(type("Place", (kind,), {}) if kind is Plain else kind)
    codec = codec_of(runtime, None)
    data = codec.encode([first(1, 2), {"k": first(3, first(4, 5))}])
    second = version(later(kind))
    with former_fields_taken():
        found = codec.decode(data)
        again = codec.decode(data)
    assert type(found[0]) is second
    assert (found[0].x, found[0].name, found[1]["k"].x) == (1, "none", 3)
    assert not found[0].more
    assert found == again
    if kind is not Tuple:
        assert found[0].more is not again[0].more, "a default of its own"
    assert codec.decode(codec.encode(found)) == found, "as of the second version from then on"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_field_without_a_default_cannot_be_added(version, runtime):
    codec = codec_of(runtime, None)
    data = codec.encode(version(Tuple)(1, 2))

    class Later(NamedTuple):
        x: int
        z: int

    version(Later)
    with former_fields_taken(), pytest.raises(SerializationError) as caught:
        codec.decode(data)
    for text in (f"{MODULE}:Place", "(x, y)", "(x, z)", "'z' would need a default"):
        assert text in str(caught.value)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("kind", [Plain, Tuple])
def test_elsewhere_other_fields_are_an_error(version, runtime, kind):
    """Even after a restore: within a job all processes have one class."""
    codec = codec_of(runtime, None)
    data = codec.encode(version(kind)(1, 2))
    version(later(kind))
    with former_fields_taken():
        codec.decode(data)
    with pytest.raises(SerializationError, match="written with the fields"):
        codec.decode(data)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_instance_with_attributes_of_its_own(version, runtime):
    """The instance is restored by its attributes, and also gets the defaults of new fields."""
    first = version(dataclass(type("Place", (), {"__annotations__": {"x": int}})))
    codec = codec_of(runtime, None)
    value = first(1)
    value.extra = 2
    data = codec.encode(value)
    version(later(Plain))
    with former_fields_taken():
        found = codec.decode(data)
    assert (found.x, found.extra, found.more, found.name) == (1, 2, [], "none")


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("slots", [True, False], ids=["slots", "dictionary"])
def test_fields_of_attrs_are_found_by_their_names(version, runtime, slots):
    """Removed fields are dropped, added ones have their default, also from a factory."""
    first = version(attrs.make_class("First", ["x", "y"], slots=slots))
    codec = codec_of(runtime, None)
    data = codec.encode([first(1, 2), first(3, 4)])
    later = version(
        attrs.make_class(
            "Later",
            {
                "x": attrs.field(),
                "more": attrs.field(factory=list),
                "name": attrs.field(default="none"),
                "twice": attrs.field(default=attrs.Factory(lambda of: 2 * of.x, takes_self=True)),
            },
            slots=slots,
        )
    )
    with former_fields_taken():
        found = codec.decode(data)
    assert found == [later(1, [], "none", 2), later(3, [], "none", 6)]
    assert found[0].more is not found[1].more, "a default of its own"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_field_of_attrs_without_a_default_cannot_be_added(version, runtime):
    codec = codec_of(runtime, None)
    data = codec.encode(version(attrs.make_class("First", ["x", "y"]))(1, 2))
    version(attrs.make_class("Later", ["x", "z"]))
    with former_fields_taken(), pytest.raises(SerializationError) as caught:
        codec.decode(data)
    for text in (f"{MODULE}:Place", "(x, y)", "'z' would need a default"):
        assert text in str(caught.value)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_slot_that_is_gone_is_dropped(version, runtime):
    codec = codec_of(runtime, None)
    value = version(type("Place", (), {"__slots__": ("x", "y")}))()
    value.x, value.y = 1, 2
    data = codec.encode(value)
    version(type("Place", (), {"__slots__": ("x", "z")}))
    with former_fields_taken():
        found = codec.decode(data)
    assert found.x == 1
    assert not hasattr(found, "z"), "it was never set"
