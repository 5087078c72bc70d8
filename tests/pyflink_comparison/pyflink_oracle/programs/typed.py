"""Values of arrays, SQL types and decimals at every place where the declared type matters."""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from pyflink_oracle.outcomes import error_text, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: Creates a stream of the values' texts from the API, an environment, a factory of the type, and
#: the values.
Place = "Callable[[Any, Any, Callable[[], Any], list[Any]], Any]"


def _indices(f: Any, env: Any, values: list[Any], times: int = 1) -> Any:
    return f.ints(*list(range(len(values))) * times, env=env)


def _typed(f: Any, env: Any, kind: Any, values: list[Any]) -> Any:
    return _indices(f, env, values).map(lambda i: values[i], kind()).disable_chaining()


def _mapped(f, env, kind, values):
    return _typed(f, env, kind, values).map(text_of)


def _flat_mapped(f, env, kind, values):
    return _indices(f, env, values).flat_map(lambda i: [values[i]] * 2, kind()).map(text_of)


def _united(f, env, kind, values):
    one = _typed(f, env, kind, values)
    return one.union(_typed(f, env, kind, values)).map(text_of)


def _rebalanced(f, env, kind, values):
    return _typed(f, env, kind, values).rebalance().map(text_of)


def _to_the_side(f, env, kind, values):
    tag = f.OutputTag("side", kind())

    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, values[value]

    return _indices(f, env, values).process(Give()).get_side_output(tag).map(text_of)


