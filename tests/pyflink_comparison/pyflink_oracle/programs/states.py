"""Kinds of keyed state, and the part of a value that they store."""

from __future__ import annotations

from typing import Any


def _used(f: Any, descriptors: dict[str, Any], use: Any, values: tuple[Any, ...], kind: Any = None):
    """Run `use(states, value)` for each value under one key."""
    getters = {
        "ValueStateDescriptor": "get_state",
        "ListStateDescriptor": "get_list_state",
        "MapStateDescriptor": "get_map_state",
        "ReducingStateDescriptor": "get_reducing_state",
        "AggregatingStateDescriptor": "get_aggregating_state",
    }

    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.states = {
                name: getattr(runtime_context, getters[type(descriptor).__name__])(descriptor)
                for name, descriptor in descriptors.items()
            }

        def process_element(self, value, ctx):
            yield use(self.states, value)

    numbers = f.ints(*range(len(values)))
    keyed = numbers.key_by(lambda i: 0, f.Types.INT())
    return f.collected(
        lambda: keyed.map(lambda i: values[i]).key_by(lambda v: 0, f.Types.INT()).process(Use())
    )


def value_state_begins_empty(f):
    def use(states, value):
        before = states["v"].value()
        states["v"].update(value)
        if value == 2:
            states["v"].clear()
        return (before, states["v"].value())

    return _used(f, {"v": f.ValueStateDescriptor("v", f.Types.INT())}, use, (1, 2, 3))


def value_state_without_a_type(f):
    def use(states, value):
        before = states["v"].value()
        states["v"].update([value, {"n": value}])
        return str(before)

    return _used(f, {"v": f.ValueStateDescriptor("v", f.Types.PICKLED_BYTE_ARRAY())}, use, (1, 2))


def value_state_of_a_local_class(f):
    class Point:
        def __init__(self, x):
            self.x = x

        def moved(self):
            return Point(self.x + 1)

    def use(states, value):
        point = states["v"].value() or Point(0)
        states["v"].update(point.moved())
        return (point.x, isinstance(point, Point), type(point).__name__)

    return _used(
        f, {"v": f.ValueStateDescriptor("v", f.Types.PICKLED_BYTE_ARRAY())}, use, (1, 2, 3)
    )


def list_and_map_state_of_a_local_class(f):
    class Point:
        def __init__(self, x):
            self.x = x

        def __eq__(self, other):
            return isinstance(other, Point) and self.x == other.x

        def __hash__(self):
            return hash(self.x)

    def use(states, value):
        states["l"].add(Point(value))
        states["m"].put(value, Point(value))
        return ([p.x for p in states["l"].get()], states["m"].get(1) == Point(1))

    pickled = f.Types.PICKLED_BYTE_ARRAY()
    return _used(
        f,
        {
            "l": f.ListStateDescriptor("l", pickled),
            "m": f.MapStateDescriptor("m", f.Types.INT(), pickled),
        },
        use,
        (1, 2, 3),
    )


def elements_of_a_local_class(f):
    class Point:
        def __init__(self, x):
            self.x = x

    points = f.ints(1, 2, 3).map(lambda v: Point(v))
    keyed = points.key_by(lambda p: p.x % 2)
    summed = keyed.reduce(lambda a, b: Point(a.x + b.x))
    return f.collect(summed.map(lambda p: p.x))


def list_state_of_every_use(f):
    def use(states, value):
        state = states["l"]
        if value == 0:
            return list(state.get())
        if value == 1:
            state.add(1)
            state.add_all([2, 3])
        if value == 2:
            state.update([7])
        if value == 3:
            state.update([])
        if value == 4:
            state.add_all([])
        if value == 5:
            state.clear()
        return list(state.get())

    return _used(f, {"l": f.ListStateDescriptor("l", f.Types.INT())}, use, (0, 1, 2, 3, 1, 4, 5))


