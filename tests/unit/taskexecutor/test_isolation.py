"""What an operator hands on, or keeps in state, is not reached by later changes elsewhere.

Goal: a program whose functions change what they get and what they have handed on gives what it
gives with a deep copy at every such place, and with object reuse the sharing is visible.
Method: each program runs three times: as it is, with copies made by hand, and with object reuse.
"""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.common import Time, Types
from penstock.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from penstock.datastream.functions import (
    CheckpointedFunction,
    ProcessAllWindowFunction,
    ProcessJoinFunction,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.errors import ValueCopyError
from penstock.expressions.evaluation import Evaluation
from penstock.network import runtime
from penstock.taskexecutor.compiled import ChainingOutput, CopyingChainingOutput
from penstock.taskexecutor.copies.isolation import never_changes, only_computes
from penstock.testing import PipelineTestHarness

ANY = Types.PICKLED_BYTE_ARRAY()
LATER = OutputTag("later")
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
REUSE = {"pipeline.object-reuse": "true"}

PROGRAMS = {}


def program(build):
    """Registers ``build(harness, copied)``; ``copied`` is called wherever a copy is needed."""
    PROGRAMS[build.__name__] = build
    return build


def key(value):
    return value[0]


def changing(copied, mark):
    """A function that changes what it gets, and shows it."""

    def change(value):
        value = copied(value)
        value.append(mark)
        return copied(value)

    return change


class Keeping(MapFunction):
    """Emits all that it has got so far, as it is now."""

    def __init__(self, copied):
        self.copied = copied
        self.kept = []

    def map(self, value):
        self.kept.append(self.copied(value))
        return str(self.kept)


@program
def a_fork(harness, copied):
    source = harness.source("in").map(changing(copied, "first"))
    harness.sink("left", source.map(changing(copied, "left")).map(changing(copied, "more")))
    harness.sink("right", source.map(changing(copied, "right")))
    harness.sink("kept", source.map(Keeping(copied)))


@program
def a_fork_of_a_function_that_only_computes(harness, copied):
    source = harness.source("in").map(lambda v: (v, 1))

    def change(pair):
        pair = copied(pair)
        pair[0].append("changed")
        return copied(pair)

    harness.sink("left", source.map(change))
    harness.sink("right", source.filter(lambda v: True).map(change))


@program
def a_function_that_keeps_what_it_hands_on(harness, copied):
    class Own(MapFunction):
        def __init__(self):
            self.kept = []

        def map(self, value):
            self.kept.append(copied(value))
            return copied(self.kept[0])

    harness.sink("out", harness.source("in").map(Own()).map(changing(copied, "x")))


@program
def a_filter_that_keeps_and_changes(harness, copied):
    class Own(FilterFunction):
        def __init__(self):
            self.kept = []

        def filter(self, value):
            for kept in self.kept:
                kept.append("later")
            self.kept.append(copied(value))
            return True

    filtered = harness.source("in").filter(Own())
    harness.sink("out", filtered.map(Keeping(copied)))


@program
def one_list_that_changes_between_yields(harness, copied):
    class Growing(FlatMapFunction):
        def flat_map(self, value):
            grown = []
            for item in value:
                grown.append(item)
                yield copied(grown)

    grown = harness.source("in").flat_map(Growing())
    harness.sink("kept", grown.map(Keeping(copied)))
    harness.sink("changed", grown.map(changing(copied, "x")))


@program
def one_object_several_times(harness, copied):
    def twice(value):
        return [copied(value), copied(value)]

    repeated = harness.source("in").flat_map(twice)
    harness.sink("changed", repeated.map(changing(copied, "x")))


@program
def main_and_side_output(harness, copied):
    class Both(ProcessFunction):
        def process_element(self, value, ctx):
            yield copied(value)
            yield LATER, copied(value)
            value.append("own")
            yield LATER, copied(value)

    both = harness.source("in").process(Both())
    harness.sink("main", both.map(changing(copied, "main")))
    side = both.get_side_output(LATER)
    harness.sink("side", side.map(changing(copied, "side")))
    harness.sink("kept", side.map(Keeping(copied)))


@program
def a_fold(harness, copied):
    def join(left, right):
        left.extend(right[1:])
        return left

    folded = harness.source("in").key_by(key).reduce(join)
    harness.sink("changed", folded.map(changing(copied, "x")))


@program
def the_smallest_element(harness, copied):
    def change(value):
        value = copied(value)
        value[1].append("x")
        return copied(value)

    pairs = harness.source("in").map(lambda v: (v[0], v))
    smallest = pairs.key_by(key).min_by(0)
    harness.sink("changed", smallest.map(change))


class Remembering(KeyedProcessFunction):
    def __init__(self, copied, descriptor):
        self.copied = copied
        self.descriptor = descriptor

    def open(self, runtime_context):
        self.state = runtime_context.get_state(self.descriptor)

    def process_element(self, value, ctx):
        before = self.copied(self.state.value())
        yield self.copied(before)
        self.state.update(self.copied(value))
        yield self.copied(value)
        value.append("not written back")


def remembering(descriptor):
    def build(harness, copied):
        stream = harness.source("in").key_by(key).process(Remembering(copied, descriptor))
        stream = stream.filter(lambda v: v is not None)
        harness.sink("out", stream.map(changing(copied, "x")))

    return build


PROGRAMS["value_state"] = remembering(ValueStateDescriptor("state", ANY))
PROGRAMS["value_state_of_a_list"] = remembering(
    ValueStateDescriptor("state", Types.LIST(Types.STRING()))
)
EXPIRING = ValueStateDescriptor("state", ANY)
EXPIRING.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
PROGRAMS["value_state_that_expires"] = remembering(EXPIRING)


@program
def value_state_changed_in_place(harness, copied):
    class Careless(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

        def process_element(self, value, ctx):
            if self.state.value() is None:
                self.state.update([])
            copied(self.state.value()).append(1)
            yield str(self.state.value())

    harness.sink("out", harness.source("in").key_by(key).process(Careless()))


@program
def a_timer_that_emits_state(harness, copied):
    class Timed(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

        def process_element(self, value, ctx):
            self.state.update(copied(value))
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)

        def on_timer(self, timestamp, ctx):
            yield copied(self.state.value())
            yield copied(self.state.value())

    stream = harness.source("in").key_by(key).process(Timed())
    harness.sink("out", stream.map(changing(copied, "x")))


@program
def collections_in_state(harness, copied):
    class Collecting(KeyedProcessFunction):
        def open(self, runtime_context):
            self.elements = runtime_context.get_list_state(ListStateDescriptor("list", ANY))
            self.pairs = runtime_context.get_map_state(MapStateDescriptor("map", Types.INT(), ANY))

        def process_element(self, value, ctx):
            self.elements.add(copied(value))
            self.pairs.put(len(list(self.pairs)), copied(value))
            self.elements.add_all([copied(value)])
            value.append("own")
            yield copied(list(self.elements.get()))
            yield copied([self.pairs[0]])
            for pair in self.pairs.items():
                copied(pair[1]).append("item")
            for found in self.pairs.values():
                copied(found).append("value")
            self.pairs.put_all({7: copied(value)})
            self.elements.update(copied(list(self.elements)))
            value.append("again")
            yield [str(sorted(self.pairs.items())), str(self.elements.get())]

    def change(values):
        values = copied(values)
        for value in values:
            if isinstance(value, list):
                value.append("x")
        return copied(values)

    stream = harness.source("in").key_by(key).process(Collecting())
    harness.sink("out", stream.map(change))


class Gathering(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


@program
def folds_in_state(harness, copied):
    def join(left, right):
        left.extend(right)
        return left

    class Folding(KeyedProcessFunction):
        def open(self, runtime_context):
            self.fold = runtime_context.get_reducing_state(
                ReducingStateDescriptor("fold", join, ANY)
            )
            self.gathered = runtime_context.get_aggregating_state(
                AggregatingStateDescriptor("gathered", Gathering(), ANY)
            )

        def process_element(self, value, ctx):
            self.fold.add(copied(value))
            self.gathered.add(copied(value))
            value.append("own")
            yield copied(self.fold.get())
            yield copied(self.gathered.get())

    stream = harness.source("in").key_by(key).process(Folding())
    harness.sink("out", stream.map(changing(copied, "x")))


def windowed(assigner, finish, **parts):
    def build(harness, copied):
        class Show(ProcessWindowFunction):
            def process(self, key, context, elements):
                for element in elements:
                    shown = copied(element)
                    shown.append("seen")
                    yield copied(shown)

        stream = harness.source("in").key_by(key).window(assigner)
        if "trigger" in parts:
            stream = stream.trigger(parts["trigger"])
        if "evictor" in parts:
            stream = stream.evictor(parts["evictor"])
        result = finish(stream, Show(), copied)
        harness.sink("out", result.map(changing(copied, "x")))

    return build


def processed(stream, show, copied):
    del copied
    return stream.process(show)


def reduced(stream, show, copied):
    def join(left, right):
        left = copied(left)
        left.extend(right[1:])
        return left

    return stream.reduce(join, show)


def gathered(stream, show, copied):
    class Own(Gathering):
        def add(self, value, accumulator):
            return [*accumulator, copied(value)]

        def get_result(self, accumulator):
            return copied(accumulator)

    return stream.aggregate(Own(), show, accumulator_type=ANY, output_type=ANY)


SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
SESSION = EventTimeSessionWindows.with_gap(Time.milliseconds(5))
for name, parts in {
    "sliding": {"assigner": SLIDING},
    "counting": {"assigner": GlobalWindows.create(), "trigger": CountTrigger(1)},
    "evicting": {
        "assigner": GlobalWindows.create(), "trigger": CountTrigger(1),
        "evictor": CountEvictor.of(5),
    },
}.items():  # fmt: skip
    for finish in (processed, reduced, gathered):
        PROGRAMS[f"{name}_windows_{finish.__name__}"] = windowed(finish=finish, **parts)

PROGRAMS["tumbling_windows"] = windowed(TEN, processed)
PROGRAMS["session_windows"] = windowed(SESSION, reduced)


@program
def windows_of_all(harness, copied):
    class Show(ProcessAllWindowFunction):
        def process(self, context, elements):
            for element in elements:
                shown = copied(element)
                shown.append("seen")
                yield copied(shown)

    stream = harness.source("in").window_all(SLIDING).process(Show())
    harness.sink("out", stream.map(changing(copied, "x")))


#: Windows that fire once and hold an element once share nothing, nor do these accumulators.
SAME_WITH_REUSE = {
    "tumbling_windows", "session_windows", "sliding_windows_gathered", "evicting_windows_gathered",
}  # fmt: skip


@program
def pairs_of_an_interval_join(harness, copied):
    class Join(ProcessJoinFunction):
        def process_element(self, left, right, ctx):
            left, right = copied(left), copied(right)
            left.append("left")
            right.append("right")
            yield [str(left), str(right)]

    stream = harness.source("in").key_by(key)
    joined = stream.interval_join(harness.source("other").key_by(key))
    bounds = joined.between(Time.milliseconds(-9), Time.milliseconds(9))
    harness.sink("out", bounds.process(Join()))


@program
def pairs_of_a_window_join(harness, copied):
    def join(left, right):
        left, right = copied(left), copied(right)
        left.append("left")
        right.append("right")
        return [str(left), str(right)]

    joined = harness.source("in").join(harness.source("other"))
    harness.sink("out", joined.where(key).equal_to(key).window(TEN).apply(join))


@program
def groups_of_two_streams(harness, copied):
    def group(left, right):
        for value in [*left, *right]:
            shown = copied(value)
            shown.append("seen")
            yield copied(shown)

    stream = harness.source("in")
    grouped = stream.co_group(stream).where(key).equal_to(key).window(TEN).apply(group)
    harness.sink("out", grouped.map(changing(copied, "x")))


@program
def two_inputs_of_one_stream(harness, copied):
    class Map(CoMapFunction):
        def __init__(self):
            self.change = changing(copied, "map")

        def map1(self, value):
            return self.change(value)

        def map2(self, value):
            return self.change(value)

    class FlatMap(CoFlatMapFunction):
        def flat_map1(self, value):
            yield changing(copied, "one")(value)

        def flat_map2(self, value):
            yield changing(copied, "two")(value)

    class Process(CoProcessFunction):
        def process_element1(self, value, ctx):
            yield changing(copied, "one")(value)

        def process_element2(self, value, ctx):
            yield changing(copied, "two")(value)

    source = harness.source("in")
    both = source.connect(source)
    harness.sink("map", both.map(Map()))
    harness.sink("flat map", both.flat_map(FlatMap()))
    harness.sink("process", both.process(Process()))


@program
def keyed_inputs(harness, copied):
    class Process(KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("state", ANY))

        def process_element1(self, value, ctx):
            self.state.update(copied(value))
            return []

        def process_element2(self, value, ctx):
            value.append("two")
            yield copied(self.state.value())

    source = harness.source("in").key_by(key)
    both = source.connect(source).process(Process())
    harness.sink("out", both.map(changing(copied, "x")))


@program
def united_branches(harness, copied):
    source = harness.source("in")
    united = source.map(changing(copied, "branch")).union(source, source)
    harness.sink("out", united.map(changing(copied, "x")))
    harness.sink("kept", united.map(Keeping(copied)))


CONTENT = MapStateDescriptor("content", Types.STRING(), ANY)


def broadcasting(copied, base):
    class Own(base):
        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(CONTENT)
            value = copied(value)
            state.put(value[0], copied(value))
            value.append("broadcast")
            yield copied(state.get(value[0]))

        def process_element(self, value, ctx):
            state = ctx.get_broadcast_state(CONTENT)
            for pair in state.items():
                copied(pair[1]).append("item")
            for found in state.values():
                yield copied(found)

    return Own()


@program
def broadcast_state(harness, copied):
    rules = harness.source("other").broadcast(CONTENT)
    source = harness.source("in")
    plain = source.connect(rules).process(broadcasting(copied, BroadcastProcessFunction))
    keyed = source.key_by(key).connect(rules)
    keyed = keyed.process(broadcasting(copied, KeyedBroadcastProcessFunction))
    harness.sink("plain", plain.map(changing(copied, "x")))
    harness.sink("keyed", keyed.map(changing(copied, "x")))


@program
def operator_state(harness, copied):
    class Keeps(MapFunction, CheckpointedFunction):
        def initialize_state(self, context):
            store = context.get_operator_state_store()
            self.state = store.get_list_state(ListStateDescriptor("kept", ANY))
            self.content = store.get_broadcast_state(CONTENT)

        def snapshot_state(self, context):
            """The state is always up to date."""

        def map(self, value):
            self.state.add(copied(value))
            self.content.put("last", copied(value))
            value.append("own")
            copied(self.state.get())[0].append("got")
            return [str(self.state.get()), str(self.content.get("last"))]

    harness.sink("out", harness.source("in").map(Keeps()))


@program
def selected_outputs(harness, copied):
    chosen = harness.source("in").split(lambda value: ["a", "b"])
    for name in "ab":
        harness.sink(name, chosen.select(name).map(changing(copied, name)))


@program
def an_async_function(harness, copied):
    class Twice(AsyncFunction):
        async def async_invoke(self, value):
            value = copied(value)
            value.append("async")
            return [copied(value), copied(value)]

        def timeout(self, value):
            return []

    source = harness.source("in")
    stream = AsyncDataStream.ordered_wait(source, Twice(), Time.seconds(60), 2)
    harness.sink("out", stream.map(changing(copied, "x")))


@program
def an_async_function_that_is_called_again(harness, copied):
    from penstock.datastream import AsyncRetryStrategy

    class Second(AsyncFunction):
        def __init__(self):
            self.attempts = 0

        async def async_invoke(self, value):
            value = copied(value)
            value.append("attempt")
            self.attempts += 1
            if self.attempts % 2:
                raise OSError("again")
            return [value]

        def timeout(self, value):
            return []

    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: True)
    stream = AsyncDataStream.ordered_wait_with_retry(
        harness.source("in"), Second(), Time.seconds(60), strategy, 1
    )
    harness.sink("out", stream)


def results(build, copied, configuration=None):
    harness = PipelineTestHarness(configuration or {})
    build(harness, copied)
    with harness:
        for number in range(3):
            for source in harness._sources:
                harness.process_element(source, ["a", str(number), source], number)
        for source in harness._sources:
            harness.process_watermark(source, 30)
        harness.end_inputs()
        return {
            name: [record.value for record in harness.output(name).records]
            for name in harness._sinks
        }


def itself(value):
    return value


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nothing_is_reached_by_later_changes(name):
    expected = results(PROGRAMS[name], copy.deepcopy, REUSE)
    assert results(PROGRAMS[name], itself) == expected
    assert all(expected.values())


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - SAME_WITH_REUSE))
def test_with_object_reuse_objects_are_shared(name):
    assert results(PROGRAMS[name], itself, REUSE) != results(PROGRAMS[name], itself)


