"""Annotations and classes declare the type of records, and never change their serialised form.

Method: streams are built of annotated functions; the derived types are compared, and functions that
return another type than they declare are run.
"""

import datetime
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import pydantic
import pytest
from penstock.common import Types
from penstock.datastream import (
    AggregateFunction,
    CoMapFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from penstock.errors import InvalidProgramError
from penstock.expressions import field
from penstock.testing import PipelineTestHarness

PICKLED = Types.PICKLED_BYTE_ARRAY()
UserId = NewType("UserId", int)
T = TypeVar("T")
U = TypeVar("U")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


@dataclass
class Place:
    town: str


@dataclass(frozen=True, slots=True)
class Click:
    user: str
    price: float
    place: Place | None = None


class Visit(NamedTuple):
    user: str
    clicks: int


class Order(pydantic.BaseModel):
    user: str
    lines: list[int] = []


class Event(TypedDict):
    user: str
    at: int


@dataclass
class Node:
    name: str
    next: "Node | None"


@dataclass
class Box(Generic[T]):
    value: T


@dataclass
class Pair(Box[list[T]], Generic[T, U]):
    first: U
    second: "Box[T] | None"
    third: T


class Ints(Pair[int, str]):
    pass


class Page(pydantic.BaseModel, Generic[T]):
    content: T


@dataclass
class Broken:
    name: "Nobody"  # noqa: F821


#: The fields of a pair of an int and a text.
PAIR = (
    ["value", "first", "second", "third"],
    [Types.LIST(Types.LONG()), Types.STRING(), Types.of(Box[int]), Types.LONG()],
)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, Types.LONG()),
        (bool, Types.BOOLEAN()),
        (float, Types.DOUBLE()),
        (str | None, Types.STRING()),
        (bytes, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (Decimal, Types.BIG_DEC()),
        (datetime.datetime, Types.SQL_TIMESTAMP()),
        (datetime.date, Types.SQL_DATE()),
        (datetime.time, Types.SQL_TIME()),
        (list[int], Types.LIST(Types.LONG())),
        (dict[str, float], Types.MAP(Types.STRING(), Types.DOUBLE())),
        (tuple[int, str], Types.TUPLE([Types.LONG(), Types.STRING()])),
        (Literal["a", "b"], Types.STRING()),
        (Annotated[int, Types.INT()], Types.INT()),
        (Annotated[int, "any"], Types.LONG()),
        (UserId, Types.LONG()),
        (list[str | None], Types.LIST(Types.STRING())),
    ],
)
def test_types_of_annotations(annotation, expected):
    found = Types.of(annotation)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("record_class", "names", "types"),
    [
        (Place, ["town"], [Types.STRING()]),
        (Click, ["user", "price", "place"], [Types.STRING(), Types.DOUBLE(), Types.of(Place)]),
        (Visit, ["user", "clicks"], [Types.STRING(), Types.LONG()]),
        (Order, ["user", "lines"], [Types.STRING(), Types.LIST(Types.LONG())]),
        (Event, ["user", "at"], [Types.STRING(), Types.LONG()]),
        (Node, ["name", "next"], [Types.STRING(), PICKLED]),
        (Box, ["value"], [PICKLED]),
        (Box[int], ["value"], [Types.LONG()]),
        (Page[int], ["content"], [Types.LONG()]),
        (Pair[int, str], *PAIR),
        (Ints, *PAIR),
    ],
)
def test_types_of_classes(record_class, names, types):
    found = Types.of(record_class)
    assert (found.get_field_names(), found.get_field_types()) == (names, types)
    assert found == Types.of(record_class)
    assert PICKLED != found != PICKLED


def test_types_of_enums():
    assert Types.of(Colour).value_type == Types.STRING()
    assert Types.of(Mixed).value_type == PICKLED
    assert Types.of(Colour) == Types.of(Colour) != Types.of(Mixed)


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (int | str, "several types"),
        (tuple[int, ...], "any number of fields"),
        (set[int], "no type of its own"),
        (Any, "no type of its own"),
        (object, "no type of its own"),
        (Mixed | Colour, "several types"),
        (Broken, "annotations of Broken cannot be read: name 'Nobody' is not defined"),
        ("Click", "no type of its own"),
    ],
)
def test_missing_types_are_explained(annotation, why):
    with pytest.raises(InvalidProgramError, match=f"Types.of: .*{why}"):
        Types.of(annotation)


def to_click(value: str) -> Click:
    return Click(value, 1.0)


def to_clicks(value: str) -> Iterable[Click]:
    yield Click(value, 1.0)


def to_anything(value: str) -> int | str:
    return value


def to_nobody(value: str) -> "Nobody":  # noqa: F821
    return value


class ToClick(MapFunction):
    def map(self, value: str) -> Click:
        return Click(value, 1.0)


