"""State of queries expires some time after its last write, as ``table.exec.state.ttl`` says."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.exceptions import SqlParserException, ValidationException
from penstock.table.plan import nodes as n
from unit.table.planning import PROCTIME, TEXT, plan
from unit.table.running import HarnessTable, RunningQuery, settled

INSERT, BEFORE, AFTER, DELETE = range(4)
TEN_SECONDS = {"table.exec.state.ttl": "10 s"}


def pairs(name, kinds=(0,)):
    return HarnessTable.of(name, kinds, k=TEXT, n=types.IntType())


def query(sql, *tables, settings=TEN_SECONDS, **more):
    return RunningQuery(sql, list(tables), settings=settings, **more)


def test_a_group_starts_again_after_its_time():
    running = query("SELECT k, SUM(n) FROM t GROUP BY k", pairs("t"))
    running.give("t", [("a", 1), ("b", 1)])
    running.harness.set_processing_time(6_000)
    running.give("t", [("a", 2)])
    running.harness.set_processing_time(12_000)
    running.give("t", [("a", 3), ("b", 5)])
    assert running.changes() == [
        (INSERT, ("a", 1)),
        (INSERT, ("b", 1)),
        (BEFORE, ("a", 1)),
        (AFTER, ("a", 3)),
        (BEFORE, ("a", 3)),
        (AFTER, ("a", 6)),
        (INSERT, ("b", 5)),
    ]
    running.close()


def test_an_equal_update_is_emitted_so_that_later_state_lives_on():
    running = query("SELECT k, MAX(n) FROM t GROUP BY k", pairs("t"))
    running.give("t", [("a", 1), ("a", 1)])
    assert running.changes() == [(INSERT, ("a", 1)), (BEFORE, ("a", 1)), (AFTER, ("a", 1))]
    running.close()


def test_expired_entries_are_removed_from_state():
    running = query("SELECT k, SUM(n) FROM t GROUP BY k", pairs("t"))
    running.give("t", [(str(i), 1) for i in range(50)])
    running.flush()
    running.harness.set_processing_time(20_000)
    for i in range(20):
        running.give("t", [(f"new{i}", 1)])
    chain = running.harness._opened()
    (context,) = (c for c in chain.contexts if c.name == "GroupAggregate")
    assert context.keyed_state.num_entries == 20
    running.close()


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "FULL JOIN"])
def test_each_row_of_a_join_expires_by_itself(kind):
    running = query(f"SELECT t.k, t.n, u.n FROM t {kind} u ON t.k = u.k", pairs("t"), pairs("u"))
    running.give("t", [("a", 1)])
    running.harness.set_processing_time(6_000)
    running.give("t", [("a", 2)])
    running.harness.set_processing_time(12_000)
    running.give("u", [("a", 7)])
    joined = [row for kind, row in running.changes() if kind != DELETE and row[2] == 7]
    assert joined == [("a", 2, 7)]
    running.close()


def test_a_hint_gives_each_side_of_a_join_its_own_time():
    sql = (
        "SELECT /*+ STATE_TTL('t' = '1 h', 'x' = '5 s') */ t.n, x.n FROM t JOIN u AS x ON t.k = x.k"
    )
    running = query(sql, pairs("t"), pairs("u"), settings={})
    running.give("t", [("a", 1)])
    running.give("u", [("a", 5)])
    running.harness.set_processing_time(60_000)
    running.give("t", [("a", 2)])
    running.give("u", [("a", 6)])
    assert settled(running.changes()) == {(1, 5): 1, (1, 6): 1, (2, 6): 1}
    running.close()


def test_a_hint_of_a_group_goes_before_the_option():
    sql = "SELECT /*+ STATE_TTL('t' = '1 h') */ k, COUNT(*) FROM t GROUP BY k"
    running = query(sql, pairs("t"))
    running.give("t", [("a", 1)])
    running.harness.set_processing_time(60_000)
    running.give("t", [("a", 1)])
    assert settled(running.changes()) == {("a", 2): 1}
    running.close()


def test_hints_are_in_the_plan_and_checked():
    hint = "/*+ STATE_TTL('orders' = '1 h', 'r' = '2 h') */"
    made = plan(f"SELECT {hint} n FROM orders JOIN rates AS r ON orders.k = r.k WHERE n > 1")
    while not isinstance(made, n.Join):
        (made,) = made.inputs
    assert made.state_ttl_ms == (3_600_000, 7_200_000)
    assert "stateTtl=[3600000 ms, 7200000 ms]" in made.describe()
    with pytest.raises(ValidationException, match=r"'order', which is not a table.*orders"):
        plan("SELECT /*+ STATE_TTL('order' = '1 h') */ k, COUNT(*) FROM orders GROUP BY k")
    with pytest.raises(SqlParserException, match="invalid time 'soon' of 'orders'"):
        plan("SELECT /*+ STATE_TTL('orders' = 'soon') */ k, COUNT(*) FROM orders GROUP BY k")


def test_rows_of_a_rank_expire():
    sql = (
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) AS rn "
        "FROM t) WHERE rn <= 1"
    )
    running = query(sql, pairs("t"))
    running.give("t", [("a", 9)])
    running.harness.set_processing_time(20_000)
    running.give("t", [("a", 3)])
    assert running.changes() == [(INSERT, ("a", 9)), (INSERT, ("a", 3))]
    running.close()


def test_first_rows_expire():
    sql = (
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS rn "
        "FROM t) WHERE rn = 1"
    )
    running = query(sql, HarnessTable.of("t", k=TEXT, n=types.IntType(), p=PROCTIME))
    running.give("t", [("a", 1, None), ("a", 2, None)])
    running.harness.set_processing_time(20_000)
    running.give("t", [("a", 3, None)])
    assert [row for _, row in running.changes()] == [("a", 1), ("a", 3)]
    running.close()


def test_sums_over_all_rows_before_expire():
    sql = "SELECT k, SUM(n) OVER (PARTITION BY k ORDER BY p) FROM t"
    running = query(sql, HarnessTable.of("t", k=TEXT, n=types.IntType(), p=PROCTIME))
    running.give("t", [("a", 1, None), ("a", 2, None)])
    running.harness.set_processing_time(20_000)
    running.give("t", [("a", 4, None)])
    assert [row for _, row in running.changes()] == [("a", 1), ("a", 3), ("a", 4)]
    running.close()


@pytest.mark.parametrize("joins", [False, True])
def test_a_time_to_live_may_be_added_and_taken_away(joins):
    """Restored state without one lives from the restore on; later without one, it stays."""
    sql, tables = "SELECT k, SUM(n) FROM t GROUP BY k", [pairs("t")]
    if joins:
        sql = "SELECT t.k, t.n + u.n FROM t JOIN u ON t.k = u.k"
        tables.append(pairs("u"))
    other = "u" if joins else "t"
    first = query(sql, *tables, settings={})
    first.give("t", [("a", 1)])
    snapshot = first.harness.snapshot(1)
    first.close()
    second = query(sql, *tables, restored=snapshot)
    second.give(other, [("a", 2)])
    assert [row for _, row in second.changes()][-1] == ("a", 3)
    snapshot = second.harness.snapshot(2)
    second.harness.set_processing_time(60_000)
    second.give(other, [("a", 4)])
    assert [row for _, row in second.changes()][-1] == (("a", 3) if joins else ("a", 4))
    second.close()
    third = query(sql, *tables, settings={}, restored=snapshot)
    third.harness.set_processing_time(60_000)
    third.give(other, [("a", 5)])
    assert [row for _, row in third.changes()][-1] == ("a", 6 if joins else 8)
    third.close()