def test_batch_execution_keeps_elements_for_itself():
    batch = {"execution.runtime-mode": "BATCH"}
    for name in ("a_fork", "value_state", "tumbling_windows", "a_fold"):
        expected = results(PROGRAMS[name], copy.deepcopy, REUSE | batch)
        assert results(PROGRAMS[name], itself, batch) == expected


def edges(build, configuration=None):
    """The kinds of the outputs between the operators of a program, by the operator's name."""
    harness = PipelineTestHarness(configuration or {})
    build(harness, itself)
    with harness:
        chain = harness._chain
        return {
            context.name: type(operator.output)
            for operator, context in zip(chain.operators, chain.contexts, strict=True)
        }


def called(value):
    return value.strip()


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (Types.STRING(), ChainingOutput),
        (Types.TUPLE([Types.LONG(), Types.TUPLE([Types.SQL_TIMESTAMP()])]), ChainingOutput),
        (Types.ROW([Types.LONG()]), CopyingChainingOutput),
        (Types.LIST(Types.LONG()), CopyingChainingOutput),
        (Types.TUPLE([Types.MAP(Types.LONG(), Types.LONG())]), CopyingChainingOutput),
        (ANY, CopyingChainingOutput),
        (None, CopyingChainingOutput),
    ],
)
def test_declared_types_decide_before_the_first_element(declared, expected):
    def build(harness, copied):
        stream = harness.source("in").map(called, declared).name("typed")
        harness.sink("out", stream)

    assert edges(build)["typed"] is expected
    assert edges(build, REUSE)["typed"] is ChainingOutput
    assert never_changes(declared) == (expected is ChainingOutput)


