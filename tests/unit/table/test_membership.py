"""Membership in another table becomes a join, wherever a column is computed."""

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment, types
from penstock.table.expressions import col
from unit.table.planning import TEXT
from unit.table.running import HarnessTable, run


@pytest.mark.parametrize(
    "select",
    [
        lambda table, other: table.select(col("a"), col("a").in_(other)),
        lambda table, other: table.add_columns(col("a").in_(other).alias("c")),
        lambda table, other: table.group_by(col("a")).select(col("a"), col("a").in_(other)),
        lambda table, other: table.group_by(col("a")).select(col("b").max.in_(other)),
    ],
)
def test_it_is_joined(select):
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    env.execute_sql("CREATE TABLE t (a INT, b INT) WITH ('connector' = 'datagen')")
    table = env.from_path("t")
    plan = select(table, table.select(col("b"))).explain()
    assert "Join(" in plan
    assert "IN(" not in plan


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("(a, b) IN ((1, 'x'))", [True, False, None, None, None]),
        ("(a, b) IN ((7, 'x'), (1, 'x'))", [True, False, None, None, None]),
        ("(a, b) NOT IN ((1, 'x'))", [False, True, None, None, None]),
        ("ROW(a, b) = ROW(1, 'x')", [True, False, None, None, None]),
        ("ROW(a, b) = ROW(1, 'y')", [False, False, False, None, None]),
        ("ROW(a, b) <> ROW(1, 'x')", [False, True, True, True, True]),
        ("NULL = NULL", [None] * 5),
    ],
)
def test_rows_are_compared_field_by_field(condition, expected):
    """The answers are Flink 2.3's; only = depends on a NULL within a row."""
    table = HarnessTable.of("t", a=types.IntType(), b=TEXT)
    rows = [(1, "x"), (2, "y"), (None, "x"), (None, None), (1, None)]
    made = run(f"SELECT {condition} FROM t", [table], [("t", rows)])
    assert [value for _, (value,) in made] == expected
