"""Windows: assignment, triggers, lateness, merging, evictors, cleanup (internals M67).

Programs that the fast tumbling operator supports run a second time on the general one, which a
trigger subclass forces.
"""

import random

import pytest
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    Evictor,
    GlobalWindows,
    MissingTimestampError,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowStagger,
)
from penstock.graph import operators
from penstock.taskexecutor.windowing.timerless import TimerlessWindowOperator
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

MAX_WATERMARK = 2**63 - 1


class OtherEventTimeTrigger(EventTimeTrigger):
    """The same trigger under another name."""


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, [e[1] for e in elements]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def harness(assigner, function, kind="process", trigger=None, options=None, **arguments):
    """Return a harness: ``options`` are the harness's, ``arguments`` the operator's."""
    descriptors = {
        "reduce": lambda: ReducingStateDescriptor("contents", function, Types.PICKLED_BYTE_ARRAY()),
        "aggregate": lambda: AggregatingStateDescriptor(
            "contents", function, Types.PICKLED_BYTE_ARRAY()
        ),
    }
    make = descriptors.get(kind)
    state = ListStateDescriptor("contents", Types.PICKLED_BYTE_ARRAY()) if make is None else make()
    window = {
        "assigner": assigner,
        "trigger": trigger or assigner.get_default_trigger(None),
        "function_kind": kind,
        "state_descriptor": state,
        **arguments,
    }
    return KeyedOneInputStreamOperatorTestHarness(
        operators.Window(function, **window), lambda value: value[0], **(options or {})
    )


TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_tumbling_windows_fire_in_order_and_leave_nothing(trigger):
    with harness(TEN, Show(), trigger=trigger) as test:
        assert isinstance(test.operator, TimerlessWindowOperator) is (
            type(trigger) is EventTimeTrigger
        )
        for key, timestamp in (("a", 1), ("a", 19), ("b", 2), ("a", -1), ("a", 3)):
            test.process_element((key, timestamp), timestamp)
        test.process_watermark(9)
        assert test.records == [
            (("a", -10, 0, [-1]), -1),
            (("a", 0, 10, [1, 3]), 9),
            (("b", 0, 10, [2]), 9),
        ]
        test.process_watermark(MAX_WATERMARK)
        assert test.records[3:] == [(("a", 10, 20, [19]), 19)]
        # Windows that need no timers count as timers.
        assert test.operator.timers.num_fired == 4
        assert test.num_keyed_state_entries == 0
        assert test.num_event_time_timers == 0


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_late_records_go_to_the_side_output(trigger):
    with harness(TEN, Show(), trigger=trigger, late_tag="late") as test:
        test.process_element(("a", 5), 5)
        test.process_watermark(12)
        test.process_element(("a", 7), 7)
        test.process_element(("a", 11), 11)
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [("a", 0, 10, [5]), ("a", 10, 20, [11])]
        assert test.output.side_output("late") == [(("a", 7), 7)]


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_reduce_and_aggregate_keep_one_value(trigger):
    def add(first, second):
        return first[0], first[1] + second[1]

    with harness(TEN, add, "reduce", trigger) as test:
        for value in (1, 2, 3):
            test.process_element(("a", value), value)
        test.process_watermark(MAX_WATERMARK)
        assert test.records == [(("a", 6), 9)]
    with harness(TEN, Count(), "aggregate", trigger) as test:
        for value in (1, 2, 13):
            test.process_element(("a", value), value)
        test.process_watermark(MAX_WATERMARK)
        assert test.records == [(2, 9), (1, 19)]


def sliding(size, slide, offset=0):
    return SlidingEventTimeWindows.of(
        Time.milliseconds(size), Time.milliseconds(slide), Time.milliseconds(offset)
    )


def add_numbers(first, second):
    return first[0], first[1] + second[1]


