"""Rolling and windowed aggregations of tuples, rows and values without a type."""

from __future__ import annotations

from typing import Any

_DATA = [("a", 3, 1.5), ("b", 1, 2.5), ("a", 1, 0.5), ("a", 3, 9.5), ("b", 1, -1.0)]


def _triples(f: Any, typed: bool = True) -> Any:
    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.INT(), f.Types.DOUBLE()])
    env = f.env()
    return env.from_collection(_DATA, kind) if typed else env.from_collection(_DATA)


def _rows(f: Any) -> Any:
    kind = f.Types.ROW_NAMED(["k", "n", "x"], [f.Types.STRING(), f.Types.INT(), f.Types.DOUBLE()])
    return f.env().from_collection([f.Row(*fields) for fields in _DATA], kind)


def sum_of_tuples(f):
    return f.collect(_triples(f).key_by(lambda v: v[0], f.Types.STRING()).sum(1))


def sum_of_last_field_by_default_is_of_the_first(f):
    return f.collected(lambda: _triples(f).key_by(lambda v: v[0], f.Types.STRING()).sum())


def sum_of_negative_position(f):
    return f.collected(lambda: _triples(f).key_by(lambda v: v[0]).sum(-1))


def min_keeps_the_first_element(f):
    return f.collect(_triples(f).key_by(lambda v: v[0], f.Types.STRING()).min(1))


def max_keeps_the_first_element(f):
    return f.collect(_triples(f).key_by(lambda v: v[0], f.Types.STRING()).max(2))


def min_by_takes_the_whole_element(f):
    return f.collect(_triples(f).key_by(lambda v: v[0], f.Types.STRING()).min_by(1))


def max_by_of_equal_values(f):
    return f.collect(_triples(f).key_by(lambda v: v[0], f.Types.STRING()).max_by(1))


def sum_of_untyped_tuples(f):
    return f.collect(_triples(f, typed=False).key_by(lambda v: v[0]).sum(1))


def max_by_of_untyped_tuples(f):
    return f.collect(_triples(f, typed=False).key_by(lambda v: v[0]).max_by(2))


def sum_of_rows_by_name(f):
    return f.collect(_rows(f).key_by(lambda v: v[0], f.Types.STRING()).sum("n"))


def sum_of_rows_by_position(f):
    return f.collect(_rows(f).key_by(lambda v: v.k, f.Types.STRING()).sum(2))


def min_by_of_rows_by_name(f):
    return f.collect(_rows(f).key_by(lambda v: v["k"], f.Types.STRING()).min_by("x"))


def max_of_rows_by_name(f):
    return f.collect(_rows(f).key_by(lambda v: v["k"], f.Types.STRING()).max("x"))


def sum_of_texts_is_refused(f):
    return f.collected(lambda: _triples(f).key_by(lambda v: v[1], f.Types.INT()).sum(0))


def max_of_texts(f):
    return f.collected(lambda: _triples(f).key_by(lambda v: v[1], f.Types.INT()).max(0))


def sum_beyond_the_type(f):
    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.INT()])
    data = [("a", 2**31 - 1), ("a", 1)]
    return f.collected(lambda: f.env().from_collection(data, kind).key_by(lambda v: v[0]).sum(1))


def sum_of_decimals(f):
    from decimal import Decimal

    data = [("a", Decimal("1.10")), ("a", Decimal("2.25"))]
    return f.collect(f.env().from_collection(data).key_by(lambda v: v[0]).sum(1))


def sum_of_numbers_and_truths(f):
    data = [("a", 1), ("a", True), ("a", 2.5)]
    return f.collected(lambda: f.env().from_collection(data).key_by(lambda v: v[0]).sum(1))


def sum_of_lists_is_refused(f):
    data = [["a", 1], ["a", 2]]
    return f.collected(lambda: f.env().from_collection(data).key_by(lambda v: v[0]).sum(1))


