"""Every keyed operator treats the same keys as equal: those with one serialised form.

Goal: NaN is one key, 0.0 and -0.0 are two, 1, 1.0 and True three, and equal lists are one. Method:
elements that state their group; no operator may see two groups under one key, or one group under
two.
"""

import collections
import decimal

import pytest
from penstock.common import Time, Types
from penstock.datastream.functions import (
    CoFlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
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
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.graph import operators
from penstock.graph.key_groups import key_group, operator_index
from penstock.network import key_hash
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    PipelineTestHarness,
    redistribute,
)
from support.aggregates import Sum


def keys():
    """Return pairs of key and group, with new objects each time."""
    nan = float("nan")
    return [
        (1, 0),
        (1.0, 1),
        (True, 2),
        (nan, 3),
        (-nan, 3),
        (0.0, 4),
        (-0.0, 5),
        (0, 6),
        (False, 7),
        ([1, 2], 8),
        ({"a": [1]}, 9),
        ((1, nan), 10),
        ((1.0, nan), 11),
        (decimal.Decimal(1), 12),
        (decimal.Decimal("1.0"), 13),
        ("1", 14),
        (b"1", 15),
        (None, 16),
        (0.5, 17),
    ]


ROUNDS = 3
#: How many elements each group has.
EXPECTED = {
    group: count * ROUNDS
    for group, count in collections.Counter(group for _, group in keys()).items()
}


def key(element):
    return element[0]


def add(left, right):
    assert left[1] == right[1]
    return left[0], left[1], left[2] + right[2]


class AllStates(KeyedProcessFunction):
    """Counts the elements of a key in a state of each kind."""

    def __init__(self, ttl=None):
        self.ttl = ttl

    def open(self, context):
        number = Types.LONG()
        descriptors = [
            ValueStateDescriptor("value", number),
            ListStateDescriptor("list", number),
            MapStateDescriptor("map", Types.STRING(), number),
            ReducingStateDescriptor("reducing", lambda one, other: one + other, number),
            AggregatingStateDescriptor("aggregating", Sum(), number),
        ]
        if self.ttl is not None:
            for descriptor in descriptors:
                descriptor.enable_time_to_live(self.ttl)
        value, values, pairs, reducing, aggregating = descriptors
        self.value = context.get_state(value)
        self.list = context.get_list_state(values)
        self.map = context.get_map_state(pairs)
        self.reducing = context.get_reducing_state(reducing)
        self.aggregating = context.get_aggregating_state(aggregating)

    def process_element(self, value, ctx):
        self.value.update((self.value.value() or 0) + 1)
        self.list.add(1)
        self.map.put("n", (self.map.get("n") or 0) + 1)
        self.reducing.add(1)
        self.aggregating.add(1)
        counts = {
            self.value.value(),
            len(list(self.list.get())),
            self.map.get("n"),
            self.reducing.get(),
            self.aggregating.get(),
        }
        assert len(counts) == 1
        yield ctx.get_current_key(), value[1], counts.pop()


class Timers(KeyedProcessFunction):
    """Sets one timer for each key, however often it is registered."""

    def open(self, context):
        self.seen = context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(value[1])
        ctx.timer_service().register_event_time_timer(1000)

    def on_timer(self, timestamp, ctx):
        groups = list(self.seen)
        assert len(set(groups)) == 1
        yield ctx.get_current_key(), groups[0], len(groups)


