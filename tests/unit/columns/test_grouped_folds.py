"""Aggregates over columns: the same rows as over records, and as plain Python computes them.

Goal: for any batch, the accumulators of each key and the emitted rows are those of one record after
the other.  Method: one operator gets batches, another one their rows, and a loop over lists is the
third; counters show that batches were grouped.
"""

import itertools
import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from penstock import aggregates as agg
from penstock.aggregates.folds import ApproximateDistinct
from penstock.aggregates.resolution import key_fields, named_aggregates, result_type
from penstock.columns.batch_schema import batch_schema
from penstock.columns.column_batch import ColumnBatch
from penstock.common.typeinfo import Types
from penstock.expressions import as_tuple, field
from penstock.expressions.computed import computed
from penstock.graph import operators
from penstock.network import runtime
from penstock.taskexecutor.operators import batch_wait
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

pytestmark = pytest.mark.skipif(runtime() != "native", reason="only the native runtime has columns")

ROW = Types.ROW_NAMED(
    ["k", "t", "i", "x", "f", "b"],
    [
        Types.INT(),
        Types.STRING(),
        Types.LONG(),
        Types.DOUBLE(),
        Types.FLOAT(),
        Types.BOOLEAN(),
    ],
)
SCHEMA = batch_schema(ROW)

BY_NUMBER = field("k")

AGGREGATES = {
    "count": agg.count(),
    "count_of": agg.count("i"),
    "count_where": agg.count(where=field("k") > 1),
    "sum": agg.sum("i"),
    "sum_of_floats": agg.sum("x"),
    "sum_of_small": agg.sum("f"),
    "sum_where": agg.sum("i", where=field("k") > 1),
    "sum_of_computed": agg.sum(field("k") * 3),
    "mean": agg.mean("i"),
    "mean_of_floats": agg.mean("x"),
    "mean_where": agg.mean("i", where=field("b")),
    "min": agg.min("i"),
    "max": agg.max("i"),
    "min_of_keys": agg.min("k"),
    "max_of_keys": agg.max("k"),
    "min_of_floats": agg.min("x"),
    "max_of_floats": agg.max("f"),
    "min_of_texts": agg.min("t"),
    "max_of_texts": agg.max("t"),
    "first": agg.first("t"),
    "last": agg.last("x"),
    "min_by": agg.min_by("t", "i"),
    "max_by": agg.max_by("i", "x"),
    "max_by_text": agg.max_by("b", "t"),
    "distinct": agg.count_distinct("t"),
    "distinct_integers": agg.count_distinct("i"),
    "distinct_floats": agg.count_distinct("x"),
    "about": agg.count_distinct("t", approximate=True),
    "about_integers": agg.count_distinct("i", approximate=True, where=field("b")),
    "about_floats": agg.count_distinct("x", approximate=True),
    "collect": agg.collect("i"),
}

INTEGERS = st.one_of(
    st.integers(-5, 5), st.sampled_from([2**62, -(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1])
)
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 1e300, -1e300, math.inf, -math.inf, math.nan]),
    st.floats(-9, 9),
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.none(), st.sampled_from(["", "a", "b", "ä", "\U0001f600", "￿"])),
        st.one_of(st.none(), INTEGERS),
        st.one_of(st.none(), FLOATS),
        st.one_of(st.none(), st.floats(width=32)),
        st.booleans(),
    ),
    min_size=8,
    max_size=40,
)


def batch_of(rows, timestamps):
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
    ]
    data = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return ColumnBatch(data, ROW, pa.array(timestamps, pa.int64()))


def harness(key=BY_NUMBER, aggregates=AGGREGATES, emit="running", **options):
    function, fields = named_aggregates(aggregates, ROW, "aggregate")
    selector = computed(key, "key_by", [ROW])
    keys = key_fields(selector, None, ROW, None, "aggregate")
    of_rows = result_type([*zip(keys.names, keys.types, strict=True), *fields], "aggregate")
    descriptor = operators.Aggregate(
        function, key_fields=keys, result_type=of_rows, is_running=emit == "running"
    )
    return KeyedOneInputStreamOperatorTestHarness(descriptor, selector, **options)


def take(test, batch):
    """Pass a batch to an operator, which does not wait for more batches."""
    test.operator.process_batch(batch)
    test.operator.flush()