@pytest.mark.parametrize(
    "shape", [(20, 10), (20, 10, -3), (25, 10, 4), (10, 10, 1), (7, 3), (5, 1)]
)
@pytest.mark.parametrize(
    ("function", "kind"), [(Show(), "process"), (add_numbers, "reduce"), (Count(), "aggregate")]
)
def test_sliding_windows_are_those_of_the_general_operator(shape, function, kind):
    """Elements in and out of order, early and late: the same results, in the same order."""
    numbers = random.Random(1)
    steps = []
    latest = -30
    for _ in range(400):
        latest += numbers.randrange(4)
        steps.append((numbers.choice("abcde"), latest - numbers.choice((0, 0, 1, 7, 30))))
        if numbers.random() < 0.2:
            steps.append((None, latest - numbers.randrange(12)))
    steps.append((None, MAX_WATERMARK))
    found = []
    for trigger in (EventTimeTrigger(), OtherEventTimeTrigger()):
        with harness(sliding(*shape), function, kind, trigger, late_tag="late") as test:
            assert isinstance(test.operator, TimerlessWindowOperator) is (
                type(trigger) is EventTimeTrigger
            )
            time = -(2**63)
            for key, timestamp in steps:
                if key is not None:
                    test.process_element((key, timestamp), timestamp)
                elif timestamp > time:
                    time = timestamp
                    test.process_watermark(timestamp)
            assert test.num_keyed_state_entries == 0
            found.append((test.records, test.output.side_output("late")))
    assert found[0] == found[1]
    assert found[0][0]
    assert found[0][1]


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_each_sliding_window_has_its_own_copy(trigger):
    """Changes that a function makes to the records of one window are not visible in another."""

    class Taking(ProcessWindowFunction):
        def process(self, key, context, elements):
            for element in elements:
                element.append(context.window().start)
                yield list(element)

    with harness(sliding(20, 10), Taking(), trigger=trigger) as test:
        test.process_element(["a", 15], 15)
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [["a", 15, 0], ["a", 15, 10]]


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_times_at_the_ends_of_64_bits_have_no_sliding_windows_beyond(trigger):
    with harness(sliding(20, 10), Show(), trigger=trigger) as test:
        test.process_element(("a", 2**63 - 100), 2**63 - 100)
        test.process_watermark(MAX_WATERMARK)
        assert [value[:3] for value in test.values] == [
            ("a", 2**63 - 118, 2**63 - 98),
            ("a", 2**63 - 108, 2**63 - 88),
        ]


@pytest.mark.parametrize("before", [EventTimeTrigger(), OtherEventTimeTrigger()])
@pytest.mark.parametrize("after", [EventTimeTrigger(), OtherEventTimeTrigger()])
@pytest.mark.parametrize("lateness_ms", [0, 5])
@pytest.mark.parametrize(
    "assigner",
    [TEN, sliding(20, 10), EventTimeSessionWindows.with_gap(Time.milliseconds(8))],
    ids=["tumbling", "sliding", "sessions"],
)
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_of_either_operator_are_taken_over_by_the_other(
    before, after, lateness_ms, assigner, backend
):
    """For example, if a program allows lateness from a savepoint on."""
    options = {"configuration": {"state.backend.type": backend}}
    with harness(assigner, Show(), trigger=before, options=options) as test:
        for timestamp in (5, 15, 25):
            test.process_element(("a", timestamp), timestamp)
        test.process_watermark(12)
        snapshot = test.snapshot(1)
        test.process_watermark(MAX_WATERMARK)
        expected = [record for record in test.records if record.timestamp > 12]
    restored = harness(assigner, Show(), trigger=after, lateness_ms=lateness_ms, options=options)
    restored.initialize_state(snapshot)
    with restored as test:
        test.process_watermark(MAX_WATERMARK)
        assert test.records == expected
        assert test.num_keyed_state_entries == 0
        assert test.num_event_time_timers == 0


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_records_without_timestamp_are_refused(trigger):
    with (
        harness(TEN, Show(), trigger=trigger) as test,
        pytest.raises(MissingTimestampError, match="assign_timestamps_and_watermarks"),
    ):
        test.process_element(("a", 1))


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
@pytest.mark.parametrize(("size", "offset"), [(1000, 0), (1000, 500), (1000, -501), (1024, 300)])
def test_the_first_and_the_last_windows_of_64_bits_are_exact(size, offset, trigger):
    windows = TumblingEventTimeWindows(size, offset)
    first = -(2**63) + (offset + 2**63) % size
    last = MAX_WATERMARK - size - (MAX_WATERMARK - size - offset) % size
    moments = [start + within for start in (first, last) for within in (1, size - 1)]
    with harness(windows, Show(), trigger=trigger) as test:
        for moment in moments:
            test.process_element(("a", moment), moment)
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [
            ("a", first, first + size, moments[:2]),
            ("a", last, last + size, moments[2:]),
        ]
    for moment, start in ((1 - 2**63, first - size), (MAX_WATERMARK, last + size)):
        if start <= moment < start + size:
            words = f"a window from {start} to {start + size} ms needs times of more than 64 bits"
            with (
                harness(windows, Show(), trigger=trigger) as test,
                pytest.raises(OverflowError, match=words),
            ):
                test.process_element(("a", moment), moment)


