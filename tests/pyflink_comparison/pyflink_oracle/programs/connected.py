"""Two streams: connect, broadcast and union."""

from __future__ import annotations

from typing import Any


def co_map(f):
    class Both(f.CoMapFunction):
        def map1(self, value):
            return ("one", value)

        def map2(self, value):
            return None if value == "y" else ("two", value)

    env = f.env()
    texts = env.from_collection(["x", "y"], f.Types.STRING())
    return f.sorted(f.ints(1, 2, env=env).connect(texts).map(Both()))


def co_map_typed(f):
    class Both(f.CoMapFunction):
        def map1(self, value):
            return str(value)

        def map2(self, value):
            return value

    env = f.env()
    texts = env.from_collection(["x"], f.Types.STRING())
    return f.sorted(f.ints(1, env=env).connect(texts).map(Both(), f.Types.STRING()))


def co_flat_map(f):
    class Both(f.CoFlatMapFunction):
        def flat_map1(self, value):
            yield from range(value)

        def flat_map2(self, value):
            return [value, value]

    env = f.env()
    texts = env.from_collection(["x"], f.Types.STRING())
    return f.sorted(f.ints(1, 2, env=env).connect(texts).flat_map(Both()))


def co_flat_map_that_gives_none(f):
    class Both(f.CoFlatMapFunction):
        def flat_map1(self, value):
            return None

        def flat_map2(self, value):
            yield None

    env = f.env()
    return f.collected(lambda: f.ints(1, env=env).connect(f.ints(2, env=env)).flat_map(Both()))


