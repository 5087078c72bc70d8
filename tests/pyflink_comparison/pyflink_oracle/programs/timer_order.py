"""The order of timers and windows that are due at the end of the input, or at one moment."""

from __future__ import annotations

from typing import Any

#: Numbers in a fixed irregular order, as keys and as times.
_SHUFFLED = tuple(n * 37 % 101 for n in range(1, 60))


def _timed_ints(f: Any, *values: int) -> Any:
    return f.timed(f.ints(*values), lambda v: v)


def _timers(f: Any, moments: Any, deleted: Any = lambda value: ()) -> Any:
    """Return a function that registers and deletes timers at moments, and emits its key."""

    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            for moment in moments(value):
                ctx.timer_service().register_event_time_timer(moment)
            for moment in deleted(value):
                ctx.timer_service().delete_event_time_timer(moment)
            return []

        def on_timer(self, timestamp, ctx):
            yield (timestamp, ctx.get_current_key())

    return Timed()


def keys_at_one_moment(f):
    keyed = _timed_ints(f, *_SHUFFLED).key_by(lambda v: v, f.Types.INT())
    return f.collect(keyed.process(_timers(f, lambda v: (1000,))))


def keys_of_texts_at_one_moment(f):
    keyed = _timed_ints(f, *range(17)).key_by(lambda v: f"key {v}", f.Types.STRING())
    return f.collect(keyed.process(_timers(f, lambda v: (1000,))))


def keys_at_few_moments(f):
    keyed = _timed_ints(f, *_SHUFFLED).key_by(lambda v: v, f.Types.INT())
    return f.collect(keyed.process(_timers(f, lambda v: (v % 4 * 10,))))


