"""Each built-in function of Flink 2.3 is here, or in the documents' table of those that are not."""

from pathlib import Path

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.functions.missing import MISSING

#: What `list_functions()` of PyFlink 2.3 returns in streaming mode.
LISTED = Path(__file__).with_name("flink_functions.txt").read_text().split()

#: Listed names that SQL writes as an operator, a clause or a keyword.
OPERATORS = {
    "as", "asc", "cast", "desc", "distinct", "divide", "equals", "get", "greaterThan",
    "greaterThanOrEqual", "ifThenElse", "isFalse", "isNotFalse", "isNotNull", "isNotTrue",
    "isNull", "isTrue", "lessThan", "lessThanOrEqual", "lowerCase", "minusPrefix", "notBetween",
    "notEquals", "over", "row", "similar", "temporalOverlaps", "times", "upperCase",
    "withColumns", "withoutColumns", "rangeTo", "start", "end", "rowtime", "flatten",
}  # fmt: skip

#: Names of Flink's planner, which no statement calls.
INTERNAL = {
    "AGG_DECIMAL_MINUS", "AGG_DECIMAL_PLUS", "ASSIGNMENT", "DEFAULT", "HIVE_AGG_DECIMAL_PLUS",
    "JSON_ARRAYAGG_ABSENT_ON_NULL", "JSON_ARRAYAGG_NULL_ON_NULL",
    "JSON_OBJECTAGG_ABSENT_ON_NULL", "JSON_OBJECTAGG_NULL_ON_NULL", "reinterpretCast",
    "streamRecordTimestamp", "sum0",
}  # fmt: skip

#: Names whose syntax is not that of a scalar function.
STATEMENTS = {
    "FROM_CHANGELOG": "SELECT * FROM FROM_CHANGELOG(input => TABLE changes)",
    "TO_CHANGELOG": "SELECT * FROM TO_CHANGELOG(input => TABLE numbers)",
    "IS_JSON": "SELECT text IS JSON FROM numbers",
    "TRY_CAST": "SELECT TRY_CAST(text AS INT) FROM numbers",
    "SOURCE_WATERMARK": "SELECT * FROM timed",
}


@pytest.fixture
def tables():
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, columns in {
        "numbers": "n INT, text STRING",
        "changes": "op STRING, n INT",
        "timed": "t TIMESTAMP(3), WATERMARK FOR t AS SOURCE_WATERMARK()",
    }.items():
        env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'datagen')")
    return env


def test_each_function_is_here_or_named_as_missing(tables):
    own = {name.upper() for name in tables.list_functions()}
    rest = {name for name in LISTED if name.upper() not in own | set(MISSING)}
    assert rest == OPERATORS | INTERNAL | set(STATEMENTS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_with_the_name_is_planned(tables, name):
    assert tables.sql_query(STATEMENTS[name]).explain()
