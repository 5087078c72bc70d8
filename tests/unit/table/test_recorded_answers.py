"""Queries whose results and types were recorded from PyFlink 2.3.0."""

import datetime
import decimal

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.plan.schema import Field, Schema
from penstock.table.types.arrow_types import arrow_array, python_values
from unit.table.planning import ROWTIME, TEXT, plan
from unit.table.running import HarnessTable, RunningQuery, settled

INT = types.IntType()
ARRAY = "ARRAY<INT NOT NULL> NOT NULL"
OVER = "OVER (PARTITION BY k ORDER BY ts)"
#: The columns of `rates`, of which `k` is NOT NULL, behind aggregates of it.
FRAMES = "SELECT LAST_VALUE(k) OVER (PARTITION BY rate ORDER BY ts {frame}) FROM rates"


def second(number):
    return datetime.datetime(2024, 1, 1, 0, 0, number)


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        (f"SELECT LAG(n) {OVER}, LAG(n, 1, 5) {OVER} FROM orders", ["INT", "INT NOT NULL"]),
        (f"SELECT LAG(n, 1, CAST(NULL AS INT)) {OVER} FROM orders", ["INT"]),
        (FRAMES.format(frame=""), ["STRING NOT NULL"]),
        (FRAMES.format(frame="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"), ["STRING NOT NULL"]),
        (FRAMES.format(frame="ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING"), ["STRING"]),
        (
            "SELECT JSON_OBJECTAGG(KEY k VALUE n), JSON_ARRAYAGG(n) FROM orders",
            ["VARCHAR(2000) NOT NULL", "VARCHAR(2000) NOT NULL"],
        ),
        (
            "SELECT LISTAGG(CAST(k AS CHAR(3))), STDDEV_SAMP(1), VAR_SAMP(n) FROM rates, "
            "(SELECT n FROM orders) GROUP BY rate",
            ["CHAR(3) NOT NULL", "INT NOT NULL", "INT"],
        ),
        ("SELECT (SELECT COUNT(*) FROM orders) FROM rates", ["BIGINT"]),
        ("SELECT EXISTS (SELECT 1 FROM orders) FROM rates", ["BOOLEAN NOT NULL"]),
        ("SELECT LISTAGG('a'), ARRAY_AGG(1) FROM rates", ["CHAR(1) NOT NULL", ARRAY]),
        (
            "SELECT k, rate > 5, COUNT(*) FROM rates GROUP BY CUBE (k, rate > 5)",
            ["STRING", "BOOLEAN", "BIGINT NOT NULL"],
        ),
        (
            "SELECT * FROM rates MATCH_RECOGNIZE (ORDER BY ts MEASURES A.k AS a, LAST(B.k) AS b, "
            "LAST(B.rate) AS r PATTERN (A B) DEFINE A AS TRUE)",
            ["STRING NOT NULL", "STRING NOT NULL", "INT"],
        ),
        (
            "SELECT rate, MAX(k) FROM rates GROUP BY ROLLUP (rate)",
            ["INT", "STRING NOT NULL"],
        ),
    ],
)
def test_types(query, kinds):
    assert [str(kind) for kind in plan(query, is_streaming=False).schema.types] == kinds


def test_collected_floats_have_their_shortest_digits():
    for kind, values in ((types.FloatType(), [1.1, None, 1e10]), (types.DoubleType(), [1.1])):
        assert python_values(arrow_array(values, kind), kind, is_collected=True) == values
    assert python_values(arrow_array([1.1], types.FloatType()), types.FloatType()) != [1.1]


def test_names_of_what_unnest_gives():
    assert plan("SELECT * FROM UNNEST(ARRAY[1])").schema.names == ["EXPR$0"]
    assert plan("SELECT * FROM UNNEST(MAP['a', 1])").schema.names == ["KEY", "VALUE"]


def test_functions_of_a_group_window_repeat_its_arguments():
    query = (
        "SELECT TUMBLE_START(ts, INTERVAL '{}' SECOND) FROM orders "
        "GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    )
    assert len(plan(query.format(10)).schema) == 1
    with pytest.raises(ValidationException, match="TUMBLE_START needs TUMBLE with the same"):
        plan(query.format(20))


def test_a_mean_of_decimals_has_the_digits_of_its_type():
    table = HarnessTable.of("t", d=types.DecimalType(5, 1))
    query = RunningQuery("SELECT AVG(d) FROM t", [table], is_streaming=False)
    # The quotient with 100 digits is one that Arrow converts to 0.
    query.give("t", [(decimal.Decimal(number),) for number in (10, 20, 5, 7, 8, 9, 1)])
    query.end()
    assert query.changes() == [(0, (decimal.Decimal("8.571429"),))]
    query.close()


def test_a_left_join_with_unnest_takes_conditions():
    table = HarnessTable.of("t", id=INT, xs=types.ArrayType(INT))
    query = RunningQuery("SELECT id, x FROM t LEFT JOIN UNNEST(xs) AS u(x) ON x > id", [table])
    query.give("t", [(1, [1, 2, 3]), (2, [3, None, 1]), (3, [1]), (4, None)])
    query.end()
    rows = [(1, 2), (1, 3), (2, 3), (3, None), (4, None)]
    assert query.changes() == [(0, row) for row in rows]
    query.close()


def test_null_is_a_key_of_a_temporal_join():
    fields = (Field("k", TEXT), Field("rate", INT), Field("ts", ROWTIME))
    versions = HarnessTable("rates", Schema(fields, (0,)), kinds=(0,))
    orders = HarnessTable.of("orders", id=INT, k=TEXT, ts=ROWTIME)
    query = RunningQuery(
        "SELECT id, rate FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r "
        "ON o.k = r.k",
        [orders, versions],
    )
    query.give("rates", [("e", 1, second(0)), (None, 2, second(1)), ("e", 3, second(5))])
    query.give("orders", [(1, "e", second(2)), (2, None, second(3)), (3, "z", second(6))])
    query.end()
    assert settled(query.changes()) == {(1, 1): 1, (2, 2): 1, (3, None): 1}
    query.close()
