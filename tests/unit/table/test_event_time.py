"""Operators of event time: windows, sessions, joins near in time, and late rows."""

import datetime
import random

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment, types
from penstock.table.exceptions import ValidationException
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.schema import Field, Schema
from penstock.taskexecutor.operators.relational.joins.temporal_join import TemporalJoinOperator
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery, settled


def at(seconds):
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=seconds)


def ms(seconds):
    return int((at(seconds) - datetime.datetime(1970, 1, 1)).total_seconds() * 1000)


def tables():
    schema = Schema((Field("k", TEXT), Field("n", types.IntType()), Field("ts", ROWTIME)))
    return [HarnessTable(name, schema, (0,)) for name in ("t", "u")]


def rows(*given):
    return [(k, n, at(seconds)) for k, n, seconds in given]


TUMBLE = (
    "SELECT window_start, k, SUM(n) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
    "INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k"
)


@pytest.fixture
def start():
    running = []

    def begin(sql, **settings):
        running.append(RunningQuery(sql, tables(), **settings))
        return running[-1]

    yield begin
    for query in running:
        query.close()


def test_a_window_is_emitted_once_when_it_ends(start):
    query = start(TUMBLE)
    query.give("t", rows(("a", 1, 1), ("b", 2, 9), ("a", 4, 11)))
    query.harness.process_watermark("t", ms(9))
    assert query.changes() == []
    query.harness.process_watermark("t", ms(10) - 1)
    assert query.changes() == [(0, (at(0), "a", 1)), (0, (at(0), "b", 2))]
    query.end()
    assert query.changes()[2:] == [(0, (at(10), "a", 4))]


@pytest.mark.parametrize(("slide", "size"), [(2, 5), (5, 2), (3, 9)])
def test_group_windows_slide_by_any_distance(start, slide, size):
    query = start(
        f"SELECT HOP_START(ts, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND), k, SUM(n) "
        f"FROM t GROUP BY k, HOP(ts, INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)"
    )
    given = [("a", 1 << second, second) for second in range(12)]
    query.give("t", rows(*given))
    query.end()
    base = ms(0) // 1000
    starts = [s for s in range(-size, 12) if (base + s) % slide == 0]
    sums = {s: sum(n for _, n, second in given if s <= second < s + size) for s in starts}
    assert query.changes() == [(0, (at(s), "a", total)) for s, total in sums.items() if total]


def test_late_rows_are_dropped_and_counted(start):
    query = start(TUMBLE)
    query.harness.process_watermark("t", ms(12))
    query.give("t", rows(("a", 1, 3), ("a", 2, 11)))
    query.end()
    assert query.changes() == [(0, (at(10), "a", 2))]
    metrics = query.harness.metrics("WindowAggregate")
    assert metrics["numLateRecordsDropped"] == 1
    assert metrics["numRowsInColumns"] == 2


def test_late_rows_of_a_window_join_are_counted(start):
    windows = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    query = start(
        f"SELECT l.n, r.n FROM {windows.format('t')} AS l LEFT JOIN {windows.format('u')} AS r "
        "ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end"
    )
    query.give("t", rows(("a", 1, 3)))
    query.harness.process_watermark("t", ms(12))
    query.harness.process_watermark("u", ms(12))
    query.give("t", rows(("a", 2, 4)))
    query.give("u", rows(("a", 3, 3), ("a", 4, 5), ("a", 5, 13)))
    query.end()
    assert query.changes() == [(0, (1, None))]
    assert query.harness.metrics("WindowJoin")["numLateRecordsDropped"] == 3


def test_open_windows_survive_a_snapshot(start):
    first = start(TUMBLE)
    first.give("t", rows(("a", 1, 1), ("a", 2, 15)))
    snapshot = first.harness.snapshot(1)
    second = start(TUMBLE, restored=snapshot)
    second.give("t", rows(("a", 4, 2)))
    second.end()
    assert second.changes() == [(0, (at(0), "a", 5)), (0, (at(10), "a", 2))]


