"""Operators continue from a snapshot without a difference, at any point and parallelism (M63).

Method: an uninterrupted run is compared with runs that are restored at every element, into one
subtask and into two.  Timers of one time fire in no particular order, so results are sorted.
"""

import pytest
from penstock.common import Configuration, Time, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ProcessJoinFunction,
)
from penstock.datastream.operators import OneInputStreamOperator
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.taskexecutor.state.snapshots.snapshot_contents import entries_of
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    KeyedTwoInputStreamOperatorTestHarness,
    redistribute,
)

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def key(value):
    return value[0]


def add(left, right):
    return left[0], left[1] + right[1]


def stream():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    return env.from_collection([], PAIR)


def keyed():
    return stream().key_by(key, Types.STRING())


def windows(assigner):
    return keyed().window(assigner)


def ms(time):
    return Time.milliseconds(time)


class Remembering(OneInputStreamOperator):
    """A user's operator with a list and two timers for each record of a key."""

    def open(self):
        self.seen = self.get_runtime_context().get_list_state(
            ListStateDescriptor("seen", Types.INT())
        )

    def process_element(self, value, timestamp):
        self.seen.add(value[1])
        timers = self.get_internal_timer_service()
        for namespace, delay in (("soon", 1), (("later", value[1]), 4)):
            timers.register_event_time_timer(namespace, timestamp + delay)

    def on_event_time(self, timer):
        self.output.collect((*timer, list(self.seen.get())), timer.timestamp)


TEN = TumblingEventTimeWindows.of(ms(10))
ONE_INPUT = {
    "sum": lambda: keyed().sum(1),
    "max_by": lambda: keyed().max_by(1),
    "reduce": lambda: keyed().reduce(add),
    "count": lambda: keyed().count_window(3, 2).reduce(add),
    "tumbling": lambda: windows(TEN).reduce(add),
    "sliding": lambda: windows(SlidingEventTimeWindows.of(ms(10), ms(4))).reduce(add),
    "session": lambda: windows(EventTimeSessionWindows.with_gap(ms(3))).reduce(add),
    "trigger": lambda: windows(TEN).trigger(ContinuousEventTimeTrigger.of(ms(3))).reduce(add),
    "evictor": lambda: windows(TEN).evictor(CountEvictor.of(2)).reduce(add),
    "lateness": lambda: windows(TEN).allowed_lateness(5).reduce(add),
    "transform": lambda: keyed().transform("Remembering", None, Remembering()),
}
ELEMENTS = [
    *((("a", 1), 1), (("b", 2), 2), (("a", 3), 4), 3, (("a", 4), 9), (("b", 5), 12), 8),
    *((("a", 6), 13), 14, (("a", 7), 15), (("a", 8), 16), 40),
]


def records(test):
    return [repr(event) for event in test.output.events if event[0] == "record"]


def feed(test, items):
    for item in items:
        if isinstance(item, int):
            test.process_watermark(item)
        else:
            test.process_element(*item)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_a_keyed_operator_continues(name):
    operator = ONE_INPUT[name]().transformation.operator

    def harness(**options):
        return KeyedOneInputStreamOperatorTestHarness(
            operator, key, key_type=Types.STRING(), **options
        )

    with harness() as test:
        feed(test, ELEMENTS)
        whole = sorted(records(test))
    for cut in range(len(ELEMENTS) + 1):
        with harness() as old:
            feed(old, ELEMENTS[:cut])
            snapshot = old.snapshot(1)
        new = harness()
        new.initialize_state(snapshot)
        with new:
            feed(new, ELEMENTS[cut:])
        assert sorted(records(old) + records(new)) == whole
        # "a" and "b" belong to key groups of different halves.
        found = records(old)
        for subtask, part in enumerate(redistribute([snapshot], 2)):
            mine = "a" if subtask == 1 else "b"
            new = harness(subtask=subtask, parallelism=2)
            new.initialize_state(part)
            with new:
                feed(new, [e for e in ELEMENTS[cut:] if isinstance(e, int) or e[0][0] == mine])
            found += records(new)
        assert sorted(found) == whole


