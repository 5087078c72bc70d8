"""Assigners, triggers and evictors as the window operator calls them."""

import itertools
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.common import Time
from penstock.common.constants import MAX_LONG_VALUE, MIN_LONG_VALUE
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    CountWindowSerializer,
    DeltaEvictor,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindowSerializer,
    MergingWindowAssigner,
    MissingTimestampError,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeEvictor,
    TimeWindow,
    TimeWindowSerializer,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    long_to_int_with_bit_mixing,
    mod_inverse,
)
from penstock.errors import InvalidProgramError

FIRE, CONTINUE = TriggerResult.FIRE, TriggerResult.CONTINUE
TIMES = st.integers(-(10**9), 10**9)


class Value:
    """A state of one key and window."""

    def __init__(self, fold=None):
        self.fold, self.content = fold, None

    def get(self):
        return self.content

    value = get

    def add(self, value):
        self.content = value if self.content is None else self.fold.reduce(self.content, value)

    def update(self, value):
        self.content = value

    def clear(self):
        self.content = None


class Context:
    """Trigger context, assigner context and runtime context of one key and window."""

    def __init__(self, now=0, watermark=MIN_LONG_VALUE):
        self.now, self.watermark = now, watermark
        self.event_timers, self.states = set(), {}

    def get_current_processing_time(self):
        return self.now

    def get_current_watermark(self):
        return self.watermark

    def get_runtime_context(self):
        return self

    def register_event_time_timer(self, time):
        self.event_timers.add(time)

    def delete_event_time_timer(self, time):
        self.event_timers.discard(time)

    def get_partitioned_state(self, descriptor):
        fold = getattr(descriptor, "get_reduce_function", lambda: None)()
        return self.states.setdefault(descriptor.get_name(), Value(fold))

    get_state = get_partitioned_state


@given(TIMES, st.integers(1, 10**6), st.data())
def test_a_tumbling_window_holds_the_time(time, size, data):
    offset = data.draw(st.integers(1 - size, size - 1))
    (window,) = TumblingEventTimeWindows(size, offset).assign_windows(0, time, Context())
    assert window.start <= time < window.end
    assert window.end - window.start == size
    assert (window.start - offset) % size == 0


@given(TIMES, st.integers(1, 500), st.integers(1, 500))
def test_sliding_windows_are_all_that_hold_the_time(time, size, slide):
    windows = SlidingEventTimeWindows(size, slide, 0).assign_windows(0, time, Context())
    starts = {start for start in range(time - size + 1, time + 1) if start % slide == 0}
    assert {w.start for w in windows} == starts
    assert len(windows) == len(starts)


@given(st.lists(st.integers(-300, 300)), st.integers(1, 50), st.integers(1, 50), st.data())
def test_sliding_windows_do_not_depend_on_the_records_before(times, size, slide, data):
    offset = data.draw(st.integers(1 - slide, slide - 1))
    assigner = SlidingEventTimeWindows(size, slide, offset)
    for time in times:
        windows = list(assigner.assign_windows(0, time, Context()))
        starts = [s for s in range(time, time - size, -1) if (s - offset) % slide == 0]
        assert windows == [TimeWindow(start, start + size) for start in starts]


def test_records_of_nearly_one_time_share_their_sliding_windows():
    assigner = SlidingEventTimeWindows(20, 10, 0)
    one, other = (assigner.assign_windows(0, time, Context()) for time in (19, 10))
    assert [id(window) for window in one] == [id(window) for window in other]


def test_processing_time_windows_follow_the_clock():
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    assert assigner.assign_windows(0, MIN_LONG_VALUE, Context(now=25)) == [TimeWindow(20, 30)]
    assert not assigner.is_event_time()


def test_event_time_windows_need_timestamps():
    with pytest.raises(MissingTimestampError, match="assign_timestamps_and_watermarks"):
        EventTimeSessionWindows(5).assign_windows(0, MIN_LONG_VALUE, Context())


def test_count_windows_number_the_records():
    context = Context()
    tumbling = CountTumblingWindowAssigner.of(2)
    assigned = [tumbling.assign_windows(0, 0, context) for _ in range(4)]
    assert assigned == [[CountWindow(0)], [CountWindow(0)], [CountWindow(1)], [CountWindow(1)]]


@given(st.integers(1, 6), st.integers(1, 6))
def test_a_sliding_count_window_gets_its_records(size, slide):
    context, contents = Context(), {}
    assigner = CountSlidingWindowAssigner(size, slide)
    for number in range(30):
        for window in assigner.assign_windows(number, 0, context):
            contents.setdefault(window.id, []).append(number)
    for window_id, numbers in contents.items():
        start = window_id * slide
        assert numbers == [n for n in range(start, start + size) if n < 30]


@given(st.lists(st.tuples(TIMES, st.integers(1, 10**6)), max_size=30))
def test_merging_joins_what_overlaps_or_touches(spans):
    """Compared with painting: groups are the connected components of overlapping windows."""
    windows = {TimeWindow(start, start + length) for start, length in spans}
    merged = []

    class Callback:
        def merge(self, to_be_merged, merge_result):
            merged.append((set(to_be_merged), merge_result))

    TimeWindow.merge_windows(windows, Callback())
    for members, result in merged:
        assert result.start == min(w.start for w in members)
        assert result.end == max(w.end for w in members)
    left = windows.difference(*(members for members, _ in merged))
    final = sorted(left | {result for _, result in merged})
    assert all(one.end < other.start for one, other in itertools.pairwise(final))