def test_allowed_lateness_fires_again_then_cleans_up():
    with harness(TEN, Show(), lateness_ms=20, late_tag="late") as test:
        test.process_element(("a", 1), 1)
        test.process_watermark(10)
        test.process_element(("a", 5), 5)
        assert test.values == [("a", 0, 10, [1]), ("a", 0, 10, [1, 5])]
        test.process_watermark(29)
        assert test.num_keyed_state_entries == 0
        test.process_element(("a", 6), 6)
        assert test.output.side_output("late") == [(("a", 6), 6)]


def test_purging_trigger_restarts_the_contents():
    trigger = PurgingTrigger.of(EventTimeTrigger.create())
    with harness(TEN, Show(), trigger=trigger, lateness_ms=100) as test:
        test.process_element(("a", 1), 1)
        test.process_watermark(10)
        test.process_element(("a", 5), 5)
        assert test.values == [("a", 0, 10, [1]), ("a", 0, 10, [5])]


def test_sliding_windows_overlap():
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    with harness(assigner, Show()) as test:
        test.process_element(("a", 7), 7)
        test.process_watermark(MAX_WATERMARK)
        assert test.values == [("a", 0, 10, [7]), ("a", 5, 15, [7])]


def test_sessions_merge_whatever_the_order():
    """G-5."""
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    results = []
    for order in ((0, 20, 10, 50), (50, 10, 20, 0), (20, 0, 50, 10)):
        with harness(assigner, Count(), "aggregate") as test:
            for timestamp in order:
                test.process_element(("a", timestamp), timestamp)
            test.process_watermark(MAX_WATERMARK)
            results.append(test.records)
            assert test.num_keyed_state_entries == 0
            assert test.num_event_time_timers == 0
    assert results == [[(3, 29), (1, 59)]] * 3


def test_late_record_reopens_its_session():
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    with harness(assigner, Show(), lateness_ms=50) as test:
        for timestamp in (0, 5):
            test.process_element(("a", timestamp), timestamp)
        test.process_watermark(29)
        test.process_element(("a", 12), 12)
        assert test.values == [("a", 0, 15, [0, 5]), ("a", 0, 22, [0, 5, 12])]


