"""Changes of aggregates by columns are those of aggregates row by row, in their order."""

import gc
import random
import sys

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.taskexecutor.compiled import MAX_TIMESTAMP
from penstock.taskexecutor.operators.relational import gathering
from penstock.taskexecutor.operators.relational.aggregates import aggregate
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, RunningQuery

ONE_PHASE = {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}
MINI_BATCH = {"table.exec.mini-batch.enabled": "true"}
CALLS = (
    "COUNT(*)",
    "COUNT(n)",
    "COUNT(*) FILTER (WHERE n > 0)",
    "COUNT(DISTINCT n)",
    "COUNT(DISTINCT s) FILTER (WHERE n > 0)",
    "SUM(n)",
    "SUM(w)",
    "SUM(n) FILTER (WHERE n > 0)",
    "SUM(DISTINCT n)",
    "AVG(n)",
    "AVG(f)",
    "MIN(n)",
    "MAX(w)",
    "MIN(w)",
    "MAX(s)",
    "MIN(s), COUNT(DISTINCT s), COUNT(DISTINCT s) FILTER (WHERE n > 0)",
    "SUM(f)",
)


def table():
    return HarnessTable.of(
        "t",
        k=TEXT,
        b=types.BooleanType(),
        n=types.IntType(),
        w=types.BigIntType().not_null(),
        f=types.DoubleType(),
        s=TEXT,
    )


def rows(seed, most, count=60):
    drawn = random.Random(seed)
    return [
        (
            drawn.choice(["a", "b", 'q"', None]),
            drawn.choice([True, None]),
            drawn.choice([None, drawn.randint(-most, most)]),
            drawn.randint(-(most**2), most**2),
            drawn.choice([None, 0.0, -0.0, 0.1, 1e300]),
            drawn.choice("xyz"),
        )
        for _ in range(count)
    ]


def changes(sql, settings, most):
    query = RunningQuery(sql, [table()], settings=settings)
    found, counts = ended(query, range(3), most)
    return found, counts.get("numBatchesInColumns", 0)


def ended(query, seeds, most):
    """Return the changes of a query that gets batches and ends, and its metrics."""
    for seed in seeds:
        query.give("t", rows(seed, most))
        query.flush()
    query.give("t", rows(4, most, count=3))
    query.end()
    found = query.changes()
    counts = query.harness.metrics("GroupAggregate")
    query.close()
    return list(map(repr, found)), counts


@pytest.mark.parametrize("most", [3, 2**31 - 1])
@pytest.mark.parametrize(
    "columns",
    [
        *CALLS,
        ", ".join(CALLS),
        "MAX(n), MIN(n)",
        "COUNT(DISTINCT n), COUNT(DISTINCT s)",
        "COUNT(DISTINCT f), SUM(DISTINCT f) FILTER (WHERE n > 0)",
        "COUNT(DISTINCT n, s), APPROX_COUNT_DISTINCT(n), SUM(DISTINCT n), MAX(DISTINCT n)",
        ", ".join(f"COUNT(DISTINCT n) FILTER (WHERE n > {bound})" for bound in range(-35, 35)),
    ],
)
def test_each_change_is_that_of_its_row_or_batch(columns, most):
    sql = f"SELECT k, b, {columns} FROM t GROUP BY k, b"
    for settings in ({}, MINI_BATCH):
        found, batches = changes(sql, settings, most)
        assert batches == 3
        assert (found, 0) == changes(sql, settings | ONE_PHASE, most)


@pytest.mark.parametrize("ttl", ["0 ms", "1 h"])
def test_equal_rows_are_emitted_only_where_state_expires(ttl):
    sql = "SELECT k, MAX(n) FROM t GROUP BY k"
    settings = {"table.exec.state.ttl": ttl}
    found, batches = changes(sql, settings, 3)
    assert batches == 3
    assert (found, 0) == changes(sql, settings | ONE_PHASE, 3)


@pytest.mark.parametrize(("columns", "objects"), [("COUNT(*), COUNT(n)", 1), ("SUM(n)", 2)])
def test_a_count_in_state_is_no_object(columns, objects):
    """A key is an object, and so is a value unless all of its numbers are equal.

    Caches keep some thousands of texts as well.
    """
    keys = 30_000
    given = [HarnessTable.of("t", k=types.IntType(), n=types.IntType())]
    query = RunningQuery(f"SELECT k, {columns} FROM t GROUP BY k", given)
    query.give("t", [(-1, 0)] * 40)
    query.flush()
    gc.collect()  # other tests left garbage
    before = sys.getallocatedblocks()
    query.give("t", [(key, 5) for key in range(keys)])
    query.flush()
    query.give("t", [(key, 5) for key in range(keys)])
    query.flush()
    found = sys.getallocatedblocks() - before
    assert (objects - 0.5) * keys < found < (objects + 0.5) * keys
    query.close()