FACTOR = 3
SHARED = []


@pytest.mark.skipif(runtime() == "pure", reason="calls every function")
def test_what_only_computes_need_not_be_copied():
    assert only_computes(lambda v: (v, v[0] * FACTOR), Evaluation())
    assert not only_computes(lambda v: (v, SHARED), Evaluation())
    assert only_computes(lambda v, k=2: (v, k), Evaluation())
    assert not only_computes(lambda v, shared=[]: (v, shared), Evaluation())
    assert not only_computes(called, Evaluation())

    def build(harness, copied):
        stream = harness.source("in").map(lambda v: (v, 1)).name("computing")
        harness.sink("out", stream)

    assert edges(build)["computing"] is ChainingOutput


def test_a_value_that_cannot_be_copied_is_named_with_its_operator():
    def build(harness, copied):
        stream = harness.source("in").map(lambda v: (item for item in called(v))).name("lazy")
        harness.sink("out", stream)

    harness = PipelineTestHarness()
    build(harness, itself)
    expected = "operator 'lazy' hands on a value of builtins.generator that cannot be copied"
    with harness, pytest.raises(ValueCopyError, match=expected) as caught:
        harness.process_element("in", "ab")
    assert "enable_object_reuse()" in str(caught.value)


@pytest.mark.skipif(runtime() == "pure", reason="is what this test starts")
def test_the_pure_runtime_does_the_same():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"PENSTOCK_RUNTIME": "pure"},
        cwd=Path(__file__).parents[3],
        check=True,
        timeout=120,
    )
