"""Declared types of states, and of records between chained operators."""

import pytest
from penstock.common import Row, Time, Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, OutputTag, ProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError, SerializationError
from penstock.testing import PipelineTestHarness, ProcessFunctionTestHarnesses

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


class Keep(KeyedProcessFunction):
    """Adds elements to a state, and emits the state's content."""

    def __init__(self, descriptor):
        self.descriptor = descriptor

    def open(self, runtime_context):
        if isinstance(self.descriptor, MapStateDescriptor):
            self.state = runtime_context.get_map_state(self.descriptor)
        elif isinstance(self.descriptor, ListStateDescriptor):
            self.state = runtime_context.get_list_state(self.descriptor)
        else:
            self.state = runtime_context.get_state(self.descriptor)

    def process_element(self, value, ctx):
        if isinstance(self.descriptor, MapStateDescriptor):
            self.state.put(*value)
            yield list(self.state.items())
        elif isinstance(self.descriptor, ListStateDescriptor):
            self.state.add(value)
            yield list(self.state.get())
        else:
            self.state.update(value)
            yield self.state.value()


def kept(descriptor, value, with_ttl=False):
    if with_ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    harness = ProcessFunctionTestHarnesses.for_keyed_process_function(Keep(descriptor), lambda _: 0)
    harness.open()
    try:
        harness.process_element(value, 0)
        return harness.values[0]
    finally:
        harness.close()


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (PERSON, Row("a", "b")),
        (PERSON, ("a", 1)),
        (PERSON, Row(name="a", years=1)),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1, 2)),
        (Types.TUPLE([Types.INT()]), [1]),
        (Types.LIST(Types.INT()), ["a"]),
        (Types.LIST(Types.INT()), (1,)),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": "b"}),
        (Types.BOOLEAN(), "yes"),
        (Types.SQL_DATE(), "2024-01-01"),
        (Types.INSTANT(), 5),
    ],
    ids=str,
)
@pytest.mark.parametrize("with_ttl", [False, True])
def test_a_state_refuses_what_its_type_cannot_hold(declared, value, with_ttl):
    for descriptor, element in (
        (ValueStateDescriptor("v", declared), value),
        (ListStateDescriptor("l", declared), value),
        (MapStateDescriptor("m", Types.INT(), declared), (1, value)),
    ):
        with pytest.raises(SerializationError, match="cannot hold"):
            kept(descriptor, element, with_ttl)


@pytest.mark.parametrize("with_ttl", [False, True])
@pytest.mark.parametrize(
    ("declared", "key"),
    [
        (Types.INT(), "text"),
        (Types.STRING(), 1),
        (Types.STRING(), None),
        (Types.TUPLE([Types.INT()]), ("a",)),
        (Types.LONG(), 2**63),
    ],
    ids=str,
)
def test_the_keys_of_a_map_state_are_of_their_type(declared, key, with_ttl):
    with pytest.raises(SerializationError, match="cannot hold"):
        kept(MapStateDescriptor("m", declared, Types.INT()), (key, 1), with_ttl)


