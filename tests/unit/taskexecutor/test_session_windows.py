"""Sessions without timers equal those of the general operator (internals M67).

Method: seeded elements in and out of order, early and late, go through both operators; a trigger
subclass forces the general one.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from penstock.common.time import Time
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    MissingTimestampError,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    TumblingEventTimeWindows,
)
from penstock.network import runtime
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.taskexecutor.windowing.sessions import SessionWindowOperator
from penstock.taskexecutor.windowing.window_operator import WindowOperator
from penstock.testing import redistribute
from unit.taskexecutor.test_window_operator import (
    MAX_WATERMARK,
    TEN,
    Count,
    OtherEventTimeTrigger,
    Show,
    add_numbers,
    harness,
    sliding,
)

#: Streams of elements; for the pure runtime, which runs all tests again, one is enough.
SEEDS = range(1 if runtime() == "pure" else 5)
TRIGGERS = {SessionWindowOperator: EventTimeTrigger(), WindowOperator: OtherEventTimeTrigger()}


class Numbers(AggregateFunction):
    """Accumulates the added numbers, in their order, and the merges."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator):
        return None if len(accumulator) == 3 else list(accumulator)

    def merge(self, a, b):
        return [*a, "|", *b]


class Merged(Show):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, list(elements)


class Earlier(ProcessWindowFunction):
    """Numbers the sessions of a key, and counts their ends."""

    def process(self, key, context, elements):
        state = context.global_state().get_state(ValueStateDescriptor("sessions", None))
        state.update((state.value() or 0) + 1)
        yield key, state.value(), context.current_watermark(), len(list(elements))

    def clear(self, context):
        state = context.global_state().get_state(ValueStateDescriptor("ends", None))
        state.update([*(state.value() or []), context.window().end])


FUNCTIONS = {
    "process": (Show(), "process", {}),
    "global state": (Earlier(), "process", {}),
    "reduce": (add_numbers, "reduce", {}),
    "reduce, process": (add_numbers, "reduce", {"window_function": Merged()}),
    "aggregate": (Count(), "aggregate", {}),
    "aggregate, process": (Numbers(), "aggregate", {"window_function": Merged()}),
}


class OwnGap(SessionWindowTimeGapExtractor):
    """Returns a short or a long gap, depending on the timestamp."""

    def extract(self, element):
        _, timestamp = element
        return (1, 1, 3, 10, 40)[timestamp * 7919 % 5]


def assigner_of(gap):
    """Return an assigner of sessions with a gap in ms, or with an extractor of gaps."""
    if isinstance(gap, int):
        return EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
    return DynamicEventTimeSessionWindows.with_dynamic_gap(gap)


def sessions(gap, trigger, function="process", **arguments):
    function, kind, others = FUNCTIONS[function]
    assigner = assigner_of(gap)
    return harness(assigner, function, kind, trigger, **others, **arguments)


def steps(seed, count=500, keys="abcde"):
    """Generate elements, as pairs of key and timestamp, and watermarks, without a key."""
    numbers = random.Random(seed)
    found, latest, watermark = [], -100, -(2**63)
    for _ in range(count):
        latest += numbers.choice((0, 1, 2, 3, 12))
        found.append((numbers.choice(keys), latest - numbers.choice((0, 0, 1, 7, 30, 90))))
        if numbers.random() < 0.2:
            watermark = max(watermark, latest - numbers.randrange(25))
            found.append((None, watermark))
    return [*found, (None, MAX_WATERMARK)]


def feed(test, items):
    for key, timestamp in items:
        if key is None:
            test.process_watermark(timestamp)
        else:
            test.process_element((key, timestamp), timestamp)


@pytest.mark.parametrize("gap", [1, 5, 10, 40, OwnGap()])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("lateness_ms", [0, 1, 10, 35])
def test_they_are_those_of_the_general_operator(gap, function, lateness_ms):
    """They have the same results, in the same order, and the same late records."""
    lateness = {"lateness_ms": lateness_ms, "late_tag": "late"}
    for seed in SEEDS:
        found = []
        for operator, trigger in TRIGGERS.items():
            with sessions(gap, trigger, function, **lateness) as test:
                assert type(test.operator) is operator
                feed(test, steps(seed))
                kept = {name for name, t in test._context.keyed_state.tables.items() if len(t)}
                assert kept <= {"sessions", "ends"}
                assert test.num_event_time_timers == 0
                found.append((test.output.events, test.output.side_output("late")))
        assert found[0] == found[1]
        assert found[0][0]
        assert found[0][1]


