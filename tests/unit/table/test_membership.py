"""Membership in another table becomes a join, wherever a column is computed."""

import pytest
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.expressions import col


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
