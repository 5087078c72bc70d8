"""Windows: assigners, triggers, the view of functions, and the output to the next operator."""

from __future__ import annotations

from typing import Any

_DATA = (("a", 0), ("a", 400), ("b", 900), ("a", 1000), ("a", 1999), ("b", 5000), ("a", 5200))


def _keyed(f: Any, data: Any = _DATA, env: Any = None) -> Any:
    timed = f.timed(f.pairs(*data, env=env), lambda v: v[1])
    return timed.key_by(lambda v: v[0], f.Types.STRING())


def _told(f: Any) -> Any:
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield (key, window.start, window.end, window.max_timestamp(), [v[1] for v in elements])

    return Tell()


def tumbling(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collect(_keyed(f).window(windows).process(_told(f)))


def tumbling_with_offset(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1), f.Time.milliseconds(300))
    return f.collect(_keyed(f).window(windows).process(_told(f)))


def tumbling_before_1970(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    data = (("a", -1), ("a", -1000), ("a", -1001), ("a", 0))
    return f.collect(_keyed(f, data).window(windows).process(_told(f)))


def sliding(f):
    windows = f.SlidingEventTimeWindows.of(f.Time.seconds(2), f.Time.seconds(1))
    return f.sorted(_keyed(f).window(windows).process(_told(f)))


def sliding_with_gaps(f):
    windows = f.SlidingEventTimeWindows.of(f.Time.milliseconds(300), f.Time.seconds(1))
    return f.collect(_keyed(f).window(windows).process(_told(f)))


def sessions(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(1000))
    return f.collect(_keyed(f).window(windows).process(_told(f)))


def sessions_of_a_dynamic_gap(f):
    class Gap(f.SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 100 if element[0] == "b" else 1500

    windows = f.EventTimeSessionWindows.with_dynamic_gap(Gap())
    return f.collect(_keyed(f).window(windows).process(_told(f)))


def sessions_that_touch(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(100))
    data = (("a", 0), ("a", 100), ("a", 201), ("a", 302), ("a", 401))
    return f.collect(_keyed(f, data).window(windows).process(_told(f)))


def global_windows_with_count_trigger(f):
    windowed = _keyed(f).window(f.GlobalWindows.create()).trigger(f.CountTrigger.of(2))

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, type(context.window()).__name__, [v[1] for v in elements])

    return f.collect(windowed.process(Tell()))


def global_windows_with_purging_trigger(f):
    trigger = f.PurgingTrigger.of(f.CountTrigger.of(2))
    windowed = _keyed(f).window(f.GlobalWindows.create()).trigger(trigger)
    return f.collect(windowed.reduce(lambda a, b: (a[0], a[1] + b[1])))


def global_windows_never_fire(f):
    windowed = _keyed(f).window(f.GlobalWindows.create())
    return f.collect(windowed.reduce(lambda a, b: a))


def reduce_with_window_function(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, context.window().start, list(elements))

    windowed = _keyed(f).window(f.TumblingEventTimeWindows.of(f.Time.seconds(1)))
    reduced = windowed.reduce(lambda a, b: (a[0], a[1] + b[1]), window_function=Tell())
    return f.collected(lambda: reduced)


def reduce_with_typed_window_function(f):
    class Tell(f.WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, window.end, sum(v[1] for v in inputs))]

    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.LONG(), f.Types.INT()])
    windowed = _keyed(f).window(f.TumblingEventTimeWindows.of(f.Time.seconds(1)))
    reduced = windowed.reduce(lambda a, b: (a[0], a[1] + b[1]), Tell(), kind)
    return f.collected(lambda: reduced)


def _mean(f: Any) -> Any:
    class Mean(f.AggregateFunction):
        def create_accumulator(self):
            return (0, 0)

        def add(self, value, accumulator):
            return (accumulator[0] + value[1], accumulator[1] + 1)

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1]

        def merge(self, a, b):
            return (a[0] + b[0], a[1] + b[1])

    return Mean()


def aggregate(f):
    windowed = _keyed(f).window(f.TumblingEventTimeWindows.of(f.Time.seconds(1)))
    kind = f.Types.TUPLE([f.Types.INT(), f.Types.INT()])
    return (
        f.collect(windowed.aggregate(_mean(f))),
        f.collect(windowed.aggregate(_mean(f), None, kind, f.Types.DOUBLE())),
    )


def aggregate_with_window_function(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, context.window().start, *elements)

    windowed = _keyed(f).window(f.TumblingEventTimeWindows.of(f.Time.seconds(1)))
    return f.collect(windowed.aggregate(_mean(f), Tell()))


def apply(f):
    class Give(f.WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, window.start, len(list(inputs)))]

    windowed = _keyed(f).window(f.TumblingEventTimeWindows.of(f.Time.seconds(1)))
    return f.collect(windowed.apply(Give()))


def window_state_and_clear(f):
    descriptor = f.ValueStateDescriptor("fired", f.Types.INT())
    total = f.ValueStateDescriptor("total", f.Types.INT())

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            mine = context.window_state().get_state(descriptor)
            all_ = context.global_state().get_state(total)
            mine.update((mine.value() or 0) + 1)
            all_.update((all_.value() or 0) + 1)
            yield (key, context.window().start, mine.value(), all_.value(), len(list(elements)))

        def clear(self, context):
            context.window_state().get_state(descriptor).clear()

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collect(_keyed(f).window(windows).process(Tell()))


def context_tells_its_times(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            now = context.current_processing_time()
            yield (key, context.current_watermark(), isinstance(now, int) and now > 1)

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collected(lambda: _keyed(f).window(windows).process(Tell()))


def timestamps_of_results(f):
    class Stamp(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield (value[0], value[1], ctx.timestamp())

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    reduced = _keyed(f).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]))
    return f.collect(reduced.process(Stamp()))