def co_map_of_keys_shares_state(f):
    class Both(f.CoMapFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def _add(self, n):
            self.state.update((self.state.value() or 0) + n)
            return self.state.value() % 1  # the order of the two inputs is not defined

        def map1(self, value):
            return ("one", value[0], self._add(value[1]))

        def map2(self, value):
            return ("two", value[0], self._add(value[1]))

    env = f.env()
    a = f.pairs(("a", 1), ("b", 2), env=env).key_by(lambda v: v[0], f.Types.STRING())
    b = f.pairs(("a", 3), env=env).key_by(lambda v: v[0], f.Types.STRING())
    return f.sorted(a.connect(b).map(Both()))


def co_process_of_keys(f):
    class Both(f.KeyedCoProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_list_state(f.ListStateDescriptor("l", f.Types.INT()))

        def process_element1(self, value, ctx):
            self.state.add(value[1])
            ctx.timer_service().register_event_time_timer(1000)
            return []

        def process_element2(self, value, ctx):
            self.state.add(-value[1])
            return []

        def on_timer(self, timestamp, ctx):
            yield (ctx.get_current_key(), timestamp, sorted(self.state.get()))

    env = f.env()
    a = f.timed(f.pairs(("a", 1), ("b", 2), ("a", 3), env=env), lambda v: v[1])
    b = f.timed(f.pairs(("a", 5), ("c", 6), env=env), lambda v: v[1])
    first, second = (s.key_by(lambda v: v[0], f.Types.STRING()) for s in (a, b))
    return f.sorted(first.connect(second).process(Both()))


def co_process_without_keys(f):
    tag = f.OutputTag("second", f.Types.INT())

    class Both(f.CoProcessFunction):
        def process_element1(self, value, ctx):
            yield ("one", value, ctx.timestamp())

        def process_element2(self, value, ctx):
            yield tag, value

    env = f.env()
    main = f.timed(f.ints(1, 2, env=env), lambda v: v).connect(f.ints(3, env=env)).process(Both())
    return f.collected(lambda: main), f.collected(lambda: main.get_side_output(tag))


def connect_of_a_stream_with_itself(f):
    class Both(f.CoMapFunction):
        def map1(self, value):
            return ("one", value)

        def map2(self, value):
            return ("two", value)

    stream = f.ints(1, 2)
    return f.sorted(stream.connect(stream).map(Both()))


def half_keyed_connect_fails(f):
    class Both(f.CoMapFunction):
        def map1(self, value):
            return value

        def map2(self, value):
            return value

    env = f.env()
    keyed = f.ints(1, env=env).key_by(lambda v: v)
    return f.collected(lambda: keyed.connect(f.ints(2, env=env)).map(Both()))


def keyed_afterwards(f):
    class Both(f.CoProcessFunction):
        def process_element1(self, value, ctx):
            yield ("one", value[0])

        def process_element2(self, value, ctx):
            yield ("two", value)

    env = f.env()
    connected = f.pairs(("a", 1), env=env).connect(f.ints(3, env=env))
    keyed = connected.key_by(lambda v: v[0], lambda v: str(v), f.Types.STRING())
    return f.collected(lambda: keyed.process(Both()))


def _rules(f: Any) -> Any:
    return f.MapStateDescriptor("rules", f.Types.STRING(), f.Types.INT())


def broadcast_state(f):
    rules = _rules(f)

    class Use(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield ("element", value)

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(rules)
            state.put(value[0], value[1])
            yield ("broadcast", sorted(state.items()), value[0] in state)

    env = f.env()
    ruled = f.pairs(("a", 1), ("b", 2), ("a", 3), env=env).broadcast(rules)
    return f.sorted(f.ints(1, 2, env=env).connect(ruled).process(Use()))


def broadcast_state_is_read_only_for_elements(f):
    rules = _rules(f)

    class Use(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(rules).put("x", 1)
            yield value

        def process_broadcast_element(self, value, ctx):
            return []

    env = f.env()
    ruled = f.pairs(("a", 1), env=env).broadcast(rules)
    return f.collected(lambda: f.ints(1, env=env).connect(ruled).process(Use()))


def broadcast_state_of_keys(f):
    rules = _rules(f)

    class Use(f.KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def process_element(self, value, ctx):
            self.state.update((self.state.value() or 0) + value[1])
            ctx.timer_service().register_event_time_timer(50)
            yield (ctx.get_current_key(), self.state.value())

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(rules).put(value[0], value[1])
            return []

        def on_timer(self, timestamp, ctx):
            state = ctx.get_broadcast_state(rules)
            yield ("timer", ctx.get_current_key(), state.get("a"), self.state.value())

    env = f.env()
    ruled = f.timed(f.pairs(("a", 1), ("a", 7), env=env), lambda v: v[1]).broadcast(rules)
    keyed = f.timed(f.pairs(("x", 2), ("y", 3), ("x", 4), env=env), lambda v: v[1])
    joined = keyed.key_by(lambda v: v[0], f.Types.STRING()).connect(ruled)
    return f.sorted(joined.process(Use()))


def broadcast_at_parallelism_2(f):
    rules = _rules(f)

    class Use(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            yield value

    env = f.env(2)
    ruled = f.pairs(("a", 1), ("b", 2), env=env).broadcast(rules)
    return f.sorted(f.ints(1, 2, env=env).rebalance().connect(ruled).process(Use()))


def broadcast_with_two_descriptors(f):
    rules = _rules(f)
    names = f.MapStateDescriptor("names", f.Types.INT(), f.Types.STRING())

    class Use(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(rules).put(value[0], value[1])
            ctx.get_broadcast_state(names).put(value[1], value[0])
            yield (
                sorted(ctx.get_broadcast_state(rules).keys()),
                sorted(ctx.get_broadcast_state(names).values()),
            )

    env = f.env()
    ruled = f.pairs(("a", 1), ("b", 2), env=env).broadcast(rules, names)
    return f.sorted(f.ints(1, env=env).connect(ruled).process(Use()))


def broadcast_state_that_was_not_named(f):
    rules = _rules(f)
    other = f.MapStateDescriptor("other", f.Types.INT(), f.Types.STRING())

    class Use(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(other).put(1, "x")
            yield value

    env = f.env()
    ruled = f.pairs(("a", 1), env=env).broadcast(rules)
    return f.collected(lambda: f.ints(1, env=env).connect(ruled).process(Use()))


def union_of_three(f):
    env = f.env()
    return f.sorted(f.ints(1, env=env).union(f.ints(2, env=env), f.ints(3, 4, env=env)))


def union_with_itself(f):
    stream = f.ints(1, 2).map(lambda v: v + 1, f.Types.INT())
    return f.sorted(stream.union(stream))


def union_of_two_types_fails(f):
    env = f.env()
    texts = env.from_collection(["a"], f.Types.STRING())
    return f.collected(lambda: f.ints(1, env=env).union(texts))


def union_of_typed_and_untyped(f):
    env = f.env()
    return f.collected(lambda: f.ints(1, env=env).union(env.from_collection(["a"])))


def union_then_window(f):
    env = f.env()
    a = f.timed(f.pairs(("a", 1), ("a", 1500), env=env), lambda v: v[1])
    b = f.timed(f.pairs(("a", 3), ("b", 4), env=env), lambda v: v[1])
    keyed = a.union(b).key_by(lambda v: v[0], f.Types.STRING())
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.sorted(keyed.window(windows).reduce(lambda x, y: (x[0], x[1] + y[1])))


def union_then_reduce_at_parallelism_2(f):
    env = f.env(2)
    union = f.ints(1, 2, 3, env=env).union(f.ints(1, 2, env=env))
    keyed = union.map(lambda v: (v, 1)).key_by(lambda v: v[0])
    return f.sorted(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])))


def diamond(f):
    stream = f.ints(1, 2, 3).map(lambda v: v * 10, f.Types.INT())
    odd = stream.filter(lambda v: v % 20).map(lambda v: ("odd", v))
    even = stream.filter(lambda v: not v % 20).map(lambda v: ("even", v))
    return f.sorted(odd.union(even).map(lambda v: v[1]))
