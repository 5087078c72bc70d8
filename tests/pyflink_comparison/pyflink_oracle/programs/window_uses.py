"""Windows as programs use them: reports, late records, triggers and assigners of their own."""

from __future__ import annotations

import time
from typing import Any

_CLICKS = (("ann", 1), ("bob", 4), ("ann", 7), ("ann", 12), ("bob", 13), ("cid", 21), ("ann", 28))


def _timed(f: Any, data: Any = _CLICKS, late_ms: int = 100_000) -> Any:
    return f.timed(f.pairs(*data), lambda v: v[1], late_ms)


def _keyed(f: Any, data: Any = _CLICKS) -> Any:
    return _timed(f, data).key_by(lambda v: v[0], f.Types.STRING())


def _tumbling(f: Any, size: int = 10, offset: int = 0) -> Any:
    return f.TumblingEventTimeWindows.of(f.Time.milliseconds(size), f.Time.milliseconds(offset))


def _sliding(f: Any, size: int = 10, slide: int = 5) -> Any:
    return f.SlidingEventTimeWindows.of(f.Time.milliseconds(size), f.Time.milliseconds(slide))


def _sessions(f: Any, gap: int = 6) -> Any:
    return f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(gap))


def _tell(f: Any) -> Any:
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield key, window.start, window.end, [v[1] for v in elements]

    return Tell()


def sliding_counts(f):
    return f.sorted(_keyed(f).window(_sliding(f)).process(_tell(f)))


