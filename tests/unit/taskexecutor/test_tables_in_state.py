"""Tables of pandas in state that cannot hold them: errors name the type and the place."""

import pandas
import pytest
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.errors import InvalidProgramError, SerializationError
from penstock.testing import ProcessFunctionTestHarnesses

TABLE = pandas.DataFrame({"a": [1, 2]})


class AsKey(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = MapStateDescriptor("seen", Types.PICKLED_BYTE_ARRAY(), Types.LONG())
        self.seen = runtime_context.get_map_state(descriptor)

    def process_element(self, value, ctx):
        self.seen.put((1, TABLE), value)


class AsNumber(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update(TABLE)


def process(function):
    made = ProcessFunctionTestHarnesses.for_keyed_process_function(function, lambda value: value)
    with made as test:
        test.process_element(1)


def test_a_table_as_the_key_of_a_map_state():
    with pytest.raises(InvalidProgramError, match=r"key of a map state is of type pandas\..*Frame"):
        process(AsKey())


def test_a_table_as_a_number():
    with pytest.raises(
        SerializationError, match=r"(?s)state 'count' is declared as.*\(DataFrame\)"
    ):
        process(AsNumber())
