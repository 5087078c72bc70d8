"""FoldingState: values are folded into an accumulator of another type, key by key."""

import pytest
from penstock.common import Time, Types
from penstock.datastream.functions import FoldFunction, FoldingStateDescriptor, KeyedProcessFunction
from penstock.datastream.state import StateTtlConfig
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.testing import KeyedOneInputStreamOperatorTestHarness


class Append(FoldFunction):
    def fold(self, accumulator, value):
        accumulator.append(value)
        return accumulator


class Folded(KeyedProcessFunction):
    def __init__(self, make_descriptor):
        self.make_descriptor = make_descriptor

    def open(self, runtime_context):
        self.state = runtime_context.get_folding_state(self.make_descriptor())

    def process_element(self, element, ctx):
        _, value = element
        if value == "clear":
            self.state.clear()
        elif value is not None:
            self.state.add(value)
        found = self.state.get()
        yield list(found) if isinstance(found, list) else found
        if isinstance(found, list):
            found.append("in place")


def listed():
    return FoldingStateDescriptor("it", ["begin"], Append(), Types.PICKLED_BYTE_ARRAY())


def joined():
    fold = lambda text, number: f"{text}{number}"  # noqa: E731
    return FoldingStateDescriptor("it", "=", fold, Types.STRING())


def harness(make_descriptor):
    return KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Folded(make_descriptor)),
        lambda element: element[0],
        key_type=Types.STRING(),
    )


ELEMENTS = [("a", None), ("a", 1), ("b", 2), ("a", 3), ("a", None), ("b", "clear"), ("b", 4)]


def test_values_are_folded_key_by_key():
    """Each key starts with a copy of the initial value; reads return the accumulator."""
    with harness(listed) as test:
        for element in ELEMENTS:
            test.process_element(element)
        assert test.values == [
            None,
            ["begin", 1],
            ["begin", 2],
            ["begin", 1, "in place", 3],
            ["begin", 1, "in place", 3, "in place"],
            None,
            ["begin", 4],
        ]
    with harness(joined) as test:
        for element in ELEMENTS:
            test.process_element(element)
        assert test.values == [None, "=1", "=2", "=13", "=13", None, "=4"]


@pytest.mark.parametrize(("make", "expected"), [
    (listed, ["begin", 1, "in place", 2, "in place", 3]), (joined, "=123"),
])  # fmt: skip
def test_a_fold_continues_from_a_snapshot(make, expected):
    """The snapshot is unaffected by later changes of the accumulator in place."""
    with harness(make) as test:
        for value in (1, 2):
            test.process_element(("a", value))
        snapshot = test.snapshot(1)
        test.process_element(("a", 99))
    new = harness(make)
    new.initialize_state(snapshot)
    with new:
        new.process_element(("a", 3))
        assert new.values == [expected]


def test_a_fold_expires():
    def expiring():
        descriptor = joined()
        ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).build()
        descriptor.enable_time_to_live(ttl)
        return descriptor

    with harness(expiring) as test:
        test.process_element(("a", 1))
        test.set_processing_time(99)
        test.process_element(("a", 2))
        test.set_processing_time(199)
        test.process_element(("a", 3))
        assert test.values == ["=1", "=12", "=3"]


def test_another_type_is_refused():
    with harness(joined) as test:
        test.process_element(("a", 1))
        snapshot = test.snapshot(1)
    new = harness(lambda: FoldingStateDescriptor("it", 0, lambda a, b: a + b, Types.LONG()))
    new.initialize_state(snapshot)
    with pytest.raises(InvalidProgramError, match="was written as STRING"):
        new.open()


def test_arguments_are_checked():
    descriptor = joined()
    assert descriptor.get_initial_value() == "="
    assert descriptor.get_fold_function()("x", 1) == "x1"
    with pytest.raises(InvalidProgramError, match="FoldingStateDescriptor"):
        FoldingStateDescriptor("it", 0, 7, Types.LONG())
    with pytest.raises(InvalidProgramError, match="cannot be merged"):
        descriptor.get_agg_function().merge(1, 2)
