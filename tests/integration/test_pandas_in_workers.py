"""The libraries of a worker that runs SQL: pandas only if functions import it, Arrow on malloc."""

import pytest
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf

pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.process

#: Windows, and functions of each kind of kernel: comparisons, times, texts, CASE, numbers.
QUERY = """
    SELECT libraries(n),
      CASE WHEN HOUR(ts) BETWEEN 8 AND 18 THEN 'day' ELSE LOWER(s) END,
      DATE_FORMAT(ts, 'HH:mm'), SPLIT_INDEX(s, '/', 1), REGEXP_EXTRACT(s, 'b(.)', 1),
      REPLACE(s, 'a', ''), CAST(n AS INT) / 2, MOD(n, 3), n * 0.5E0
    FROM (SELECT n, s, window_end AS ts, COUNT(*), MAX(n), AVG(n) FROM TABLE(
        HOP(TABLE files, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
      GROUP BY n, s, window_start, window_end)
    WHERE MOD(n, 2) = 0 OR s <> 'x'"""


def test_a_query_of_files_imports_no_pandas_and_allocates_by_malloc(tmp_path):
    from pyarrow import parquet

    rows = {"n": range(5_000), "s": ["A/b", "cb/d", "x", None, ""] * 1_000}
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", "1")

    @udf(result_type=DataTypes.STRING())
    def libraries(number):
        import sys

        import pyarrow

        return f"{'pandas' in sys.modules} {pyarrow.default_memory_pool().backend_name}"

    tables.create_temporary_function("libraries", libraries)
    tables.execute_sql(
        "CREATE TABLE files (n BIGINT, s STRING, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts "
        f"AS ts) WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}')"
    )
    with tables.execute_sql(QUERY).collect() as found:
        assert {row[0] for row in found} == {"False system"}
