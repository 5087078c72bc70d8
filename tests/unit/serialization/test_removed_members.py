"""An enum member in state that the program no longer has is an error with both names.

Method: the enum of this module is replaced between a snapshot and its restore.
"""

import enum
import sys

import pytest
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.errors import SerializationError
from penstock.serialization.class_reference import forget_imported
from penstock.testing import ProcessFunctionTestHarnesses


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Later(enum.Enum):
    BLUE = 2


class Kept(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("color", Types.PICKLED_BYTE_ARRAY())
        self.color = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.color.update(Color.RED)
        yield value


def harness():
    return ProcessFunctionTestHarnesses.for_keyed_process_function(Kept(), lambda value: value)


def test_a_member_that_is_gone_is_named_with_its_enum_and_state(monkeypatch):
    with harness() as before:
        before.process_element(1)
        snapshot = before.snapshot(1)
    monkeypatch.setattr(sys.modules[__name__], "Color", Later)
    forget_imported()
    try:
        after = harness()
        with pytest.raises(SerializationError) as raised:
            after.initialize_state(snapshot)
        after._task.close()
    finally:
        monkeypatch.undo()
        forget_imported()
    told = f"member 'RED' of {__name__}:Color, which has no such member here (it has BLUE)"
    assert told in str(raised.value)
    assert raised.value.__notes__ == ["in the state 'color'"]
