"""Connected, broadcast, united, split and partitioned streams as programs use them."""

from __future__ import annotations

from typing import Any


def _two(f: Any, parallelism: int = 1) -> tuple[Any, Any]:
    env = f.env(parallelism)
    return (
        f.pairs(("a", 1), ("b", 2), ("a", 3), env=env),
        f.pairs(("a", 10), ("c", 30), env=env),
    )


def control_of_words(f):
    """One input lists the words of the other to leave out; the order between them is undefined."""

    class Control(f.CoFlatMapFunction):
        def open(self, runtime_context):
            self.blocked = runtime_context.get_state(
                f.ValueStateDescriptor("blocked", f.Types.BOOLEAN())
            )

        def flat_map1(self, value):
            self.blocked.update(True)
            yield "block", value[0]

        def flat_map2(self, value):
            yield "word", value[0], value[1]

    left, right = _two(f)
    connected = left.key_by(lambda v: v[0]).connect(right.key_by(lambda v: v[0]))
    return f.sorted(connected.flat_map(Control()))


def a_co_map_to_one_type(f):
    class Number(f.CoMapFunction):
        def map1(self, value):
            return value[1] * 2

        def map2(self, value):
            return len(value)

    env = f.env()
    texts = env.from_collection(["x", "yyy"], f.Types.STRING())
    stream = f.pairs(("a", 4), env=env).connect(texts).map(Number(), f.Types.INT())
    return str(stream.get_type()), f.sorted(stream)


def enrichment_by_the_other_input(f):
    """Keyed state joins both inputs, whichever comes first."""

    class Enrich(f.KeyedCoProcessFunction):
        def open(self, runtime_context):
            t = f.Types
            self.name = runtime_context.get_state(f.ValueStateDescriptor("name", t.STRING()))
            self.waiting = runtime_context.get_list_state(f.ListStateDescriptor("waiting", t.INT()))

        def process_element1(self, value, ctx):
            if self.name.value() is None:
                self.waiting.add(value[1])
            else:
                yield self.name.value(), value[1]

        def process_element2(self, value, ctx):
            self.name.update(f"{ctx.get_current_key()}-{value[1]}")
            for waited in self.waiting.get():
                yield self.name.value(), waited
            self.waiting.clear()

    left, right = _two(f)
    connected = left.connect(right).key_by(lambda v: v[0], lambda v: v[0])
    return f.sorted(connected.process(Enrich()))


