"""Statements of kinds that differed from PyFlink 2.3.0, with the results recorded there."""

import datetime

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment, types
from penstock.table.exceptions import TableException, ValidationException
from unit.table.planning import ROWTIME, TEXT, plan
from unit.table.running import HarnessTable, RunningQuery, run

INT = types.IntType()
NUMBERS = [(1,), (-7,), (None,), (2147483647,), (0,)]


def at(seconds):
    return datetime.datetime(2024, 3, 10) + datetime.timedelta(seconds=seconds)


def at_ms(seconds):
    return int((at(seconds) - datetime.datetime(1970, 1, 1)).total_seconds() * 1000)


def values(sql, **columns):
    """Return the results of expressions over the table ``t`` with one column of numbers."""
    table = HarnessTable.of("t", i=INT)
    return [row for _, row in run(f"SELECT {sql} FROM t", [table], [("t", NUMBERS)], **columns)]


def test_is_binds_less_than_comparisons():
    found = values(
        "i > 1 IS UNKNOWN, i > 0 IS NOT TRUE, i = 1 IS NOT UNKNOWN, NOT i > 1 IS TRUE, "
        "i > 1 IS NULL"
    )
    assert found == [
        (False, False, True, True, False),
        (False, True, True, True, False),
        (True, True, False, True, True),
        (False, False, True, False, False),
        (False, True, True, True, False),
    ]


def test_is_binds_more_than_logic():
    found = values("i IS NULL = FALSE, i IN (1) IS TRUE AND TRUE, NOT i IS NULL OR FALSE")
    assert found[0] == (True, True, True)
    assert found[2] == (False, False, False)


def over(frame, rows):
    """Return the ids and sums of rows of ids, keys, numbers and seconds, one watermark after each.

    The watermark is the time of the row.
    """
    table = HarnessTable.of("e", id=INT, k=TEXT, n=INT, ts=ROWTIME)
    query = RunningQuery(
        f"SELECT id, SUM(n) OVER (PARTITION BY k ORDER BY ts {frame}) FROM e", [table]
    )
    for number, key, value, seconds in rows:
        query.give("e", [(number, key, value, at(seconds))])
        query.harness.process_watermark("e", at_ms(seconds))
    query.end()
    found = [row for _, row in query.changes()]
    query.close()
    return found


@pytest.mark.parametrize(
    "frame",
    [
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
        "RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND CURRENT ROW",
    ],
)
def test_a_bounded_frame_takes_rows_newer_than_those_of_its_key(frame):
    """Row 3 is behind the watermark, but the first of its time for its key; row 2 is not."""
    given = [(1, "a", 1, 0), (4, "a", 2, 2), (2, "a", 8, 2), (5, "b", 4, 5), (3, "a", 16, 5)]
    ids = [number for number, _ in over(frame, given)]
    assert sorted(ids) == [1, 3, 4, 5]
    assert sorted(number for number, _ in over("", given)) == [1, 4, 5]


def test_a_frame_of_one_row_knows_the_last_time_of_its_key():
    frame = "ROWS BETWEEN CURRENT ROW AND CURRENT ROW"
    given = [(1, "a", 1, 1), (2, "a", 2, 1), (3, "b", 4, 5), (4, "a", 8, 3)]
    assert sorted(over(frame, given)) == [(1, 1), (3, 4), (4, 8)]


def test_an_interval_join_takes_a_partner_at_the_watermark():
    fields = {"id": INT, "k": TEXT, "ts": ROWTIME}
    left, right = HarnessTable.of("a", **fields), HarnessTable.of("b", **fields)
    query = RunningQuery(
        "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k "
        "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND",
        [left, right],
    )
    query.give("a", [(1, "x", at(0)), (2, "y", at(0))])
    for table in ("a", "b"):
        query.harness.process_watermark(table, at_ms(5))
    assert query.changes() == []
    query.give("b", [(6, "x", at(5))])
    for table in ("a", "b"):
        query.harness.process_watermark(table, at_ms(5) + 1)
    assert [row for _, row in query.changes()] == [(1, 6), (2, None)]
    query.close()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("UNIX_TIMESTAMP('2024-11-03 01:30:00')", 1730615400),
        ("UNIX_TIMESTAMP('2024-03-10 02:30:00')", 1710055800),
        ("UNIX_TIMESTAMP('2024-07-01 00:00:00')", 1719806400),
        ("CONVERT_TZ('2024-11-03 01:30:00', 'America/New_York', 'UTC')", "2024-11-03 06:30:00"),
    ],
)
def test_texts_of_repeated_times_are_in_standard_time(sql, expected):
    assert values(sql, time_zone="America/New_York")[0] == (expected,)


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{}", "$.c[*]", False),
        ("{}", "lax $.c[*]", True),
        ("{}", "lax $.c", False),
        ("{}", "$..d", True),
        ('{"c":[]}', "$.c[*]", True),
        ('{"c":1}', "$.c[*]", True),
        ("[1]", "$[3,4]", True),
        ('[{"a":1}]', "$[*].b", True),
    ],
)
def test_a_list_of_matches_exists(text, path, expected):
    assert values(f"JSON_EXISTS('{text}', '{path}')")[0] == (expected,)


