"""`get_internal_state()` reads and writes what PyFlink's workers store of a state.

Goal: the internal state has the values of the current key, and accumulators instead of results.
Method: a function that uses the internal states alone, with each backend and time to live.
"""

import pytest
from penstock.common import Time, Types
from penstock.datastream import AggregateFunction, KeyedProcessFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.testing import KeyedOneInputStreamOperatorTestHarness


class Mean(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return [a[0] + b[0], a[1] + b[1]]


class Inside(KeyedProcessFunction):
    def __init__(self, ages):
        self.ages = ages

    def open(self, runtime_context):
        descriptors = [
            ValueStateDescriptor("v", Types.INT()),
            ListStateDescriptor("l", Types.INT()),
            ReducingStateDescriptor("r", lambda a, b: a + b, Types.INT()),
            AggregatingStateDescriptor("a", Mean(), Types.PICKLED_BYTE_ARRAY()),
        ]
        for descriptor in descriptors if self.ages else ():
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.states = [
            runtime_context.get_state(descriptors[0]),
            runtime_context.get_list_state(descriptors[1]),
            runtime_context.get_reducing_state(descriptors[2]),
            runtime_context.get_aggregating_state(descriptors[3]),
        ]

    def process_element(self, value, ctx):
        stored, values, fold, mean = (state.get_internal_state() for state in self.states)
        if value[1] == "again":
            fold.add(1)
        elif value[1] == "clear":
            for state in (stored, values, fold, mean):
                state.clear()
        elif not list(stored.read()):
            stored.add(value[1])
            values.add(value[1])
            fold.add(value[1])
            mean.add([value[1], 1])
        else:
            for state in self.states[1:]:
                state.add(value[1])
        yield [list(state.read()) for state in (stored, values, fold, mean)]


@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_internal_states_have_the_stored_values(backend, ages):
    with KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Inside(ages)),
        lambda value: value[0],
        configuration={"state.backend.type": backend},
    ) as test:
        for value in [("x", 3), ("y", 8), ("x", 5), ("y", "clear"), ("y", 1)]:
            test.process_element(value)
        assert test.values == [
            [[3], [3], [3], [[3, 1]]],
            [[8], [8], [8], [[8, 1]]],
            [[3], [3, 5], [8], [[8, 2]]],
            [[], [], [], []],
            [[1], [1], [1], [[1, 1]]],
        ]
        with pytest.raises(InvalidProgramError, match=r"call its clear\(\) before"):
            test.process_element(("x", "again"))