def map_state_of_every_use(f):
    def use(states, value):
        state = states["m"]
        if value == 1:
            state.put("a", 1)
            state.put_all([("b", 2), ("c", 3)]) if False else state.put("b", 2)
        if value == 2:
            state.remove("a")
            state.remove("never")
        if value == 3:
            state.clear()
        return (
            sorted(state.items()),
            sorted(state.keys()),
            sorted(state.values()),
            "a" in state,
            state.contains("b"),
            state.is_empty(),
            state.get("zz"),
            sorted(state),
        )

    descriptor = f.MapStateDescriptor("m", f.Types.STRING(), f.Types.INT())
    return _used(f, {"m": descriptor}, use, (0, 1, 2, 3))


def map_state_by_subscript(f):
    def use(states, value):
        state = states["m"]
        state[value] = str(value)
        if value == 2:
            del state[1]
        return (state[value], sorted(state.keys()))

    descriptor = f.MapStateDescriptor("m", f.Types.INT(), f.Types.STRING())
    return _used(f, {"m": descriptor}, use, (1, 2, 3))


def map_state_subscript_of_no_key(f):
    descriptor = f.MapStateDescriptor("m", f.Types.INT(), f.Types.STRING())
    return _used(f, {"m": descriptor}, lambda states, value: str(states["m"][9]), (1,))


def map_state_of_tuples(f):
    pair = f.Types.TUPLE([f.Types.INT(), f.Types.STRING()])

    def use(states, value):
        state = states["m"]
        state.put((value, "k"), (value, "v"))
        return (sorted(state.items()), (1, "k") in state)

    return _used(f, {"m": f.MapStateDescriptor("m", pair, pair)}, use, (1, 2))


def reducing_state(f):
    def use(states, value):
        state = states["r"]
        before = state.get()
        state.add(value)
        if value == 3:
            state.clear()
        return (before, state.get())

    descriptor = f.ReducingStateDescriptor("r", lambda a, b: a + b, f.Types.INT())
    return _used(f, {"r": descriptor}, use, (1, 2, 3, 4))


def aggregating_state(f):
    class Mean(f.AggregateFunction):
        def create_accumulator(self):
            return (0, 0)

        def add(self, value, accumulator):
            return (accumulator[0] + value, accumulator[1] + 1)

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1] if accumulator[1] else None

        def merge(self, a, b):
            return (a[0] + b[0], a[1] + b[1])

    def use(states, value):
        state = states["a"]
        before = state.get()
        state.add(value)
        return (before, state.get())

    kind = f.Types.TUPLE([f.Types.INT(), f.Types.INT()])
    return _used(f, {"a": f.AggregatingStateDescriptor("a", Mean(), kind)}, use, (1, 2, 6))


def states_of_two_keys_are_apart(f):
    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("v", f.Types.INT()))

        def process_element(self, value, ctx):
            self.state.update((self.state.value() or 0) + value[1])
            yield (value[0], self.state.value())

    pairs = f.pairs(("a", 1), ("b", 10), ("a", 2), ("b", 20))
    return f.collect(pairs.key_by(lambda v: v[0], f.Types.STRING()).process(Use()))


def numbers_of_state_are_converted(f):
    def use(states, value):
        for name in states:
            states[name].update(value)
        return tuple(states[name].value() for name in sorted(states))

    t = f.Types
    kinds = {"a": t.BYTE(), "b": t.SHORT(), "c": t.LONG(), "d": t.DOUBLE(), "e": t.FLOAT()}
    descriptors = {k: f.ValueStateDescriptor(k, kind) for k, kind in kinds.items()}
    return _used(f, descriptors, use, (1, 100, -100))


def rows_in_state(f):
    row = f.Types.ROW_NAMED(["a", "b"], [f.Types.INT(), f.Types.STRING()])

    def use(states, value):
        before = states["v"].value()
        states["v"].update(f.Row(value, str(value)))
        states["l"].add(f.Row(b="b", a=value))
        return (before and before.a, [r.as_dict() for r in states["l"].get()])

    return _used(
        f,
        {"v": f.ValueStateDescriptor("v", row), "l": f.ListStateDescriptor("l", row)},
        use,
        (1, 2, 3),
    )