def shown(records):
    """Return records in a form in which NaN equals itself and -0.0 is not 0.0."""
    return [(repr(list(record.value)), record.timestamp) for record in records]


def emitted(batches, *, in_columns, key=BY_NUMBER, emit="running", aggregates=AGGREGATES):
    with harness(key, aggregates, emit) as test:
        for number, rows in enumerate(batches):
            stamps = [number * 100 + at for at in range(len(rows))]
            batch = batch_of(rows, stamps)
            if in_columns:
                take(test, batch)
            else:
                for row, timestamp in zip(batch.rows(), stamps, strict=True):
                    test.process_element(row, timestamp)
        if in_columns:
            assert test.operator.columns.batches == len(batches)
            assert test.operator.columns.rows == sum(map(len, batches))
            assert test.operator.columns.given_up == 0
        return shown(test.records)


@pytest.mark.parametrize("key", [field("k"), as_tuple(field("k"), field("t")), field("t")], ids=str)
@settings(max_examples=25, deadline=None)
@given(batches=st.lists(ROWS, min_size=1, max_size=3))
def test_running_results_are_those_of_records(key, batches):
    assert emitted(batches, in_columns=True, key=key) == emitted(batches, in_columns=False, key=key)


@pytest.mark.parametrize("key", [field("k"), as_tuple(field("t"), field("b"))], ids=str)
@settings(max_examples=25, deadline=None)
@given(batches=st.lists(ROWS, min_size=1, max_size=3))
def test_a_batch_emits_the_last_row_of_each_key(key, batches):
    found = emitted(batches, in_columns=True, key=key, emit="batch")
    width = 2 if "as_tuple" in str(key.node) else 1
    expected = []
    for number in range(len(batches)):
        last = {}
        for text, timestamp in emitted(batches[: number + 1], in_columns=False, key=key):
            if timestamp >= number * 100:
                last[repr(eval(text, {"nan": math.nan, "inf": math.inf})[:width])] = text, timestamp
        expected += last.values()
    assert found == expected


def test_results_are_those_of_a_loop():
    rows = [(n % 3, f"t{n * 7 % 5}", n * n % 11, n / 4, None, n % 2 == 0) for n in range(500)]
    with harness(emit="batch") as test:
        for start in range(0, 500, 100):
            take(test, batch_of(rows[start : start + 100], range(100)))
        found = {record.value["k"]: record.value for record in test.records}
    for key in range(3):
        mine = [row for row in rows if row[0] == key]
        integers = [row[2] for row in mine]
        expected = {
            "count": len(mine),
            "count_where": len(mine) if key > 1 else 0,
            "sum": sum(integers),
            "sum_of_small": None,
            "sum_where": sum(integers) if key > 1 else None,
            "sum_of_computed": 3 * key * len(mine),
            "mean": sum(integers) / len(integers),
            "min": min(integers),
            "max_of_texts": max(row[1] for row in mine),
            "first": mine[0][1],
            "last": mine[-1][3],
            "min_by": min(mine, key=lambda row: row[2])[1],
            "max_by": max(mine, key=lambda row: row[3])[2],
            "distinct": len({row[1] for row in mine}),
            "about": len({row[1] for row in mine}),
            "collect": integers,
        }
        assert {name: found[key][name] for name in expected} == expected


