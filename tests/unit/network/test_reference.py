"""The reference of `penstock.network` names everything: arguments, units and errors.

Method: the docstrings of the plain classes, which `docs/reference/penstock.network.pure.md` shows.
"""

import enum
import inspect
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from penstock.network import pure
from penstock.runtime import load

#: Classes whose objects are made by methods of others, such as a pool.
MADE_BY_OTHERS = {
    "AvailabilityFuture",
    "BlockChannelReader",
    "BlockChannelWriter",
    "Buffer",
    "BufferBuilder",
    "BufferConsumer",
    "BufferFileReader",
    "BufferFileWriter",
    "ChannelSelector",
    "ExactType",
    "FileChannelEnumerator",
    "FileChannelId",
    "InputGate",
    "KeyConversion",
    "KeyReader",
    "LocalBufferPool",
    "MemorySegment",
    "PooledSegment",
    "ResultPartition",
}
RAISES = re.compile(r"^ +raise (?!NotImplementedError)[A-Z]", re.MULTILINE)
UNITS = ("_ms", "_bytes", "_percent", "_ns", "_seconds")


def named(name):
    return load(name, "pure")


CLASSES = [name for name in pure.__all__ if inspect.isclass(named(name))]


def functions(cls):
    """Yield the public methods and properties of a class and of its bases in penstock."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = member.fget if isinstance(member, property) else inspect.unwrap(member)
        function = getattr(function, "__func__", function)
        is_ours = str(getattr(function, "__module__", "")).startswith("penstock")
        if not name.startswith("_") and inspect.isfunction(function) and is_ours:
            yield function


@pytest.mark.parametrize("name", pure.__all__)
def test_descriptions(name):
    """Each name has a description, and so does each of its members, with the errors it raises."""
    described = named(name)
    members = functions(described) if inspect.isclass(described) else [described]
    assert described.__doc__, name
    for function in members:
        assert function.__doc__, function
        if RAISES.search(inspect.getsource(function)):
            assert "Raises:" in function.__doc__, function


@pytest.mark.parametrize("name", sorted(set(CLASSES) - MADE_BY_OTHERS))
def test_constructors(name):
    """The description of a class names each argument of its constructor, and its errors."""
    cls = named(name)
    constructor = cls.__init__
    if not inspect.isfunction(constructor) or issubclass(cls, (tuple, enum.Enum)):
        return
    parameters = list(inspect.signature(constructor).parameters)[1:]
    text = f"{cls.__doc__}{constructor.__doc__ or ''}"
    for parameter in parameters:
        assert re.search(rf"\b{parameter}\b", text), parameter
    if not is_dataclass(cls) and RAISES.search(inspect.getsource(constructor)):
        assert "Raises:" in text


def test_units():
    """A number of time or bytes has its unit in its name, or in the name of what it counts."""
    for cls in map(named, CLASSES):
        for function in [*functions(cls), *filter(inspect.isfunction, [cls.__init__])]:
            for name in inspect.signature(function).parameters:
                if re.search("timeout|threshold|interval", name):
                    assert name.endswith(UNITS), (function, name)


def test_page():
    """The page shows the module that declares all names."""
    page = Path(__file__).parents[3] / "docs" / "reference" / "penstock.network.pure.md"
    assert "automodule:: penstock.network.pure" in page.read_text()