@pytest.mark.parametrize("step", [1, 10])
@pytest.mark.parametrize("lateness_ms", [0, 20, 25])
def test_many_that_end_at_one_time_fire_in_the_same_order(step, lateness_ms):
    """Although each growing session moves in the heap."""
    numbers, items = random.Random(3), []
    for round_ in range(3000):
        moment = round_ // 10
        items.append((f"key {numbers.randrange(400)}", (moment - numbers.randrange(40)) * step))
        if round_ % 100 == 99:
            items.append((None, (moment - 30) * step))
    items.append((None, MAX_WATERMARK))
    found = []
    for trigger in TRIGGERS.values():
        lateness = {"lateness_ms": lateness_ms, "late_tag": "late"}
        with sessions(20 * step, trigger, **lateness) as test:
            feed(test, items)
            found.append((test.output.events, test.output.side_output("late")))
    assert found[0] == found[1]


@pytest.mark.parametrize("before", TRIGGERS)
@pytest.mark.parametrize("after", TRIGGERS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("gap", [10, OwnGap()])
@pytest.mark.parametrize("lateness_ms", [0, 20])
def test_a_snapshot_of_either_operator_is_taken_over(before, after, function, gap, lateness_ms):
    """At any point, into one subtask and into two; changes while it is written are not in it.

    Sessions that end at one time may fire in another order then.
    """
    items = steps(7, 60)
    with sessions(gap, TRIGGERS[WindowOperator], function, lateness_ms=lateness_ms) as test:
        feed(test, items)
        whole = sorted(map(repr, test.records))
    for cut in range(0, len(items), 7):
        with sessions(gap, TRIGGERS[before], function, lateness_ms=lateness_ms) as test:
            feed(test, items[:cut])
            emitted = test.records
            running = test.begin_snapshot(1)
            feed(test, items[cut:])
            snapshot = serialised(running)
        # Event time is not in a snapshot: a late element of the rest would be accepted.
        watermark = max((time for key, time in items[:cut] if key is None), default=None)
        for parallelism in (1, 2):
            found = list(emitted)
            for subtask, part in enumerate(redistribute([snapshot], parallelism)):
                options = {"subtask": subtask, "parallelism": parallelism}
                others = {"options": options, "lateness_ms": lateness_ms}
                restored = sessions(gap, TRIGGERS[after], function, **others)
                restored.initialize_state(part)
                with restored as test:
                    if watermark is not None:
                        test.process_watermark(watermark)
                    mine = [i for i in items[cut:] if i[0] is None or owns(test, i[0])]
                    feed(test, mine)
                    assert test.num_event_time_timers == 0
                    found += test.records
            assert sorted(map(repr, found)) == whole


def owns(test, key):
    context = test._context
    return context.has_key(context.identity_of(key))


@pytest.mark.parametrize("lateness_ms", [0, 5])
@pytest.mark.parametrize("assigner", [TEN, sliding(20, 10), None], ids=repr)
def test_windows_that_moved_to_and_fro_fire(lateness_ms, assigner):
    """Timers that the general operator restored with its windows do not replace later ones."""
    assigner = assigner or EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    snapshot, timestamp = None, 0
    for trigger in (OtherEventTimeTrigger(), EventTimeTrigger(), OtherEventTimeTrigger()):
        test = harness(assigner, Show(), trigger=trigger, lateness_ms=lateness_ms)
        test.initialize_state(snapshot)
        with test:
            timestamp += 30
            test.process_element(("a", timestamp), timestamp)
            snapshot = test.snapshot(1)
            test.process_watermark(MAX_WATERMARK)
            records = test.records
            assert test.num_event_time_timers == 0
    assert sorted({number for record in records for number in record.value[3]}) == [30, 60, 90]


def test_sessions_of_a_longer_gap_grow_together_in_a_program_with_a_shorter_one():
    """Each record of the shorter gap reaches no further than its gap."""
    for trigger in TRIGGERS.values():
        with sessions(5, trigger) as test:
            for timestamp in (0, 7, 14, 40):
                test.process_element(("a", timestamp), timestamp)
            snapshot = test.snapshot(1)
        found = []
        for after in TRIGGERS.values():
            restored = sessions(20, after)
            restored.initialize_state(snapshot)
            with restored as test:
                test.process_element(("a", 2), 2)
                test.process_element(("a", 24), 24)
                test.process_watermark(MAX_WATERMARK)
                found.append(test.records)
        assert found[0] == found[1]


def test_a_record_without_timestamp_and_one_without_a_window_are_refused():
    for trigger in TRIGGERS.values():
        with (
            sessions(10, trigger) as test,
            pytest.raises(MissingTimestampError, match="assign_timestamps_and_watermarks"),
        ):
            test.process_element(("a", 1))
        words = f"a window from {2**63 - 10} to {2**63} ms needs times of more than 64 bits"
        with sessions(10, trigger) as test, pytest.raises(OverflowError, match=words):
            test.process_element(("a", 2**63 - 10), 2**63 - 10)


class Stray(SessionWindowTimeGapExtractor):
    def __init__(self, gap):
        self.gap = gap

    def extract(self, element):
        return self.gap


@pytest.mark.parametrize(
    ("gap", "error", "words"),
    [
        (0, ValueError, "a dynamic session gap must be positive, got 0"),
        (-5, ValueError, "a dynamic session gap must be positive, got -5"),
        (2.5, TypeError, "Stray.extract: a gap must be a whole number of milliseconds, got 2.5"),
        (2**63 - 8, OverflowError, "a window from 10 to .* needs times of more than 64 bits"),
        (2**64, OverflowError, "64 bits"),
    ],
)
def test_a_gap_that_is_none_is_refused(gap, error, words):
    for trigger in TRIGGERS.values():
        with sessions(Stray(gap), trigger) as test, pytest.raises(error, match=words):
            test.process_element(("a", 10), 10)


def test_gaps_that_are_whole_numbers_of_other_classes_and_very_long_ones():
    for gap in (True, np.int32(5), 2**62):
        found = []
        for trigger in TRIGGERS.values():
            with sessions(Stray(gap), trigger) as test:
                for timestamp in (0, 1, 3, 9):
                    test.process_element(("a", timestamp), timestamp)
                test.process_watermark(MAX_WATERMARK)
                found.append(test.values)
        assert found[0] == found[1]


@pytest.mark.parametrize("before", [10, OwnGap()])
def test_a_program_may_give_its_sessions_gaps_of_their_own(before):
    """And a fixed gap again; open sessions continue."""
    after = OwnGap() if before == 10 else 10
    items = steps(11, 80)
    for cut in (20, 50):
        found = []
        for trigger in TRIGGERS.values():
            with sessions(before, trigger) as test:
                feed(test, items[:cut])
                snapshot = test.snapshot(1)
            restored = sessions(after, trigger)
            restored.initialize_state(snapshot)
            with restored as test:
                feed(test, items[cut:])
                found.append(sorted(map(repr, test.records)))
        assert found[0] == found[1]


def test_the_first_and_the_last_sessions_of_64_bits_are_exact():
    first, last = 1 - 2**63, 2**63 - 1007
    for trigger in TRIGGERS.values():
        with sessions(1000, trigger) as test:
            for timestamp in (first, first + 500, last, last + 6):
                test.process_element(("a", timestamp), timestamp)
            test.process_watermark(MAX_WATERMARK)
            assert test.values == [
                ("a", first, first + 1500, [first, first + 500]),
                ("a", last, last + 1006, [last, last + 6]),
            ]


@pytest.mark.parametrize("lateness_ms", [500, 1000, 2000, 2**60])
def test_late_records_at_the_end_of_64_bits(lateness_ms):
    """And at the end of time, when a session that would have to be kept longer accepts none."""
    last = 2**63 - 1
    found = []
    for trigger in TRIGGERS.values():
        with sessions(10, trigger, lateness_ms=lateness_ms, late_tag="late") as test:
            for timestamp in (5, last - 1500, last - 1005, last - 500):
                test.process_element(("a", timestamp), timestamp)
            for watermark in (last - 1000, last):
                test.process_watermark(watermark)
                for timestamp in (6, last - 1506, last - 1002, last - 500, last - 30):
                    test.process_element(("a", timestamp), timestamp)
            found.append((test.output.events, test.output.side_output("late")))
    assert found[0] == found[1]
    assert len(found[0][0]) > 5


class Marking(Show):
    """Mutates its records."""

    def process(self, key, context, elements):
        yield key, context.window().end, [element[1] for element in elements]
        for element in elements:
            element[1] = "seen"


@pytest.mark.parametrize("reuse", [False, True])
def test_changes_by_a_function_to_the_records_of_a_firing(reuse):
    """The next firing sees the changes if and only if objects are shared."""
    found = []
    options = {"configuration": {"pipeline.object-reuse": reuse}}
    for trigger in TRIGGERS.values():
        arguments = {"trigger": trigger, "lateness_ms": 100, "options": options}
        with harness(assigner_of(10), Marking(), **arguments) as test:
            test.process_element(["a", 0], 0)
            test.process_watermark(50)
            for timestamp in (3, 1):
                test.process_element(["a", timestamp], timestamp)
            test.process_watermark(MAX_WATERMARK)
            found.append(test.values)
    assert found[0] == found[1]
    seen = ["seen"] * 2 if reuse else [0, 3]
    assert found[0] == [("a", 10, [0]), ("a", 13, [seen[0], 3]), ("a", 13, [*seen, 1])]


@pytest.mark.parametrize("after", TRIGGERS)
def test_a_session_that_has_fired_does_not_fire_in_a_program_without_lateness(after):
    with sessions(10, EventTimeTrigger(), lateness_ms=100) as test:
        for key, timestamp in (("a", 0), ("a", 30), ("b", 0), ("c", 60)):
            test.process_element((key, timestamp), timestamp)
        test.process_watermark(20)
        assert len(test.values) == 2
        snapshot = test.snapshot(1)
    restored = sessions(10, TRIGGERS[after])
    restored.initialize_state(snapshot)
    with restored as test:
        test.process_watermark(20)
        test.process_element(("b", 70), 70)
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [
            ("a", 30, 40, [30]),
            ("c", 60, 70, [60]),
            ("b", 70, 80, [70]),
        ]
        assert test.num_keyed_state_entries == 0


ROCKSDB = {"options": {"configuration": {"state.backend.type": "rocksdb"}}}
PURGING = PurgingTrigger.of(EventTimeTrigger())


@pytest.mark.parametrize(
    ("trigger", "arguments", "operator"),
    [
        (EventTimeTrigger(), ROCKSDB, WindowOperator),
        # Elements that join the session later would find nothing of it.
        (PURGING, {"lateness_ms": 1}, WindowOperator),
        (EventTimeTrigger(), {"lateness_ms": 2**60 + 1}, WindowOperator),
        (PURGING, {}, SessionWindowOperator),
        (EventTimeTrigger(), {"lateness_ms": 1}, SessionWindowOperator),
    ],
)
def test_others_are_left_to_the_general_operator(trigger, arguments, operator):
    with sessions(10, trigger, **arguments) as test:
        assert type(test.operator) is operator


@pytest.mark.parametrize("trigger", TRIGGERS.values())
@pytest.mark.parametrize("gap", [None, 10], ids=["tumbling", "sessions"])
def test_a_result_that_is_none_is_no_result(trigger, gap):
    """The window function is not called for it."""
    assigner = (
        TumblingEventTimeWindows.of(Time.milliseconds(10))
        if gap is None
        else EventTimeSessionWindows.with_gap(Time.milliseconds(gap))
    )
    with harness(assigner, Numbers(), "aggregate", trigger, window_function=Merged()) as test:
        for key, timestamp in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
            test.process_element((key, timestamp), timestamp)
        test.process_watermark(MAX_WATERMARK)
        assert [value[0] for value in test.values] == ["b"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(runtime() == "pure", reason="is what this test starts")
def test_the_pure_runtime_does_the_same():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"PENSTOCK_RUNTIME": "pure"},
        cwd=Path(__file__).parents[3],
        check=True,
        timeout=300,
    )
