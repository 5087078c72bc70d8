"""Expressions in operators mean what they mean in Python, evaluated or called."""

import datetime
import math
import random
import warnings

import cloudpickle
import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.common.time import Duration, Time
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from penstock.expressions import (
    argument,
    as_list,
    as_row,
    as_tuple,
    coalesce,
    element,
    field,
    greatest,
    least,
    lit,
    when,
)
from penstock.network import runtime
from penstock.testing import PipelineTestHarness
from support.evaluation.comparison import described
from support.evaluation.written import ROW_TYPE, SHAPES, Written, an_element

EVALUATED = ["true", "false"] if runtime() == "native" else ["true"]
USERS = Types.ROW_NAMED(
    ["user", "price", "ts", "at", "day", "tags"],
    [
        Types.STRING(),
        Types.DOUBLE(),
        Types.LONG(),
        Types.SQL_TIMESTAMP(),
        Types.SQL_DATE(),
        Types.MAP(Types.STRING(), Types.INT()),
    ],
)


def outcome(function, *arguments):
    try:
        return [described(function(*arguments))]
    except Exception:
        # The error may differ: a method of texts is not looked up in other values.
        return "an error"


def in_harness(stream_type, build, elements, evaluated="true"):
    """Return each record's results, or its error."""
    harness = PipelineTestHarness({"penstock.evaluate-functions": evaluated})
    harness.sink("out", build(harness.source("in", stream_type)))
    found = []
    with harness:
        for value in elements:
            harness.output("out").clear()
            try:
                harness.process_element("in", value)
            except Exception:
                found.append("an error")
            else:
                found.append([described(result) for result in harness.values("out")])
    return found


@pytest.mark.parametrize("evaluated", EVALUATED)
@pytest.mark.parametrize("shape", SHAPES)
def test_random_expressions(shape, evaluated):
    chooser = random.Random(f"{shape}")
    stream_type = SHAPES[shape][0]
    for _ in range(150):
        expression, meaning = Written(chooser, shape).anything(chooser.choice([1, 2, 3]))
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):
            # No real program compares a literal with None.
            function = eval(f"lambda x: {meaning}", {"math": math})
        elements = [an_element(chooser, shape) for _ in range(8)]
        found = in_harness(stream_type, lambda s, e=expression: s.map(e), elements, evaluated)
        for value, result in zip(elements, found, strict=True):
            expected = outcome(function, value)
            assert result == expected, f"{expression} of {value!r}, that is {meaning}"


@pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")
def test_expressions_are_evaluated():
    environment = StreamExecutionEnvironment.get_execution_environment()
    stream = environment.from_collection([Row("a", 1.0, 0, None, None, {})], USERS)
    result = stream.filter(field("price") * 2 > 1).map(
        as_tuple(field("user").str.lower(), field("ts").dt.hour(), field("at").dt.hour())
    )
    assert result.get_type() == Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
    result.print()
    plan = environment.explain()
    assert "filter: evaluated: ((field('price') * 2) > 1)" in plan
    assert (
        "map: evaluated: as_tuple(field('user').str.lower(), ((field('ts') // 3600000) % 24), "
        "field('at').dt.hour())"
    ) in plan


@pytest.mark.parametrize("evaluated", EVALUATED)
def test_every_place(evaluated):
    pair = Types.TUPLE([Types.STRING(), Types.LONG()])
    elements = [("a", 1), ("b", 2), ("a", 3)]

    def run(build, values=elements, of=pair):
        harness = PipelineTestHarness({"penstock.evaluate-functions": evaluated})
        harness.sink("out", build(harness.source("in", of)))
        with harness:
            for value in values:
                harness.process_element("in", value)
            harness.end_inputs()
            return [tuple(record) for record in harness.output("out").records]

    def values(build, **more):
        return [value for value, _ in run(build, **more)]

    assert values(lambda s: s.map(field(1) + 1)) == [2, 3, 4]
    assert values(lambda s: s.filter(field(0) == "a")) == [("a", 1), ("a", 3)]
    assert values(lambda s: s.flat_map(as_list(field(0), "z"))) == ["a", "z", "b", "z", "a", "z"]
    assert values(lambda s: s.flat_map(field(0).str.split())) == ["a", "b", "a"]
    total = as_tuple(argument(0)[0], argument(0)[1] + argument(1)[1])
    assert values(lambda s: s.key_by(field(0)).reduce(total)) == [("a", 1), ("b", 2), ("a", 4)]
    assert values(lambda s: s.key_by(field(0).str.upper()).sum(1))[-1] == ("a", 4)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(field(1) * 1000)
    stamped = run(lambda s: s.assign_timestamps_and_watermarks(timed))
    assert [timestamp for _, timestamp in stamped] == [1000, 2000, 3000]

    def in_windows(stream):
        keyed = stream.assign_timestamps_and_watermarks(timed).key_by(field(0))
        return keyed.window(TumblingEventTimeWindows.of(Time.seconds(10)))

    assert sorted(values(lambda s: in_windows(s).reduce(total))) == [("a", 4), ("b", 2)]
    late = values(lambda s: in_windows(s).allowed_lateness(1).reduce(total))
    assert sorted(late) == [("a", 4), ("b", 2)]

    def joined(stream):
        timed_stream = stream.assign_timestamps_and_watermarks(timed)
        joined = timed_stream.join(timed_stream).where(field(0)).equal_to(field(0))
        windows = joined.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        return windows.apply(argument(0)[1] * 10 + argument(1)[1])

    assert sorted(values(joined)) == [11, 13, 22, 31, 33]