def keys_of_unlike_elements(f):
    class Tell(f.KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            yield "number", ctx.get_current_key(), value

        def process_element2(self, value, ctx):
            yield "text", ctx.get_current_key(), value

    env = f.env()
    numbers = f.ints(1, 2, 11, env=env).key_by(lambda v: v % 10, f.Types.INT())
    texts = env.from_collection(["x", "yy"], f.Types.STRING()).key_by(len, f.Types.INT())
    return f.sorted(numbers.connect(texts).process(Tell()))


def side_outputs_of_two_inputs(f):
    tag = f.OutputTag("second", f.Types.INT())

    class Split(f.CoProcessFunction):
        def process_element1(self, value, ctx):
            yield value

        def process_element2(self, value, ctx):
            yield tag, value[1]
            yield tag, -value[1]

    left, right = _two(f)
    split = left.connect(right).process(Split(), left.get_type())
    return f.collect_each({"main": split, "second": split.get_side_output(tag)})


def _rules(f: Any, env: Any, *rules: Any) -> Any:
    t = f.Types
    descriptor = f.MapStateDescriptor("rules", t.STRING(), t.INT())
    return f.pairs(*rules, env=env).broadcast(descriptor), descriptor


def thresholds_that_are_broadcast(f):
    """In BATCH mode the rules come first."""
    env = f.batch_env()
    rules, descriptor = _rules(f, env, ("a", 2), ("b", 5))

    class Above(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            limit = ctx.get_broadcast_state(descriptor).get(value[0])
            if limit is not None and value[1] > limit:
                yield value[0], value[1], limit

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(descriptor).put(value[0], value[1])

    data = f.pairs(("a", 1), ("a", 3), ("b", 6), ("c", 9), env=env)
    return f.sorted(data.connect(rules).process(Above()))


def counts_by_keys_and_rules(f):
    env = f.batch_env()
    rules, descriptor = _rules(f, env, ("a", 2), ("a", 3), ("b", 1))

    class Count(f.KeyedBroadcastProcessFunction):
        def open(self, runtime_context):
            self.n = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def process_element(self, value, ctx):
            self.n.update((self.n.value() or 0) + 1)
            rules = ctx.get_broadcast_state(descriptor)
            yield ctx.get_current_key(), self.n.value(), rules.get(value[0]), sorted(rules.keys())

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(descriptor)
            state.put(value[0], max(value[1], state.get(value[0]) or 0))

    data = f.pairs(("a", 1), ("a", 3), ("b", 6), ("c", 9), env=env).key_by(lambda v: v[0])
    return f.sorted(data.connect(rules).process(Count()))


def rules_that_are_told_as_well(f):
    env = f.env()
    rules, descriptor = _rules(f, env, ("a", 2), ("b", 5))

    class Tell(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(descriptor)
            state.put(*value)
            yield sorted(state.items()), state.contains("b"), state.is_empty()
            if value[0] == "b":
                state.remove("a")
                yield sorted(state.items()), len(list(state.values()))
                state.clear()
                yield state.is_empty()

    return f.collect(f.pairs(("x", 1), env=env).connect(rules).process(Tell()))


def rules_at_parallelism_3(f):
    env = f.env(3)
    rules, _ = _rules(f, env, ("a", 2), ("b", 5))

    class Each(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            yield value

    return f.sorted(f.pairs(("x", 1), ("y", 2), env=env).connect(rules).process(Each()))


def timers_beside_a_broadcast(f):
    env = f.batch_env()
    rules, descriptor = _rules(f, env, ("a", 7))

    class Late(f.KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value[1] + 100)
            return []

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(descriptor).put(*value)

        def on_timer(self, timestamp, ctx):
            found = ctx.get_broadcast_state(descriptor).get("a")
            yield ctx.get_current_key(), timestamp, found

    timed = f.timed(f.pairs(("a", 1), ("b", 2), env=env), lambda v: v[1])
    return f.sorted(timed.key_by(lambda v: v[0]).connect(rules).process(Late()))


def a_union_of_what_was_mapped(f):
    left, right = _two(f)
    third = left.map(lambda v: (v[0] * 2, v[1]), left.get_type())
    united = left.union(right, third)
    return str(united.get_type()), f.sorted(united)


def a_union_of_a_stream_and_its_filtered_self(f):
    left, _ = _two(f)
    return f.sorted(left.union(left.filter(lambda v: v[1] > 1)).map(lambda v: v[1]))


def a_split_by_two_side_outputs(f):
    t = f.Types
    even, large = f.OutputTag("even", t.INT()), f.OutputTag("large", t.STRING())

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            if value % 2 == 0:
                yield even, value
            if value > 3:
                yield large, f"{value}!"
            yield value

    split = f.ints(*range(7)).process(Split(), t.INT())
    return f.collect_each(
        {
            "main": split.map(lambda v: v * 10, t.INT()),
            "even": split.get_side_output(even).filter(lambda v: v > 0),
            "large": split.get_side_output(large).map(lambda v: v + "?", t.STRING()),
        }
    )


def a_side_output_that_is_keyed_and_windowed(f):
    t = f.Types
    tag = f.OutputTag("odd", t.TUPLE([t.STRING(), t.INT()]))

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            if value[1] % 2:
                yield tag, value
            else:
                yield value

    timed = f.timed(f.pairs(*[("ab"[n % 3 % 2], n) for n in range(20)]), lambda v: v[1])
    split = timed.process(Split(), timed.get_type())
    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(10))
    odd = split.get_side_output(tag).key_by(lambda v: v[0]).window(windows)
    return f.collect_each(
        {
            "even": split.key_by(lambda v: v[0]).sum(1),
            "odd": odd.reduce(lambda a, b: (a[0], a[1] + b[1])),
        }
    )


def side_outputs_of_side_outputs(f):
    t = f.Types
    first, second = f.OutputTag("first", t.INT()), f.OutputTag("second", t.INT())

    class Split(f.ProcessFunction):
        def __init__(self, tag, limit):
            self.tag, self.limit = tag, limit

        def process_element(self, value, ctx):
            if value >= self.limit:
                yield self.tag, value
            else:
                yield value

    one = f.ints(*range(9)).process(Split(first, 3), t.INT())
    two = one.get_side_output(first).process(Split(second, 6), t.INT())
    return f.collect_each({"one": one, "two": two, "three": two.get_side_output(second)})


def partitioned_by_a_function(f):
    class Where(f.MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return value[1], self.index

    pairs = f.pairs(*[("k", n) for n in range(8)], env=f.env(3))
    kept = pairs.map(lambda v: v, pairs.get_type()).set_parallelism(3)
    placed = kept.partition_custom(lambda key, n: key % n, lambda v: v[1])
    return f.sorted(placed.map(Where()).set_parallelism(3))


def partitioned_in_every_way(f):
    def counted(partition):
        stream = f.ints(*range(12), env=f.env(2)).map(lambda v: v + 1, f.Types.INT())
        return f.sorted(partition(stream).map(lambda v: v * 2, f.Types.INT()))

    return {
        "rebalance": counted(lambda s: s.rebalance()),
        "rescale": counted(lambda s: s.rescale()),
        "shuffle": counted(lambda s: s.shuffle()),
        "forward": counted(lambda s: s.forward()),
        "broadcast": counted(lambda s: s.broadcast()),
    }


def keys_at_every_parallelism(f):
    def summed(parallelism):
        env = f.env(parallelism)
        pairs = f.pairs(*[(f"k{n % 9}", n) for n in range(50)], env=env)
        keyed = pairs.rebalance().map(lambda v: v, pairs.get_type()).key_by(lambda v: v[0])
        final = {}
        for text in f.collect(keyed.sum(1)):
            name, total = text[2:4], int(text.split(",")[1])
            final[name] = max(final.get(name, 0), total)
        return sorted(final.items())

    return [summed(parallelism) for parallelism in (1, 2, 4)]


def a_diamond_of_keyed_streams(f):
    left, _ = _two(f)
    keyed = left.key_by(lambda v: v[0])
    sums = keyed.sum(1).map(lambda v: ("sum", *v))
    most = keyed.max(1).map(lambda v: ("max", *v))
    return f.sorted(sums.union(most))


def async_calls_in_a_pipeline(f):
    class Ask(f.AsyncFunction):
        async def async_invoke(self, value):
            return [(value[0], value[1] + 1), (value[0], -value[1])]

        def timeout(self, value):
            return []

    t = f.Types
    left, _ = _two(f)
    asked = f.AsyncDataStream.unordered_wait(
        left, Ask(), f.Time.seconds(20), 10, t.TUPLE([t.STRING(), t.INT()])
    )
    return f.collect(asked.key_by(lambda v: v[0]).sum(1).filter(lambda v: v[0] == "b"))


def reductions_of_every_kind(f):
    def rows(f):
        t = f.Types
        kind = t.ROW_NAMED(["k", "a", "b"], [t.STRING(), t.INT(), t.DOUBLE()])
        given = [f.Row("x", 3, 0.5), f.Row("y", 1, 9.0), f.Row("x", 1, 2.5), f.Row("x", 1, 0.25)]
        return f.env().from_collection(given, kind).key_by(lambda r: r.k, t.STRING())

    return {
        method: [f.collect(getattr(rows(f), method)(field)) for field in ("a", "b")]
        for method in ("sum", "min", "max", "min_by", "max_by")
    }


def reductions_of_tuples_by_position(f):
    t = f.Types
    kind = t.TUPLE([t.STRING(), t.LONG(), t.DOUBLE()])
    given = [("a", 1, 2.0), ("b", 9, 0.5), ("a", 5, 1.0), ("a", 5, -1.0), ("b", -(2**40), 0.5)]

    def keyed():
        return f.env().from_collection(given, kind).key_by(lambda v: v[0], t.STRING())

    return {
        method: [f.collect(getattr(keyed(), method)(field)) for field in (1, 2)]
        for method in ("sum", "min", "max", "min_by", "max_by")
    }


def reductions_in_batch_mode(f):
    env = f.batch_env()
    keyed = f.pairs(("a", 1), ("b", 5), ("a", 4), ("b", -1), env=env).key_by(lambda v: v[0])
    return {
        "sum": f.sorted(keyed.sum(1)),
        "max_by": f.sorted(keyed.max_by(1)),
        "reduce": f.sorted(keyed.reduce(lambda a, b: (a[0], a[1] * 10 + b[1]))),
    }
