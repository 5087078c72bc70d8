"""There is no current key while no element or timer is processed; this is not the key None.

Goal: using keyed state then is an error that names the function, the state and the remedy, and the
state of the key None is unaffected. Method: functions of each kind of operator use each kind of
state in each method without a key.
"""

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
    CoMapFunction,
    FilterFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from penstock.datastream.functions import CheckpointedFunction, CheckpointListener
from penstock.datastream.operators import OneInputStreamOperator
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.errors import InvalidProgramError
from penstock.network import runtime
from penstock.testing import PipelineTestHarness, ProcessFunctionTestHarnesses
from support.patience import PATIENCE_S

BACKENDS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "log": {"state.changelog.enabled": "true"},
}
LONG = Types.LONG()
#: The texts of raised errors, global because a program's functions are copies.
ERRORS = []


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


STATES = {
    "value": (lambda rc, d: rc.get_state(d), ValueStateDescriptor("kept", LONG)),
    "list": (lambda rc, d: rc.get_list_state(d), ListStateDescriptor("kept", LONG)),
    "map": (lambda rc, d: rc.get_map_state(d), MapStateDescriptor("kept", LONG, LONG)),
    "reducing": (
        lambda rc, d: rc.get_reducing_state(d),
        ReducingStateDescriptor("kept", lambda a, b: a + b, LONG),
    ),
    "aggregating": (
        lambda rc, d: rc.get_aggregating_state(d),
        AggregatingStateDescriptor("kept", Sum(), LONG),
    ),
}
USES = {
    "value": [lambda s: s.value(), lambda s: s.update(1), lambda s: s.clear()],
    "list": [
        lambda s: list(s.get()),
        lambda s: s.add(1),
        lambda s: s.add_all([1]),
        lambda s: s.update([1]),
        lambda s: s.clear(),
        list,
    ],
    "map": [
        lambda s: s.get(1),
        lambda s: s.put(1, 1),
        lambda s: s.put_all({1: 1}),
        lambda s: s.remove(1),
        lambda s: s.contains(1),
        lambda s: list(s.items()),
        lambda s: list(s.keys()),
        lambda s: list(s.values()),
        lambda s: s.is_empty(),
        lambda s: s.clear(),
        lambda s: s[1],
        lambda s: 1 in s,
        list,
    ],
    "reducing": [lambda s: s.get(), lambda s: s.add(1), lambda s: s.clear()],
    "aggregating": [lambda s: s.get(), lambda s: s.add(1), lambda s: s.clear()],
}
PLACES = [
    "open", "close", "initialize_state", "snapshot_state", "notify_checkpoint_complete",
    "notify_checkpoint_aborted",
]  # fmt: skip


class Uses(CheckpointedFunction, CheckpointListener):
    """Uses a state, in all ways, in one of its methods that have no current key."""

    def __init__(self, kind, place, *, ages=False):
        self.kind = kind
        self.place = place
        self.ages = ages

    def use(self, place):
        for use in USES[self.kind] if place == self.place else ():
            with pytest.raises(InvalidProgramError) as caught:
                use(self.state)
            ERRORS.append(str(caught.value))

    def initialize_state(self, context):
        opened, descriptor = STATES[self.kind]
        if self.ages:
            descriptor = type(descriptor)(*descriptor_arguments(descriptor))
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.state = opened(context.get_keyed_state_store(), descriptor)
        self.use("initialize_state")

    def open(self, runtime_context):
        self.use("open")

    def close(self):
        self.use("close")

    def snapshot_state(self, context):
        self.use("snapshot_state")

    def notify_checkpoint_complete(self, checkpoint_id):
        self.use("notify_checkpoint_complete")

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.use("notify_checkpoint_aborted")

    def seen(self, value):
        if self.kind == "map":
            self.state.put(1, value[1])
            return value[0], self.state.get(1)
        if self.kind == "value":
            found = (self.state.value() or 0) + value[1]
            self.state.update(found)
            return value[0], found
        self.state.add(value[1])
        found = self.state.get()
        return value[0], sum(found) if self.kind == "list" else found


