"""Several parts of the API in one program, as users put them together."""

from __future__ import annotations

from typing import Any

_TIMED = (("a", 1), ("a", 5), ("b", 7), ("a", 15), ("b", 12))


def _windowed(f: Any, assigner: Any) -> Any:
    timed = f.timed(f.pairs(*_TIMED), lambda v: v[1])
    return timed.key_by(lambda v: v[0], f.Types.STRING()).window(assigner)


def _ten_ms(f: Any) -> Any:
    return f.TumblingEventTimeWindows.of(f.Time.milliseconds(10))


def counts_to_the_side_of_sums(f):
    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.INT()])
    tag = f.OutputTag("counts", kind)

    class Sum(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            values = [v[1] for v in elements]
            yield tag, (key, len(values))
            yield key, sum(values)

    sums = _windowed(f, _ten_ms(f)).process(Sum(), kind)
    return f.collect_each({"counts": sums.get_side_output(tag), "sums": sums})


def keyed_co_map_with_state(f):
    class Join(f.CoMapFunction):
        def open(self, ctx):
            self.total = ctx.get_state(f.ValueStateDescriptor("total", f.Types.INT()))

        def map1(self, value):
            self.total.update((self.total.value() or 0) + value[1])
            return ("left", value[0], self.total.value())

        def map2(self, value):
            return ("right", value, (self.total.value() or 0) >= 0)

    env = f.env()
    left = f.pairs(("a", 1), ("b", 2), ("a", 3), env=env).key_by(lambda v: v[0], f.Types.STRING())
    right = env.from_collection(["a", "c"], f.Types.STRING())
    return f.sorted(left.connect(right.key_by(lambda v: v, f.Types.STRING())).map(Join()))


def join_of_two_streams_within_a_span(f):
    class Join(f.KeyedCoProcessFunction):
        def open(self, ctx):
            kinds = f.Types.LONG(), f.Types.STRING()
            self.left = ctx.get_map_state(f.MapStateDescriptor("left", *kinds))
            self.right = ctx.get_map_state(f.MapStateDescriptor("right", *kinds))

        def process_element1(self, value, ctx):
            self.left.put(value[1], value[2])
            for at, other in self.right.items():
                if abs(at - value[1]) <= 5:
                    yield (value[0], value[2], other)

        def process_element2(self, value, ctx):
            self.right.put(value[1], value[2])
            for at, other in self.left.items():
                if abs(at - value[1]) <= 5:
                    yield (value[0], other, value[2])

    env = f.env()
    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.LONG(), f.Types.STRING()])
    left = env.from_collection([("k", 1, "a"), ("k", 10, "b"), ("j", 3, "c")], kind)
    right = env.from_collection([("k", 4, "x"), ("j", 9, "y"), ("k", 13, "z")], kind)
    keyed = [stream.key_by(lambda v: v[0], f.Types.STRING()) for stream in (left, right)]
    return f.sorted(keyed[0].connect(keyed[1]).process(Join()))


def rows_as_keys(f):
    kind = f.Types.ROW_NAMED(["name", "n"], [f.Types.STRING(), f.Types.INT()])

    class Tell(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            key = ctx.get_current_key()
            yield (type(key).__name__, key.name, key["n"], value.m)

    fields = [f.Types.STRING(), f.Types.INT(), f.Types.LONG()]
    rows = [f.Row("a", 1, 1), f.Row("a", 2, 2), f.Row("b", 1, 3), f.Row("a", 1, 4)]
    stream = f.env().from_collection(rows, f.Types.ROW_NAMED(["name", "n", "m"], fields))
    return f.collect(stream.key_by(lambda r: f.Row(name=r.name, n=r.n), kind).process(Tell()))


def deduplicated_and_paired(f):
    class New(f.FilterFunction):
        def open(self, ctx):
            self.seen = ctx.get_state(f.ValueStateDescriptor("seen", f.Types.BOOLEAN()))

        def filter(self, value):
            seen = self.seen.value()
            self.seen.update(True)
            return not seen

    class Last(f.FlatMapFunction):
        def open(self, ctx):
            kind = f.Types.LIST(f.Types.INT())
            self.last = ctx.get_map_state(f.MapStateDescriptor("last", f.Types.STRING(), kind))

        def flat_map(self, value):
            last = self.last.get("last") or []
            last.append(value[1])
            self.last.put("last", last[-2:])
            if len(last) > 1:
                yield value[0], self.last.get("last")

    pairs = f.pairs(("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 3))
    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.LIST(f.Types.INT())])
    keyed = pairs.key_by(lambda v: v[0], f.Types.STRING())
    return f.collect_each({"new": keyed.filter(New()), "last": keyed.flat_map(Last(), kind)})


def sessions_aggregated_into_maps(f):
    class Count(f.AggregateFunction):
        def create_accumulator(self):
            return {}

        def add(self, value, accumulator):
            accumulator[value[1]] = accumulator.get(value[1], 0) + 1
            return accumulator

        def get_result(self, accumulator):
            return sorted(accumulator.items())

        def merge(self, a, b):
            return {**a, **b}

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, context.window().start, context.window().end, *elements)

    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(6))
    kind = f.Types.MAP(f.Types.INT(), f.Types.INT())
    return f.sorted(_windowed(f, windows).aggregate(Count(), Tell(), kind))


def rules_of_rows_are_broadcast(f):
    def kind():  # created in the worker: PyFlink's cannot be pickled once Java has used them
        return f.Types.ROW_NAMED(["id", "limit"], [f.Types.STRING(), f.Types.INT()])

    def rules():
        return f.MapStateDescriptor("rules", f.Types.STRING(), kind())

    class Keep(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(rules())
            state.put(value.id, value)
            yield (sorted(state.keys()), type(state.get(value.id)).__name__, state["a"].limit)

    env = f.env()
    control = env.from_collection([f.Row("a", 1), f.Row("b", 2)], kind()).broadcast(rules())
    return f.collect(f.ints(1, env=env).connect(control).process(Keep()))


def a_gap_with_a_fraction_fails(f):
    class Gap(f.SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 10.5

    windows = f.EventTimeSessionWindows.with_dynamic_gap(Gap())
    return f.collected(lambda: _windowed(f, windows).reduce(lambda a, b: a))


def a_timestamp_of_more_than_64_bits_fails(f):
    return f.collected(lambda: f.timed(f.ints(1), lambda v: 2**63))


def sliding_windows_of_an_offset(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield (key, context.window().start, context.window().end, [v[1] for v in elements])

    times = [f.Time.milliseconds(number) for number in (10, 5, 2)]
    return f.sorted(_windowed(f, f.SlidingEventTimeWindows.of(*times)).process(Tell()))