def sliding_sums_with_their_window(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            (total,) = elements
            yield f"{key} {context.window().start}-{context.window().end} {total[1]}"

    stream = _keyed(f).window(_sliding(f, 20, 10))
    reduced = stream.reduce(lambda a, b: (a[0], a[1] + b[1]), Tell(), f.Types.STRING())
    return str(reduced.get_type()), f.sorted(reduced)


def sliding_applied(f):
    class Largest(f.WindowFunction):
        def apply(self, key, window, inputs):
            yield key, window.max_timestamp(), max(v[1] for v in inputs)

    return f.sorted(_keyed(f).window(_sliding(f, 9, 3)).apply(Largest()))


def tumbling_by_an_offset(f):
    return f.sorted(_keyed(f).window(_tumbling(f, 10, 3)).process(_tell(f)))


def sessions_with_their_length(f):
    class Length(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield key, window.end - window.start, len(list(elements)), window.max_timestamp()

    return f.sorted(_keyed(f).window(_sessions(f)).process(Length()))


def sessions_of_users_by_a_gap_of_theirs(f):
    class Gap(f.SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 10 if element[0] == "ann" else 2

    windows = f.EventTimeSessionWindows.with_dynamic_gap(Gap())
    return f.sorted(_keyed(f).window(windows).process(_tell(f)))


def means_by_an_accumulator_of_a_dictionary(f):
    class Mean(f.AggregateFunction):
        def create_accumulator(self):
            return {"n": 0, "sum": 0}

        def add(self, value, accumulator):
            accumulator["n"] += 1
            accumulator["sum"] += value[1]
            return accumulator

        def get_result(self, accumulator):
            return accumulator["sum"] / accumulator["n"]

        def merge(self, a, b):
            return {"n": a["n"] + b["n"], "sum": a["sum"] + b["sum"]}

    return {
        "tumbling": f.sorted(_keyed(f).window(_tumbling(f)).aggregate(Mean())),
        "typed": f.sorted(
            _keyed(f).window(_tumbling(f)).aggregate(Mean(), output_type=f.Types.DOUBLE())
        ),
        "sliding": f.sorted(_keyed(f).window(_sliding(f)).aggregate(Mean())),
    }


def lists_that_an_aggregate_gathers(f):
    class Gather(f.AggregateFunction):
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            accumulator.append(value[1])
            return accumulator

        def get_result(self, accumulator):
            return sorted(accumulator, reverse=True)

        def merge(self, a, b):
            return a + b

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            for element in elements:
                yield key, context.window().end, element

    t = f.Types
    out = t.TUPLE([t.STRING(), t.LONG(), t.LIST(t.INT())])
    windowed = _keyed(f).window(_tumbling(f, 20))
    return {
        "alone": f.sorted(windowed.aggregate(Gather())),
        "told": f.sorted(windowed.aggregate(Gather(), Tell(), t.LIST(t.INT()), out)),
    }


def the_best_of_each_window(f):
    class Best(f.ProcessAllWindowFunction):
        def process(self, context, elements):
            counts: dict[str, int] = {}
            for name, _ in elements:
                counts[name] = counts.get(name, 0) + 1
            ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            yield context.window().end, ranked[:2]

    return f.collect(_timed(f).window_all(_tumbling(f)).process(Best()))


def counts_then_the_best_of_each_window(f):
    class Count(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().end, key, len(list(elements))

    class Best(f.KeyedProcessFunction):
        def open(self, runtime_context):
            t = f.Types.PICKLED_BYTE_ARRAY()
            self.found = runtime_context.get_list_state(f.ListStateDescriptor("found", t))

        def process_element(self, value, ctx):
            self.found.add(value)
            ctx.timer_service().register_event_time_timer(value[0])

        def on_timer(self, timestamp, ctx):
            ranked = sorted(self.found.get(), key=lambda v: (-v[2], v[1]))
            self.found.clear()
            yield timestamp, [(name, count) for _, name, count in ranked]

    counted = _keyed(f).window(_tumbling(f)).process(Count())
    return f.collect(counted.key_by(lambda v: v[0]).process(Best()))


def late_elements_are_dropped(f):
    stream = f.paced_pairs([("a", 1), ("a", 12), ("a", 5), ("a", 25), ("a", 14)])
    return f.collect(stream.key_by(lambda v: v[0]).window(_tumbling(f)).process(_tell(f)))


def late_elements_fire_again(f):
    stream = f.paced_pairs([("a", 1), ("a", 12), ("a", 5), ("a", 2), ("a", 40), ("a", 3)])
    windowed = stream.key_by(lambda v: v[0]).window(_tumbling(f)).allowed_lateness(10)
    return {
        "process": f.collect(windowed.process(_tell(f))),
        "reduce": f.collect(windowed.reduce(lambda a, b: (a[0], a[1] + b[1]))),
    }


def late_elements_of_sliding_windows_to_a_side(f):
    tag = f.OutputTag("late", f.Types.TUPLE([f.Types.STRING(), f.Types.INT()]))
    stream = f.paced_pairs([("a", 1), ("a", 22), ("a", 5), ("a", 17)])
    windowed = stream.key_by(lambda v: v[0]).window(_sliding(f, 20, 10))
    told = windowed.side_output_late_data(tag).process(_tell(f))
    return f.collect_each({"main": told, "late": told.get_side_output(tag)})


def late_sessions_are_merged(f):
    stream = f.paced_pairs([("a", 1), ("a", 10), ("a", 5), ("a", 40)])
    windowed = stream.key_by(lambda v: v[0]).window(_sessions(f)).allowed_lateness(100)
    return f.collect(windowed.process(_tell(f)))


def firings_are_counted_in_window_state(f):
    class Count(f.ProcessWindowFunction):
        def open(self, runtime_context):
            self.counter = f.ValueStateDescriptor("firings", f.Types.INT())
            self.seen = f.ListStateDescriptor("seen", f.Types.INT())

        def process(self, key, context, elements):
            firings = context.window_state().get_state(self.counter)
            firings.update((firings.value() or 0) + 1)
            seen = context.global_state().get_list_state(self.seen)
            seen.add(len(list(elements)))
            yield context.window().start, firings.value(), list(seen.get())

        def clear(self, context):
            context.window_state().get_state(self.counter).clear()

    stream = f.paced_pairs([("a", 1), ("a", 12), ("a", 5), ("a", 40)])
    return f.collect(
        stream.key_by(lambda v: v[0]).window(_tumbling(f)).allowed_lateness(15).process(Count())
    )


def _early(f: Any, every: int, purges: bool) -> Any:
    class Early(f.Trigger):
        def __init__(self):
            self.count = f.ReducingStateDescriptor("n", lambda a, b: a + b, f.Types.LONG())

        def on_element(self, element, timestamp, window, ctx):
            ctx.register_event_time_timer(window.max_timestamp())
            count = ctx.get_partitioned_state(self.count)
            count.add(1)
            if count.get() >= every:
                count.clear()
                return f.TriggerResult.FIRE_AND_PURGE if purges else f.TriggerResult.FIRE
            return f.TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return f.TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            ends = time == window.max_timestamp()
            return f.TriggerResult.FIRE if ends else f.TriggerResult.CONTINUE

        def on_merge(self, window, ctx):
            ctx.merge_partitioned_state(self.count)
            ctx.register_event_time_timer(window.max_timestamp())

        def can_merge(self):
            return True

        def clear(self, window, ctx):
            ctx.delete_event_time_timer(window.max_timestamp())
            ctx.get_partitioned_state(self.count).clear()

    return Early()


def a_trigger_that_fires_early(f):
    data = [("a", n) for n in (1, 2, 3, 5, 8, 13, 14)]
    return {
        purges: f.collect(
            _keyed(f, data).window(_tumbling(f)).trigger(_early(f, 2, purges)).process(_tell(f))
        )
        for purges in ("", "purges")
    }


def an_early_trigger_of_reduced_windows(f):
    data = [("a", n) for n in (1, 2, 3, 5, 8, 13, 14)]
    windowed = _keyed(f, data).window(_tumbling(f)).trigger(_early(f, 3, True))
    return f.collect(windowed.reduce(lambda a, b: (a[0], a[1] + b[1])))


def a_trigger_that_fires_at_a_mark(f):
    class Mark(f.Trigger):
        def on_element(self, element, timestamp, window, ctx):
            if element[1] % 10 == 0:
                return f.TriggerResult.FIRE_AND_PURGE
            return f.TriggerResult.CONTINUE

        def on_processing_time(self, time, window, ctx):
            return f.TriggerResult.CONTINUE

        def on_event_time(self, time, window, ctx):
            return f.TriggerResult.CONTINUE

        def on_merge(self, window, ctx):
            pass

        def clear(self, window, ctx):
            pass

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, [v[1] for v in elements]

    data = [("a", 3), ("a", 10), ("b", 20), ("a", 7), ("a", 30), ("a", 31)]
    windowed = _keyed(f, data).window(f.GlobalWindows.create()).trigger(Mark())
    return f.sorted(windowed.process(Tell()))


def an_assigner_of_weekdays(f):
    class Weekday(f.WindowAssigner):
        def assign_windows(self, element, timestamp, context):
            start = timestamp - timestamp % 7
            return [f.TimeWindow(start, start + 7)]

        def get_default_trigger(self, env):
            return f.EventTimeTrigger()

        def get_window_serializer(self):
            return f.TimeWindowSerializer()

        def is_event_time(self):
            return True

    return f.sorted(_keyed(f).window(Weekday()).process(_tell(f)))


def an_assigner_of_two_windows_for_each_element(f):
    class Both(f.WindowAssigner):
        def assign_windows(self, element, timestamp, context):
            return [f.TimeWindow(0, 100), f.TimeWindow(timestamp, timestamp + 1)]

        def get_default_trigger(self, env):
            return f.EventTimeTrigger()

        def get_window_serializer(self):
            return f.TimeWindowSerializer()

        def is_event_time(self):
            return True

    return f.sorted(_keyed(f).window(Both()).process(_tell(f)))


def windows_of_counts_of_each_user(f):
    keyed = f.pairs(*_CLICKS).key_by(lambda v: v[0])

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, [v[1] for v in elements]

    class Apply(f.WindowFunction):
        def apply(self, key, window, inputs):
            yield key, window.id if hasattr(window, "id") else None, len(list(inputs))

    return {
        "tumbling": f.sorted(keyed.count_window(2).process(Tell())),
        "sliding": f.sorted(keyed.count_window(3, 2).process(Tell())),
        "applied": f.sorted(keyed.count_window(2).apply(Apply())),
        "reduced": f.sorted(keyed.count_window(2).reduce(lambda a, b: (a[0], a[1] + b[1]))),
    }


def windows_to_the_side(f):
    tag = f.OutputTag("few", f.Types.STRING())

    class Split(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            count = len(list(elements))
            if count < 2:
                yield tag, f"{key} {count}"
            else:
                yield key, count

    told = _keyed(f).window(_tumbling(f)).process(Split())
    return f.collect_each({"main": told, "few": told.get_side_output(tag)})


def functions_of_windows_with_their_own_state(f):
    class Total(f.ProcessWindowFunction):
        def open(self, runtime_context):
            descriptor = f.ValueStateDescriptor("total", f.Types.INT())
            self.total = runtime_context.get_state(descriptor)

        def process(self, key, context, elements):
            self.total.update((self.total.value() or 0) + len(list(elements)))
            yield key, context.window().end, self.total.value()

    return f.sorted(_keyed(f).window(_tumbling(f)).process(Total()))


def forms_of_what_windows_give(f):
    def given(value):
        class Give(f.ProcessWindowFunction):
            def process(self, key, context, elements):
                return value

        return f.collected(lambda: _keyed(f, _CLICKS[:1]).window(_tumbling(f)).process(Give()))

    return {str(value): given(value) for value in ([1, 2], (3,), [], None, {"a": 1}, "ab", {5})}


def what_the_context_of_a_window_tells(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            now = context.current_processing_time()
            yield key, context.current_watermark() >= context.window().max_timestamp(), now > 0

    return f.sorted(_keyed(f).window(_tumbling(f)).process(Tell()))


def hours_of_seconds(f):
    """Windows of windows: their results have the last moment of the window."""
    small = _keyed(f).window(_tumbling(f, 5)).reduce(lambda a, b: (a[0], a[1] + b[1]))
    large = small.key_by(lambda v: v[0]).window(_tumbling(f, 15)).process(_tell(f))
    return f.sorted(large)


def rows_in_windows(f):
    t = f.Types
    kind = t.ROW_NAMED(["user", "price", "at"], [t.STRING(), t.DOUBLE(), t.LONG()])
    rows = [
        f.Row("ann", 1.5, 3),
        f.Row("bob", 2.0, 4),
        f.Row("ann", 0.25, 8),
        f.Row("ann", 9.0, 12),
    ]
    stream = f.timed(f.env().from_collection(rows, kind), lambda r: r.at)

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            (row,) = elements
            yield f.Row(user=key, price=row.price, at=context.window().end)

    def add(a, b):
        return f.Row(a.user, a.price + b.price, max(a.at, b.at))

    windowed = stream.key_by(lambda r: r.user, t.STRING()).window(_tumbling(f))
    return {
        "reduced": f.collected(lambda: windowed.reduce(add)),
        "told": f.collected(lambda: windowed.reduce(add, Tell(), kind)),
        "kept": f.collected(lambda: windowed.reduce(add).map(lambda r: (r.user, r["price"]))),
    }


def windows_of_two_streams_together(f):
    env = f.env()
    left = f.pairs(("a", 1), ("b", 12), env=env).map(lambda v: ("left", *v))
    right = f.pairs(("a", 3), ("a", 15), env=env).map(lambda v: ("right", *v))

    class Pair(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            sides: dict[str, list[int]] = {"left": [], "right": []}
            for side, _, at in elements:
                sides[side].append(at)
            yield key, context.window().start, sorted(sides["left"]), sorted(sides["right"])

    both = f.timed(left.union(right), lambda v: v[2])
    return f.sorted(both.key_by(lambda v: v[1]).window(_tumbling(f)).process(Pair()))


def all_in_sessions_and_counts(f):
    class Tell(f.ProcessAllWindowFunction):
        def process(self, context, elements):
            yield [v[1] for v in elements]

    class Count(f.AllWindowFunction):
        def apply(self, window, inputs):
            yield window.start, len(list(inputs))

    return {
        "sessions": f.collect(_timed(f).window_all(_sessions(f, 4)).process(Tell())),
        "sliding": f.collect(_timed(f).window_all(_sliding(f, 20, 10)).apply(Count())),
        "reduced": f.collect(
            _timed(f).window_all(_tumbling(f, 20)).reduce(lambda a, b: (a[0] + b[0], b[1]))
        ),
    }


def windows_in_batch_mode(f):
    def keyed():
        stream = f.timed(f.pairs(*_CLICKS, env=f.batch_env()), lambda v: v[1])
        return stream.key_by(lambda v: v[0])

    def add(a, b):
        return a[0], a[1] + b[1]

    return {
        "tumbling": f.sorted(keyed().window(_tumbling(f)).process(_tell(f))),
        "tumbling reduced": f.sorted(keyed().window(_tumbling(f)).reduce(add)),
        "sliding": f.sorted(keyed().window(_sliding(f)).reduce(add)),
        "counts": f.sorted(keyed().count_window(2).reduce(add)),
    }


def windows_at_parallelism_3(f):
    env = f.env(3)
    pairs = f.pairs(*[(f"k{n % 5}", n) for n in range(40)], env=env)
    keyed = f.timed(pairs, lambda v: v[1]).key_by(lambda v: v[0], f.Types.STRING())
    return f.sorted(keyed.window(_tumbling(f)).reduce(lambda a, b: (a[0], a[1] + b[1])))


def windows_of_processing_time(f):
    class Count(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield key, window.end - window.start, window.start % 200, len(list(elements))

    env = f.paced_env()
    stream = f.paced(f.pairs(("a", 1), ("a", 2), env=env), 0.5)
    windows = f.TumblingProcessingTimeWindows.of(f.Time.milliseconds(200))
    counted = stream.key_by(lambda v: v[0]).window(windows).process(Count())
    last = f.pairs(("b", 9), env=env).map(lambda v: time.sleep(2) or v)
    return f.sorted(counted.union(last.filter(lambda v: False)))
