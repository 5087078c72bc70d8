"""Functions that open their states with each element."""

import pytest
from penstock.common import Time, Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.taskexecutor.state.opened_states import OpenedStates
from penstock.testing import ProcessFunctionTestHarnesses


class Views:
    """Counts opened states."""

    def __init__(self):
        self.opened = 0
        self.states = OpenedStates(self.open)

    def open(self, kind, descriptor):
        self.opened += 1
        return object()


def timed(descriptor):
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    return descriptor


@pytest.mark.parametrize(
    "make",
    [
        lambda: ValueStateDescriptor("s", Types.LONG()),
        lambda: ValueStateDescriptor("s", None),
        lambda: ValueStateDescriptor("s", Types.ROW_NAMED(["a"], [Types.INT()])),
        lambda: ListStateDescriptor("s", Types.STRING()),
        lambda: MapStateDescriptor("s", Types.STRING(), Types.LIST(Types.INT())),
    ],
)
def test_equal_descriptors_share_one_view(make):
    views = Views()
    one = make()
    first = views.states.view("k", one)
    assert all(views.states.view("k", each) is first for each in (one, make(), one))
    assert views.states.view("other", one) is not first
    assert views.opened == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ValueStateDescriptor("s", Types.INT()), ValueStateDescriptor("s", Types.LONG())),
        (ValueStateDescriptor("s", Types.INT()), ValueStateDescriptor("t", Types.INT())),
        (ValueStateDescriptor("s", Types.INT()), timed(ValueStateDescriptor("s", Types.INT()))),
        (
            ValueStateDescriptor("s", Types.ROW([Types.INT()])),
            ValueStateDescriptor("s", Types.ROW_NAMED(["a"], [Types.INT()])),
        ),
        (
            ReducingStateDescriptor("s", max, Types.INT()),
            ReducingStateDescriptor("s", min, Types.INT()),
        ),
    ],
)
def test_another_descriptor_is_opened(one, other):
    views = Views()
    assert views.states.view("k", one) is not views.states.view("k", other)


def test_a_descriptor_that_was_changed_since_is_opened_again():
    views = Views()
    descriptor = ValueStateDescriptor("s", Types.INT())
    before = views.states.view("k", descriptor)
    assert views.states.view("k", timed(descriptor)) is not before


class Counting(KeyedProcessFunction):
    """Requests its states for each element, by new descriptors."""

    def open(self, runtime_context):
        self.context = runtime_context

    def process_element(self, value, ctx):
        count = self.context.get_state(ValueStateDescriptor("count", Types.LONG()))
        values = self.context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        count.update((count.value() or 0) + 1)
        values.add(value)
        yield count.value(), list(values.get())


def test_states_that_are_asked_for_with_each_record_are_those_of_its_key():
    harness = ProcessFunctionTestHarnesses.for_keyed_process_function(
        Counting(), lambda value: value % 2
    )
    harness.open()
    try:
        for value in (1, 2, 3, 4, 5):
            harness.process_element(value, 0)
        assert harness.values == [(1, [1]), (1, [2]), (2, [1, 3]), (2, [2, 4]), (3, [1, 3, 5])]
    finally:
        harness.close()
