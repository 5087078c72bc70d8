"""Codecs of both runtimes for the tests, and values that they encode."""

import datetime
import decimal
import enum
import importlib.util
import re
import sys
import types
import zoneinfo
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from penstock.common.typeinfo import Types
from penstock.serialization.type_schema import schema_of
from penstock.serialization.value_layouts import number_classes

NATIVE_IS_BUILT = importlib.util.find_spec("penstock._native.codecs.codec") is not None

RUNTIMES = [
    pytest.param(
        "native",
        marks=pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built"),
    ),
    "pure",
]


def module_of(kind, name):
    """Return a module of a runtime, by its name without the package."""
    if kind == "native":
        package = f"penstock._native.{'codecs' if name == 'codec' else 'keys'}"
    elif name == "channel_selector":
        package = "penstock.network.pure"
    else:
        package = "penstock.serialization.pure"
    return importlib.import_module(f"{package}.{name}")


def as_name(value):
    """Return a text that identifies a value, equal in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def codec_of(kind, type_info):
    return module_of(kind, "codec").Codec(schema_of(type_info))


def versions_in(name, monkeypatch):
    """Create a module; return a function that makes a class its Item, replacing the former one."""
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)

    def replaced_by(cls):
        cls.__module__, cls.__qualname__, module.Item = name, "Item", cls
        number_classes([(None, cls)])
        return cls

    return replaced_by


class Point(NamedTuple):
    x: int
    y: float


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass
class Order:
    name: str
    amount: decimal.Decimal
    tags: list


@dataclass(frozen=True)
class Frozen:
    at: datetime.datetime


@dataclass(slots=True)
class Slotted:
    number: int


class Plain:
    """A class that is neither dataclass nor tuple."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Plain) and self.number == other.number

    __hash__ = None


class Text(str):
    """A subclass that must be decoded as itself."""


UTC = datetime.UTC

EXTENDED = [
    datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999),
    datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2024, 10, 27, 2, 30, fold=1),
    datetime.datetime(2024, 1, 1, tzinfo=UTC),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-5), "EST")),
    datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    datetime.date(1969, 12, 31),
    datetime.time(23, 59, 59, 1),
    datetime.time(1, 2, 3, tzinfo=UTC),
    datetime.timedelta(days=-1, microseconds=1),
    UTC,
    decimal.Decimal("1.50"),
    decimal.Decimal("-Infinity"),
    Point(1, 2.5),
    Colour.BLUE,
    Access.READ | Access.WRITE,
    Order("x", decimal.Decimal(3), [Point(1, 2.0), None]),
    Frozen(datetime.datetime(2024, 1, 1)),
    Slotted(4),
    Plain(5),
    Text("t"),
    complex(1, -2),
    range(3),
    ValueError,
]

WORD_COUNT = Types.TUPLE([Types.STRING(), Types.INT()])
PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
