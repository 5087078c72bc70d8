"""Every feature behind every kind of operator, with and without types, at parallelism 1 and 2."""

from __future__ import annotations

from typing import Any


def _pair(f: Any, typed: bool) -> Any:
    return f.Types.TUPLE([f.Types.STRING(), f.Types.INT()]) if typed else None


def _source(f: Any, parallelism: int) -> Any:
    pairs = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5), ("a", 6)]
    return f.pairs(*pairs, env=f.env(parallelism))


def _same(f: Any, stream: Any, typed: bool) -> Any:
    return stream.map(lambda v: v, _pair(f, typed))


def _flat(f: Any, stream: Any, typed: bool) -> Any:
    return stream.flat_map(lambda v: [v], _pair(f, typed))


def _filtered(f: Any, stream: Any, typed: bool) -> Any:
    return _same(f, stream, typed).filter(lambda v: v[1] > 0)


def _united(f: Any, stream: Any, typed: bool) -> Any:
    mapped = _same(f, stream, typed)
    return mapped.filter(lambda v: v[0] == "a").union(mapped.filter(lambda v: v[0] != "a"))


def _rebalanced(f: Any, stream: Any, typed: bool) -> Any:
    return _same(f, stream, typed).rebalance()


def _processed(f: Any, stream: Any, typed: bool) -> Any:
    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value

    return stream.process(Give(), _pair(f, typed))


def _keyed_processed(f: Any, stream: Any, typed: bool) -> Any:
    class Give(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield (ctx.get_current_key(), value[1])

    keyed = stream.key_by(lambda v: v[0], f.Types.STRING() if typed else None)
    return keyed.process(Give(), _pair(f, typed))


def _to_the_side(f: Any, stream: Any, typed: bool) -> Any:
    tag = f.OutputTag("side", _pair(f, typed))

    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, value

    return stream.process(Give()).get_side_output(tag)


def _connected(f: Any, stream: Any, typed: bool) -> Any:
    class Both(f.CoMapFunction):
        def map1(self, value):
            return value

        def map2(self, value):
            return None

    return stream.connect(stream).map(Both(), _pair(f, typed))


def _broadcast(f: Any, stream: Any, typed: bool) -> Any:
    state = f.MapStateDescriptor("m", f.Types.STRING(), f.Types.INT())

    class Give(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            yield value

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(state).put(*value)
            return []

    return stream.connect(stream.broadcast(state)).process(Give(), _pair(f, typed))


def _windowed(f: Any, stream: Any, typed: bool) -> Any:
    keyed = stream.key_by(lambda v: v[1], f.Types.INT() if typed else None)
    return keyed.count_window(1).reduce(lambda a, b: b)


_BEHIND = {
    "map": _same,
    "flat_map": _flat,
    "filter": _filtered,
    "union": _united,
    "rebalance": _rebalanced,
    "process": _processed,
    "keyed_process": _keyed_processed,
    "side_output": _to_the_side,
    "connect": _connected,
    "broadcast": _broadcast,
    "window": _windowed,
}


def _keyed(f: Any, stream: Any) -> Any:
    return stream.key_by(lambda v: v[0], f.Types.STRING())


def _sum(f: Any, stream: Any) -> Any:
    """Reduce windows: only the last sums do not depend on the order of records."""
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    windowed = _keyed(f, f.timed(stream, lambda v: v[1])).window(windows)
    return windowed.reduce(lambda a, b: (a[0], a[1] + b[1]))


def _count(f: Any, stream: Any) -> Any:
    class Count(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def process_element(self, value, ctx):
            self.state.update((self.state.value() or 0) + 1)
            yield (ctx.get_current_key(), self.state.value())

    return _keyed(f, stream).process(Count())


def _timers(f: Any, stream: Any) -> Any:
    class Timed(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_list_state(f.ListStateDescriptor("l", f.Types.INT()))

        def process_element(self, value, ctx):
            self.state.add(value[1])
            ctx.timer_service().register_event_time_timer(100)
            return []

        def on_timer(self, timestamp, ctx):
            yield (ctx.get_current_key(), timestamp, sorted(self.state.get()))

    return _keyed(f, f.timed(stream, lambda v: v[1])).process(Timed())


def _sessions(f: Any, stream: Any) -> Any:
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            window = context.window()
            yield (key, window.start, window.end, sorted(v[1] for v in elements))

    windows = f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(2))
    return _keyed(f, f.timed(stream, lambda v: v[1])).window(windows).process(Tell())


def _split(f: Any, stream: Any) -> Any:
    tag = f.OutputTag("big", f.Types.STRING())

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            if value[1] > 3:
                yield tag, f"{value[0]} is big"
            yield value[0]

    main = stream.process(Split(), f.Types.STRING())
    return main.map(str.upper, f.Types.STRING()).union(main.get_side_output(tag))


def _rows(f: Any, stream: Any) -> Any:
    kind = f.Types.ROW_NAMED(["k", "n"], [f.Types.STRING(), f.Types.LONG()])
    return stream.map(lambda v: f.Row(n=v[1], k=v[0]), kind).filter(lambda r: r.n != 4)


_FEATURES = {
    "sum": _sum,
    "count": _count,
    "timers": _timers,
    "sessions": _sessions,
    "split": _split,
    "rows": _rows,
}


def _program(behind: Any, parallelism: int, typed: bool) -> Any:
    """Return a program with all features behind one operator."""

    def program(f: Any) -> Any:
        stream = behind(f, _source(f, parallelism), typed)
        return f.collect_each({name: feature(f, stream) for name, feature in _FEATURES.items()})

    return program


GENERATED = {
    f"{name} at parallelism {parallelism}{'' if typed else ', untyped'}": _program(
        behind, parallelism, typed
    )
    for name, behind in _BEHIND.items()
    for parallelism, typed in ((1, True), (2, False))
}