def _key(f, env, kind, values):
    class Count(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.n = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def process_element(self, value, ctx):
            self.n.update((self.n.value() or 0) + 1)
            yield text_of((ctx.get_current_key(), value, self.n.value()))

    return _indices(f, env, values, 2).key_by(lambda i: values[i], kind()).process(Count())


def _ended(f: Any, stream: Any) -> Any:
    return stream.window(f.TumblingEventTimeWindows.of(f.Time.seconds(10)))


def _key_of_windows(f, env, kind, values):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield text_of((key, sorted(elements)))

    timed = f.timed(_indices(f, env, values, 2), lambda i: i)
    return _ended(f, timed.key_by(lambda i: values[i], kind())).process(Tell())


def _elements_of_windows(f, env, kind, values):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield text_of(list(elements))

    timed = f.timed(_typed(f, env, kind, values), lambda v: 5)
    return _ended(f, timed.key_by(lambda v: 0, f.Types.INT())).process(Tell())


def _reduced(f, env, kind, values):
    keyed = _typed(f, env, kind, values).key_by(lambda v: 0, f.Types.INT())
    return keyed.reduce(lambda a, b: b).map(text_of)


def _accumulator(f, env, kind, values):
    class Last(f.AggregateFunction):
        def create_accumulator(self):
            return values[-1]

        def add(self, value, accumulator):
            return values[value]

        def get_result(self, accumulator):
            return text_of(accumulator)

        def merge(self, a, b):
            return a

    timed = f.timed(_indices(f, env, values), lambda i: i)
    windows = _ended(f, timed.key_by(lambda i: i, f.Types.INT()))
    return windows.aggregate(Last(), accumulator_type=kind(), output_type=f.Types.STRING())


def _states(f, env, kind, values):
    t = f.Types

    class Last(f.AggregateFunction):
        def create_accumulator(self):
            return values[0]

        def add(self, value, accumulator):
            return value

        def get_result(self, accumulator):
            return accumulator

        def merge(self, a, b):
            return a

    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.one = runtime_context.get_state(f.ValueStateDescriptor("o", kind()))
            self.all = runtime_context.get_list_state(f.ListStateDescriptor("a", kind()))
            self.map = runtime_context.get_map_state(f.MapStateDescriptor("m", t.INT(), kind()))
            self.last = runtime_context.get_reducing_state(
                f.ReducingStateDescriptor("l", lambda a, b: b, kind())
            )
            self.sum = runtime_context.get_aggregating_state(
                f.AggregatingStateDescriptor("s", Last(), kind())
            )

        def process_element(self, value, ctx):
            read = (self.one.value(), list(self.all.get() or []), self.map.get(value))
            yield text_of((value, *read, self.last.get(), self.sum.get()))
            self.one.update(values[value])
            self.all.add(values[value])
            self.map.put(value, values[value])
            self.last.add(values[value])
            self.sum.add(values[value])

    # Elements of other keys in between let PyFlink write its cache.
    return _indices(f, env, values, 2).key_by(lambda i: i, f.Types.INT()).process(Use())


def _keys_of_map_state(f, env, kind, values):
    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = f.MapStateDescriptor("m", kind(), f.Types.INT())
            self.map = runtime_context.get_map_state(descriptor)

        def process_element(self, value, ctx):
            known = self.map.get(values[value]) if self.map.contains(values[value]) else 0
            self.map.put(values[value], known + 1)
            yield text_of(sorted(text_of(pair) for pair in self.map.items()))

    return _indices(f, env, values, 2).key_by(lambda i: i, f.Types.INT()).process(Use())


def _connected(f, env, kind, values):
    class Tell(f.CoMapFunction):
        def map1(self, value):
            return text_of((1, value))

        def map2(self, value):
            return text_of((2, value))

    one, other = _typed(f, env, kind, values), _typed(f, env, kind, values)
    return one.connect(other).map(Tell())


def _broadcast(f, env, kind, values):
    def descriptor():
        return f.MapStateDescriptor("b", f.Types.INT(), kind())

    class Keep(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(descriptor())
            state.put(value, values[value])
            yield text_of(state.get(value))

    rules = _indices(f, env, values).broadcast(descriptor())
    return f.ints(1, env=env).connect(rules).process(Keep())


def _of_timers(f, env, kind, values):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)
            return []

        def on_timer(self, timestamp, ctx):
            yield values[timestamp]

    keyed = f.timed(_indices(f, env, values), lambda i: i).key_by(lambda i: i, f.Types.INT())
    return keyed.process(Timed(), kind()).disable_chaining().map(text_of)


def _of_windows(f, env, kind, values):
    class Give(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield values[key]

    timed = f.timed(_indices(f, env, values), lambda i: i)
    given = _ended(f, timed.key_by(lambda i: i, f.Types.INT())).process(Give(), kind())
    return given.disable_chaining().map(text_of)


def _within_a_tuple(f, env, kind, values):
    pair = f.Types.TUPLE([kind(), f.Types.INT()])
    made = _indices(f, env, values).map(lambda i: (values[i], i), pair)
    return made.disable_chaining().map(text_of)


def _within_a_row(f, env, kind, values):
    row = f.Types.ROW_NAMED(["v", "n"], [kind(), f.Types.INT()])
    made = _indices(f, env, values).map(lambda i: f.Row(values[i], i), row)
    return made.disable_chaining().map(lambda r: text_of((r.v, r.n)))


def _within_a_list(f, env, kind, values):
    made = _indices(f, env, values).map(lambda i: [values[i]] * 2, f.Types.LIST(kind()))
    return made.disable_chaining().map(text_of)


def _within_a_map(f, env, kind, values):
    pairs = f.Types.MAP(f.Types.STRING(), kind())
    made = _indices(f, env, values).map(lambda i: {"k": values[i]}, pairs)
    return made.disable_chaining().map(text_of)


def _of_a_collection(f, env, kind, values):
    return env.from_collection(values, kind()).map(text_of)


_PLACES: dict[str, Any] = {
    place.__name__.strip("_"): place
    for place in (
        _mapped,
        _flat_mapped,
        _united,
        _rebalanced,
        _to_the_side,
        _key,
        _key_of_windows,
        _elements_of_windows,
        _reduced,
        _accumulator,
        _states,
        _keys_of_map_state,
        _connected,
        _broadcast,
        _of_timers,
        _of_windows,
        _within_a_tuple,
        _within_a_row,
        _within_a_list,
        _within_a_map,
        _of_a_collection,
    )
}


def _run(f: Any, kind: Any, values: list[Any], names: list[str]) -> dict[str, Any]:
    """Return the texts of each place: all in one job, or in halves if it fails."""
    try:
        env = f.env()
        streams = {name: _PLACES[name](f, env, kind, values) for name in names}
        return f.collect_each(streams)
    except Exception as error:
        if len(names) == 1:
            return {names[0]: error_text(error)}
    middle = len(names) // 2
    halves = (names[:middle], names[middle:])
    return {k: v for half in halves for k, v in _run(f, kind, values, half).items()}


def _everywhere(kind: Callable[[Any], Any], values: Callable[[Any], list[Any]], f: Any) -> Any:
    return _run(f, lambda: kind(f.Types), values(f), list(_PLACES))


def _at_the_client(kind: Callable[[Any], Any], values: Callable[[Any], list[Any]], f: Any) -> Any:
    """Return the values that reach the client: of a map, of a collection and of a tuple."""
    given, declared = values(f), kind(f.Types)
    pair = f.Types.TUPLE([kind(f.Types), f.Types.INT()])
    return (
        f.collected(lambda: _typed(f, f.env(), lambda: declared, given)),
        f.collected(lambda: f.env().from_collection(given, kind(f.Types))),
        f.collected(lambda: _indices(f, f.env(), given).map(lambda i: (given[i], i), pair)),
    )


_VALUES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], list[Any]]]] = {
    "booleans": (lambda t: t.PRIMITIVE_ARRAY(t.BOOLEAN()), lambda _f: [[True, False], []]),
    "bytes": (lambda t: t.PRIMITIVE_ARRAY(t.BYTE()), lambda _f: [b"\x00\xff", b""]),
    "shorts": (lambda t: t.PRIMITIVE_ARRAY(t.SHORT()), lambda _f: [[1, -2], []]),
    "ints": (lambda t: t.PRIMITIVE_ARRAY(t.INT()), lambda _f: [[1, -2], [2**31 - 1]]),
    "longs": (lambda t: t.PRIMITIVE_ARRAY(t.LONG()), lambda _f: [[1, -2], [2**63 - 1]]),
    "floats": (lambda t: t.PRIMITIVE_ARRAY(t.FLOAT()), lambda _f: [[0.5, -2.0], [1]]),
    "doubles": (lambda t: t.PRIMITIVE_ARRAY(t.DOUBLE()), lambda _f: [[0.1, -2.0], [1]]),
    "texts": (lambda t: t.BASIC_ARRAY(t.STRING()), lambda _f: [["a", ""], []]),
    "boxed_ints": (lambda t: t.BASIC_ARRAY(t.INT()), lambda _f: [[1, 2], []]),
    "boxed_doubles": (lambda t: t.BASIC_ARRAY(t.DOUBLE()), lambda _f: [[1.5], [2]]),
    "boxed_booleans": (lambda t: t.BASIC_ARRAY(t.BOOLEAN()), lambda _f: [[True], [False]]),
    "rows": (
        lambda t: t.OBJECT_ARRAY(t.ROW([t.INT(), t.STRING()])),
        lambda f: [[f.Row(1, "a"), f.Row(2, None)], []],
    ),
    "tuples": (
        lambda t: t.OBJECT_ARRAY(t.TUPLE([t.INT(), t.STRING()])),
        lambda _f: [[(1, "a")], []],
    ),
    "lists": (lambda t: t.OBJECT_ARRAY(t.LIST(t.INT())), lambda _f: [[[1], [2, 3]], []]),
    "dates": (
        lambda t: t.SQL_DATE(),
        lambda _f: [datetime.date(2020, 2, 29), datetime.date(1960, 1, 1)],
    ),
    "times": (
        lambda t: t.SQL_TIME(),
        lambda _f: [datetime.time(23, 59, 59), datetime.time(0, 0), datetime.time(1, 2, 3, 456000)],
    ),
    "timestamps": (
        lambda t: t.SQL_TIMESTAMP(),
        lambda _f: [
            datetime.datetime(2020, 2, 29, 1, 2, 3, 456000),
            datetime.datetime(1970, 1, 1),
        ],
    ),
    "instants": (
        lambda t: t.INSTANT(),
        lambda f: [f.Instant(1, 2000), f.Instant.of_epoch_milli(1500)],
    ),
    "decimals": (
        lambda t: t.BIG_DEC(),
        lambda _f: [Decimal("1.50"), Decimal("-0.001"), Decimal(10**20)],
    ),
    "big_ints": (lambda t: t.BIG_INT(), lambda _f: [2**70, -1, 0]),
}

#: Each kind of value at every place, and its values at the client.
GENERATED = {
    f"{name}_{how}": partial(program, *case)
    for name, case in _VALUES.items()
    for how, program in (("everywhere", _everywhere), ("at_the_client", _at_the_client))
    if (name, how) != ("big_ints", "everywhere")  # PyFlink's functions cannot return them
}