def sum_of_single_numbers_is_refused(f):
    return f.collected(lambda: f.ints(1, 2, 3).key_by(lambda v: 0).sum(0))


def sum_behind_a_map_of_rows(f):
    kind = f.Types.ROW_NAMED(["n", "k"], [f.Types.LONG(), f.Types.STRING()])
    rows = _rows(f).map(lambda v: f.Row(n=v.n * 2, k=v.k), kind)
    return f.collect(rows.key_by(lambda v: v.k, f.Types.STRING()).sum("n"))


def sum_of_a_sum(f):
    first = _triples(f).key_by(lambda v: v[0], f.Types.STRING()).sum(1)
    return f.collect(first.key_by(lambda v: 0, f.Types.INT()).sum(1))


def reduce_of_tuples_changes_the_type_silently(f):
    keyed = _triples(f).key_by(lambda v: v[0], f.Types.STRING())
    return f.collected(lambda: keyed.reduce(lambda a, b: (a[0], a[1] + b[1], a[2])))


def reduce_that_gives_another_shape(f):
    keyed = _triples(f).key_by(lambda v: v[0], f.Types.STRING())
    # Tuples that are too short crash PyFlink's compiled coders.
    return f.collected(lambda: keyed.reduce(lambda a, b: (b[1], a[0], a[2])))


def reduce_that_gives_none(f):
    return f.collected(lambda: f.ints(1, 2, 3).key_by(lambda v: 0).reduce(lambda a, b: None))


def reduce_of_rows_keeps_their_names(f):
    keyed = _rows(f).key_by(lambda v: v.k, f.Types.STRING())
    return f.collect(keyed.reduce(lambda a, b: f.Row(a.k, a.n + b.n, max(a.x, b.x))))


def reduce_function_with_open(f):
    class Add(f.ReduceFunction):
        def open(self, runtime_context):
            self.more = 100

        def reduce(self, value1, value2):
            return value1 + value2 + self.more

    return f.collect(f.ints(1, 2, 3).key_by(lambda v: 0, f.Types.INT()).reduce(Add()))


def reduce_in_batch_mode(f):
    keyed = f.pairs(("a", 1), ("b", 2), ("a", 3), env=f.batch_env()).key_by(lambda v: v[0])
    return f.sorted(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])))


def sum_in_batch_mode(f):
    keyed = f.pairs(("a", 1), ("b", 2), ("a", 3), env=f.batch_env(2)).key_by(lambda v: v[0])
    return f.sorted(keyed.sum(1))


def max_by_in_batch_mode(f):
    keyed = f.pairs(("a", 1), ("b", 2), ("a", 3), env=f.batch_env()).key_by(lambda v: v[0])
    return f.sorted(keyed.max_by(1))


def window_sum_min_max(f):
    keyed = _triples(f).key_by(lambda v: v[0], f.Types.STRING())
    counted = keyed.count_window(2)
    names = ("sum", "min", "max_by")
    return [f.outcome(lambda name=name: getattr(counted, name)(1)) for name in names]


def count_window_reduces(f):
    keyed = f.pairs(("a", 1), ("a", 2), ("a", 3), ("b", 1)).key_by(lambda v: v[0])
    return f.collect(keyed.count_window(2).reduce(lambda a, b: (a[0], a[1] + b[1])))


def sliding_count_window_reduces(f):
    keyed = f.ints(1, 2, 3, 4, 5, 6, 7).key_by(lambda v: 0, f.Types.INT())
    return f.collect(keyed.count_window(3, 2).reduce(lambda a, b: a + b))


def project_fields(f):
    return f.collect(_triples(f).project(2, 0))


def project_twice_and_sum(f):
    projected = _triples(f).project(1, 0)
    return f.collect(projected.key_by(lambda v: v[1]).sum(0))


def project_of_rows_is_refused(f):
    return f.collected(lambda: _rows(f).project(0))


def project_beyond_is_refused(f):
    return f.collected(lambda: _triples(f).project(3))
