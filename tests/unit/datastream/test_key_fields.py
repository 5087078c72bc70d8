"""Fields are named by text: keys, aggregations and timestamps.

Method: programs run with virtual time; wrong names must fail in the call that receives them.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import pydantic
import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.common.types import Row
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.errors import InvalidProgramError
from penstock.expressions import field
from penstock.testing import PipelineTestHarness

CLICK = Types.ROW_NAMED(["user", "day", "price"], [Types.STRING(), Types.INT(), Types.DOUBLE()])


class Click(NamedTuple):
    user: str
    day: int
    price: float


@dataclass(frozen=True, slots=True)
class FrozenClick:
    user: str
    day: int
    price: float


class ModelClick(pydantic.BaseModel):
    user: str
    day: int
    price: float


class KeyOf(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_current_key()


class At(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp()


def results(build, values, type_info=None):
    harness = PipelineTestHarness()
    harness.sink("out", build(harness.source("in", type_info)))
    with harness:
        for value in values:
            harness.process_element("in", value)
        return harness.values("out")


def row(user, day, price):
    return Row(user=user, day=day, price=price)


def record(user, day, price):
    return {"user": user, "day": day, "price": price}


KINDS = [
    pytest.param(row, CLICK, id="declared row"),
    pytest.param(row, None, id="row"),
    pytest.param(record, None, id="dictionary"),
    pytest.param(Click, None, id="NamedTuple"),
    pytest.param(FrozenClick, None, id="dataclass"),
    pytest.param(lambda u, d, p: ModelClick(user=u, day=d, price=p), None, id="model"),
]


@pytest.mark.parametrize(("make", "declared"), KINDS)
def test_one_name_is_the_key(make, declared):
    values = [make("ada", 1, 2.0), make("bob", 1, 3.0)]
    assert results(lambda s: s.key_by("user").process(KeyOf()), values, declared) == ["ada", "bob"]


@pytest.mark.parametrize(("make", "declared"), KINDS)
def test_several_names_are_a_tuple(make, declared):
    values = [make("ada", 1, 2.0), make("bob", 4, 3.0)]
    keys = results(lambda s: s.key_by("user", "day").process(KeyOf()), values, declared)
    assert keys == [("ada", 1), ("bob", 4)]


@pytest.mark.parametrize(("make", "declared"), KINDS)
@pytest.mark.parametrize(("operation", "expected"), [("sum", 5.5), ("min", 2.0), ("max", 3.5)])
def test_a_named_field_is_aggregated(make, declared, operation, expected):
    values = [make("ada", 1, 2.0), make("bob", 4, 7.0), make("ada", 2, 3.5)]
    before = [repr(value) for value in values]
    build = lambda s: getattr(s.key_by("user"), operation)("price")  # noqa: E731
    found = results(build, values, declared)[-1]
    assert (type(found), repr(found)) == (type(values[0]), repr(make("ada", 1, expected)))
    assert [repr(value) for value in values] == before


@pytest.mark.parametrize(("make", "declared"), KINDS)
def test_the_record_with_the_largest_named_field_is_kept(make, declared):
    values = [make("ada", 1, 2.0), make("ada", 2, 3.5), make("ada", 3, 1.0)]
    found = results(lambda s: s.key_by("user").max_by("price"), values, declared)
    assert repr(found[-1]) == repr(values[1])


def test_names_and_expressions_may_stand_beside_each_other():
    values = [row("Ada", 1, 2.0)]
    build = lambda s: s.key_by(field("user").str.lower(), "day").process(KeyOf())  # noqa: E731
    assert results(build, values, CLICK) == [("ada", 1)]
    assert results(build, values) == [("ada", 1)]


def test_a_key_type_goes_with_names_and_by_position_with_functions():
    stream = PipelineTestHarness().source("in", CLICK)
    by_name = stream.key_by("user", Types.STRING())
    by_function = stream.key_by(lambda r: r.user, Types.STRING())
    assert by_name._keys()[1] == by_function._keys()[1] == Types.STRING()
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    assert stream.key_by("user", "day", pair)._keys()[1] == pair


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.key_by("usr"),
        lambda s: s.key_by("day", "usr"),
        lambda s: s.key_by(field("usr")),
        lambda s: s.key_by(lambda r: r.day).sum("usr"),
    ],
)
def test_a_wrong_name_fails_when_the_program_is_built(build):
    with pytest.raises(InvalidProgramError, match=r"no field 'usr'; did you mean 'user'\?"):
        build(PipelineTestHarness().source("in", CLICK))


@pytest.mark.parametrize("make", [row, record, Click, FrozenClick])
def test_a_name_that_a_record_does_not_have_fails_with_the_record(make):
    with pytest.raises(InvalidProgramError, match=r"'ada'.*no field 'usr'; did you mean 'user'\?"):
        results(lambda s: s.key_by("usr").process(KeyOf()), [make("ada", 1, 2.0)])


@pytest.mark.parametrize(
    "made", [Click("ada", 1, 2.0), ("ada", 1), ModelClick(user="ada", day=1, price=2.0)]
)
def test_methods_of_records_are_no_fields(made):
    name = "model_dump" if isinstance(made, ModelClick) else "count"
    with pytest.raises(InvalidProgramError, match=f"'ada'.*no field '{name}'"):
        results(lambda s: s.key_by(name).process(KeyOf()), [made])


def test_a_function_and_a_name_are_no_key():
    stream = PipelineTestHarness().source("in", CLICK)
    with pytest.raises(InvalidProgramError, match="key_by takes one function, or names of fields"):
        stream.key_by(lambda r: r.user, "day")


@pytest.mark.parametrize("assigner", [lambda event, ts: event.day * 1000, field("day") * 1000])
def test_a_function_assigns_timestamps(assigner):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    found = results(
        lambda s: s.assign_timestamps_and_watermarks(strategy).key_by("user").process(At()),
        [row("ada", 1, 2.0), row("bob", 4, 3.0)],
        CLICK,
    )
    assert found == [1000, 4000]


def test_a_function_of_one_argument_assigns_no_timestamps():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(InvalidProgramError, match="lambda event, ts: …, got one that takes"):
        strategy.with_timestamp_assigner(lambda event: event.day)


def test_the_class_of_an_assigner_is_none():
    class OfDay(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value.day

    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(InvalidProgramError, match=r"pass an instance: OfDay\(\)"):
        strategy.with_timestamp_assigner(OfDay)


def test_functions_with_other_parameters_are_rejected_where_they_are_given():
    records = StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2])

    @functools.wraps(lambda client, n: n)
    def with_client(n):
        return n

    records.map(with_client).map(functools.partial(max, 1)).filter(lambda n, least=0: n > least)
    for make, expected in (
        (
            lambda: records.map(lambda a, b: a),
            r"map takes a function of one record; got .*\(a, b\)",
        ),
        (lambda: records.filter(lambda: True), r"filter takes a function of one record"),
        (lambda: records.key_by(lambda: 1), r"key_by takes a function of one record"),
        (
            lambda: records.join(records).where(abs).equal_to(abs).apply(lambda one: one),
            "join apply takes a function of two records, and ctx",
        ),
    ):
        with pytest.raises(InvalidProgramError, match=expected):
            make()