def test_distinct_rows():
    sql = "SELECT DISTINCT k, b FROM t"
    found, batches = changes(sql, {}, 3)
    assert batches == 3
    assert len(found) == 8
    assert (found, 0) == changes(sql, ONE_PHASE, 3)


def test_keys_that_kernels_group_otherwise_are_left_to_rows():
    found, batches = changes("SELECT f, COUNT(*) FROM t GROUP BY f", {}, 3)
    assert batches == 0
    assert found


@pytest.mark.parametrize(
    ("columns", "calls"),
    [
        ("MAX(s), MIN(s), COUNT(DISTINCT s), COUNT(DISTINCT n) FILTER (WHERE n > 0)", 0),
        ("SUM(f)", 3),
    ],
)
def test_a_metric_counts_calls_without_a_kernel(columns, calls):
    query = RunningQuery(f"SELECT k, {columns} FROM t GROUP BY k", [table()])
    _, counts = ended(query, range(3), 3)
    assert (counts["numBatchesInColumns"], counts["numCallsByRow"]) == (3, calls)


def test_distinct_values_are_counted_on_after_a_snapshot():
    sql = f"SELECT k, {', '.join(CALLS)} FROM t GROUP BY k"
    first = RunningQuery(sql, [table()])
    first.give("t", rows(0, 3))
    snapshot = first.harness.snapshot(1)
    before = len(first.changes())
    found, _ = ended(first, (1, 2), 3)
    # What follows a snapshot changes accumulators in place, but not those of the snapshot.
    restored, counts = ended(RunningQuery(sql, [table()], restored=snapshot), (1, 2), 3)
    assert counts["numBatchesInColumns"] == 2
    assert restored == found[before:]


@pytest.mark.parametrize(("before", "after"), [({}, ONE_PHASE), (ONE_PHASE, {}), ({}, MINI_BATCH)])
@pytest.mark.parametrize(
    "columns", ["COUNT(*)", "COUNT(n)", "COUNT(*), MIN(n), MAX(w), SUM(n)", ", ".join(CALLS)]
)
def test_groups_of_either_form_are_restored(before, after, columns):
    """Rows write plain groups, as 1.0 did, and columns packed ones."""
    sql = f"SELECT k, {columns} FROM t GROUP BY k"
    first = RunningQuery(sql, [table()], settings=before)
    first.give("t", rows(0, 3))
    snapshot = first.harness.snapshot(1)
    first.close()
    restored = RunningQuery(sql, [table()], restored=snapshot, settings=after)
    whole = RunningQuery(sql, [table()], settings=ONE_PHASE | after)
    whole.give("t", rows(0, 3))
    begun = len(whole.changes())
    assert ended(restored, (1, 2), 3)[0] == ended(whole, (1, 2), 3)[0][begun:]


@pytest.mark.parametrize("columns", ["AVG(w)", "AVG(w), MIN(n), COUNT(DISTINCT s)"])
def test_sums_beyond_64_bits_remain_exact(columns):
    sql = f"SELECT k, {columns} FROM t GROUP BY k"
    found, batches = changes(sql, {}, (1 << 31) - 1)
    assert batches < 3
    assert (found, 0) == changes(sql, ONE_PHASE, (1 << 31) - 1)


@pytest.mark.parametrize("event", ["time", "rows", "barrier", "idleness", "end"])
@pytest.mark.parametrize("settings", [{}, MINI_BATCH])
def test_batches_wait_for_others_and_watermarks_for_them(monkeypatch, event, settings):
    monkeypatch.setattr(gathering.GatheringOperator, "enough_rows", 81)
    query = RunningQuery("SELECT k, COUNT(*) FROM t GROUP BY k", [table()], settings=settings)
    harness = query.harness
    query.give("t", rows(0, 3, count=1))
    output = harness.output("result")
    assert len(output.records) == 1, "few rows do not wait"
    query.give("t", rows(1, 3, count=40))
    harness.process_watermark("t", 5)
    query.give("t", rows(2, 3, count=40))
    harness.set_processing_time(9)
    assert len(output.records) == 1
    assert not output.watermarks
    if event == "time":
        harness.set_processing_time(10)
    elif event == "rows":
        query.give("t", rows(3, 3, count=1))
    elif event == "barrier":
        harness.snapshot(1)
    elif event == "idleness":
        harness.process_watermark_status("t", idle=True)
    else:
        query.end()
    assert len(output.records) == 2
    assert output.watermarks[0] == (MAX_TIMESTAMP if event == "end" else 5)
    query.close()