def test_count_trigger_on_global_windows_with_evictor():
    class Values(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield [e[1] for e in elements]

    with harness(
        GlobalWindows.create(), Values(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3)
    ) as test:
        for value in range(1, 6):
            test.process_element(("a", value))
        assert test.values == [[1, 2], [2, 3, 4]]


class KeepsAll(Evictor):
    def evict_before(self, elements, window, watermark):
        return elements

    def evict_after(self, elements, window, watermark):
        return elements


@pytest.mark.parametrize(("where", "early", "late"), [("FIRING", 3, 4), ("WINDOW_END", 9, 9)])
@pytest.mark.parametrize("arguments", [{}, {"evictor": KeepsAll()}], ids=["plain", "evictor"])
def test_results_have_the_time_of_what_fired_their_window_or_its_end(where, early, late, arguments):
    options = {"configuration": {"pipeline.window-result-timestamp": where}}
    fires = {"trigger": CountTrigger.of(1), "options": options}
    with harness(TEN, max, "reduce", **fires, **arguments) as test:
        test.process_element(("a", 3), 3)
        assert test.records == [(("a", 3), early)]
    with harness(TEN, max, "reduce", options=options, lateness_ms=100, **arguments) as test:
        test.process_element(("a", 3), 3)
        test.process_watermark(20)
        test.process_element(("a", 4), 4)
        assert test.records == [(("a", 3), 9), (("a", 4), late)]


@pytest.mark.parametrize(("where", "late"), [("FIRING", 4), ("WINDOW_END", 13)])
@pytest.mark.parametrize("trigger", [EventTimeTrigger(), OtherEventTimeTrigger()])
def test_late_results_of_sessions_have_either_time(where, late, trigger):
    options = {"configuration": {"pipeline.window-result-timestamp": where}}
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    with harness(
        assigner, max, "reduce", trigger=trigger, options=options, lateness_ms=100
    ) as test:
        test.process_element(("a", 3), 3)
        test.process_watermark(20)
        test.process_element(("a", 4), 4)
        assert test.records == [(("a", 3), 12), (("a", 4), late)]


def test_results_of_a_window_without_an_end_keep_the_time_of_what_fired_it():
    options = {"configuration": {"pipeline.window-result-timestamp": "WINDOW_END"}}
    with harness(
        GlobalWindows.create(), max, "reduce", trigger=CountTrigger.of(1), options=options
    ) as test:
        test.process_element(("a", 3), 3)
        assert test.records == [(("a", 3), 3)]


class KeepsNothing(Evictor):
    def evict_before(self, elements, window, watermark):
        return []

    def evict_after(self, elements, window, watermark):
        return elements


@pytest.mark.parametrize(
    ("function", "kind", "expected"),
    [(Count(), "aggregate", [0]), (max, "reduce", [])],
    ids=["aggregate", "reduce"],
)
def test_an_aggregate_of_nothing_is_that_of_the_empty_accumulator(function, kind, expected):
    with harness(TEN, function, kind, evictor=KeepsNothing()) as test:
        test.process_element(("a", 1), 1)
        test.process_watermark(9)
        assert test.values == expected


def test_open_windows_of_processing_time_are_dropped_at_the_end_with_a_word(caplog):
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    with harness(assigner, Show()) as test:
        test.process_element(("a", 1))
        test.process_element(("b", 1))
        test.set_processing_time(9)
        assert len(test.values) == 2
        test.process_element(("a", 2))
        test.process_watermark(MAX_WATERMARK)
        test.end_input()
        assert len(test.values) == 2
    (told,) = caplog.messages
    assert "windows of processing time that are still open are dropped" in told
    assert "(1 timers)" in told


def test_windows_of_processing_time_that_have_fired_are_dropped_without_a_word(caplog):
    batch = {"configuration": {"execution.runtime-mode": "BATCH"}}
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    with harness(assigner, Show(), options=batch) as test:
        test.process_element(("a", 1), 1)
        test.process_watermark(MAX_WATERMARK)
        test.end_input()
        assert len(test.values) == 1
    assert caplog.messages == []


def test_processing_time_windows_fire_by_the_clock():
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    with harness(assigner, Show()) as test:
        test.set_processing_time(3)
        test.process_element(("a", 1))
        test.set_processing_time(8)
        assert test.values == []
        test.set_processing_time(9)
        assert test.values == [("a", 0, 10, [1])]
        assert test.num_processing_time_timers == 0
        assert test.num_keyed_state_entries == 0


@pytest.mark.parametrize(
    "windows",
    [TumblingEventTimeWindows, TumblingProcessingTimeWindows],
    ids=["event", "processing"],
)
def test_natural_windows_begin_where_the_clock_stands_at_the_first_record(windows):
    """G: the first element fixes the shift; the clock shifts event time as well."""
    assigner = windows.staggered(Time.milliseconds(10), WindowStagger.NATURAL)
    with harness(assigner, Show()) as test:
        for now in (23, 31, 33, 47):
            test.set_processing_time(now)
            test.process_element(("a", now), now)
        test.process_watermark(100)
        test.set_processing_time(100)
        assert [value[1:] for value in test.values] == [
            (23, 33, [23, 31]),
            (33, 43, [33]),
            (43, 53, [47]),
        ]


def test_random_windows_have_the_size_and_stay_where_they_are():
    assigner = TumblingEventTimeWindows.staggered(
        Time.milliseconds(10), WindowStagger.RANDOM, Time.milliseconds(3)
    )
    with harness(assigner, Show()) as test:
        for time in range(100):
            test.process_element(("a", time), time)
        test.process_watermark(1000)
        starts = [value[1] for value in test.values]
        assert {end - start for _, start, end, _ in test.values} == {10}
        assert {start % 10 for start in starts} == {starts[0] % 10}
        assert sorted(v for value in test.values for v in value[3]) == list(range(100))


def test_aligned_windows_are_those_without_stagger():
    with harness(
        TumblingEventTimeWindows.staggered(Time.milliseconds(10), WindowStagger.ALIGNED), Show()
    ) as test:
        assert isinstance(test.operator, TimerlessWindowOperator)


def test_a_global_window_may_be_evaluated_at_the_end_of_the_input():
    with harness(
        GlobalWindows.create_with_end_of_stream_trigger(),
        lambda a, b: (a[0], a[1] + b[1]),
        "reduce",
    ) as test:
        for number in range(4):
            test.process_element(("a", number), number)
        test.process_watermark(10**15)
        assert test.values == []
        test.process_watermark(2**63 - 1)
        assert test.values == [("a", 6)]