def test_a_partitioner(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(2)
    stream = environment.from_collection([1, 2, 3, 4], Types.LONG())
    parted = stream.partition_custom(argument(0) % argument(1), element * 3)
    assert sorted(parted.map(element + 0).execute_and_collect()) == [1, 2, 3, 4]


MOMENT = datetime.datetime(2024, 2, 29, 13, 14, 15, 987_654)


@pytest.mark.parametrize("evaluated", EVALUATED)
@pytest.mark.parametrize(
    ("part", "of_moment", "of_millis"),
    [
        ("year", 2024, 2023),
        ("month", 2, 11),
        ("day", 29, 14),
        ("weekday", 4, 2),
        ("hour", 13, 22),
        ("minute", 14, 13),
        ("second", 15, 20),
        ("millisecond", 987, 123),
        ("microsecond", 987_654, 123_000),
    ],
)
def test_times(part, of_moment, of_millis, evaluated):
    def take(name):
        return lambda stream: stream.map(getattr(field(name).dt, part)())

    value = Row("u", 1.0, 1_700_000_000_123, MOMENT, MOMENT.date(), {})
    assert in_harness(USERS, take("at"), [value], evaluated) == [[hex(of_moment)]]
    assert in_harness(USERS, take("ts"), [value], evaluated) == [[hex(of_millis)]]
    if part in ("year", "month", "day", "weekday"):
        assert in_harness(USERS, take("day"), [value], evaluated) == [[hex(of_moment)]]
    else:
        with pytest.raises(InvalidProgramError, match=f"has no {part} in"):
            in_harness(USERS, take("day"), [value], evaluated)


def test_a_timestamp_is_floored():
    floored = field(0, Types.LONG()).dt.floor(Duration.of_seconds(10))
    assert floored((25_123,)) == 20_000
    assert field(0, Types.LONG()).dt.floor(Time.seconds(10))((-1,)) == -10_000
    with pytest.raises(InvalidProgramError, match="positive duration"):
        field(0).dt.floor(Time.seconds(0))


def test_rows_are_made():
    made = as_row(name=field("user").str.upper(), double=field("price") * 2)
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection(
        [Row("a", 1.5, 0, None, None, {})], USERS
    )
    result = stream.map(made)
    assert str(result.get_type()) == "RowTypeInfo(name: String, double: Double)"
    assert made({"user": "a", "price": 1.5}) == Row(name="A", double=3.0)


def test_a_row_without_names_is_read_by_its_type():
    found = in_harness(ROW_TYPE, lambda s: s.map(field("n")), [Row("u", 1.0, 5, None, True)])
    assert found == [[hex(5)]]
    found = in_harness(ROW_TYPE, lambda s: s.map(field("n")), [("u", 1.0, 6, None, True)])
    assert found == [[hex(6)]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.map(field("pric")), "map: element is RowTypeInfo.*has no field 'pric'"),
        (lambda s: s.map(field(9)), "has no field 9"),
        (
            lambda s: s.map(field("user")["x"]),
            "takes a field of field.*, which is String",
        ),
        (lambda s: s.map(field("user") * 2), "computes with String and BigInteger"),
        (lambda s: s.map(field("user") + 1), "cast\\(Types.STRING\\(\\)\\)"),
        (lambda s: s.map(field("user") < 1), "compares String with BigInteger"),
        (
            lambda s: s.map(field("price").str.lower()),
            "takes a string, and field.* is Dou",
        ),
        (
            lambda s: s.map(field("price") & True),
            "takes a condition, and field.* is Dou",
        ),
        (lambda s: s.map(~field("price")), "takes a condition"),
        (lambda s: s.map(-field("user")), "takes a number"),
        (lambda s: s.map(when(field("user")).then(1)), "takes a condition"),
        (lambda s: s.map(field("price").dt.hour()), "has no hour in Double"),
        (lambda s: s.map(field("tags").field("a").str.lower()), "takes a string, .* is Integer"),
        (lambda s: s.map(field("price", Types.LONG())), "is Double, not Long"),
        (lambda s: s.map(argument(1)), "map: argument\\(1\\) does not exist here"),
        (lambda s: s.filter(field("price")), "filter takes a condition, and .* is Double"),
        (lambda s: s.flat_map(field("user")), "flat_map takes a list"),
        (lambda s: s.key_by(field("x")), "key_by: element is"),
        (lambda s: s.key_by(field("user")).reduce(argument(2)), "reduce: argument\\(2\\) does not"),
        (lambda s: s.partition_custom(field("a"), field("user")), "takes a field of"),
        (lambda s: s.partition_custom(lit("a"), field("user")), "takes an integer"),
        (
            lambda s: s.assign_timestamps_and_watermarks(
                WatermarkStrategy.no_watermarks().with_timestamp_assigner(field("user"))
            ),
            "with_timestamp_assigner takes an integer, and field\\('user'\\) is String",
        ),
    ],
)
def test_uncomputable_expressions_are_rejected_when_the_program_is_built(build, message):
    environment = StreamExecutionEnvironment.get_execution_environment()
    stream = environment.from_collection([Row("a", 1.0, 0, None, None, {})], USERS)
    with pytest.raises(InvalidProgramError, match=message) as caught:
        build(stream)
    assert __file__ in str(caught.value)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: 0 < field("a") < 5, "between\\(\\)"),
        (lambda: not field("a"), "has no truth value"),
        (lambda: field("a") and field("b"), "& | ~"),
        (lambda: field("a") - [1], "an expression takes expressions, numbers"),
        (lambda: field(1.5), "a field has a name or a position"),
        (lambda: field("a").is_in([field("b")]), "takes values, not expressions"),
        (lambda: field("a").cast(Types.LIST(Types.INT())), "cast\\(\\) makes integers"),
        (lambda: argument(-1), "counted from 0"),
        (lambda: coalesce(), "at least one value"),
        (lambda: least(1), "at least two values"),
        (lambda: greatest(1), "at least two values"),
        (lambda: as_row(), "at least one field"),
        (lambda: lit({}), "an expression takes expressions"),
    ],
)
def test_invalid_expressions(write, message):
    with pytest.raises(InvalidProgramError, match=message):
        write()


