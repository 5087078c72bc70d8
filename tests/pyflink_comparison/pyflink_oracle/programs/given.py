"""Results of functions that return several records: iterables, nothing, and invalid ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyflink_oracle.outcomes import text_of

if TYPE_CHECKING:
    from collections.abc import Callable


class _Sequence:
    """An iterable by the old protocol."""

    def __getitem__(self, index):
        if index == 2:
            raise IndexError
        return index


class _Iterable:
    def __iter__(self):
        return iter([7, 8])


def _generator():
    yield 1
    return 2


def _failing():
    yield 1
    raise ValueError("halfway")


#: Results that one job returns together, by the number of an element.
_WELL: tuple[Callable[[Any], Any], ...] = (
    lambda _f: [1, 2],
    lambda _f: (3, "a"),
    lambda _f: (i for i in (4, 5)),
    lambda _f: iter([6]),
    lambda _f: range(2),
    lambda _f: {"k": 1},
    lambda _f: {9},
    lambda _f: "ab",
    lambda _f: b"xy",
    lambda _f: [],
    lambda _f: _generator(),
    lambda _f: map(str, [1, 2]),
    lambda _f: _Iterable(),
    lambda _f: [[1], (2,), {"a": 3}],
    lambda f: [f.Row(1, "a")],
    lambda _f: {"k": 1}.items(),
)
#: Results that need a job each.
_ODD: dict[str, Callable[[Any], Any]] = {
    "none": lambda _f: None,
    "a_number": lambda _f: 5,
    "a_row": lambda f: f.Row(1, 2),
    "a_sequence": lambda _f: _Sequence(),
    "a_generator_that_fails": lambda _f: _failing(),
    "a_tag_and_a_value": lambda f: (f.OutputTag("t", f.Types.INT()), 1),
}


def _keyed(f: Any, *values: int) -> Any:
    timed = f.timed(f.ints(*values), lambda v: v)
    return timed.key_by(lambda v: v, f.Types.INT())


def _all(f: Any, *values: int) -> Any:
    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(1))
    return f.timed(f.ints(*values), lambda v: v).window_all(windows)


def _windowed(f: Any, *values: int) -> Any:
    return _keyed(f, *values).window(f.TumblingEventTimeWindows.of(f.Time.milliseconds(1)))


def _process(f, give, values):
    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            return give(value)

    return f.ints(*values).process(Give())


def _keyed_process(f, give, values):
    class Give(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            return give(value)

    return _keyed(f, *values).process(Give())


def _timer(f, give, values):
    class Give(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value)

            return []

        def on_timer(self, timestamp, ctx):
            return give(timestamp)

    return _keyed(f, *values).process(Give())


def _flat_map(f, give, values):
    return f.ints(*values).flat_map(lambda v: give(v))


def _flat_map_of_keys(f, give, values):
    class Give(f.FlatMapFunction):
        def flat_map(self, value):
            return give(value)

    return _keyed(f, *values).flat_map(Give())


def _connected(f: Any, values: Any) -> Any:
    env = f.env()
    return f.ints(*values, env=env).connect(f.ints(99, env=env).filter(lambda v: False))


def _co_flat_map(f, give, values):
    class Give(f.CoFlatMapFunction):
        def flat_map1(self, value):
            return give(value)

        def flat_map2(self, value):
            return give(value)

    return _connected(f, values).flat_map(Give())


def _co_process(f, give, values):
    class Give(f.CoProcessFunction):
        def process_element1(self, value, ctx):
            return give(value)

        def process_element2(self, value, ctx):
            return give(value)

    return _connected(f, values).process(Give())


def _keyed_co_process(f, give, values):
    class Give(f.KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            return give(value)

        def process_element2(self, value, ctx):
            return give(value)

    keyed = _connected(f, values).key_by(lambda v: v, lambda v: v, f.Types.INT())
    return keyed.process(Give())


def _broadcast(f, give, values):
    def rules():
        return f.MapStateDescriptor("rules", f.Types.INT(), f.Types.INT())

    class Give(f.BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            return give(value)

    env = f.env()
    other = f.ints(99, env=env).filter(lambda v: False)
    return other.connect(f.ints(*values, env=env).broadcast(rules())).process(Give())


def _beside_a_broadcast(f, give, values):
    def rules():
        return f.MapStateDescriptor("rules", f.Types.INT(), f.Types.INT())

    class Give(f.KeyedBroadcastProcessFunction):
        def process_element(self, value, ctx):
            return give(value)

        def process_broadcast_element(self, value, ctx):
            return []

    env = f.env()
    nothing = f.ints(99, env=env).filter(lambda v: False).broadcast(rules())
    keyed = f.ints(*values, env=env).key_by(lambda v: v, f.Types.INT())
    return keyed.connect(nothing).process(Give())


def _process_window(f, give, values):
    class Give(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            return give(key)

    return _windowed(f, *values).process(Give())


def _apply(f, give, values):
    class Give(f.WindowFunction):
        def apply(self, key, window, inputs):
            return give(key)

    return _windowed(f, *values).apply(Give())


def _process_all_windows(f, give, values):
    class Give(f.ProcessAllWindowFunction):
        def process(self, context, elements):
            return give(next(iter(elements)))

    return _all(f, *values).process(Give())


def _apply_all(f, give, values):
    class Give(f.AllWindowFunction):
        def apply(self, window, inputs):
            return give(next(iter(inputs)))

    return _all(f, *values).apply(Give())


def _behind_a_reduce(f, give, values):
    class Give(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            return give(key)

    return _windowed(f, *values).reduce(lambda a, b: a, window_function=Give())


def _of_a_trigger(f, give, values):
    class Give(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            return give(key)

    windows = f.SlidingEventTimeWindows.of(f.Time.milliseconds(1), f.Time.milliseconds(1))
    return _keyed(f, *values).window(windows).trigger(f.CountTrigger.of(1)).process(Give())


_PLACES = (
    _process,
    _keyed_process,
    _timer,
    _flat_map,
    _flat_map_of_keys,
    _co_flat_map,
    _co_process,
    _keyed_co_process,
    _broadcast,
    _beside_a_broadcast,
    _process_window,
    _apply,
    _process_all_windows,
    _apply_all,
    _behind_a_reduce,
    _of_a_trigger,
)


def _well(place: Any, f: Any) -> Any:
    return f.collected(lambda: place(f, lambda v: _WELL[v](f), range(len(_WELL))))


def _odd(place: Any, f: Any) -> dict[str, Any]:
    return {
        name: f.collected(lambda odd=odd: place(f, lambda v: odd(f), [1]))
        for name, odd in _ODD.items()
    }


def _typed(f, give, values):
    class Give(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            return give(value)

    return _keyed(f, *values).process(Give(), f.Types.INT()).map(text_of)


#: The results of each kind of function: valid ones, and odd ones.
GENERATED = {
    f"{how}_of_{place.__name__.strip('_')}": partial(program, place)
    for place in (*_PLACES, _typed)
    for how, program in (("iterables", _well), ("others", _odd))
    if (place, how) != (_typed, "iterables")
}