def test_an_open_window_that_ends_at_the_epoch_survives_a_snapshot(start):
    first = start(TUMBLE)
    first.give("t", [("a", 1, datetime.datetime(1969, 12, 31, 23, 59, 59))])
    second = start(TUMBLE, restored=first.harness.snapshot(1))
    second.end()
    assert [row[1:] for _, row in second.changes()] == [("a", 1)]


def test_windows_last_through_both_passes_of_a_repeated_hour():
    """In Berlin, clocks were set back from 03:00 to 02:00 at 01:00 UTC."""
    zoned = types.LocalZonedTimestampType(3).with_time_attribute(types.TimeAttribute.ROWTIME)
    table = HarnessTable.of("t", k=TEXT, n=types.IntType(), ts=zoned)
    sql = TUMBLE.replace("'10' SECOND", "'30' MINUTE")
    query = RunningQuery(sql, [table], time_zone="Europe/Berlin")
    first = datetime.datetime(2024, 10, 27, 0, 10, tzinfo=datetime.UTC)
    query.give("t", [("a", 1, first)])
    query.harness.process_watermark("t", int(first.timestamp() * 1000) + 30 * 60_000)
    assert query.changes() == []
    query.give("t", [("a", 2, first + datetime.timedelta(hours=1))])
    query.harness.process_watermark("t", int(first.timestamp() * 1000) + 80 * 60_000 - 1)
    assert query.changes() == [(0, (datetime.datetime(2024, 10, 27, 2), "a", 3))]
    query.close()


def test_windows_that_grow(start):
    query = start(
        "SELECT window_end, SUM(n) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY window_start, window_end"
    )
    query.give("t", rows(("a", 1, 1), ("a", 2, 6)))
    query.end()
    assert [row for _, row in query.changes()] == [(at(5), 1), (at(10), 3), (at(15), 3)]


def test_a_row_joins_two_sessions(start):
    query = start(
        "SELECT window_start, window_end, SUM(n) FROM TABLE(SESSION(TABLE t PARTITION BY k, "
        "DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k"
    )
    query.give("t", rows(("a", 1, 1), ("a", 2, 15), ("b", 4, 5)))
    query.give("t", rows(("a", 8, 8)))
    query.end()
    assert sorted(row for _, row in query.changes()) == [(at(1), at(25), 11), (at(5), at(15), 4)]


SESSIONS = (
    "SELECT k, window_end, window_time, COUNT(*), COUNT(n) FILTER (WHERE n > 1), SUM(n), MAX(n), "
    "MIN(ts), window_start{more} FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), "
    "INTERVAL '3' SECOND)) GROUP BY window_start, k, window_time, window_end"
)