def contents(snapshot):
    """Return the contents of a snapshot, by state and key group, regardless of order."""
    return {
        (name, group): sorted(map(repr, entries_of(data)))
        for states in (snapshot.keyed, snapshot.timers)
        for name, (_, groups) in states.items()
        for group, data in groups.items()
    } | {"broadcast": snapshot.broadcast}


@pytest.mark.parametrize("name", ONE_INPUT)
def test_later_changes_are_not_in_a_snapshot(name):
    """F7: a snapshot that is serialised later holds the state at the time of its opening."""
    operator = ONE_INPUT[name]().transformation.operator
    for cut in range(len(ELEMENTS) + 1):
        with KeyedOneInputStreamOperatorTestHarness(operator, key, key_type=Types.STRING()) as test:
            feed(test, ELEMENTS[:cut])
            expected = contents(test.snapshot(1))
            running = test.begin_snapshot(2)
            feed(test, ELEMENTS[cut:])
            assert contents(serialised(running)) == expected


class Join(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left, right


class AllKinds(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.INT(), Types.INT())
        )
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT())
        )
        expiring = ValueStateDescriptor("value", Types.INT())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(ms(5)).build())
        self.value = runtime_context.get_state(expiring)

    def process_element1(self, value, ctx):
        for state in (self.list, self.sum):
            state.add(value[1])
        self.value.update(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 3)

    def process_element2(self, value, ctx):
        self.map.put(value[1], value[1])
        yield value, list(self.list), sorted(self.map.items()), self.value.value(), self.sum.get()

    def on_timer(self, timestamp, ctx):
        yield timestamp, ctx.get_current_key(), list(self.list)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Ruled(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.INT()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[1])
        yield value, self.sum.value(), sorted(ctx.get_broadcast_state(RULES).items())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


def joined():
    return keyed().interval_join(keyed()).between(ms(-2), ms(3)).process(Join())


TWO_INPUTS = {
    "interval join": (joined, key),
    "all kinds of state": (lambda: keyed().connect(keyed()).process(AllKinds()), key),
    "broadcast": (lambda: keyed().connect(stream().broadcast(RULES)).process(Ruled()), None),
}
BOTH = [
    *((1, ("a", 1), 0), (2, ("a", 2), 1), (2, ("b", 3), 1), (1, ("b", 4), 2), 2, (1, ("a", 5), 3)),
    *((2, ("a", 6), 4), (1, ("b", 7), 5), 4, (2, ("b", 8), 6), (1, ("a", 9), 9), (2, ("a", 1), 9)),
    *(9, (2, ("a", 2), 12), (1, ("a", 3), 13), 20),
]


def feed_both(test, items):
    for item in items:
        if isinstance(item, int):
            test.process_both_watermarks(item)
        else:
            number, value, timestamp = item
            test.set_processing_time(timestamp)
            (test.process_element1 if number == 1 else test.process_element2)(value, timestamp)


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_an_operator_of_two_streams_continues(name):
    make, second_key = TWO_INPUTS[name]
    operator = make().transformation.operator

    def harness():
        return KeyedTwoInputStreamOperatorTestHarness(
            operator, key, second_key, key_type=Types.STRING()
        )

    with harness() as test:
        feed_both(test, BOTH)
        whole = sorted(records(test))
    assert whole
    for cut in range(len(BOTH) + 1):
        with harness() as old:
            feed_both(old, BOTH[:cut])
            snapshot = old.snapshot(1)
        new = harness()
        new.initialize_state(snapshot)
        with new:
            feed_both(new, BOTH[cut:])
        assert sorted(records(old) + records(new)) == whole


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_records_of_two_streams_after_a_snapshot_are_not_in_it(name):
    """F7, as for one input."""
    make, second_key = TWO_INPUTS[name]
    for cut in range(len(BOTH) + 1):
        with KeyedTwoInputStreamOperatorTestHarness(
            make().transformation.operator, key, second_key, key_type=Types.STRING()
        ) as test:
            feed_both(test, BOTH[:cut])
            expected = contents(test.snapshot(1))
            running = test.begin_snapshot(2)
            feed_both(test, BOTH[cut:])
            assert contents(serialised(running)) == expected