def test_a_state_keeps_what_fits_as_it_is():
    assert kept(ValueStateDescriptor("v", PERSON), Row("a", 1)) == Row("a", 1)
    assert kept(MapStateDescriptor("m", Types.STRING(), PERSON), ("a", Row("b", 1))) == [
        ("a", Row("b", 1))
    ]
    untyped = MapStateDescriptor("m", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
    assert kept(untyped, (("a", 1), [1])) == [(("a", 1), [1])]


def collected(build, *elements):
    """Return the results of a program for numbers; ``build`` gets their stream."""
    harness = PipelineTestHarness()
    for name, stream in build(harness.source("numbers", Types.INT())).items():
        harness.sink(name, stream)
    with harness:
        for element in elements:
            harness.process_element("numbers", element, 0)
        return harness


def age_of(row):
    return row.age


def test_branches_see_values_of_the_declared_type():
    def build(numbers):
        people = numbers.map(lambda n: Row("x", n), PERSON)
        doubles = numbers.map(lambda n: n, Types.DOUBLE())
        return {
            "one": people.map(age_of),
            "other": people.map(lambda row: row.as_dict()),
            "float": doubles.map(lambda v: repr(v)),
            "half": doubles.map(lambda v: v / 2),
        }

    harness = collected(build, 3)
    assert harness.values("one") == [3]
    assert harness.values("other") == [{"name": "x", "age": 3}]
    assert harness.values("float") == ["3.0"]
    assert harness.values("half") == [1.5]


def test_a_branch_refuses_what_is_of_another_type():
    def build(numbers):
        people = numbers.map(lambda n: ("x", n), PERSON)
        return {"one": people.map(str), "other": people.map(str)}

    with pytest.raises(SerializationError, match="not a Row"):
        collected(build, 3)


def test_a_side_output_gives_values_of_its_type():
    tag = OutputTag("people", PERSON)

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield value
            yield tag, Row("x", value)

    def build(numbers):
        main = numbers.process(Split(), Types.INT())
        return {"main": main, "side": main.get_side_output(tag).map(age_of)}

    harness = collected(build, 3)
    assert harness.values("main") == [3]
    assert harness.values("side") == [3]


def test_behind_timestamps_values_are_of_the_declared_type():
    def build(numbers):
        people = numbers.map(lambda n: Row("x", n), PERSON)
        strategy = WatermarkStrategy.for_monotonous_timestamps()
        return {"ages": people.assign_timestamps_and_watermarks(strategy).map(age_of)}

    assert collected(build, 3).values("ages") == [3]


def test_one_function_after_the_other_sees_values_as_they_are():
    def build(numbers):
        return {"tuples": numbers.map(lambda n: ("x", n), PERSON).map(lambda v: v[1])}

    assert collected(build, 3).values("tuples") == [3]


class KeepTwo(KeyedProcessFunction):
    """Opens the state of one name by two descriptors, the second one when an element arrives."""

    def __init__(self, first, second):
        self.descriptors = first, second

    def open(self, runtime_context):
        self.open_state = {
            ValueStateDescriptor: runtime_context.get_state,
            ListStateDescriptor: runtime_context.get_list_state,
            MapStateDescriptor: runtime_context.get_map_state,
        }[type(self.descriptors[0])]
        self.open_state(self.descriptors[0])

    def process_element(self, value, ctx):
        self.open_state(self.descriptors[1])
        yield value


def opened_twice(first, second):
    """Return the results if one name is opened with two types."""
    harness = ProcessFunctionTestHarnesses.for_keyed_process_function(
        KeepTwo(first, second), lambda _: 0
    )
    harness.open()
    try:
        harness.process_element(1, 0)
        return harness.values
    finally:
        harness.close()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ValueStateDescriptor("s", Types.INT()), ValueStateDescriptor("s", Types.STRING())),
        (ListStateDescriptor("s", Types.INT()), ListStateDescriptor("s", Types.LONG())),
        (ValueStateDescriptor("s", Types.INT()), ValueStateDescriptor("s", None)),
        (
            ValueStateDescriptor("s", Types.ROW([Types.INT()])),
            ValueStateDescriptor("s", Types.ROW_NAMED(["a"], [Types.INT()])),
        ),
        (
            MapStateDescriptor("s", Types.STRING(), Types.INT()),
            MapStateDescriptor("s", Types.INT(), Types.INT()),
        ),
    ],
    ids=["value", "list", "undeclared", "row", "map"],
)
def test_one_name_is_of_one_type(first, second):
    with pytest.raises(InvalidProgramError, match=r"state 's' is of type .* needs another name"):
        opened_twice(first, second)


def test_one_name_of_one_type_may_be_opened_again():
    first, second = (Types.ROW_NAMED(["a"], [Types.INT()]) for _ in range(2))
    assert opened_twice(ValueStateDescriptor("s", first), ValueStateDescriptor("s", second)) == [1]