@pytest.mark.parametrize("phases", [{}, {"table.optimizer.agg-phase-strategy": "ONE_PHASE"}])
def test_sessions_of_many_rows_are_aggregated_by_columns(start, phases):
    drawn = random.Random(7)
    given = [
        (drawn.choice("abc"), drawn.choice([None, 1, 2, 3]), second + drawn.randrange(-4, 5))
        for second in range(5, 300)
    ]
    found = []
    # A list of the values is no partial result that merges, so its rows are kept.
    for more in ("", ", LISTAGG(CAST(n AS STRING))"):
        query = start(SESSIONS.format(more=more), settings=phases)
        for at in range(0, 300, 100):
            query.give("t", rows(*given[at : at + 100]))
            query.harness.process_watermark("t", ms(at + 100 + at // 10))
        query.end()
        found.append(sorted(row[:9] for _, row in query.changes()))
        metrics = query.harness.metrics("WindowAggregate")
        assert metrics.get("numBatchesInColumns", 0) == (0 if more or phases else 2)
        late = query.harness.metrics("WindowTableFunction" if more else "WindowAggregate")
        assert late["numLateRecordsDropped"] > 0
    assert len(found[0]) > 60
    assert found[0] == found[1]


def test_bounds_of_sessions_may_be_aggregated(start):
    query = start(
        "SELECT k, window_start, window_end, MAX(window_end), MIN(window_start), MAX(window_time) "
        "FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)) "
        "GROUP BY k, window_start, window_end"
    )
    query.give("t", rows(("a", 1, 1), ("a", 2, 3)))
    query.end()
    last = at(6) - datetime.timedelta(milliseconds=1)
    assert [row for _, row in query.changes()] == [("a", at(1), at(6), at(6), at(1), last)]


INTERVAL = (
    "SELECT t.n, u.n FROM t LEFT JOIN u ON t.k = u.k AND "
    "u.ts BETWEEN t.ts AND t.ts + INTERVAL '5' SECOND"
)


def test_a_left_row_waits_for_its_partner_until_none_can_come(start):
    query = start(INTERVAL)
    query.give("t", rows(("a", 1, 0), ("b", 2, 1)))
    query.give("u", rows(("a", 10, 5), ("a", 20, 6)))
    assert query.changes() == [(0, (1, 10))]
    query.harness.process_watermark("t", ms(10))
    query.harness.process_watermark("u", ms(10))
    assert query.changes()[1:] == [(0, (2, None))]


def test_the_first_row_of_a_key_by_time(start):
    query = start(
        "SELECT k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS rn FROM t) "
        "WHERE rn = 1"
    )
    query.give("t", rows(("a", 1, 3), ("a", 2, 1), ("b", 3, 4)))
    query.harness.process_watermark("t", ms(2))
    assert query.changes() == [(0, ("a", 2))]
    query.give("t", rows(("a", 9, 5)))
    query.end()
    assert query.changes()[1:] == [(0, ("b", 3))]


def test_rows_are_ordered_by_time(start):
    query = start("SELECT n FROM t ORDER BY ts, n DESC")
    query.give("t", rows(("a", 1, 5), ("a", 2, 1), ("a", 3, 5)))
    query.end()
    assert [row for _, row in query.changes()] == [(2,), (3,), (1,)]


def test_a_row_before_the_last_ordered_one_is_late(start):
    query = start("SELECT n FROM t ORDER BY ts")
    query.give("t", rows(("a", 1, 5)))
    query.harness.process_watermark("t", ms(9))
    query.give("t", rows(("a", 2, 4), ("a", 3, 6)))
    restored = start("SELECT n FROM t ORDER BY ts", restored=query.harness.snapshot(1))
    restored.give("t", rows(("a", 4, 3)))
    restored.end()
    assert [row for _, row in restored.changes()] == [(3,)]
    assert query.harness.metrics("TemporalSort")["numLateRecordsDropped"] == 1
    assert restored.harness.metrics("TemporalSort")["numLateRecordsDropped"] == 1


def test_sums_over_the_rows_before(start):
    query = start(
        "SELECT n, SUM(n) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT "
        "ROW), LAG(n) OVER (PARTITION BY k ORDER BY ts) FROM t"
    )
    query.give("t", rows(("a", 1, 1), ("a", 4, 3), ("a", 2, 2)))
    query.end()
    assert [row for _, row in query.changes()] == [(1, 1, None), (2, 3, 1), (4, 6, 2)]


def test_the_first_rows_by_time_are_updated(start):
    query = start("SELECT n FROM t ORDER BY ts LIMIT 1")
    query.give("t", rows(("a", 1, 5), ("a", 2, 1)))
    query.end()
    assert settled(query.changes()) == {(2,): 1}


def test_a_union_of_rows_and_changes(start):
    query = start(
        "SELECT k, SUM(c) FROM (SELECT k, n AS c FROM t UNION ALL "
        "SELECT k, CAST(COUNT(*) AS INT) FROM u GROUP BY k) AS both_sides GROUP BY k"
    )
    query.give("t", rows(("a", 10, 1)))
    query.give("u", rows(("a", 0, 1), ("a", 0, 2)))
    query.end()
    assert settled(query.changes()) == {("a", 12): 1}


class _VersionedTable(HarnessTable):
    """A table with a key."""

    def node(self):
        return n.Scan(Schema(self.schema.fields, (0,)), self.name, self, self.kinds)


def test_a_key_without_left_rows_keeps_one_past_version():
    fields = Field("k", TEXT.not_null()), Field("rate", types.IntType()), Field("ts", ROWTIME)
    versions = _VersionedTable("v", Schema(fields), (0,))
    query = RunningQuery(
        "SELECT t.n, v.rate FROM t JOIN v FOR SYSTEM_TIME AS OF t.ts ON t.k = v.k",
        [tables()[0], versions],
    )
    for second in range(1, 5):
        query.give("v", rows(("a", second, second)))
        query.harness.process_watermark("t", ms(second))
        query.harness.process_watermark("v", ms(second))
    operators = query.harness._chain.operators
    (join,) = (each for each in operators if isinstance(each, TemporalJoinOperator))
    ((_, kept),) = join.versions.items()
    assert [row[1] for _, row in kept] == [3, 4]
    query.give("t", rows(("a", 10, 5)))
    query.end()
    assert [row for _, row in query.changes()] == [(10, 4)]
    query.close()


class _MarkedTable(HarnessTable):
    """A table whose watermarks are the times of its rows."""

    own_timeout_ms = None

    def node(self):
        index = self.schema.index("ts")
        mark = e.Column(self.schema.fields[index].type, index, "ts")
        return n.AssignWatermarks(self.schema, super().node(), index, mark, self.own_timeout_ms)


@pytest.mark.parametrize(
    ("timeout", "own_ms", "is_idle"),
    [("0 ms", None, False), ("5 s", None, True), ("1 h", 5_000, True), ("5 s", 0, False)],
)
def test_a_table_without_rows_is_idle_after_the_timeout(timeout, own_ms, is_idle):
    """The table's own timeout, or else that of the settings."""
    sql = TUMBLE.replace("TABLE t,", "(SELECT * FROM t UNION ALL SELECT * FROM u),")
    marked = [_MarkedTable(table.name, table.schema, (0,)) for table in tables()]
    for table in marked:
        table.own_timeout_ms = own_ms
    query = RunningQuery(sql, marked, settings={"table.exec.source.idle-timeout": timeout})
    query.give("u", rows(("b", 5, 1)))
    query.give("t", rows(("a", 1, 1), ("a", 2, 25)))
    query.harness.set_processing_time(4_000)
    query.give("t", rows(("a", 4, 26)))
    assert query.changes() == []
    query.harness.set_processing_time(8_000)
    found = sorted(query.changes(), key=repr)
    assert found == ([(0, (at(0), "a", 1)), (0, (at(0), "b", 5))] if is_idle else [])
    query.close()


def test_a_table_has_an_idle_timeout_of_its_own():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, timeout in (("t", "5 s"), ("u", "soon")):
        tables.execute_sql(
            f"CREATE TABLE {name} (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ("
            f"'connector' = 'datagen', 'scan.watermark.idle-timeout' = '{timeout}')"
        )
    hint = "/*+ OPTIONS('scan.watermark.idle-timeout' = '2 min') */"
    assert tables.sql_query("SELECT * FROM t").plan_node.idle_timeout_ms == 5_000
    assert tables.sql_query(f"SELECT * FROM t {hint}").plan_node.idle_timeout_ms == 120_000
    with pytest.raises(ValidationException, match="'soon' for option"):
        tables.sql_query("SELECT * FROM u")


def test_a_table_has_further_options_of_watermarks():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(
        "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
    )

    def plan(**options):
        given = ", ".join(
            f"'scan.watermark.{key.replace('__', '-').replace('_', '.')}' = '{value}'"
            for key, value in options.items()
        )
        return tables.sql_query(f"SELECT * FROM t /*+ OPTIONS({given}) */").plan_node

    plain = tables.sql_query("SELECT * FROM t").plan_node
    assert plan(emit_strategy="on-event").idle_timeout_ms is plain.idle_timeout_ms
    plan(emit_strategy="on-periodic", alignment_update__interval="1 s")
    with pytest.raises(ValidationException, match="on-periodic or on-event"):
        plan(emit_strategy="often")
    for half in ({"alignment_group": "g"}, {"alignment_max__drift": "1 s"}):
        with pytest.raises(ValidationException, match="must be set when configuring"):
            plan(**half)
    with pytest.raises(ValidationException, match="cannot wait for each other: remove"):
        plan(alignment_group="g", alignment_max__drift="1 s")
    with pytest.raises(ValidationException, match="'far' for option"):
        plan(alignment_group="g", alignment_max__drift="far")
    with pytest.raises(ValidationException, match="Unsupported options"):
        plan(emit_interval="1 s")
