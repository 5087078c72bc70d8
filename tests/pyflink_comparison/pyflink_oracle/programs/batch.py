"""Programs in BATCH mode: the order and the content of their output."""

from __future__ import annotations

import asyncio


def _factor(f, keyed=False):
    """Return a function that multiplies by the last broadcast value, and its descriptor."""
    descriptor = f.MapStateDescriptor("factor", f.Types.STRING(), f.Types.INT())
    kind = f.KeyedBroadcastProcessFunction if keyed else f.BroadcastProcessFunction

    class Times(kind):
        def process_element(self, value, ctx):
            yield value * (ctx.get_broadcast_state(descriptor).get("factor") or 1)

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(descriptor).put("factor", value)

    return descriptor, Times()


def broadcast_comes_first(f):
    """The records are ready long before the last broadcast one."""
    env = f.batch_env()
    descriptor, times = _factor(f)
    factors = f.ints(7, 8, 10, env=env).map(lambda v: v * 10, f.Types.INT()).broadcast(descriptor)
    return f.collect(f.ints(3, 1, 2, env=env).connect(factors).process(times, f.Types.INT()))


def broadcast_of_a_reduced_stream_comes_first(f):
    """The broadcast stream is a result: the last value of each key."""
    env = f.batch_env(2)
    descriptor, times = _factor(f)
    total = f.ints(1, 2, 3, env=env).key_by(lambda v: 0, f.Types.INT()).sum()
    elements = f.ints(*range(10), env=env).rebalance().map(lambda v: v, f.Types.INT())
    return f.sorted(elements.connect(total.broadcast(descriptor)).process(times, f.Types.INT()))


def broadcast_comes_before_keyed_elements(f):
    env = f.batch_env()
    descriptor, times = _factor(f, keyed=True)
    keyed = f.ints(3, 1, 2, env=env).key_by(lambda v: v % 2, f.Types.INT())
    broadcast = f.ints(10, 20, env=env).broadcast(descriptor)
    return f.sorted(keyed.connect(broadcast).process(times, f.Types.INT()))


def broadcast_of_nothing(f):
    env = f.batch_env()
    descriptor, times = _factor(f)
    nothing = f.ints(1, env=env).filter(lambda v: False).broadcast(descriptor)
    return f.collect(f.ints(3, 1, env=env).connect(nothing).process(times, f.Types.INT()))


def elements_beside_a_broadcast_keep_their_times(f):
    env = f.batch_env()
    descriptor = f.MapStateDescriptor("seen", f.Types.INT(), f.Types.LONG())

    class Tell(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            seen = sorted(ctx.get_broadcast_state(descriptor).items())
            yield f"{value} at {ctx.timestamp()} beside {seen}"

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(descriptor).put(value, ctx.timestamp())

    elements = f.timed(f.ints(5, 1, 3, env=env), lambda v: v * 10)
    broadcast = f.timed(f.ints(7, 6, env=env), lambda v: v * 100).broadcast(descriptor)
    return f.collect(elements.connect(broadcast).process(Tell(), f.Types.STRING()))


def windows_of_what_stood_beside_a_broadcast(f):
    env = f.batch_env()
    descriptor, times = _factor(f)
    elements = f.timed(f.ints(25, 1, 12, 5, env=env), lambda v: v)
    scaled = elements.connect(f.ints(2, env=env).broadcast(descriptor)).process(
        times, f.Types.INT()
    )
    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(10))
    keyed = scaled.key_by(lambda v: 0, f.Types.INT())
    return f.collect(keyed.window(windows).reduce(lambda a, b: a + b))


def async_keeps_the_order(f):
    env = f.batch_env()

    class Wait(f.AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.sleep(0.01 * (5 - value))
            return [value, -value]

    waited = f.AsyncDataStream.ordered_wait(
        f.ints(1, 2, 3, env=env), Wait(), f.Time.seconds(10), 2, f.Types.INT()
    )
    return f.collect(waited)


def count_windows_of_keys(f):
    env = f.batch_env()
    pairs = f.pairs(("a", 3), ("a", 1), ("b", 1), ("a", 5), ("a", 7), env=env)
    keyed = pairs.key_by(lambda v: v[0], f.Types.STRING())
    return f.sorted(keyed.count_window(2).reduce(lambda a, b: (a[0], a[1] + b[1])))


def timers_of_both_times_fire_when_a_key_ends(f):
    """No clock reaches those of processing time; they fire after those of event time."""
    env = f.batch_env()

    class Later(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            timers = ctx.timer_service()
            timers.register_processing_time_timer(2**60)
            timers.register_event_time_timer(7)
            timers.register_event_time_timer(3)
            timers.register_processing_time_timer(2**59)
            yield str(value)

        def on_timer(self, timestamp, ctx):
            yield f"{ctx.get_current_key()} {ctx.time_domain().name} {timestamp}"

    keyed = f.ints(1, 1, env=env).key_by(lambda v: v, f.Types.INT())
    return f.collect(keyed.process(Later(), f.Types.STRING()))
