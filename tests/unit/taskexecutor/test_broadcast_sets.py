"""Broadcast sets are complete when a function is opened; BATCH mode holds the input until then."""

import pytest
from penstock.common import Types
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction, MapFunction
from penstock.errors import InvalidProgramError
from penstock.graph import operators
from penstock.testing import (
    KeyedTwoInputStreamOperatorTestHarness,
    MultipleInputStreamOperatorTestHarness,
)

BATCH = {"execution.runtime-mode": "BATCH"}
END = 2**63 - 1


class Translate(MapFunction):
    """Looks words up in a broadcast dictionary."""

    def open(self, runtime_context):
        self.words = dict(runtime_context.get_broadcast_variable("words"))
        self.marks = runtime_context.get_broadcast_variable("marks")
        assert runtime_context.has_broadcast_variable("words")
        assert not runtime_context.has_broadcast_variable("other")

    def map(self, value):
        return self.words.get(value, value) + "".join(self.marks)


def test_records_wait_for_all_broadcast_sets():
    descriptor = operators.WithBroadcastSets(operators.Map(Translate()), ("words", "marks"))
    with MultipleInputStreamOperatorTestHarness(descriptor, configuration=BATCH) as harness:
        harness.process_element(0, "tea", 3)
        harness.process_element(1, ("tea", "Tee"))
        harness.process_watermark(1, END)
        harness.process_element(0, "milk", 1)
        harness.process_element(2, "!")
        harness.process_watermark(0, END)
        harness.operator.end_input(0)
        assert harness.values == []
        harness.process_watermark(2, END)
        harness.operator.end_input(2)
        assert harness.records == [("Tee!", 3), ("milk!", 1)]
        assert harness.output.watermarks == [END]


class CountKnown(KeyedProcessFunction):
    """Emits for each record its key, and whether its value is a known number."""

    def open(self, runtime_context):
        self.known = set(runtime_context.get_broadcast_variable("known"))

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), value in self.known


def test_a_keyed_function_with_a_broadcast_set_gets_one_key_after_the_other():
    descriptor = operators.WithBroadcastSets(operators.KeyedProcess(CountKnown()), ("known",))
    with KeyedTwoInputStreamOperatorTestHarness(
        descriptor, lambda value: value % 2, None, configuration=BATCH
    ) as harness:
        for number in range(4):
            harness.process_element1(number, number)
        harness.process_element2(2)
        harness.process_watermark1(END)
        harness.process_watermark2(END)
        assert harness.values == [(0, False), (0, True), (1, False), (1, False)]


def test_an_unknown_broadcast_set_is_named():
    class Wrong(MapFunction):
        def open(self, runtime_context):
            runtime_context.get_broadcast_variable("word")

        def map(self, value):
            return value

    descriptor = operators.WithBroadcastSets(operators.Map(Wrong()), ("words",))
    with MultipleInputStreamOperatorTestHarness(descriptor, configuration=BATCH) as harness:
        message = r"no broadcast set 'word'; did you mean 'words'\?: add it by with_broadcast_set"
        with pytest.raises(InvalidProgramError, match=message):
            harness.process_watermark(1, END)


def test_with_broadcast_set_adds_a_broadcast_input():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    words = env.from_collection([("tea", "Tee")])
    marks = env.from_collection(["!"], Types.STRING())
    tea = env.from_collection(["tea"], Types.STRING())
    translated = tea.map(Translate(), Types.STRING())
    assert translated.with_broadcast_set(words, "words") is translated
    translated.with_broadcast_set(marks, "marks").print()
    graph = env.get_stream_graph()
    node = next(node for node in graph.nodes.values() if node.name == "Map")
    assert node.descriptor.names == ("words", "marks")
    assert isinstance(node.descriptor.inner, operators.Map)
    kinds = {edge.input_number: edge.partitioner.kind for edge in node.in_edges}
    assert kinds[1] == kinds[2] == "BROADCAST"
    with pytest.raises(InvalidProgramError, match="has a broadcast set 'words' already"):
        translated.with_broadcast_set(words, "words")
    with pytest.raises(InvalidProgramError, match="right after map"):
        tea.with_broadcast_set(words, "words")
    with pytest.raises(TypeError, match="takes a DataStream"):
        translated.with_broadcast_set([1], "more")
    for own in (translated, translated.filter(bool)):
        with pytest.raises(InvalidProgramError, match="'own' of 'Map' depends on its results"):
            translated.with_broadcast_set(own, "own")


def test_broadcast_sets_need_batch_execution():
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection([("tea", "Tee")])
    words.map(Translate(), Types.STRING()).with_broadcast_set(words, "words").print()
    with pytest.raises(InvalidProgramError, match=r"RuntimeExecutionMode\.BATCH"):
        env.get_stream_graph()
