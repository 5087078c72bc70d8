"""Timers as programs use them: time-outs, repeated work, and scheduled output."""

from __future__ import annotations

from typing import Any

_EVENTS = (("a", 10), ("b", 20), ("a", 30), ("a", 95), ("b", 130))


def _keyed(f: Any, data: Any = _EVENTS, late_ms: int = 100_000) -> Any:
    return f.timed(f.pairs(*data), lambda v: v[1], late_ms).key_by(lambda v: v[0], f.Types.STRING())


def users_that_are_inactive(f):
    """Each record postpones the timer."""

    class Inactive(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.due = runtime_context.get_state(f.ValueStateDescriptor("due", f.Types.LONG()))

        def process_element(self, value, ctx):
            due = self.due.value()
            if due is not None:
                ctx.timer_service().delete_event_time_timer(due)
            self.due.update(ctx.timestamp() + 50)
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 50)
            return []

        def on_timer(self, timestamp, ctx):
            self.due.clear()
            yield ctx.get_current_key(), timestamp

    return {
        "at the end": f.sorted(_keyed(f).process(Inactive())),
        "in between": f.sorted(f.paced_pairs(_EVENTS).key_by(lambda v: v[0]).process(Inactive())),
    }


def elements_in_the_order_of_their_time(f):
    class Order(f.KeyedProcessFunction):
        def open(self, runtime_context):
            t = f.Types
            self.kept = runtime_context.get_map_state(
                f.MapStateDescriptor("kept", t.LONG(), t.LIST(t.INT()))
            )

        def process_element(self, value, ctx):
            at = ctx.timestamp()
            self.kept.put(at, [*(self.kept.get(at) or []), value[1]])
            ctx.timer_service().register_event_time_timer(at)
            return []

        def on_timer(self, timestamp, ctx):
            for value in self.kept.get(timestamp):
                yield timestamp, value
            self.kept.remove(timestamp)

    data = [("a", n) for n in (30, 10, 20, 10, 5)]
    return f.collect(_keyed(f, data).process(Order()))


def what_on_timer_is_told(f):
    class Tell(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 5)
            service = ctx.timer_service()
            yield value[0], ctx.timestamp(), ctx.get_current_key(), service.current_watermark()

        def on_timer(self, timestamp, ctx):
            yield (
                ctx.get_current_key(),
                timestamp,
                ctx.timestamp(),
                str(ctx.time_domain()),
                ctx.timer_service().current_watermark() >= timestamp,
            )

    return f.sorted(_keyed(f).process(Tell()))