def windows_of_windows(f):
    first = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    second = f.TumblingEventTimeWindows.of(f.Time.seconds(4))
    reduced = _keyed(f).window(first).reduce(lambda a, b: (a[0], a[1] + b[1]))
    again = reduced.key_by(lambda v: "all", f.Types.STRING()).window(second)
    return f.collect(again.reduce(lambda a, b: ("all", a[1] + b[1])))


def window_all_in_every_form(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))

    class Tell(f.ProcessAllWindowFunction):
        def process(self, context, elements):
            yield (context.window().start, [v[1] for v in elements])

    class Apply(f.AllWindowFunction):
        def apply(self, window, inputs):
            return [(window.end, len(list(inputs)))]

    def windowed():
        return f.timed(f.pairs(*_DATA), lambda v: v[1]).window_all(windows)

    return (
        f.collect(windowed().process(Tell())),
        f.collect(windowed().apply(Apply())),
        f.collect(windowed().reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]))),
        f.collect(windowed().aggregate(_mean(f))),
    )


def window_all_at_parallelism_2(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    stream = f.timed(f.pairs(*_DATA, env=f.env(2)).rebalance().map(lambda v: v), lambda v: v[1])
    return f.sorted(stream.window_all(windows).aggregate(_mean(f)))


def count_window_process(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, type(context.window()).__name__, [v[1] for v in elements])

    return (
        f.collected(lambda: _keyed(f).count_window(2).process(Tell())),
        f.collected(lambda: _keyed(f).count_window(3, 1).process(Tell())),
    )


def custom_trigger_counts_and_times(f):
    class Every(f.Trigger):
        def on_element(self, element, timestamp, window, ctx):
            seen = ctx.get_partitioned_state(f.ValueStateDescriptor("seen", f.Types.INT()))
            seen.update((seen.value() or 0) + 1)
            ctx.register_event_time_timer(window.max_timestamp())
            return f.TriggerResult.FIRE if seen.value() == 2 else f.TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return f.TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return f.TriggerResult.FIRE_AND_PURGE

        def on_merge(self, window, ctx):
            pass

        def clear(self, window, ctx):
            ctx.delete_event_time_timer(window.max_timestamp())

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(2))
    return f.collect(_keyed(f).window(windows).trigger(Every()).process(_told(f)))


def continuous_trigger(f):
    trigger = f.ContinuousEventTimeTrigger.of(f.Time.milliseconds(500))
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(2))
    return f.sorted(_keyed(f).window(windows).trigger(trigger).process(_told(f)))


def purging_event_time_trigger(f):
    trigger = f.PurgingTrigger.of(f.EventTimeTrigger.create())
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    windowed = _keyed(f).window(windows).trigger(trigger).allowed_lateness(500)
    return f.collect(windowed.process(_told(f)))


def count_trigger_in_sessions(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(1000))
    data = (("a", 0), ("a", 100), ("a", 200), ("a", 5000))
    windowed = _keyed(f, data).window(windows).trigger(f.CountTrigger.of(2))
    return f.collected(lambda: windowed.process(_told(f)))


def custom_assigner(f):
    class Halves(f.WindowAssigner):
        def assign_windows(self, element, timestamp, context):
            start = timestamp - timestamp % 2000
            return [f.TimeWindow(start, start + 2000), f.TimeWindow(start, start + 1000)]

        def get_default_trigger(self, env):
            return f.EventTimeTrigger()

        def get_window_serializer(self):
            return f.TimeWindowSerializer()

        def is_event_time(self):
            return True

    return f.sorted(_keyed(f).window(Halves()).process(_told(f)))


def late_elements_to_a_side(f):
    late = f.OutputTag("late", f.Types.TUPLE([f.Types.STRING(), f.Types.INT()]))
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    windowed = _keyed(f).window(windows).side_output_late_data(late)
    main = windowed.process(_told(f))
    side = main.get_side_output(late)
    return f.collect(side), f.collect(main)


def side_output_of_a_window(f):
    tag = f.OutputTag("long", f.Types.STRING())

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            if len(list(elements)) > 1:
                yield tag, key
            yield key

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    main = _keyed(f).window(windows).process(Tell(), f.Types.STRING())
    side = main.get_side_output(tag)
    return f.collected(lambda: side), f.collected(lambda: main)


def windows_without_timestamps_fail(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collected(lambda: f.ints(1).key_by(lambda v: v).window(windows).reduce(lambda a, b: a))


def sessions_in_batch_mode(f):
    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(1000))
    data = (("a", 5000), ("a", 0), ("b", 1), ("a", 700))
    return f.sorted(_keyed(f, data, env=f.batch_env()).window(windows).process(_told(f)))


def window_function_gives_numbers_fails(f):
    class Give(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            return 5

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collected(lambda: _keyed(f).window(windows).process(Give()))


def window_function_gives_another_type(f):
    class Give(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key

    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collected(lambda: _keyed(f).window(windows).process(Give(), f.Types.INT()))


def reduce_to_another_type_fails(f):
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collected(lambda: _keyed(f).window(windows).reduce(lambda a, b: "text"))


def elements_of_rows_keep_names(f):
    kind = f.Types.ROW_NAMED(["k", "t"], [f.Types.STRING(), f.Types.LONG()])
    rows = f.env().from_collection([f.Row("a", 1), f.Row("a", 5)], kind)

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield [(row.k, row["t"]) for row in elements]

    timed = f.timed(rows, lambda r: r.t).key_by(lambda r: r.k, f.Types.STRING())
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.collect(timed.window(windows).process(Tell()))
