"""Aggregates by columns return what aggregates row by row return, and count their rows."""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

import pyarrow as pa
from penstock.columns.record_batches import values_of
from penstock.table import types
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
CALLS = (
    "COUNT(*), COUNT(n), SUM(n), AVG(n), MIN(n), MAX(b), SUM(b), AVG(b), MIN(ts), "
    "COUNT(*) FILTER (WHERE n > 0), SUM(n) FILTER (WHERE n < 0)"
)
#: DOUBLE is no key of slices.
WINDOW = (
    f"SELECT k, window_end, {CALLS} FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, "
    "INTERVAL '10' SECOND)) GROUP BY k, CAST(n % 3 AS DOUBLE), window_start, window_end"
)
GROUPED = f"SELECT k, {CALLS} FROM t GROUP BY k"


def table():
    return HarnessTable.of("t", k=TEXT, n=types.IntType(), b=types.BigIntType(), ts=ROWTIME)


def batches(most=(1 << 63) - 1):
    drawn = random.Random(7)
    start = datetime.datetime(2024, 1, 1)
    for _ in range(3):
        yield [
            (
                drawn.choice(["a", "b", None]),
                drawn.choice([None, drawn.randint(-(1 << 31), (1 << 31) - 1)]),
                drawn.choice([None, drawn.randint(-most, most)]),
                start + datetime.timedelta(seconds=drawn.randint(0, 40)),
            )
            for _ in range(100)
        ]


def results(sql, settings, *, is_streaming, most):
    """Return the changes, and how many rows were aggregated by columns."""
    query = RunningQuery(sql, [table()], settings=settings, is_streaming=is_streaming)
    (operator,) = (op for op in query.harness._opened().operators if hasattr(op, "partials"))
    for rows in batches(most):
        query.give("t", rows)
        query.flush()
    query.end()
    partials = operator.partials
    found = sorted(query.changes(), key=repr), 0 if partials is None else partials.rows
    query.close()
    return found


@pytest.mark.parametrize(("sql", "is_streaming"), [(WINDOW, True), (GROUPED, False)])
def test_results_are_those_of_single_rows(sql, is_streaming):
    """Sums that do not fit 64 bits wrap around, or are left to single rows."""
    for most in (1 << 40, (1 << 63) - 1):
        fast, rows = results(sql, {}, is_streaming=is_streaming, most=most)
        slow, none = results(sql, ONE_PHASE, is_streaming=is_streaming, most=most)
        assert fast == slow
        assert none == 0
        assert (rows > 0) == (most == 1 << 40)


@pytest.mark.parametrize(
    "call", ["COUNT(DISTINCT n)", "SUM(CAST(n AS DOUBLE))", "LISTAGG(k)", "MIN(k)"]
)
def test_other_functions_take_single_rows(call):
    query = RunningQuery(f"SELECT k, {call} FROM t GROUP BY k", [table()], is_streaming=False)
    (operator,) = (op for op in query.harness._opened().operators if hasattr(op, "partials"))
    assert operator.partials is None
    query.close()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2, 3]),
        pa.array([1, None, 3]),
        pa.array([1.5, float("inf")]),
        pa.array([1.5, None]),
        pa.array(["a", None, ""]),
        pa.array([True, False]),
        pa.array([True, None]),
        pa.array([0, None, 1_700_000_000_123], pa.timestamp("ms")),
        pa.array([0, 1_700_000_000_123_456], pa.timestamp("us")),
        pa.array([0, 5_000], pa.timestamp("ns")),
        pa.array([0, 5_000], pa.timestamp("ms", "UTC")),
        pa.array([[1], None]),
        pa.array([b"x", None]),
        pa.array([], pa.timestamp("ms")),
        pa.array([1, 2, 3, 4])[1:3],
    ],
)
def test_values_are_those_of_arrow(array):
    found = values_of(array)
    assert found == array.to_pylist()
    assert [type(value) for value in found] == [type(value) for value in array.to_pylist()]