class CountedMap(MapFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return value[0], value[1], self.count.value()


class Window(ProcessWindowFunction):
    def process(self, key, context, elements):
        elements = list(elements)
        assert len({element[1] for element in elements}) == 1
        state = context.global_state().get_state(ValueStateDescriptor("all", Types.LONG()))
        state.update((state.value() or 0) + len(elements))
        yield key, elements[0][1], state.value()


class CountBoth(KeyedCoProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), value[1], self.count.value()

    process_element2 = process_element1


class CountFlat(CoFlatMapFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map1(self, value):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], value[1], self.count.value()

    flat_map2 = flat_map1


class BesideBroadcast(KeyedBroadcastProcessFunction):
    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield ctx.get_current_key(), value[1], self.count.value()

    def process_broadcast_element(self, value, ctx):
        return ()


class Joined(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        assert left[1] == right[1]
        yield left


def windowed(assigner):
    return lambda one, two: one.key_by(key).window(assigner)


def ms(time):
    return Time.milliseconds(time)


def with_broadcast(one, two):
    broadcast = two.broadcast(MapStateDescriptor("m", Types.STRING(), Types.LONG()))
    return one.key_by(key).connect(broadcast).process(BesideBroadcast())


def pair(left, right):
    assert left[1] == right[1]
    return left[0], left[1], 1


def both(lefts, rights):
    assert len({element[1] for element in [*lefts, *rights]}) == 1
    return [(lefts[0][0], lefts[0][1], len(lefts) * len(rights))]


TUMBLING = windowed(TumblingEventTimeWindows.of(ms(100)))
SLIDING = windowed(SlidingEventTimeWindows.of(ms(100), ms(100)))
SESSIONS = windowed(EventTimeSessionWindows.with_gap(ms(100)))
LAST, ALL, PAIRS = "last", "all", "pairs"

PROGRAMS = {
    "reduce": (LAST, lambda one, two: one.key_by(key).reduce(add)),
    "sum": (LAST, lambda one, two: one.key_by(key).sum(2)),
    "sum by function": (LAST, lambda one, two: one.key_by(lambda e: [e[0]][0]).sum(2)),
    "states": (LAST, lambda one, two: one.key_by(key).process(AllStates())),
    "expiring states": (
        LAST,
        lambda one, two: one.key_by(key).process(
            AllStates(StateTtlConfig.new_builder(Time.days(1)).build())
        ),
    ),
    "timers": (ALL, lambda one, two: one.key_by(key).process(Timers())),
    "map": (LAST, lambda one, two: one.key_by(key).map(CountedMap())),
    "tumbling reduce": (ALL, lambda *s: TUMBLING(*s).reduce(add)),
    "tumbling process": (ALL, lambda *s: TUMBLING(*s).process(Window())),
    "sliding process": (ALL, lambda *s: SLIDING(*s).process(Window())),
    "sessions": (ALL, lambda *s: SESSIONS(*s).process(Window())),
    "count trigger": (LAST, lambda *s: SLIDING(*s).trigger(CountTrigger.of(1)).reduce(add)),
    "interval join": (
        PAIRS,
        lambda one, two: (
            one.key_by(key)
            .interval_join(two.key_by(key))
            .between(ms(-1000), ms(1000))
            .process(Joined())
        ),
    ),
    "window join": (
        PAIRS,
        lambda one, two: (
            one.join(two)
            .where(key)
            .equal_to(key)
            .window(TumblingEventTimeWindows.of(ms(100)))
            .apply(pair)
        ),
    ),
    "co-group": (
        PAIRS,
        lambda one, two: (
            one.co_group(two)
            .where(key)
            .equal_to(key)
            .window(TumblingEventTimeWindows.of(ms(100)))
            .apply(both)
        ),
    ),
    "co-process": (
        LAST,
        lambda one, two: one.key_by(key).connect(two.key_by(key)).process(CountBoth()),
    ),
    "co-flat-map": (
        LAST,
        lambda one, two: one.key_by(key).connect(two.key_by(key)).flat_map(CountFlat()),
    ),
    "broadcast": (LAST, with_broadcast),
}


def expected_counts(what, *, two_inputs):
    if what is PAIRS:
        return {group: count * count for group, count in EXPECTED.items()}
    if two_inputs:
        return {group: 2 * count for group, count in EXPECTED.items()}
    return EXPECTED


@pytest.mark.parametrize("name", PROGRAMS)
def test_groups(name):
    what, program = PROGRAMS[name]
    harness = PipelineTestHarness()
    one, two = harness.source("one"), harness.source("two")
    harness.sink("out", program(one, two))
    harness.sink("unused", two)
    is_paired = what is PAIRS or name.startswith("co-")
    with harness:
        for timestamp in range(ROUNDS):
            for k, group in keys():
                harness.process_element("one", (k, group, 1), timestamp)
            for k, group in keys() if is_paired else ():
                harness.process_element("two", (k, group, 1), timestamp)
        harness.process_watermark("one", 2000)
        harness.process_watermark("two", 2000)
        values = harness.values("out")
    counts = collections.Counter()
    for _, group, count in values:
        counts[group] = count if what is LAST else counts[group] + count
    assert counts == expected_counts(what, two_inputs=is_paired)
    if what is ALL:
        assert len(values) == len(EXPECTED)


def test_functions_see_the_key_as_it_was_given():
    harness = PipelineTestHarness()
    harness.sink("out", harness.source("in").key_by(key).process(AllStates()))
    with harness:
        for k, group in keys():
            harness.process_element("in", (k, group, 1))
        shown = [repr(k) for k, _, _ in harness.values("out")]
    assert shown == [repr(k) for k, _ in keys()]


def test_functions_see_keys_of_the_declared_type():
    harness = PipelineTestHarness()
    harness.sink("out", harness.source("in").key_by(key, Types.DOUBLE()).process(AllStates()))
    with harness:
        for k in (1, 1.0, True):
            harness.process_element("in", (k, 0, 1))
        values = harness.values("out")
    assert [repr(value) for value in values] == ["(1.0, 0, 1)", "(1.0, 0, 2)", "(1.0, 0, 3)"]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("function", [AllStates(), Timers()], ids=["states", "timers"])
def test_a_snapshot_keeps_keys_apart(function, parallelism):
    """Each subtask continues with the keys of its own key groups only."""

    def harness(subtask=0, parallelism=1):
        return KeyedOneInputStreamOperatorTestHarness(
            operators.KeyedProcess(function),
            key,
            subtask=subtask,
            parallelism=parallelism,
        )

    with harness() as before:
        for k, group in keys():
            before.process_element((k, group, 1), 0)
        snapshot = before.snapshot(1)
    last = {}
    for subtask, part in enumerate(redistribute([snapshot], parallelism)):
        after = harness(subtask, parallelism)
        after.initialize_state(part)
        after.open()
        for k, group in keys():
            code = key_group(key_hash()(k), 128)
            if operator_index(128, parallelism, code) == subtask:
                after.process_element((k, group, 1), 1)
        after.process_watermark(2000)
        last.update({group: count for _, group, count in after.values})
        after.close()
    assert last == {group: count // ROUNDS * 2 for group, count in EXPECTED.items()}
