"""Variants of common programs: aggregations, windows and states at less usual places."""

from __future__ import annotations

from typing import Any

_DATA = (("a", 1), ("b", 2), ("a", 300), ("a", 1200), ("b", 1500), ("a", 1900), ("c", 2500))


def _rows(f: Any, names: Any = ("k", "n", "x")) -> Any:
    kinds = [f.Types.STRING(), f.Types.INT(), f.Types.DOUBLE()]
    kind = f.Types.ROW(kinds) if names is None else f.Types.ROW_NAMED(list(names), kinds)
    given = [f.Row("a", 3, 1.5), f.Row("b", 1, 2.5), f.Row("a", 1, 9.5), f.Row("a", 3, -1.0)]
    return f.env().from_collection(given, kind)


def _keyed(f: Any, data: Any = _DATA) -> Any:
    return f.timed(f.pairs(*data), lambda v: v[1]).key_by(lambda v: v[0], f.Types.STRING())


def _seconds(f: Any, n: int = 1) -> Any:
    return f.TumblingEventTimeWindows.of(f.Time.seconds(n))


def _statistics(f: Any) -> Any:
    class Statistics(f.AggregateFunction):
        def create_accumulator(self):
            return 0, 0.0

        def add(self, value, accumulator):
            return accumulator[0] + 1, accumulator[1] + value[1]

        def get_result(self, accumulator):
            return accumulator[1] / accumulator[0]

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    return Statistics()


def aggregations_of_rows(f):
    found = {}
    for method in ("sum", "min", "max", "min_by", "max_by"):
        for field in (1, "x") if method != "max_by" else ("n", "k", "f1", 7):
            found[f"{method} {field!r}"] = f.collected(
                lambda method=method, field=field: getattr(
                    _rows(f).key_by(lambda r: r[0], f.Types.STRING()), method
                )(field)
            )
    return found


def aggregations_of_rows_without_names(f):
    keyed = _rows(f, None).key_by(lambda r: r[0], f.Types.STRING())
    return {
        f"{method} {field!r}": f.collected(
            lambda method=method, field=field: getattr(keyed, method)(field)
        )
        for method, field in (("sum", "f1"), ("max_by", "f2"), ("min", 2), ("max", "f0"))
    }


def aggregations_of_tuples_by_name(f):
    keyed = f.pairs(("a", 3), ("a", 1), ("b", 2)).key_by(lambda v: v[0], f.Types.STRING())
    return {
        f"{method} {field!r}": f.collected(
            lambda method=method, field=field: getattr(keyed, method)(field)
        )
        for method, field in (("sum", "f1"), ("max_by", "f1"), ("min", "f0"), ("sum", True))
    }


