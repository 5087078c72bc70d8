"""DESCRIBE shows the time attribute that a column had before a join or group, as Flink does."""

import pytest
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.exceptions import ValidationException


@pytest.fixture(scope="module")
def tables():
    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name in ("a", "b"):
        environment.execute_sql(
            f"CREATE TABLE {name} (k INT, ts TIMESTAMP(3), p AS PROCTIME(), "
            "WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')"
        )
    return environment


def _types(tables, sql):
    return [c.as_summary_string() for c in tables.sql_query(sql).get_resolved_schema().columns]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.ts, b.p FROM a LEFT JOIN b ON a.k = b.k",
        "SELECT ts, p FROM a WHERE k IN (SELECT k FROM b)",
        "SELECT DISTINCT ts, p FROM a",
        "SELECT ts, p FROM a GROUP BY ts, p, k",
        "SELECT ts, p FROM a INTERSECT SELECT ts, p FROM b",
        "SELECT ts, p FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        "SELECT MAX(ts) AS ts, MIN(p) AS p FROM a GROUP BY k",
        "SELECT ts + INTERVAL '1' DAY AS ts, p FROM a",
        "SELECT FLOOR(ts TO HOUR) AS ts, p FROM a",
    ],
)
def test_the_attribute_of_a_materialized_column_is_shown(tables, sql):
    found = [text.replace(" NOT NULL", "") for text in _types(tables, sql)]
    assert found == ["`ts` TIMESTAMP(3) *ROWTIME*", "`p` TIMESTAMP_LTZ(3) *PROCTIME*"]


def test_a_column_of_a_join_is_no_time_attribute(tables):
    joined = "SELECT a.ts FROM a JOIN b ON a.k = b.k"
    with pytest.raises(ValidationException, match="requires the timecol 'ts'"):
        tables.sql_query(
            f"WITH j AS ({joined}) "
            "SELECT * FROM TABLE(TUMBLE(TABLE j, DESCRIPTOR(ts), INTERVAL '1' HOUR))"
        )


def test_a_table_made_of_the_columns_shows_them_but_does_not_declare_them(tables):
    tables.execute_sql(
        "CREATE TABLE made WITH ('connector' = 'blackhole') AS "
        "SELECT k, MAX(ts) AS ts FROM a WHERE FALSE GROUP BY k"
    ).wait()
    described = tables.execute_sql("DESCRIBE made").collect()
    assert [row[1] for row in described] == ["INT", "TIMESTAMP(3) *ROWTIME*"]
    ((text,),) = tables.execute_sql("SHOW CREATE TABLE made").collect()
    assert "`ts` TIMESTAMP(3)\n" in text