def test_large_results_are_emitted_in_parts(monkeypatch):
    monkeypatch.setattr(aggregate, "_MOST_EMITTED", 50)
    query = RunningQuery("SELECT k, COUNT(*) FROM t GROUP BY k", [table()])
    query.give("t", rows(0, 3))
    expected = changes("SELECT k, COUNT(*) FROM t GROUP BY k", ONE_PHASE, 3)[0]
    assert list(map(repr, query.changes())) == expected[: 2 * 60 - 4]
    assert [batch.num_rows for batch in query.harness.values("result")] == [50, 50, 16]
    query.close()


def test_a_batch_without_a_kernel_leaves_those_beside_it_to_kernels():
    updating = HarnessTable("t", table().schema, (0, 1, 2, 3))
    query = RunningQuery("SELECT k, COUNT(*), SUM(n) FROM t GROUP BY k", [updating])
    (row,) = rows(0, 3, 1)
    for batch in ([(0, *row)] * 40, [(3, *row)] * 40, [(0, *row)] * 40):
        query.give("t", batch)
    assert len(query.changes()) == 1 + 2 * 39 + 2 * 39 + 1 + 1 + 2 * 39
    assert query.harness.metrics("GroupAggregate")["numBatchesInColumns"] == 2
    query.close()


RETRACTED = ("COUNT(*)", "COUNT(n)", "SUM(n) FILTER (WHERE n > 0), SUM(w)", "AVG(n), COUNT(s)")


def updates(seed, most, count=60):
    """Return batches of rows with their kinds, the first of which only adds."""
    drawn = random.Random(seed)
    present, batches = [], []
    for _ in range(4):
        batch = []
        for row in rows(drawn.random(), most, count):
            place = drawn.randrange(len(present)) if batches and present else None
            match place and drawn.randrange(3):
                case 0 | None:
                    batch.append((0, *row))
                    present.append(row)
                case 1:
                    batch.append((3, *present.pop(place)))
                case _:
                    # Both rows have one key.
                    row = (*present[place][:2], *row[2:])
                    batch += [(1, *present[place]), (2, *row)]
                    present[place] = row
        batches.append(batch)
    return batches


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("columns", [*RETRACTED, ", ".join(RETRACTED)])
def test_each_change_of_a_retracted_row_is_that_of_its_row_or_batch(columns, seed):
    def changes(sql, settings, most):
        updating = HarnessTable("t", table().schema, (0, 1, 2, 3))
        query = RunningQuery(sql, [updating], settings=settings)
        for batch in updates(seed, most):
            query.give("t", batch)
            query.flush()
        query.end()
        found = list(map(repr, query.changes()))
        batches = query.harness.metrics("GroupAggregate").get("numBatchesInColumns", 0)
        query.close()
        return found, batches

    for key in ("k, b", "f", "k"):
        sql = f"SELECT {key}, {columns} FROM t GROUP BY {key}"
        for most in (3, 2**31 - 1):
            for settings in ({}, MINI_BATCH):
                found, batches = changes(sql, settings, most)
                assert found
                assert (batches > 0) == (key != "f" and (most == 3 or "SUM(n)" not in columns))
                assert (found, 0) == changes(sql, settings | ONE_PHASE, most)


def test_a_batch_that_empties_a_group_is_left_to_rows():
    updating = HarnessTable("t", table().schema, (0, 1, 2, 3))
    query = RunningQuery("SELECT k, COUNT(*), SUM(n) FROM t GROUP BY k", [updating])
    (row,) = rows(0, 3, 1)
    query.give("t", [(kind, *row) for kind in (0, 3) * 20])
    query.end()
    assert [kind for kind, _ in query.changes()] == [0, 3] * 20
    assert query.harness.metrics("GroupAggregate")["numBatchesInColumns"] == 0
    query.close()
