"""Functions that return where they should yield, and yield where they should return."""

from typing import NamedTuple

import pytest
from penstock.common.calls import first_results
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream import OutputTag
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.window import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import PenstockError
from penstock.graph import operators
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.compiled import emit_results
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    OneInputStreamOperatorTestHarness,
    PipelineTestHarness,
    TwoInputStreamOperatorTestHarness,
)


def test_a_process_function_that_returns_a_value_is_told_to_yield():
    with pytest.raises(TypeError, match="not iterable") as caught:
        emit_results(None, 5, 0, OutputTag)
    assert caught.value.__notes__ == [
        "the function emits what it returns one by one, but it returned 5: write yield instead of "
        "return, or return a list"
    ]


def test_an_error_of_its_own_has_no_such_note():
    def results():
        yield from ()
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own") as caught:
        emit_results(None, results(), 0, OutputTag)
    assert not hasattr(caught.value, "__notes__")


def test_a_mapped_generator_is_told_to_be_in_flat_map():
    with pytest.raises(PenstockError, match="a yield belongs in flat_map"):
        codec_for(Types.PICKLED_BYTE_ARRAY()).encode(item for item in ())


@pytest.mark.parametrize("result", [None, 5])
def test_the_error_of_a_flat_map_without_an_iterable_says_what_to_do(result):
    with (
        OneInputStreamOperatorTestHarness(operators.FlatMap(lambda _: result)) as test,
        pytest.raises(TypeError) as raised,
    ):
        test.process_element(1)
    (note,) = raised.value.__notes__
    assert note.endswith(f"but that returned {result!r}: return a list, or use yield")


class Named(NamedTuple):
    one: int
    other: int


class Returning(ProcessFunction):
    """Returns what it should yield."""

    def __init__(self, result):
        self.result = result

    def process_element(self, value, ctx):
        return self.result


@pytest.mark.parametrize(
    ("result", "part"),
    [
        ("ab", "character"),
        (b"ab", "byte"),
        ({"a": 1}, "key"),
        *((row, "field") for row in (Row(1, 2), Named(1, 2))),
    ],
)
@pytest.mark.parametrize("kind", ["flat_map", "process", "keyed process"])
def test_a_returned_record_is_taken_apart_with_a_warning(monkeypatch, caplog, kind, result, part):
    monkeypatch.setattr(first_results, "_warned", set())
    if kind == "flat_map":
        harness = OneInputStreamOperatorTestHarness(operators.FlatMap(lambda _: result))
    elif kind == "process":
        harness = OneInputStreamOperatorTestHarness(operators.Process(Returning(result)))
    else:
        harness = KeyedOneInputStreamOperatorTestHarness(
            operators.KeyedProcess(Returning(result)), lambda value: value
        )
    with harness as test:
        for _ in range(2):
            test.process_element(1)
        assert test.values == 2 * list(result)
    (warning,) = [message for message in caplog.messages if "becomes a record" in message]
    assert f"{result!r}, and each {part} of it" in warning
    assert "write yield instead of return" in warning


class ReturningOfBoth(CoProcessFunction):
    """Returns what it should yield for the records of the second stream alone."""

    def process_element1(self, value, ctx):
        return None

    def process_element2(self, value, ctx):
        return "ab"


class FlatReturning(CoFlatMapFunction):
    """Returns what it should yield for the records of the second stream alone."""

    def flat_map1(self, value):
        return None

    def flat_map2(self, value):
        return "ab"


class ReturningBesideBroadcast(BroadcastProcessFunction):
    """Returns what it should yield for broadcast records alone."""

    def process_element(self, value, ctx):
        return None

    def process_broadcast_element(self, value, ctx):
        return "ab"


@pytest.mark.parametrize(
    "operator",
    [
        operators.CoFlatMap(FlatReturning()),
        operators.CoProcess(ReturningOfBoth()),
        operators.BroadcastProcess(ReturningBesideBroadcast()),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_a_function_of_two_streams_that_returns_a_record_causes_a_warning(
    monkeypatch, caplog, operator
):
    monkeypatch.setattr(first_results, "_warned", set())
    with TwoInputStreamOperatorTestHarness(operator) as test:
        test.process_element1(1)
        test.process_element2(1)
        test.process_element2(2)
        assert test.values == list("abab")
    (warning,) = [message for message in caplog.messages if "becomes a record" in message]
    assert "'ab', and each character of it" in warning


@pytest.mark.parametrize("result", [["ab"], ("a", "b"), (), {"a"}, iter("ab")])
def test_lists_tuples_and_iterators_are_returned_without_a_warning(monkeypatch, caplog, result):
    monkeypatch.setattr(first_results, "_warned", set())
    with OneInputStreamOperatorTestHarness(operators.FlatMap(lambda _: result)) as test:
        test.process_element(1)
    assert not [message for message in caplog.messages if "becomes a record" in message]


class Texts(ProcessWindowFunction):
    """Returns what it should yield."""

    def process(self, key, context, elements):
        return "ab"


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(Time.milliseconds(10)),
        EventTimeSessionWindows.with_gap(Time.milliseconds(10)),
        CountTumblingWindowAssigner.of(1),
    ],
    ids=lambda assigner: type(assigner).__name__,
)
def test_a_window_function_that_returns_a_record_causes_a_warning(monkeypatch, caplog, assigner):
    monkeypatch.setattr(first_results, "_warned", set())
    harness = PipelineTestHarness()
    keyed = harness.source("in", Types.LONG()).key_by(lambda value: value)
    harness.sink("out", keyed.window(assigner).process(Texts()))
    with harness:
        harness.process_element("in", 1, 1)
        harness.process_watermark("in", 50)
        harness.process_element("in", 1, 51)
        harness.process_watermark("in", 100)
        assert harness.values("out") == list("abab")
    (warning,) = [message for message in caplog.messages if "becomes a record" in message]
    assert "'ab', and each character of it" in warning