def aggregates_with_every_type_declared(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            for element in elements:
                yield f.Row(key, context.window().end, element)

    t = f.Types
    out = t.ROW_NAMED(["k", "end", "mean"], [t.STRING(), t.LONG(), t.DOUBLE()])
    stream = (
        _keyed(f)
        .window(_seconds(f))
        .aggregate(_statistics(f), Tell(), t.TUPLE([t.INT(), t.DOUBLE()]), out)
    )
    return str(stream.get_type()), f.collect(
        stream.map(lambda r: (r.k, r.end, r["mean"])).disable_chaining()
    )


def reduces_with_an_applied_function(f):
    class Tell(f.WindowFunction):
        def apply(self, key, window, inputs):
            return [(key, window.start, list(inputs))]

    stream = _keyed(f).window(_seconds(f)).reduce(lambda a, b: (a[0], a[1] + b[1]), Tell())
    return f.collect(stream)


def windows_of_all_with_functions(f):
    class Tell(f.ProcessAllWindowFunction):
        def process(self, context, elements):
            yield context.window().start, sorted(elements)

    def windowed():
        return f.timed(f.pairs(*_DATA), lambda v: v[1]).window_all(_seconds(f))

    class Apply(f.AllWindowFunction):
        def apply(self, window, inputs):
            yield window.end, list(inputs)

    return {
        "reduce": f.collected(lambda: windowed().reduce(lambda a, b: (a[0], a[1] + b[1]), Tell())),
        "aggregate": f.collected(lambda: windowed().aggregate(_statistics(f), Tell())),
        "apply": f.collected(lambda: windowed().aggregate(_statistics(f), Apply())),
        "typed": f.collected(
            lambda: windowed().aggregate(_statistics(f), output_type=f.Types.DOUBLE())
        ),
    }


def count_windows_aggregated(f):
    keyed = f.pairs(*_DATA).key_by(lambda v: v[0], f.Types.STRING())
    return {
        "tumbling": f.collected(lambda: keyed.count_window(2).aggregate(_statistics(f))),
        "sliding": f.collected(lambda: keyed.count_window(3, 1).aggregate(_statistics(f))),
        "slide beyond": f.collected(lambda: keyed.count_window(1, 2).aggregate(_statistics(f))),
        "none": f.collected(lambda: keyed.count_window(0).aggregate(_statistics(f))),
    }


def triggers_in_count_windows(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, [v[1] for v in elements]

    windows = f.GlobalWindows.create()
    keyed = f.pairs(*_DATA).key_by(lambda v: v[0], f.Types.STRING())
    triggers = {
        "count": lambda: f.CountTrigger.of(2),
        "purging": lambda: f.PurgingTrigger.of(f.CountTrigger.of(2)),
        "never": lambda: f.NeverTrigger(),
    }
    return {
        name: f.collected(lambda make=make: keyed.window(windows).trigger(make()).process(Tell()))
        for name, make in triggers.items()
    }


def sessions_of_dynamic_gaps_aggregated(f):
    class Gap(f.SessionWindowTimeGapExtractor):
        def extract(self, element):
            return 100 if element[0] == "b" else 1000

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield key, context.window().start, context.window().end, list(elements)

    windows = f.EventTimeSessionWindows.with_dynamic_gap(Gap())
    return {
        "process": f.collected(lambda: _keyed(f).window(windows).process(Tell())),
        "of all": f.collected(
            lambda: (
                f.timed(f.pairs(*_DATA), lambda v: v[1])
                .window_all(windows)
                .reduce(lambda a, b: (a[0] + b[0], b[1]))
            )
        ),
    }


def types_of_windowed_streams(f):
    windowed = _keyed(f).window(_seconds(f))
    t = f.Types
    return [
        str(stream.get_type())
        for stream in (
            windowed.reduce(lambda a, b: a),
            windowed.reduce(lambda a, b: a, output_type=t.TUPLE([t.STRING(), t.LONG()])),
            windowed.aggregate(_statistics(f)),
            windowed.aggregate(_statistics(f), output_type=t.DOUBLE()),
            _keyed(f).sum(1),
            _keyed(f).max_by(1),
            _keyed(f).reduce(lambda a, b: a),
            f.pairs(("a", 1)).project(1, 0),
            f.pairs(("a", 1)).union(f.pairs(("a", 1))),
        )
    ]


def states_of_rows_within_rows(f):
    t = f.Types
    inner = t.ROW_NAMED(["x", "y"], [t.INT(), t.LIST(t.STRING())])
    kind = t.ROW_NAMED(["k", "inner", "m"], [t.STRING(), inner, t.MAP(t.STRING(), inner)])

    class Keep(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.kept = runtime_context.get_state(f.ValueStateDescriptor("kept", kind))
            self.map = runtime_context.get_map_state(f.MapStateDescriptor("m", t.LONG(), kind))

        def process_element(self, value, ctx):
            last = self.kept.value()
            yield (
                None if last is None else [last.k, last.inner.x, last["inner"]["y"], last.m["q"].x]
            )
            row = f.Row(k=value[0], inner=f.Row(x=value[1], y=["t"]), m={"q": f.Row(7, [])})
            self.kept.update(row)
            yield sorted(item.inner.x for item in self.map.values())
            self.map.put(value[1], row)

    keyed = f.pairs(*_DATA[:4]).key_by(lambda v: v[0], t.STRING())
    return f.collect(keyed.process(Keep()).map(str))


def functions_of_every_stage_tell_their_key(f):
    class Tell(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield ctx.get_current_key(), value[1]
            ctx.timer_service().register_event_time_timer(value[1] + 5)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), -timestamp, ctx.time_domain().name

    first = _keyed(f).process(Tell())
    again = first.key_by(lambda v: v[1] % 2, f.Types.INT()).process(Tell())
    return f.sorted(again)


def results_of_windows_of_another_form(f):
    """Windows return results in another form than declared, behind an exchange."""
    t = f.Types

    def given(value: Any, kind: Any, how: str) -> Any:
        class Tell(f.ProcessWindowFunction):
            def process(self, key, context, elements):
                yield value

        class Fold(f.AggregateFunction):
            def create_accumulator(self):
                return 0

            def add(self, value, accumulator):
                return accumulator

            def get_result(self, accumulator):
                return value

            def merge(self, a, b):
                return a

        windowed = _keyed(f, _DATA[:1]).window(_seconds(f))
        if how == "process":
            stream = windowed.process(Tell(), kind)
        else:
            stream = windowed.aggregate(Fold(), output_type=kind)
        return stream.rebalance().map(repr)

    row = t.ROW_NAMED(["a", "b"], [t.INT(), t.STRING()])
    cases = {
        "int for DOUBLE": (1, t.DOUBLE()),
        "truth for LONG": (True, t.LONG()),
        "int for BOOLEAN": (1, t.BOOLEAN()),
        "row of another order": (f.Row(b="x", a=1), row),
        "None in a row": (f.Row(None, None), row),
        "list for LIST of DOUBLE": ([1, 2], t.LIST(t.DOUBLE())),
        "map of DOUBLE": ({"k": 1}, t.MAP(t.STRING(), t.DOUBLE())),
    }
    return {
        f"{name} of {how}": f.collected(lambda case=case, how=how: given(*case, how))
        for how in ("process", "aggregate")
        for name, case in cases.items()
    }


def results_of_functions_of_another_form(f):
    """The same for other functions: both inputs, timers, side outputs, broadcast records."""
    t = f.Types
    row = t.ROW_NAMED(["a", "b"], [t.DOUBLE(), t.STRING()])

    class Both(f.CoMapFunction):
        def map1(self, value):
            return f.Row(b="1", a=value)

        def map2(self, value):
            return f.Row(value, "2")

    class Flat(f.CoFlatMapFunction):
        def flat_map1(self, value):
            yield f.Row(b="1", a=value)

        def flat_map2(self, value):
            return [f.Row(value, None)]

    tag = f.OutputTag("side", row)

    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value + 1)
            yield tag, f.Row(b="side", a=value)

        def on_timer(self, timestamp, ctx):
            yield f.Row(b="timer", a=timestamp)

    env = f.env()
    ints = f.ints(1, 2, env=env)
    timed = f.timed(ints, lambda v: v).key_by(lambda v: v, t.INT()).process(Timed(), row)
    streams = {
        "co_map": ints.connect(ints).map(Both(), row),
        "co_flat_map": ints.connect(ints).flat_map(Flat(), row),
        "timers": timed,
        "side": timed.get_side_output(tag),
        "reduce": ints.map(lambda v: f.Row(b="r", a=v), row)
        .key_by(lambda r: 0, t.INT())
        .reduce(lambda a, b: f.Row(b=b[1], a=7)),
    }
    return f.collect_each({name: stream.rebalance().map(str) for name, stream in streams.items()})


def smallest_and_largest_of_odd_fields(f):
    t = f.Types

    def of(values: Any, kinds: Any, method: str) -> Any:
        stream = f.env().from_collection(values, t.TUPLE([t.INT(), *kinds]))
        keyed = stream.key_by(lambda v: v[0], t.INT())
        return f.collected(lambda: getattr(keyed, method)(1))

    found = {}
    for method in ("min", "max", "min_by", "max_by", "sum"):
        found[method] = {
            "bytes": of([(1, 127), (1, 1), (1, 3)], [t.BYTE()], method),
            "floats": of([(1, 0.5), (1, -0.25), (1, 3.0)], [t.FLOAT()], method),
            "nan": of([(1, float("nan")), (1, 1.0), (1, 0.5)], [t.DOUBLE()], method),
            "texts": of([(1, "b"), (1, "a"), (1, "c")], [t.STRING()], method),
        }
    return found