def test_an_expression_is_no_container():
    with pytest.raises(TypeError):
        iter(field("a"))
    with pytest.raises(TypeError):
        1 in field("a")  # noqa: B015


def test_an_expression_is_called_travels_and_shows_itself():
    expression = (
        when(field("a").is_null())
        .then(0)
        .when(field("a") > 5)
        .then(5)
        .otherwise(coalesce(field("b"), 1) - 3)
    )
    for value in ({"a": None, "b": 1}, {"a": 6, "b": 1}, {"a": 2, "b": None}, {"a": 2, "b": 9}):
        copy = cloudpickle.loads(cloudpickle.dumps(expression))
        assert copy(value) == expression(value)
    assert [expression({"a": a, "b": 9}) for a in (None, 6, 1)] == [0, 5, 6]
    assert repr(expression) == (
        "when(field('a').is_null()).then(0).when((field('a') > 5)).then(5)."
        "otherwise((coalesce(field('b'), 1) - 3))"
    )


@pytest.mark.parametrize("evaluated", EVALUATED)
def test_an_error_has_the_line_of_the_program(evaluated):
    harness = PipelineTestHarness({"penstock.evaluate-functions": evaluated})
    harness.sink("out", harness.source("in", Types.LONG()).map(1 / element).map(element + 1))
    with harness, pytest.raises(ZeroDivisionError) as caught:
        harness.process_element("in", 0)
    frame = caught.traceback[-1]
    assert str(frame.path) == __file__
    assert "1 / element" in str(frame.statement)