class ToClicks(FlatMapFunction):
    def flat_map(self, value: str) -> list[Click]:
        return [Click(value, 1.0)]


class Keyed(KeyedProcessFunction):
    def process_element(self, value, ctx) -> Iterator[Click]:
        yield Click(value, 1.0)


class Either(CoMapFunction):
    def map1(self, value: str) -> Click:
        return Click(value, 1.0)

    def map2(self, value: str) -> Click:
        return Click(value, 2.0)


class Counted(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator) -> Visit:
        return Visit("ada", accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.fixture
def texts():
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection(["ada"], Types.STRING())


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map(to_click),
        lambda s: s.map(ToClick()),
        lambda s: s.map(Click),
        lambda s: s.flat_map(to_clicks),
        lambda s: s.flat_map(ToClicks()),
        lambda s: s.key_by(lambda v: v).process(Keyed()),
        lambda s: s.connect(s).map(Either()),
        lambda s: s.map(to_click).filter(lambda c: True).rebalance(),
        lambda s: s.map(to_click).key_by("user").reduce(lambda a, b: a),
        lambda s: s.map(to_click).key_by("user").count_window(2).reduce(lambda a, b: a),
        lambda s: s.map(to_click).union(s.flat_map(to_clicks)),
    ],
)
def test_functions_say_what_they_return(texts, build):
    stream = build(texts)
    assert stream._record_type() == Types.of(Click)
    # The declared types that PyFlink programs see, and the serialisers of values, remain.
    assert (stream.get_type(), stream.transformation.output_type) == (PICKLED, None)
    with pytest.raises(InvalidProgramError, match="no field 'usr'; did you mean 'user'"):
        stream.filter(field("usr") == "ada")


def test_aggregates_say_what_they_return(texts):
    counted = texts.key_by(lambda v: v).count_window(2).aggregate(Counted())
    assert counted._record_type() == Types.of(Visit)


def test_records_of_one_class_have_its_type():
    env = StreamExecutionEnvironment.get_execution_environment()
    assert env.from_collection([Visit("ada", 1)])._record_type() == Types.of(Visit)
    assert env.from_collection([Visit("ada", 1), Place("Rome")])._record_type() == PICKLED
    assert env.from_collection([1, 2])._record_type() == PICKLED


def test_a_declared_type_wins(texts):
    stream = texts.map(to_click, Types.STRING())
    assert stream._record_type() == stream.get_type() == Types.STRING()


def test_the_plan_shows_what_is_known_and_why_not(texts):
    texts.map(to_click).map(to_anything).map(to_nobody).print()
    plan = texts.get_execution_environment().explain()
    assert "type RecordTypeInfo<Click>(user: String, price: Double" in plan
    assert "by annotation, not declared" in plan
    assert "none by annotation, because int | str allows values of several types" in plan
    assert "because the annotations of to_nobody cannot be evaluated: name 'Nobody'" in plan


def results(build, values, type_info=None):
    harness = PipelineTestHarness()
    harness.sink("out", build(harness.source("in", type_info)))
    with harness:
        for value in values:
            harness.process_element("in", value)
        return harness.values("out")


def lies(value) -> int:
    return f"{value}!"


def lies_of_records(value) -> Click:
    return {"user": value}


def test_other_results_run_as_without_an_annotation():
    assert results(lambda s: s.map(lies).key_by(lambda v: v).reduce(max), ["a"]) == ["a!"]
    kept = results(lambda s: s.map(lies_of_records).map(lambda v: v["user"]), ["a"])
    assert kept == ["a"]


CLICKS = [Click("ada", 2.0, Place("Rome")), Click("bob", 3.0, Place("Paris"))]


@pytest.mark.parametrize(
    ("record_type", "values"),
    [
        (Types.of(Click), CLICKS),
        (Types.of(Visit), [Visit("ada", 1), Visit("bob", 2)]),
        (Types.of(Order), [Order(user="ada"), Order(user="bob")]),
        (Types.of(Event), [Event(user="ada", at=1), Event(user="bob", at=2)]),
    ],
)
def test_expressions_read_fields_of_records(record_type, values):
    upper = results(lambda s: s.map(field("user").str.upper()), values, record_type)
    assert upper == ["ADA", "BOB"]
    with pytest.raises(InvalidProgramError, match="field 5"):
        results(lambda s: s.map(field(5)), values, record_type)


def test_expressions_read_fields_of_fields():
    towns = lambda s: s.map(field("place").field("town"))  # noqa: E731
    assert results(towns, CLICKS, Types.of(Click)) == ["Rome", "Paris"]
    with pytest.raises(InvalidProgramError, match="did you mean 'town'"):
        results(lambda s: s.map(field("place").field("twn")), CLICKS, Types.of(Click))
