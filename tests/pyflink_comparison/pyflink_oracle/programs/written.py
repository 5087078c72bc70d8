"""Files of typed values, and moments at the limits of timers and timestamps."""

from __future__ import annotations

import datetime
import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyflink_oracle.outcomes import error_text

if TYPE_CHECKING:
    from collections.abc import Callable


def _lines(f: Any, make: Callable[[Any], Any]) -> Any:
    """Return the sorted lines of a file sink behind a stream."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            env = f.env()
            encoder = f.Encoder.simple_string_encoder()
            sink = f.FileSink.for_row_format(folder, encoder).build()
            make(env).sink_to(sink)
            env.execute()
        except Exception as error:
            return error_text(error)
        parts = [path for path in Path(folder).rglob("*") if path.is_file()]
        return sorted(line for path in parts for line in path.read_text().splitlines())


def _both(kind: Any, values: Any, f: Any) -> Any:
    given = values(f)
    mapped = _lines(
        f, lambda env: f.ints(*range(len(given)), env=env).map(lambda i: given[i], kind(f.Types))
    )
    collected = _lines(f, lambda env: env.from_collection(given, kind(f.Types)))
    return {"mapped": mapped, "collected": collected}


_VALUES: dict[str, tuple[Any, Any]] = {
    "booleans": (lambda t: t.BOOLEAN(), lambda _f: [True, False]),
    "small_numbers": (lambda t: t.BYTE(), lambda _f: [1, -128]),
    "longs": (lambda t: t.LONG(), lambda _f: [1, -(2**63)]),
    "floats": (lambda t: t.FLOAT(), lambda _f: [0.1, 1e10, 1.0, -0.0, 1e-5, float("nan")]),
    "floats_within": (
        lambda t: t.ROW([t.FLOAT(), t.LIST(t.FLOAT()), t.MAP(t.STRING(), t.FLOAT()), t.DOUBLE()]),
        lambda f: [
            f.Row(0.1, [1e-5, 3.4e38], {"k": 16777216.0}, 0.1),
            f.Row(None, [], {"k": 1e-45}, 2.0),
        ],
    ),
    "floats_of_tuples": (
        lambda t: t.TUPLE([t.FLOAT(), t.PRIMITIVE_ARRAY(t.FLOAT()), t.FLOAT()]),
        lambda _f: [
            (0.3, [0.7], 1e10),
            (123456.79, [], -1.0),
            (9.999999e6, [1.25e-38], 0.001),
        ],
    ),
    "numbers_of_other_types": (
        lambda t: t.TUPLE([t.DOUBLE(), t.FLOAT(), t.LONG(), t.BOOLEAN()]),
        lambda _f: [(1, 2, True, 1), (10**8, 3, 5, False)],
    ),
    "numbers_that_are_no_doubles": (lambda t: t.DOUBLE(), lambda _f: [1, True]),
    "rows_of_another_order": (
        lambda t: t.ROW_NAMED(["a", "b"], [t.INT(), t.STRING()]),
        lambda f: [f.Row(b="x", a=1)],
    ),
    "texts_that_are_none": (lambda t: t.STRING(), lambda _f: [5]),
    "tuples_that_do_not_fit": (
        lambda t: t.TUPLE([t.STRING(), t.INT()]),
        lambda _f: [("a", "b")],
    ),
    "doubles": (
        lambda t: t.DOUBLE(),
        lambda _f: [0.1, 1e7, 12345678.9, 1e-3, 1e-4, 2e300, float("inf"), 5e-324],
    ),
    "texts": (lambda t: t.STRING(), lambda _f: ["a", "", "\u00e4", "a b"]),
    "dates": (lambda t: t.SQL_DATE(), lambda _f: [datetime.date(2020, 2, 29)]),
    "times": (lambda t: t.SQL_TIME(), lambda _f: [datetime.time(23, 59, 59)]),
    "timestamps": (
        lambda t: t.SQL_TIMESTAMP(),
        lambda _f: [
            datetime.datetime(2020, 2, 29, 1, 2, 3, 456000),
            datetime.datetime(2020, 2, 29, 1, 2, 3),
            datetime.datetime(1970, 1, 1),
        ],
    ),
    "instants": (
        lambda t: t.INSTANT(),
        lambda f: [f.Instant(1, 2000000), f.Instant(0, 0), f.Instant(100000, 0)],
    ),
    "decimals": (
        lambda t: t.BIG_DEC(),
        lambda _f: [Decimal("1.50"), Decimal("1E+3"), Decimal("1E-9"), Decimal(10**20)],
    ),
    "tuples": (
        lambda t: t.TUPLE([t.INT(), t.STRING(), t.DOUBLE(), t.BOOLEAN()]),
        lambda _f: [(1, "a", 1.0, True), (2, "b", 1e9, False)],
    ),
    "tuples_of_moments": (
        lambda t: t.TUPLE([t.SQL_DATE(), t.SQL_TIMESTAMP(), t.BIG_DEC()]),
        lambda _f: [
            (datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4), Decimal("1.10"))
        ],
    ),
    "rows": (
        lambda t: t.ROW([t.INT(), t.STRING(), t.FLOAT()]),
        lambda f: [f.Row(1, "a", 0.5), f.Row(2, None, None)],
    ),
    "rows_of_kinds": (
        lambda t: t.ROW_NAMED(["a", "b"], [t.INT(), t.STRING()]),
        lambda f: [
            f.Row(1, "a"),
            f.Row.of_kind(f.RowKind.DELETE, 2, "b"),
            f.Row.of_kind(f.RowKind.UPDATE_BEFORE, 3, "c"),
        ],
    ),
    "rows_within_rows": (
        lambda t: t.ROW([t.ROW([t.INT()]), t.TUPLE([t.INT(), t.STRING()])]),
        lambda f: [f.Row(f.Row(1), (2, "x"))],
    ),
    "lists": (lambda t: t.LIST(t.INT()), lambda _f: [[1, 2], []]),
    "lists_of_doubles": (lambda t: t.LIST(t.DOUBLE()), lambda _f: [[1.0, 1e-5], []]),
    "maps": (lambda t: t.MAP(t.STRING(), t.INT()), lambda _f: [{"a": 1}, {}]),
    "arrays_within_rows": (
        lambda t: t.ROW([t.PRIMITIVE_ARRAY(t.INT()), t.BASIC_ARRAY(t.STRING())]),
        lambda f: [f.Row([1, 2], ["a", "b"])],
    ),
    "lists_within_rows": (
        lambda t: t.ROW([t.LIST(t.INT()), t.MAP(t.STRING(), t.DOUBLE())]),
        lambda f: [f.Row([1, 2], {"a": 1.0})],
    ),
    "arrays_within_tuples": (
        lambda t: t.TUPLE([t.BASIC_ARRAY(t.STRING()), t.PRIMITIVE_ARRAY(t.DOUBLE())]),
        lambda _f: [(["a", "b"], [1.5])],
    ),
}

_MOMENTS: dict[str, Any] = {
    "the_least": -(2**63),
    "the_greatest": 2**63 - 1,
    "one_more": 2**63,
    "a_fraction_below_zero": -1.9,
    "a_large_fraction": 1e30,
    "true": True,
    "none": None,
    "a_text": "5",
}


def _each(program: Any, f: Any) -> dict[str, Any]:
    return {
        name: f.collected(lambda moment=moment: program(f, moment))
        for name, moment in _MOMENTS.items()
    }


def _keyed(f: Any) -> Any:
    return f.timed(f.ints(1, 2), lambda v: v).key_by(lambda v: 0, f.Types.INT())


def _timer(f, moment):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(moment)
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp, ctx.timestamp(), ctx.timer_service().current_watermark()

    return _keyed(f).process(Timed())


def _deleted_timer(f, moment):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)
            ctx.timer_service().delete_event_time_timer(moment)
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp

    return _keyed(f).process(Timed())


def _timer_of_the_clock(f, moment):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer(moment)
            ctx.timer_service().delete_processing_time_timer(moment)
            yield value

        def on_timer(self, timestamp, ctx):
            return []

    return _keyed(f).process(Timed())


def _timer_of_two_inputs(f, moment):
    class Timed(f.KeyedCoProcessFunction):
        def process_element1(self, value, ctx):
            ctx.timer_service().register_event_time_timer(moment)
            return []

        def process_element2(self, value, ctx):
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp

    env = f.env()
    one = f.timed(f.ints(1, env=env), lambda v: v).key_by(lambda v: 0, f.Types.INT())
    other = f.timed(f.ints(2, env=env), lambda v: v).key_by(lambda v: 0, f.Types.INT())
    return one.connect(other).process(Timed())


def _timestamp(f, moment):
    class Tell(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value, ctx.timestamp()

    return f.timed(f.ints(1), lambda v: moment).process(Tell())


def _window(f, moment):
    """Return an element at a moment, behind a type that preserves it exactly."""

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start, context.window().end, list(elements)

    timed = f.timed(f.ints(1), lambda v: moment).key_by(lambda v: 0, f.Types.INT())
    return timed.window(f.TumblingEventTimeWindows.of(f.Time.seconds(1))).process(Tell())


def _sliding_window(f, moment):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start, context.window().end, list(elements)

    timed = f.timed(f.ints(1), lambda v: moment).key_by(lambda v: 0, f.Types.INT())
    windows = f.SlidingEventTimeWindows.of(f.Time.seconds(2), f.Time.seconds(1))
    return timed.window(windows).process(Tell())


def _session(f, moment):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start, context.window().end, list(elements)

    timed = f.timed(f.ints(1), lambda v: moment).key_by(lambda v: 0, f.Types.INT())
    windows = f.EventTimeSessionWindows.with_gap(f.Time.seconds(1))
    return timed.window(windows).process(Tell())


_PLACES = {
    "timers": _timer,
    "deleted_timers": _deleted_timer,
    "timers_of_the_clock": _timer_of_the_clock,
    "timers_of_two_inputs": _timer_of_two_inputs,
    "timestamps": _timestamp,
    "windows": _window,
    "sliding_windows": _sliding_window,
    "sessions": _session,
}

#: Files of each kind of value, and each moment at every place.
GENERATED = {
    **{f"a_file_of_{name}": partial(_both, *case) for name, case in _VALUES.items()},
    **{f"moments_of_{name}": partial(_each, program) for name, program in _PLACES.items()},
}


def windows_at_the_limits(f):
    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start, context.window().end, list(elements)

    def run(windows: Any, moment: int) -> Any:
        timed = f.timed(f.ints(1), lambda v: moment).key_by(lambda v: 0, f.Types.INT())
        return f.collected(lambda: timed.window(windows).process(Tell()))

    def tumbling(*times: int) -> Any:
        return f.TumblingEventTimeWindows.of(*map(f.Time.milliseconds, times))

    def sliding(*times: int) -> Any:
        return f.SlidingEventTimeWindows.of(*map(f.Time.milliseconds, times))

    least, greatest = -(2**63) + 1, 2**63 - 1
    return {
        "starts_before": run(tumbling(1000), least),
        "starts_before_by_offset": run(tumbling(1024, 300), least),
        "starts_at_the_least": run(tumbling(1024), least),
        "ends_beyond": run(tumbling(1024), greatest),
        "ends_just_before": run(tumbling(1000), greatest // 1000 * 1000 - 1),
        "slides_before": run(sliding(2048, 1024), least),
        "slides_beyond": run(sliding(2048, 1024), greatest),
        "session_beyond": run(f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(1)), greatest),
        "session_to_the_greatest": run(
            f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(1)), greatest - 1
        ),
        "session_from_the_least": run(
            f.EventTimeSessionWindows.with_gap(f.Time.milliseconds(1)), least
        ),
    }


def windows_within_the_limits(f):
    """The first and the last windows whose times fit 64 bits, and moments at both of their ends."""

    class Tell(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield context.window().start, context.window().end, [str(v) for v in elements]

    def told(env: Any, size: int, offset: int) -> Any:
        first = -(2**63) + (offset + 2**63) % size
        last = 2**63 - 1 - size - (2**63 - 1 - size - offset) % size
        moments = [start + within for start in (first, last) for within in (0, 1, size - 1)]
        values = env.from_collection(moments, f.Types.LONG())
        windows = f.TumblingEventTimeWindows.of(
            f.Time.milliseconds(size), f.Time.milliseconds(offset)
        )
        keyed = f.timed(values, lambda v: v).key_by(lambda v: 0, f.Types.INT())
        return keyed.window(windows).process(Tell())

    env = f.env()
    shapes = ((1000, 0), (1000, 500), (1000, -501), (1024, 301), (7, -6))
    return f.collect_each({f"{size} {offset}": told(env, size, offset) for size, offset in shapes})
