"""Declared types: the results for values that fit, nearly fit and do not fit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any


def _mapped(f: Any, kind: Any, *values: Any) -> Any:
    """Return values behind a map of the type, separately if one of them fails."""

    def run(*given: Any) -> Any:
        return f.collected(lambda: f.ints(*range(len(given))).map(lambda i: given[i], kind))

    together = run(*values)
    if isinstance(together, list) and len(together) == len(values):
        return together
    return [run(value) for value in values]


def instants_within_rows(f):
    t = f.Types
    kind = t.ROW_NAMED(["i", "n"], [t.INSTANT(), t.INT()])
    return _mapped(
        f, kind, f.Row(f.Instant(1, 2000), 1), f.Row(f.Instant(-1, 5), 2), f.Row(None, 3)
    )


def instants_within_tuples(f):
    t = f.Types
    kind = t.TUPLE([t.INSTANT(), t.STRING()])
    return _mapped(f, kind, (f.Instant(1, 2000), "a"), (f.Instant.of_epoch_milli(-5), "b"))


def instants_within_lists(f):
    return _mapped(f, f.Types.LIST(f.Types.INSTANT()), [f.Instant(1, 2), f.Instant(0, 0)], [])


def instants_within_maps(f):
    kind = f.Types.MAP(f.Types.STRING(), f.Types.INSTANT())
    return _mapped(f, kind, {"a": f.Instant(1, 2)}, {})


def instants_by_themselves(f):
    moment = f.Instant.of_epoch_milli(1500)
    return _mapped(f, f.Types.INSTANT(), f.Instant(1, 2), moment)


def instants_as_keys_and_states(f):
    instant = f.Types.INSTANT()

    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.value = runtime_context.get_state(f.ValueStateDescriptor("v", instant))
            self.map = runtime_context.get_map_state(
                f.MapStateDescriptor("m", f.Types.INT(), instant)
            )

        def process_element(self, value, ctx):
            before = self.value.value()
            self.value.update(f.Instant(value, 5))
            self.map.put(value, f.Instant(value, 7))
            yield (str(ctx.get_current_key()), str(before), str(self.map.get(value)))

    keyed = f.ints(1, 2).key_by(lambda v: f.Instant(9, 0), instant)
    plain = f.ints(1, 2).key_by(lambda v: 0)
    return f.collected(lambda: keyed.process(Use())), f.collected(lambda: plain.process(Use()))


def instants_of_a_collection(f):
    t = f.Types
    row = t.ROW([t.INSTANT(), t.INT()])
    moment = f.Instant(1, 2000000)
    return (
        f.collected(lambda: f.env().from_collection([f.Row(moment, 1)], row)),
        f.collected(lambda: f.env().from_collection([(moment, 1)]).map(lambda v: v[0])),
    )


def instants_of_rows_in_functions(f):
    t = f.Types
    row = t.ROW([t.INSTANT(), t.INT()])
    made = f.ints(1, 2).map(lambda v: f.Row(f.Instant(v, 1), v), row).disable_chaining()
    return f.collected(
        lambda: made.map(lambda r: (type(r[0]).__name__, r[0].to_epoch_milli(), r[1]))
    )


def instants_of_tuples_to_the_side(f):
    t = f.Types
    tag = f.OutputTag("i", t.TUPLE([t.INSTANT(), t.INT()]))

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, (f.Instant(value, 3), value)

    return f.collected(lambda: f.ints(1, 2).process(Split()).get_side_output(tag))


def numbers_at_their_limits(f):
    t = f.Types
    return [
        _mapped(f, t.BYTE(), 127, -128, 128),
        _mapped(f, t.SHORT(), 32767, -32768, 32768),
        _mapped(f, t.INT(), 2**31 - 1, -(2**31), 2**31),
        _mapped(f, t.LONG(), 2**63 - 1, -(2**63), 2**63),
    ]


def fractions_at_their_limits(f):
    t = f.Types
    return [
        _mapped(f, t.FLOAT(), 0.1, 3.4e38, 1e39, float("nan"), float("-inf"), -0.0, 1),
        _mapped(f, t.DOUBLE(), 5e-324, 1.7976931348623157e308, float("nan"), 10**30, 3),
    ]


def numbers_where_others_are_declared(f):
    t = f.Types
    return [
        _mapped(f, t.INT(), 1.0, 1.5, True, "1", None, Decimal(2)),
        _mapped(f, t.DOUBLE(), True, "1.5", None, Decimal("1.5")),
        _mapped(f, t.STRING(), 1, None, b"x", ["a"]),
        _mapped(f, t.BOOLEAN(), 1, 0, None, "", "a"),
    ]


def decimals(f):
    values = (Decimal("1.50"), Decimal("-0.001"), Decimal("1E+10"), Decimal(12345678901234567890))
    return f.collected(lambda: f.env().from_collection(values, f.Types.BIG_DEC())), f.collected(
        lambda: f.env().from_collection(list(values), f.Types.BIG_DEC()).map(str)
    )


def big_integers(f):
    values = [2**70, -(2**64), 0]
    return f.collected(lambda: f.env().from_collection(values, f.Types.BIG_INT()))


def dates_and_times(f):
    t = f.Types
    return [
        _mapped(f, t.SQL_DATE(), datetime.date(2020, 2, 29), datetime.date(1960, 1, 1)),
        _mapped(f, t.SQL_TIME(), datetime.time(23, 59, 59), datetime.time(1, 2, 3, 4000)),
        _mapped(f, t.SQL_TIMESTAMP(), datetime.datetime(2020, 2, 29, 1, 2, 3, 456000)),
    ]


def dates_within_rows_and_tuples(f):
    t = f.Types
    kinds = [t.SQL_DATE(), t.SQL_TIME(), t.SQL_TIMESTAMP()]
    values = (
        datetime.date(2020, 2, 29),
        datetime.time(1, 2, 3),
        datetime.datetime(2020, 2, 29, 1, 2, 3),
    )
    return _mapped(f, t.ROW(kinds), f.Row(*values)), _mapped(f, t.TUPLE(kinds), values)


def rows_in_every_form(f):
    t = f.Types
    kind = t.ROW_NAMED(["a", "b"], [t.INT(), t.STRING()])
    forms = (
        f.Row(1, "x"),
        f.Row(a=1, b="x"),
        f.Row(b="x", a=1),
        f.Row("a", "b")(1, "x"),
        f.Row(1, None),
        (1, "x"),
        [1, "x"],
        {"a": 1, "b": "x"},
        f.Row(1),
        f.Row(1, "x", 2),
        f.Row(x=1, y="x"),
        None,
    )
    # Rows that are too short crash PyFlink's compiled coders.
    return _mapped(f, kind, *(form for i, form in enumerate(forms) if i != 8))


def rows_within_rows(f):
    t = f.Types
    inner = t.ROW_NAMED(["x"], [t.INT()])
    kind = t.ROW_NAMED(["r", "l"], [inner, t.LIST(inner)])
    return _mapped(f, kind, f.Row(f.Row(1), [f.Row(2), f.Row(x=3)]), f.Row(r=f.Row(x=1), l=[]))


def rows_within_maps(f):
    t = f.Types
    kind = t.MAP(t.STRING(), t.ROW_NAMED(["x"], [t.INT()]))
    return _mapped(f, kind, {"k": f.Row(1)}, {"k": f.Row(x=2)})


def rows_without_names(f):
    kind = f.Types.ROW([f.Types.INT(), f.Types.STRING()])
    rows = f.ints(1).map(lambda v: f.Row(v, "x"), kind)
    return f.collect(rows), f.collected(lambda: rows.map(lambda r: (r.f0, r["f1"], r[1])))


def names_of_rows_in_functions(f):
    kind = f.Types.ROW_NAMED(["a", "b"], [f.Types.INT(), f.Types.STRING()])
    rows = f.ints(1).map(lambda v: f.Row(v, "x"), kind)
    return (
        f.collected(lambda: rows.map(lambda r: (r.a, r["b"], r.as_dict()))),
        f.collected(lambda: rows.disable_chaining().map(lambda r: (r.a, r["b"], r.as_dict()))),
        f.collected(lambda: rows.filter(lambda r: r.a == 1)),
        f.collected(lambda: rows.key_by(lambda r: r.b).reduce(lambda a, b: a)),
        f.collected(lambda: rows.union(rows).map(lambda r: r.a)),
    )


def tuples_in_every_form(f):
    kind = f.Types.TUPLE([f.Types.INT(), f.Types.STRING()])
    # Tuples that are too short crash PyFlink's compiled coders.
    return _mapped(f, kind, (1, "x"), [1, "x"], f.Row(1, "x"), (None, "x"), ("x", 1))


def lists_in_every_form(f):
    kind = f.Types.LIST(f.Types.INT())
    return _mapped(f, kind, [1, 2], (1, 2), [], [None], ["a"], {1}, range(2), None)


def maps_in_every_form(f):
    kind = f.Types.MAP(f.Types.STRING(), f.Types.INT())
    return _mapped(f, kind, {"a": 1}, {}, {"a": None}, {1: 1}, [("a", 1)], {"b": 2, "a": 1})


def arrays(f):
    t = f.Types
    return [
        _mapped(f, t.PRIMITIVE_ARRAY(t.BYTE()), b"xy", bytearray(b"z"), [1, 2], b""),
        _mapped(f, t.PRIMITIVE_ARRAY(t.INT()), [1, 2], (1, 2), []),
        _mapped(f, t.PRIMITIVE_ARRAY(t.DOUBLE()), [1.5], [1]),
        _mapped(f, t.BASIC_ARRAY(t.STRING()), ["a", "b"], ["a", None]),
        _mapped(f, t.OBJECT_ARRAY(t.ROW([t.INT()])), [f.Row(1), f.Row(2)]),
    ]


def texts(f):
    return _mapped(f, f.Types.STRING(), "", "\0", "ä😀", "x" * 10000, " \n")


def values_without_a_type(f):
    values = (1, None, "a", (1, [2, {"x": {3}}]), f.Row(a=1), Decimal(1), b"", 2**80, 1j, range(2))
    return f.collected(lambda: f.ints(*range(len(values))).map(lambda i: values[i]))


def collections_without_a_type(f):
    values = [(1, "a"), ("b", 2), (None, [1])]
    return (
        f.collected(lambda: f.env().from_collection(values)),
        f.collected(lambda: f.env().from_collection([f.Row(a=1, b=2), f.Row(3)])),
        f.collected(lambda: f.env().from_collection([{"a": 1}, {"b": [1]}])),
        f.collected(lambda: f.env().from_collection([])),
        f.collected(lambda: f.env().from_collection([1, "a", 2.5])),
        f.collected(lambda: f.env().from_collection(iter(range(2)))),
        f.collected(lambda: f.env().from_collection("ab")),
    )


def types_of_streams(f):
    t = f.Types
    typed, untyped = f.ints(1).map(lambda v: v, t.LONG()), f.ints(1).map(lambda v: v)
    pairs = f.pairs(("a", 1))
    return [
        str(stream.get_type())
        for stream in (
            typed,
            untyped,
            typed.filter(lambda v: True),
            typed.key_by(lambda v: v, t.LONG()).reduce(lambda a, b: a),
            pairs.project(1),
            pairs.key_by(lambda v: v[0]).sum(1),
            typed.union(typed),
            typed.rebalance(),
            typed.flat_map(lambda v: [v]),
            pairs.key_by(lambda v: v[0]).count_window(2).reduce(lambda a, b: a),
        )
    ]


def pickled_between_typed(f):
    t = f.Types
    pickled = f.ints(1, 2).map(lambda v: {v}, t.PICKLED_BYTE_ARRAY())
    return f.collect(pickled.map(lambda s: sorted(s), t.LIST(t.INT())).map(lambda v: v[0]))