def test_merged_windows_are_in_the_order_of_pyflink():
    """PyFlink stores windows in a set, whose order decides how their contents are joined."""
    merged = []

    class Callback(MergingWindowAssigner.MergeCallback):
        def merge(self, to_be_merged, merge_result):
            merged.append([window.start for window in to_be_merged])

    starts = (0, 1000, 40, 1080, 1200, 120, 80, 200, 3000)
    TimeWindow.merge_windows([TimeWindow(s, s + 150) for s in starts], Callback())
    assert merged == [[40, 0, 80, 120, 200], [1000, 1080, 1200]]


def test_a_dynamic_gap_must_be_positive():
    class Gap(SessionWindowTimeGapExtractor):
        def extract(self, element):
            return element

    assigner = EventTimeSessionWindows.with_dynamic_gap(Gap())
    assert assigner.assign_windows(7, 10, Context()) == [TimeWindow(10, 17)]
    with pytest.raises(ValueError, match="positive"):
        assigner.assign_windows(0, 10, Context())


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(Time.seconds(1), Time.seconds(1)),
        lambda: TumblingEventTimeWindows.of(1000),
        lambda: SlidingEventTimeWindows.of(Time.seconds(0), Time.seconds(1)),
        lambda: SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(0)),
        lambda: EventTimeSessionWindows.with_gap(Time.seconds(0)),
        lambda: EventTimeSessionWindows.with_dynamic_gap(lambda e: 1),
        lambda: CountTumblingWindowAssigner.of(0),
        lambda: CountTumblingWindowAssigner.of("2"),
    ],
)
def test_wrong_parameters_are_refused(make):
    with pytest.raises(InvalidProgramError):
        make()


def test_event_time_trigger():
    window, trigger = TimeWindow(0, 10), EventTimeTrigger.create()
    context = Context(watermark=3)
    assert trigger.on_element(0, 5, window, context) is CONTINUE
    assert context.event_timers == {9}
    assert trigger.on_event_time(8, window, context) is CONTINUE
    assert trigger.on_event_time(9, window, context) is FIRE
    assert trigger.on_element(0, 5, window, Context(watermark=9)) is FIRE
    trigger.clear(window, context)
    assert context.event_timers == set()


def test_count_trigger_starts_again_and_purging_drops():
    trigger, context = CountTrigger.of(2), Context()
    results = [trigger.on_element(i, 0, GlobalWindow(), context) for i in range(4)]
    assert results == [CONTINUE, FIRE, CONTINUE, FIRE]
    purging, context = PurgingTrigger.of(CountTrigger.of(2)), Context()
    results = [purging.on_element(i, 0, GlobalWindow(), context) for i in range(2)]
    assert results == [CONTINUE, TriggerResult.FIRE_AND_PURGE]


def test_continuous_trigger_fires_at_multiples_and_at_the_end():
    window, context = TimeWindow(0, 10), Context()
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(4))
    assert trigger.on_element(0, 1, window, context) is CONTINUE
    assert context.event_timers == {4, 9}
    assert trigger.on_event_time(4, window, context) is FIRE
    assert trigger.on_event_time(8, window, context) is FIRE
    assert trigger.on_event_time(9, window, context) is FIRE


def test_delta_trigger_compares_with_the_record_that_fired():
    trigger, context = DeltaTrigger.of(2, lambda old, new: abs(new - old)), Context()
    results = [trigger.on_element(v, 0, GlobalWindow(), context) for v in (1, 3, 4, 6, 7)]
    assert results == [CONTINUE, CONTINUE, FIRE, CONTINUE, FIRE]


def test_evictors_before_and_after():
    elements = [(v, v) for v in (1, 5, 8, 9)]
    window = GlobalWindow()
    assert CountEvictor.of(2).evict_before(elements, window, 0) == elements[2:]
    assert CountEvictor.of(2).evict_after(elements, window, 0) == elements
    assert CountEvictor.of(2, True).evict_after(elements, window, 0) == elements[2:]
    assert TimeEvictor.of(Time.milliseconds(4)).evict_before(elements, window, 0) == elements[2:]
    without = [(v, MIN_LONG_VALUE) for v in (1, 2)]
    assert TimeEvictor.of(Time.milliseconds(4)).evict_before(without, window, 0) == without
    near = DeltaEvictor.of(4, lambda e, last: last - e)
    assert near.evict_before(elements, window, 0) == elements[2:]


@pytest.mark.parametrize(
    ("serializer", "window"),
    [
        (TimeWindowSerializer(), TimeWindow(-5, MAX_LONG_VALUE)),
        (CountWindowSerializer(), CountWindow(7)),
        (GlobalWindowSerializer(), GlobalWindow()),
    ],
)
def test_windows_survive_serialization(serializer, window):
    stream = BytesIO()
    serializer.serialize(window, stream)
    stream.seek(0)
    assert serializer.deserialize(stream) == window
    with pytest.raises(ValueError, match="ends after"):
        serializer.deserialize(BytesIO())


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1).map(lambda n: 2 * n + 1))
def test_hash_helpers_stay_within_32_bits(number, odd):
    assert -(2**31) <= long_to_int_with_bit_mixing(number) < 2**31
    assert mod_inverse(odd) * odd % 2**32 == 1