def test_a_strict_path_needs_what_precedes_its_wildcard():
    assert values("JSON_QUERY('{}', '$.c[*]'), JSON_QUERY('{}', '$..c')")[0] == (None, "[]")


@pytest.mark.parametrize("operator", ["+", "-"])
def test_sums_outside_of_the_years_of_python_name_the_value(operator):
    table = HarnessTable.of("t", x=types.TimestampType(3))
    moment = datetime.datetime(*((9999, 12, 31) if operator == "+" else (1, 1, 1)))
    query = f"SELECT CAST(x {operator} INTERVAL '1' DAY AS STRING) FROM t"
    with pytest.raises(TableException, match=f"the sum of {moment} .* years 1 to 9999"):
        run(query, [table], [("t", [(moment,)])])
    assert run(query, [table], [("t", [(None,), (at(0),)])])[0] == (0, (None,))


def test_columns_have_the_full_names_of_their_tables():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql("CREATE TABLE t (id INT) WITH ('connector' = 'datagen')")
    prefix = "default_catalog.default_database"
    for sql in (
        f"SELECT {prefix}.t.id FROM t WHERE {prefix}.t.id = 1",
        "SELECT default_database.t.id, u.id FROM t JOIN t AS u ON default_database.t.id = u.id",
        f"SELECT {prefix}.t.id FROM default_database.t GROUP BY {prefix}.t.id",
    ):
        assert tables.sql_query(sql).get_schema().get_field_names()[0] == "id"
    for sql in (
        "SELECT default_database.u.id FROM t AS u",
        "WITH t AS (SELECT 1 AS id) SELECT default_database.t.id FROM t",
    ):
        with pytest.raises(ValidationException, match=r"default_database\.[tu]\.id' not found"):
            tables.sql_query(sql)


@pytest.mark.parametrize("clause", ["ORDER BY NULL", "PARTITION BY NULL ORDER BY k"])
def test_over_takes_no_bare_null(clause):
    with pytest.raises(ValidationException, match="Illegal use of 'NULL'"):
        plan(f"SELECT RANK() OVER ({clause}) FROM orders")


def test_names_reach_into_rows():
    inner = types.RowType([types.RowField("z", TEXT)])
    row = types.RowType([types.RowField("x", INT), types.RowField("y", inner)])
    table = HarnessTable.of("c", id=INT, r=row)
    given = [("c", [(1, {"x": 2, "y": {"z": "p"}}), (2, None)])]
    found = run("SELECT x, c.x, y.z, z FROM c WHERE x > 1 OR x IS NULL", [table], given)
    assert [values for _, values in found] == [(2, 2, "p", "p"), (None, None, None, None)]
    for sql, message in [("a.x, x", "'x' is ambiguous"), ("a.w", "'a.w' not found")]:
        with pytest.raises(ValidationException, match=message):
            run(f"SELECT {sql} FROM c AS a, c AS b", [table], given)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*), SUM(i), MAX(i) + 1 FROM t WHERE FALSE", [(0, None, None)]),
        ("SELECT COUNT(i) + 1 FROM t WHERE 1 = 2", [(1,)]),
        ("SELECT i, COUNT(*) FROM t WHERE CAST(NULL AS BOOLEAN) GROUP BY i", []),
        ("SELECT i FROM t WHERE FALSE", []),
        ("SELECT i FROM t WHERE FALSE UNION ALL SELECT 3", [(3,)]),
        ("SELECT COUNT(*) FROM t WHERE i < -9", []),
    ],
)
def test_no_row_is_read_for_a_condition_that_is_never_true(sql, expected):
    table = HarnessTable.of("t", i=INT)
    assert [row for _, row in run(sql, [table], [("t", NUMBERS)])] == expected


def test_an_endless_table_ends_with_a_condition_that_is_never_true():
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("execution.target", "in-process")
    tables.execute_sql("CREATE TABLE t (id INT) WITH ('connector' = 'datagen')")
    assert "TableSourceScan" not in tables.explain_sql("SELECT id FROM t WHERE 1 > 2")
    with tables.execute_sql("SELECT id FROM t WHERE 1 > 2").collect() as rows:
        assert list(rows) == []
