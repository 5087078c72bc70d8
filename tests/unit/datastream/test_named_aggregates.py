"""Named aggregates when a program is built: types and names of results, and rejected calls."""

import sys
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import pytest
from penstock import aggregates as agg
from penstock.common import Row, Time
from penstock.common.typeinfo import Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import DependencyError, InvalidProgramError, WrongArgumentError
from penstock.expressions import as_tuple, field

ROW = Types.ROW_NAMED(
    ["k", "i", "x", "t", "d"],
    [Types.INT(), Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.SQL_DATE()],
)
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class Order(NamedTuple):
    item: str
    price: float


def stream(of=ROW):
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([], of)


def result(keyed, aggregates=None, **options):
    declared = keyed.aggregate(aggregates or {"n": agg.count()}, **options).get_type()
    return dict(zip(declared.get_field_names(), map(str, declared.get_field_types()), strict=True))


def test_types_of_results():
    found = result(
        stream().key_by(field("t")),
        {
            "count": agg.count(),
            "sum": agg.sum("k"),
            "sum_of_floats": agg.sum("x"),
            "mean": agg.mean("i"),
            "min": agg.min("k"),
            "computed": agg.max(field("i") + 1),
            "by": agg.max_by("t", "x"),
            "distinct": agg.count_distinct("t"),
            "about": agg.count_distinct("t", approximate=True),
            "all": agg.collect("i"),
        },
    )
    assert found["t"] == "String"
    integers = ("count", "sum", "distinct", "about", "computed")
    assert [found[name] for name in integers] == ["Long"] * 5
    assert [found[name] for name in ("sum_of_floats", "mean")] == ["Double"] * 2
    assert found["min"] == "Integer"
    assert found["by"] == "String"
    assert "Long" in found["all"]


class Size(Enum):
    LARGE = "L"


@dataclass
class Cup:
    owner: str
    size: Size
    price: float


def test_annotations_give_the_types_of_arguments():
    def cup(row: Row) -> Cup:
        return Cup(row.t, Size.LARGE, row.x)

    cups = stream().map(cup)
    of_large = agg.count(where=field("size") == Size.LARGE)
    windows = cups.key_by("owner").window(TumblingEventTimeWindows.of(Time.hours(1)))
    for keyed in (cups.key_by("owner"), windows):
        found = result(keyed, {"large": of_large, "total": agg.sum("price")})
        assert (found["owner"], found["large"], found["total"]) == ("String", "Long", "Double")
        with pytest.raises(InvalidProgramError, match="no field 'prise'; did you mean 'price'"):
            result(keyed, {"total": agg.sum("prise")})
        with pytest.raises(InvalidProgramError, match=r"'size' takes numbers.* not EnumTypeInfo"):
            result(keyed, {"size": agg.max("size")})
    with pytest.raises(InvalidProgramError, match=r'such as {"total": .*}, got sum'):
        result(cups.key_by("owner"), agg.sum("price"))


@pytest.mark.parametrize(
    ("selector", "key_type", "names"),
    [
        (field("k"), None, ["k"]),
        (lambda row: row.t, None, ["t"]),
        (lambda row: row["i"], None, ["i"]),
        (lambda row: row[2], None, ["x"]),
        (as_tuple(field("k"), field("i") // 10), None, ["k", "key1"]),
        (lambda row: row.i % 7, Types.LONG(), ["key"]),
        (lambda row: (row.i, row.k), Types.TUPLE([Types.LONG(), Types.INT()]), ["key0", "key1"]),
        (
            lambda row: (row.i, row.k),
            Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.INT()]),
            ["a", "b"],
        ),
    ],
)
def test_names_of_the_key(selector, key_type, names):
    assert list(result(stream().key_by(selector, key_type))) == [*names, "n"]


def test_names_that_the_program_gives():
    keyed = stream().key_by(as_tuple(field("k"), field("i") // 10))
    assert list(result(keyed, key_names=["k", "ten"])) == ["k", "ten", "n"]


def test_tuples_have_fields_by_position():
    assert result(stream(PAIR).key_by(lambda pair: pair[0]), {"sum": agg.sum(1)}) == {
        "f0": "String",
        "sum": "Long",
    }


@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        ({}, "names of their results"),
        (agg.count(), "names of their results"),
        ({"n": sum}, "must be an aggregate"),
        ({"n": agg.sum("t")}, "takes a number"),
        ({"n": agg.sum("missing")}, "no field 'missing'"),
        ({"n": agg.count(where=field("i"))}, "must be a condition"),
        ({"n": agg.count_distinct("d", approximate=True)}, "cast it to a string"),
        ({"k": agg.count()}, "two fields of the result are called 'k'"),
    ],
)
def test_aggregates_that_are_refused(aggregates, message):
    with pytest.raises(InvalidProgramError, match=message):
        stream().key_by(field("k")).aggregate(aggregates)


def test_the_extra_of_estimates_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasketches", None)
    estimate = agg.count_distinct("t", approximate=True)
    with pytest.raises(DependencyError, match=r"penstock-engine\[sketches\]"):
        stream().key_by(field("k")).aggregate({"n": estimate})


def test_keys_and_records_of_unknown_type_are_refused():
    with pytest.raises(InvalidProgramError, match="type of the keys is unknown"):
        stream().key_by(lambda row: hash(row)).aggregate({"n": agg.count()})
    untyped = StreamExecutionEnvironment.get_execution_environment().from_collection([(1, 2)])
    with pytest.raises(InvalidProgramError, match="unknown"):
        untyped.key_by(lambda pair: pair[0], Types.INT()).aggregate({"n": agg.sum(1)})


def test_other_arguments_that_are_refused():
    with pytest.raises(WrongArgumentError, match="emit"):
        stream().key_by(field("k")).aggregate({"n": agg.count()}, emit="sometimes")
    with pytest.raises(InvalidProgramError, match="2 names for 1 field"):
        stream().key_by(field("k")).aggregate({"n": agg.count()}, key_names=["a", "b"])


def test_keys_by_the_names_of_fields():
    assert list(result(stream().key_by("t"))) == ["t", "n"]
    assert result(stream().key_by("t", "k")) == {"t": "String", "k": "Integer", "n": "Long"}
    orders = stream(Types.of(Order))
    assert list(result(orders.key_by("item"))) == ["item", "n"]
    assert list(result(orders.key_by("item", "price"))) == ["item", "price", "n"]