def moments_in_state(f):
    import datetime

    day = datetime.datetime(2020, 2, 29, 23, 59, 58, 123000)

    def use(states, value):
        before = [states[name].value() for name in "dts"]
        states["d"].update(day.date() + datetime.timedelta(value))
        states["t"].update(day.time())
        states["s"].update(day + datetime.timedelta(value))
        return tuple(before)

    t = f.Types
    return _used(
        f,
        {
            "d": f.ValueStateDescriptor("d", t.SQL_DATE()),
            "t": f.ValueStateDescriptor("t", t.SQL_TIME()),
            "s": f.ValueStateDescriptor("s", t.SQL_TIMESTAMP()),
        },
        use,
        (1, 2, 3),
    )


def keys_of_many_kinds(f):
    class Count(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def process_element(self, value, ctx):
            self.state.update((self.state.value() or 0) + 1)
            yield (repr(value), repr(ctx.get_current_key()), self.state.value())

    nan = float("nan")
    keys = (
        1,
        1.0,
        True,
        "1",
        b"1",
        (1,),
        (1.0,),
        None,
        nan,
        nan,
        0.0,
        -0.0,
        1,
        (1,),
        frozenset([1]),
    )
    keyed = f.ints(*range(len(keys))).map(lambda i: keys[i]).key_by(lambda v: v)
    return f.collected(lambda: keyed.process(Count()))


def keys_that_are_lists_or_maps(f):
    def first(stream):
        return stream.key_by(lambda v: [v]).reduce(lambda a, b: a + b)

    def second(stream):
        return stream.key_by(lambda v: {"k": v}).reduce(lambda a, b: a + b)

    def third(stream):
        kind = f.Types.LIST(f.Types.INT())
        return stream.key_by(lambda v: [v], kind).reduce(lambda a, b: a + b)

    return [f.collected(lambda way=way: way(f.ints(1, 1, 2))) for way in (first, second, third)]


def keys_converted_to_their_type(f):
    class Tell(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield (value, ctx.get_current_key())

    t = f.Types
    kinds = (t.DOUBLE(), t.FLOAT(), t.LONG(), t.BYTE(), t.BOOLEAN())
    return [
        f.collected(lambda k=k: f.ints(1, 2).key_by(lambda v: v, k).process(Tell())) for k in kinds
    ]


def key_of_the_wrong_type_fails(f):
    return f.collected(
        lambda: f.ints(1, 2).key_by(lambda v: v, f.Types.STRING()).reduce(lambda a, b: a + b)
    )


def key_selector_that_fails(f):
    return f.collected(lambda: f.ints(1, 0).key_by(lambda v: 1 // v).reduce(lambda a, b: a))


def one_name_of_two_types(f):
    """A second descriptor with the same name is rejected unless its type is the same."""

    def opened_with(first, second):
        class Open(f.KeyedProcessFunction):
            def open(self, runtime_context):
                for kind in (first, second):
                    runtime_context.get_state(f.ValueStateDescriptor("same", kind))

            def process_element(self, value, ctx):
                yield value

        return f.collected(lambda: f.ints(1).key_by(lambda v: v).process(Open()))

    row, named = f.Types.ROW([f.Types.INT()]), f.Types.ROW_NAMED(["a"], [f.Types.INT()])
    return [
        opened_with(f.Types.INT(), f.Types.INT()),
        opened_with(f.Types.INT(), f.Types.STRING()),
        opened_with(f.Types.INT(), f.Types.LONG()),
        opened_with(f.Types.LIST(f.Types.INT()), f.Types.LIST(f.Types.STRING())),
        opened_with(row, named),
    ]