@pytest.mark.parametrize("count", [5, 300, 500, 20_000])
def test_estimates_depend_only_on_the_values(count):
    fold, chooser = ApproximateDistinct(), random.Random(count)
    values = [f"{n}" if n else "" for n in range(count)]
    expected = fold.result(fold.add_all(None, values))
    assert expected == pytest.approx(count, rel=0.05)
    for _ in range(3):
        chooser.shuffle(values)
        cuts = sorted(chooser.choices(range(count), k=3))
        parts = [values[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
        added = merged = None
        for part in parts:
            added = fold.add_all(added, [*part, *part])
            merged = fold.merge(fold.add_all(None, part), merged)
        assert fold.result(added) == fold.result(merged) == expected


def test_estimates_of_large_integers_and_equal_floats():
    fold = ApproximateDistinct()
    assert fold.result(fold.add_all(None, [2**64, 2**64 + 1, 2**63, -(2**63), 2**63 - 1])) == 5
    assert fold.result(fold.add_all(None, [0.0, -0.0, math.nan, -math.nan])) == 2
    assert fold.result(fold.create()) == 0


def test_integers_beyond_64_bits_are_pythons():
    rows = [(1, "t", 2**63 - 1, 0.0, 0.0, True)] * 10
    with harness(aggregates={"sum": agg.sum("i")}) as test:
        take(test, batch_of(rows, range(10)))
        assert [record.value["sum"] for record in test.records] == [
            n * (2**63 - 1) for n in range(1, 11)
        ]


def test_records_are_taken_one_by_one_where_keys_are_floats():
    with harness(field("x"), {"n": agg.count()}) as test:
        assert test.operator.columns is None
        rows = [(1, "t", 1, x, 0.0, True) for x in (0.0, -0.0) * 8]
        take(test, batch_of(rows, range(16)))
        assert [record.value["n"] for record in test.records][-2:] == [8, 8]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_goes_with_its_keys_to_another_parallelism(backend):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    from penstock.testing import redistribute

    options = {"configuration": {"state.backend.type": backend}}
    rows = [(n % 50, f"t{n % 7}", n, n / 4, 0.5, True) for n in range(400)]
    with harness(emit="batch", **options) as test:
        take(test, batch_of(rows, range(400)))
        before = {record.value["k"]: repr(record.value) for record in test.records}
        snapshot = test.snapshot(1)
        # Changes after the snapshot are not in it.
        take(test, batch_of(rows, range(400)))
    found = {}
    for subtask, part in enumerate(redistribute([snapshot], 2)):
        test = harness(emit="batch", subtask=subtask, parallelism=2, **options)
        test.initialize_state(part)
        with test:
            mine = [key for key in range(50) if test._context.has_key(key)]
            assert 0 < len(mine) < 50
            # A record that only the last-value aggregate accepts.
            again = [rows[350 + key] for key in mine]
            take(test, batch_of(again, range(len(again))))
            assert test.operator.columns.batches == 1
            found |= {record.value["k"]: record.value for record in test.records}
    assert found.keys() == before.keys()
    assert all(row["count"] == 9 and row["distinct"] == 7 for row in found.values())
    assert all(row["collect"][:-1] == list(range(k, 400, 50)) for k, row in found.items())


def test_small_batches_wait_for_others_until_there_are_records_enough():
    rows = [(n % 3, "t", n, 0.5, 0.5, True) for n in range(100)]
    with harness(aggregates={"n": agg.count()}, emit="batch") as test:
        for _ in range(40):
            test.operator.process_batch(batch_of(rows, range(100)))
        assert test.records == []
        test.operator.process_batch(batch_of(rows, range(100)))
        assert [record.value["n"] for record in test.records] == [1394, 1353, 1353]
        assert test.operator.columns.batches == 1


def waiting(test):
    rows = [(n % 3, "t", n, 0.5, 0.5, True) for n in range(10)]
    test.operator.process_batch(batch_of(rows, range(10)))
    assert test.records == []


@pytest.mark.parametrize(
    "event",
    [
        lambda test: test.process_watermark(5),
        lambda test: test.snapshot(1),
        lambda test: test.set_processing_time(1000),
        lambda test: test.end_input(),
        lambda test: test.process_element(
            batch_of([(1, "t", 1, 0.5, 0.5, True)], [9]).rows()[0], 9
        ),
    ],
    ids=["watermark", "barrier", "time", "end", "record"],
)
def test_batches_wait_for_nothing_else(event):
    with harness(aggregates={"n": agg.count()}, emit="batch") as test:
        waiting(test)
        event(test)
        assert [record.value["n"] for record in test.records][:3] == [4, 3, 3]


@pytest.mark.parametrize(("taken_ms", "wait_ms"), [(0, 10), (1, 10), (4, 40), (30, 100)])
def test_batches_wait_longer_after_one_that_took_long(monkeypatch, taken_ms, wait_ms):
    clock = itertools.count(0, taken_ms * 1_000_000)
    monkeypatch.setattr(batch_wait, "monotonic_ns", lambda: next(clock))
    with harness(aggregates={"n": agg.count()}, emit="batch") as test:
        test.set_processing_time(0)
        waiting(test)
        test.set_processing_time(10)
        assert len(test.records) == 3
        test.operator.process_batch(batch_of([(1, "t", 1, 0.5, 0.5, True)] * 10, range(10)))
        test.set_processing_time(10 + wait_ms - 1)
        assert len(test.records) == 3
        test.set_processing_time(10 + wait_ms)
        assert len(test.records) == 4