def timers_of_one_moment_are_one(f):
    class Once(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            for _ in range(3):
                ctx.timer_service().register_event_time_timer(200)
            return []

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp

    return f.sorted(_keyed(f).process(Once()))


def work_that_is_repeated(f):
    class Repeat(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value[1] == 10:
                ctx.timer_service().register_event_time_timer(20)
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp
            if timestamp < 80:
                ctx.timer_service().register_event_time_timer(timestamp + 20)

    return f.collect(_keyed(f, _EVENTS[:1]).process(Repeat()))


def timers_in_the_past_fire_with_the_next_watermark(f):
    class Past(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1)
            yield value[1], "element"

        def on_timer(self, timestamp, ctx):
            yield timestamp, "timer"

    return f.collect(f.paced_pairs([("a", 10), ("a", 50)]).key_by(lambda v: v[0]).process(Past()))


def timers_to_the_side(f):
    tag = f.OutputTag("due", f.Types.STRING())

    class Split(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1])
            yield value[1]
            if value[1] > 90:
                yield tag, f"large {value[1]}"

        def on_timer(self, timestamp, ctx):
            yield tag, f"{ctx.get_current_key()} {timestamp}"

    told = _keyed(f).process(Split(), f.Types.INT())
    return f.collect_each({"main": told, "due": told.get_side_output(tag)})


def moments_of_what_timers_give(f):
    class Give(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 1000)
            yield "element", value[1]

        def on_timer(self, timestamp, ctx):
            yield "timer", timestamp

    class Moment(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield *value, ctx.timestamp()

    return f.sorted(_keyed(f).process(Give()).process(Moment()))


def timers_that_are_deleted_by_a_later_element(f):
    class Cancel(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            if value[1] % 20 == 10:
                ctx.timer_service().register_event_time_timer(500)
            else:
                ctx.timer_service().delete_event_time_timer(500)
            return []

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), timestamp

    return f.sorted(_keyed(f, [("a", 10), ("a", 20), ("b", 30), ("c", 40)]).process(Cancel()))


def timers_of_processing_time(f):
    class Soon(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            now = ctx.timer_service().current_processing_time()
            ctx.timer_service().register_processing_time_timer(now + 100)
            yield value[0], "element"

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), str(ctx.time_domain())

    stream = f.paced_pairs([("a", 1), ("b", 2), ("z", 3)], 0.5)
    return f.collect(stream.key_by(lambda v: v[0]).process(Soon()))[:4]


def timers_of_both_times(f):
    class Both(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            service = ctx.timer_service()
            service.register_event_time_timer(value[1] + 1)
            service.register_processing_time_timer(service.current_processing_time() + 50)
            return []

        def on_timer(self, timestamp, ctx):
            yield str(ctx.time_domain()), timestamp < 1_000_000

    stream = f.paced_pairs([("a", 1), ("a", 50), ("a", 90)], 0.4)
    return f.sorted(stream.key_by(lambda v: v[0]).process(Both()).map(str))[:4]


def batches_of_three_or_after_a_while(f):
    class Batch(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.kept = runtime_context.get_list_state(f.ListStateDescriptor("kept", f.Types.INT()))
            self.due = runtime_context.get_state(f.ValueStateDescriptor("due", f.Types.LONG()))

        def flush(self, why):
            kept = list(self.kept.get())
            self.kept.clear()
            self.due.clear()
            return why, kept

        def process_element(self, value, ctx):
            self.kept.add(value[1])
            if self.due.value() is None:
                self.due.update(ctx.timestamp() + 60)
                ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60)
            if len(list(self.kept.get())) == 3:
                ctx.timer_service().delete_event_time_timer(self.due.value())
                yield self.flush("full")

        def on_timer(self, timestamp, ctx):
            yield self.flush(timestamp)

    data = [("a", n) for n in (1, 5, 9, 20, 30, 100, 110)]
    return {
        "at the end": f.collect(_keyed(f, data).process(Batch())),
        "in between": f.collect(f.paced_pairs(data).key_by(lambda v: v[0]).process(Batch())),
    }


def heartbeats_of_sensors(f):
    """Two moments of each key: a warning, then an alarm."""

    class Watch(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.last = runtime_context.get_state(f.ValueStateDescriptor("last", f.Types.LONG()))

        def process_element(self, value, ctx):
            self.last.update(ctx.timestamp())
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 20)
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 40)
            return []

        def on_timer(self, timestamp, ctx):
            silent = timestamp - self.last.value()
            if silent >= 20:
                yield ctx.get_current_key(), "alarm" if silent >= 40 else "warning", timestamp

    return f.sorted(f.paced_pairs(_EVENTS).key_by(lambda v: v[0]).process(Watch()))


def watermarks_that_functions_see(f):
    class See(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value[1], ctx.timestamp(), ctx.timer_service().current_watermark()

    return f.collect(f.paced_pairs([("a", 10), ("a", 5), ("a", 30), ("a", 31)]).process(See()))


def watermarks_of_a_bound(f):
    class See(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timer_service().current_watermark()

    stream = f.paced(f.ints(10, 50, 20, 90, env=f.paced_env()))
    return {
        bound: f.collect(f.timed(stream, lambda v: v, bound).process(See())) for bound in (0, 30)
    }


def watermarks_of_a_union_are_the_least(f):
    env = f.paced_env()

    class See(f.ProcessFunction):
        def process_element(self, value, ctx):
            watermark = ctx.timer_service().current_watermark()
            yield value, watermark if watermark < 2**62 else "end"

    slow = f.timed(f.paced(f.ints(*[5] * 8, env=env)), lambda v: v, 0)
    fast = f.timed(f.paced(f.ints(100, 200, env=env)), lambda v: v, 0)
    seen = slow.union(fast).process(See())
    return sorted(set(f.collect(seen.filter(lambda v: v[0] == 5).map(lambda v: v[1] <= 4))))


def watermarks_that_are_assigned_again(f):
    class Moment(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value[1], ctx.timestamp()

    first = f.timed(f.pairs(*_EVENTS), lambda v: v[1])
    again = f.timed(first.map(lambda v: v), lambda v: v[1] * 2)
    none = first.assign_timestamps_and_watermarks(f.WatermarkStrategy.no_watermarks())
    return {
        "first": f.collect(first.process(Moment())),
        "again": f.collect(again.process(Moment())),
        "none": f.collect(none.process(Moment())),
    }


def timestamps_of_what_was_before(f):
    """A second assigner gets the first one's timestamps."""

    class Later(f.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return record_timestamp + 7

    class Moment(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value[1], ctx.timestamp()

    strategy = f.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Later())
    first = f.timed(f.pairs(*_EVENTS), lambda v: v[1])
    return f.collect(first.assign_timestamps_and_watermarks(strategy).process(Moment()))


def timestamps_behind_every_function(f):
    class Moment(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    first = f.timed(f.pairs(*_EVENTS), lambda v: v[1])
    keyed = first.key_by(lambda v: v[0])
    streams = {
        "map": first.map(lambda v: v[1]),
        "filter": first.filter(lambda v: v[1] > 20),
        "flat_map": first.flat_map(lambda v: [v[1], -v[1]]),
        "reduce": keyed.reduce(lambda a, b: (b[0], a[1] + b[1])),
        "sum": keyed.sum(1),
        "rebalance": first.rebalance().map(lambda v: v[0]),
    }
    return {name: f.sorted(stream.process(Moment())) for name, stream in streams.items()}


def two_inputs_wait_for_each_other(f):
    class Match(f.KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.order = runtime_context.get_state(f.ValueStateDescriptor("o", f.Types.INT()))
            self.paid = runtime_context.get_state(f.ValueStateDescriptor("p", f.Types.INT()))

        def process_element1(self, value, ctx):
            if self.paid.value() is not None:
                yield f"paid {value[0]}"
                self.paid.clear()
            else:
                self.order.update(value[1])
                ctx.timer_service().register_event_time_timer(value[1] + 100)

        def process_element2(self, value, ctx):
            if self.order.value() is not None:
                yield f"paid {value[0]}"
                self.order.clear()
            else:
                self.paid.update(value[1])
                ctx.timer_service().register_event_time_timer(value[1] + 100)

        def on_timer(self, timestamp, ctx):
            for name, state in (("order", self.order), ("payment", self.paid)):
                if state.value() is not None:
                    yield f"{name} of {ctx.get_current_key()} at {timestamp}"
                    state.clear()

    env = f.env()
    orders = f.timed(f.pairs(("a", 10), ("b", 20), ("c", 30), env=env), lambda v: v[1])
    paid = f.timed(f.pairs(("a", 15), ("d", 40), env=env), lambda v: v[1])
    keyed = orders.key_by(lambda v: v[0]).connect(paid.key_by(lambda v: v[0]))
    return f.sorted(keyed.process(Match()))


def timers_at_parallelism_4(f):
    class Sum(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.sum = runtime_context.get_state(f.ValueStateDescriptor("sum", f.Types.INT()))

        def process_element(self, value, ctx):
            self.sum.update((self.sum.value() or 0) + value[1])
            ctx.timer_service().register_event_time_timer(10_000)
            return []

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), self.sum.value()

    env = f.env(4)
    pairs = f.pairs(*[(f"k{n % 7}", n) for n in range(60)], env=env)
    keyed = f.timed(pairs, lambda v: v[1]).key_by(lambda v: v[0], f.Types.STRING())
    return f.sorted(keyed.process(Sum()))


def timers_in_batch_mode(f):
    class Last(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.last = runtime_context.get_state(f.ValueStateDescriptor("last", f.Types.INT()))

        def process_element(self, value, ctx):
            self.last.update(value[1])
            ctx.timer_service().register_event_time_timer(2**62)
            return []

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), self.last.value()

    env = f.batch_env()
    keyed = f.timed(f.pairs(*_EVENTS, env=env), lambda v: v[1]).key_by(lambda v: v[0])
    return f.sorted(keyed.process(Last()))