def descriptor_arguments(descriptor):
    name, kind = descriptor.get_name(), type(descriptor)
    if kind is ReducingStateDescriptor:
        return name, descriptor.get_reduce_function(), LONG
    if kind is AggregatingStateDescriptor:
        return name, descriptor.get_agg_function(), LONG
    return (name, LONG, LONG) if kind is MapStateDescriptor else (name, LONG)


class OfElements(Uses, KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield self.seen(value)


class OfMap(Uses, MapFunction):
    def map(self, value):
        return self.seen(value)


class OfFilter(Uses, FilterFunction):
    def filter(self, value):
        return self.seen(value) is not None


class OfReduce(Uses, ReduceFunction):
    def reduce(self, a, b):
        return self.seen(b)


class OfTwo(Uses, CoMapFunction):
    def map1(self, value):
        return self.seen(value)

    def map2(self, value):
        return self.seen(value)


class OfWindows(Uses, ProcessWindowFunction):
    def process(self, key, context, elements):
        for value in elements:
            yield self.seen(value)


class Called(CheckpointedFunction):
    """Not a Function: it has no ``open``, and gets its state earlier."""

    def initialize_state(self, context):
        self.state = context.get_keyed_state_store().get_state(ValueStateDescriptor("kept", LONG))

    def snapshot_state(self, context):
        """Has nothing to do."""

    def __call__(self, value):
        self.state.update((self.state.value() or 0) + value[1])
        return value[0], self.state.value()


def key(value):
    return value[0]


BUILDS = {
    "process": (OfElements, lambda stream, function: stream.process(function)),
    "map": (OfMap, lambda stream, function: stream.map(function)),
    "filter": (OfFilter, lambda stream, function: stream.filter(function)),
    "reduce": (OfReduce, lambda stream, function: stream.reduce(function)),
    "connected": (OfTwo, lambda stream, function: stream.connect(stream).map(function)),
    "window": (
        OfWindows,
        lambda stream, function: stream.window(
            TumblingEventTimeWindows.of(Time.milliseconds(10))
        ).process(function),
    ),
}


def run(build, function, configuration=None):
    """Return what a program emits for the keys None and "a", with a snapshot in between."""
    ERRORS.clear()
    harness = PipelineTestHarness(configuration or {})
    stream = build(harness.source("in").key_by(key), function)
    harness.sink("out", stream)
    with harness:
        for number, element in enumerate([(None, 1), ("a", 10), (None, 2), ("a", 20)]):
            harness.process_element("in", element, number)
        harness.process_watermark("in", 100)
        harness.snapshot(1)
        harness.notify_checkpoint_complete(1)
        harness.notify_checkpoint_aborted(2)
        harness.process_element("in", (None, 3), 101)
        harness.process_watermark("in", 1000)
        return harness.values("out")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", list(BUILDS))
def test_state_outside_a_key_is_an_error_that_names_function_state_and_remedy(kind, place):
    cls, build = BUILDS[kind]
    function = cls("value", place)
    found = run(build, function)
    assert len(ERRORS) == len(USES["value"])
    for text in ERRORS:
        assert f"{cls.__name__}.{place}()" in text
        assert "the state 'kept'" in text
        assert "there is no current key: use keyed state in the methods" in text
    assert found == run(build, cls("value", "nowhere"))


@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("kind", list(USES))
def test_no_kind_of_state_can_be_used_outside_a_key(kind, backend, ages):
    for place in ("open", "snapshot_state", "close"):
        function = OfElements(kind, place, ages=ages)
        found = run(BUILDS["process"][1], function, BACKENDS[backend])
        assert len(ERRORS) == len(USES[kind])
        assert all("the state 'kept'" in text for text in ERRORS)
        assert found[0] == (None, 1), "the key None has a state of its own"


def test_the_context_of_a_record_has_no_key_once_it_is_over():
    class Keeps(KeyedProcessFunction):
        def process_element(self, value, ctx):
            self.ctx = ctx
            yield ctx.get_current_key()

        def close(self):
            with pytest.raises(
                InvalidProgramError, match=r"Keeps.close\(\).* the current key, but"
            ):
                self.ctx.get_current_key()
            with pytest.raises(InvalidProgramError, match=r"Keeps.close\(\).* a timer, but"):
                self.ctx.timer_service().register_event_time_timer(1)

    with ProcessFunctionTestHarnesses.for_keyed_process_function(Keeps(), key) as test:
        test.process_element((None, 1))
        test.process_element(("a", 1))
        assert test.values == [None, "a"]


class OfWatermarks(OneInputStreamOperator):
    """An operator whose watermarks come after records and timers of keys."""

    def open(self):
        self.state = self.get_runtime_context().get_state(ValueStateDescriptor("kept", LONG))

    def process_element(self, value, timestamp):
        self.state.update(value[1])
        self.get_internal_timer_service().register_event_time_timer(None, timestamp)

    def on_event_time(self, timer):
        self.output.collect((timer.key, self.state.value()))

    def process_watermark(self, timestamp):
        with pytest.raises(InvalidProgramError, match=r"OfWatermarks.process_watermark\(\)"):
            self.state.value()
        super().process_watermark(timestamp)
        with pytest.raises(InvalidProgramError, match="what follows the timers of a watermark"):
            self.state.update(5)

    def process_watermark_status(self, *, idle):
        with pytest.raises(InvalidProgramError, match=r"OfWatermarks.process_watermark_status\("):
            self.state.value()
        super().process_watermark_status(idle=idle)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_watermark_has_no_key(backend):
    harness = PipelineTestHarness(BACKENDS[backend])
    harness.sink("out", harness.source("in").key_by(key).transform("op", None, OfWatermarks()))
    with harness:
        harness.process_element("in", (None, 1), 1)
        harness.process_element("in", ("a", 2), 2)
        harness.process_watermark("in", 10)
        harness.process_watermark_status("in", idle=True)
        assert harness.values("out") == [(None, 1), ("a", 2)]


def test_state_of_initialize_state_has_the_key_of_each_record_without_an_open():
    found = run(lambda stream, function: stream.map(function), Called())
    assert found == [(None, 1), ("a", 10), (None, 3), ("a", 30), (None, 6)]


class SumOfState(Sum):
    """Counts the records of each key in a state of its own, in all methods of the fold."""

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("kept", LONG))

    def create_accumulator(self):
        return 100 * (self.state.value() or 0)

    def add(self, value, accumulator):
        self.state.update((self.state.value() or 0) + 1)
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator, self.state.value()


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(Time.milliseconds(10)),
        EventTimeSessionWindows.with_gap(Time.milliseconds(5)),
    ],
    ids=["tumbling", "sessions"],
)
def test_the_fold_of_a_window_has_the_key_of_its_record(assigner, backend):
    harness = PipelineTestHarness(BACKENDS[backend])
    windows = harness.source("in").key_by(key).window(assigner)
    harness.sink("out", windows.aggregate(SumOfState()))
    with harness:
        for number, element in enumerate([("a", 1), (None, 2), ("a", 3)]):
            harness.process_element("in", element, number)
        harness.process_element("in", (None, 4), 50)
        harness.process_watermark("in", 100)
        assert sorted(harness.values("out")) == [(2, 2), (4, 2), (104, 2)]


@pytest.mark.parametrize("kind", list(STATES))
def test_an_async_function_cannot_ask_for_keyed_state(kind):
    class Asks(AsyncFunction):
        def open(self, runtime_context):
            opened, descriptor = STATES[kind]
            opened(runtime_context, descriptor)

        async def async_invoke(self, value):
            return [value]

        def timeout(self, value):
            return []

    harness = PipelineTestHarness()
    keyed = harness.source("in").key_by(key)
    stream = AsyncDataStream.unordered_wait(keyed, Asks(), Time.seconds(5), 10)
    harness.sink("out", stream.name("asking"))
    with pytest.raises(
        InvalidProgramError,
        match="Asks of the operator 'asking' asks for the keyed state 'kept', which an Async",
    ):
        harness.open()
    harness.close()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(runtime() == "pure", reason="is what this test starts")
def test_the_pure_runtime_does_the_same():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"PENSTOCK_RUNTIME": "pure"},
        cwd=Path(__file__).parents[3],
        check=True,
        timeout=PATIENCE_S,
    )