def keys_at_many_moments(f):
    keyed = _timed_ints(f, *_SHUFFLED).key_by(lambda v: v % 23, f.Types.INT())
    return f.collect(keyed.process(_timers(f, lambda v: (v, 50, 100 - v, v // 5))))


def keys_whose_timers_are_deleted(f):
    keyed = _timed_ints(f, *_SHUFFLED, *_SHUFFLED).key_by(lambda v: v % 29, f.Types.INT())

    def moments(value):
        return (value % 7, 5, 9 - value % 3)

    def deleted(value):
        return (5,) if value % 4 == 0 else (value % 5, 8) if value % 4 == 1 else ()

    return f.collect(keyed.process(_timers(f, moments, deleted)))


def keys_of_a_session_kept_by_hand(f):
    class Sessions(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.end = runtime_context.get_state(f.ValueStateDescriptor("end", f.Types.LONG()))

        def process_element(self, value, ctx):
            service = ctx.timer_service()
            if self.end.value() is not None:
                service.delete_event_time_timer(self.end.value())
            self.end.update(value // 10 * 10 + 100)
            service.register_event_time_timer(self.end.value())
            return []

        def on_timer(self, timestamp, ctx):
            yield (timestamp, ctx.get_current_key())
            self.end.clear()

    keyed = _timed_ints(f, *_SHUFFLED).key_by(lambda v: v % 13, f.Types.INT())
    return f.collect(keyed.process(Sessions()))


def timers_of_two_inputs(f):
    class Timed(f.KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value % 3)
            return []

        def process_element2(self, value, ctx):
            return []

        def on_timer(self, timestamp, ctx):
            yield (timestamp, ctx.get_current_key())

    env = f.env()
    one = f.timed(f.ints(*_SHUFFLED, env=env), lambda v: v).key_by(lambda v: v, f.Types.INT())
    other = f.timed(f.ints(1, env=env), lambda v: v).key_by(lambda v: v, f.Types.INT())
    return f.collect(one.connect(other).process(Timed()))


def timers_behind_timers(f):
    first = _timed_ints(f, *_SHUFFLED).key_by(lambda v: v, f.Types.INT())
    fired = first.process(_timers(f, lambda v: (v % 3,)))
    again = fired.key_by(lambda v: v[1] % 11, f.Types.INT())
    return f.collect(again.process(_timers(f, lambda v: (10**6 + v[1] % 2,))))


def timers_that_register_timers(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value % 3)
            return []

        def on_timer(self, timestamp, ctx):
            yield (timestamp, ctx.get_current_key())
            if timestamp < 10:
                ctx.timer_service().register_event_time_timer(timestamp + 10)

    keyed = _timed_ints(f, *range(9)).key_by(lambda v: v, f.Types.INT())
    return f.collect(keyed.process(Timed()))


def timers_of_one_key_at_parallelism_2(f):
    stream = f.timed(f.ints(*_SHUFFLED, env=f.env(2)), lambda v: v)
    keyed = stream.key_by(lambda v: 0, f.Types.INT())
    return f.collect(keyed.process(_timers(f, lambda v: (v % 10, 3, 7 * v))))


def _pairs(f: Any, keys: int = 7) -> Any:
    """Return texts as keys, and times that go back and forth."""
    pairs = [(f"k{n * 5 % keys}", n * 37 % 101 * 40) for n in range(60)]
    timed = f.timed(f.pairs(*pairs), lambda v: v[1])
    return timed.key_by(lambda v: v[0], f.Types.STRING())


def _tell(f: Any) -> Any:
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield (key, window.start, window.end, [v[1] for v in elements])

    return Tell()


def tumbling(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collect(_pairs(f).window(windows).process(_tell(f)))


def tumbling_reduce(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(500))
    reduced = _pairs(f).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]))
    return f.collect(reduced)


def tumbling_with_many_keys(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(800), f.Time.milliseconds(30))
    return f.collect(_pairs(f, 31).window(windows).process(_tell(f)))


def tumbling_with_lateness(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    windowed = _pairs(f).window(windows).allowed_lateness(1000)
    return f.collect(windowed.process(_tell(f)))


def tumbling_of_tumbling(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(500))
    longer = f.TumblingEventTimeWindows.of(f.Time.seconds(2))
    reduced = _pairs(f).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]))
    again = reduced.key_by(lambda v: v[0][-1:], f.Types.STRING()).window(longer)
    return f.collect(again.process(_tell(f)))


def windows_of_one_end_at_parallelism_2(f):
    class Nested(f.WindowAssigner):
        def assign_windows(self, element, timestamp, context):
            end = timestamp - timestamp % 1000 + 1000
            return [f.TimeWindow(end - size, end) for size in (1000, 400 + element[1] % 7, 300)]

        def get_default_trigger(self, env):
            return f.EventTimeTrigger()

        def get_window_serializer(self):
            return f.TimeWindowSerializer()

        def is_event_time(self):
            return True

    # A single subtask sends all elements to the single key, so that their order is known.
    return f.collect(_pairs(f, 1).window(Nested()).process(_tell(f)).set_parallelism(2))


def sliding(f):
    windows = f.SlidingEventTimeWindows.of(f.Time.seconds(2), f.Time.milliseconds(500))
    return f.collect(_pairs(f).window(windows).process(_tell(f)))


def sliding_aggregate(f):
    class Most(f.AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return max(value[1], accumulator)

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return max(a, b)

    windows = f.SlidingEventTimeWindows.of(f.Time.milliseconds(900), f.Time.milliseconds(300))
    return f.collect(_pairs(f).window(windows).aggregate(Most(), _tell_one(f)))


def _tell_one(f: Any) -> Any:
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, context.window().end, list(elements))

    return Tell()


def sliding_of_all(f):
    class Tell(f.ProcessAllWindowFunction):
        def process(self, context, elements):
            yield (context.window().start, [v[1] for v in elements])

    windows = f.SlidingEventTimeWindows.of(f.Time.seconds(1), f.Time.milliseconds(500))
    pairs = f.pairs(*[("a", n * 37 % 101 * 40) for n in range(40)])
    return f.collect(f.timed(pairs, lambda v: v[1]).window_all(windows).process(Tell()))


def sessions(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(150))
    return f.collect(_pairs(f).window(windows).process(_tell(f)))


def sessions_that_grow_together(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(400))
    return f.collect(_pairs(f, 5).window(windows).process(_tell(f)))


def sessions_of_one_moment(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(100))
    pairs = [(f"k{n * 5 % 17}", 1000 + n % 2 * 1000) for n in range(60)]
    keyed = f.timed(f.pairs(*pairs), lambda v: v[1]).key_by(lambda v: v[0], f.Types.STRING())
    return f.collect(keyed.window(windows).process(_tell(f)))


def sessions_of_late_and_early_elements_reduced(f):
    times = [("abcdefgh"[n * 3 % 8], n * 53 % 211 * 10) for n in range(120)]
    keyed = f.timed(f.pairs(*times), lambda v: v[1]).key_by(lambda v: v[0], f.Types.STRING())
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(60))
    return f.collect(keyed.window(windows).reduce(lambda a, b: (a[0], max(a[1], b[1]))))


def sessions_merged_out_of_order(f):
    moments = (0, 80, 40, 170, 125, 300)
    times = [(key, moment) for moment in moments for key in "abcdef"]
    keyed = f.timed(f.pairs(*times), lambda v: v[1]).key_by(lambda v: v[0], f.Types.STRING())
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(50))
    return f.collect(keyed.window(windows).process(_tell(f)))


def continuous_trigger(f):
    trigger = f.ContinuousEventTimeTrigger.of(f.Time.milliseconds(500))
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(2))
    return f.collect(_pairs(f).window(windows).trigger(trigger).process(_tell(f)))


def trigger_with_timers_of_its_own(f):
    class Twice(f.Trigger):
        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.max_timestamp())
            ctx.register_event_time_timer(window.start + 100)
            if element[1] % 3 == 0:
                ctx.delete_event_time_timer(window.start + 100)
            return f.TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return f.TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return f.TriggerResult.FIRE

        def on_merge(self, window, ctx):
            pass

        def clear(self, window, ctx):
            pass

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collect(_pairs(f).window(windows).trigger(Twice()).process(_tell(f)))
