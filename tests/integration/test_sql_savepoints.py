"""Statements continue from a savepoint of the same statement, and reject another one's state.

Method: a query over a table of numbers, which come slowly, is stopped with a savepoint on its way
and planned again in another environment, where they come faster; both together return what one run
would have returned.
"""

import pytest
from penstock.errors import InvalidProgramError, JobExecutionError
from penstock.table import DataTypes, EnvironmentSettings, TableEnvironment
from penstock.table.udf import udf
from recovery.savepoint_programs import asked
from support.sessions import eventually

ROWS = 6_000
KEYS = 5
NUMBERS = (
    "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '3000', "
    f"'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{ROWS}')"
)
#: They take 20 s, so that a query still runs when it is stopped.
SLOW_NUMBERS = NUMBERS.replace("'3000'", "'300'")
COUNTS = f"SELECT n % {KEYS} AS k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY n % {KEYS}"
WANTED = {key: (ROWS // KEYS, sum(range(key or KEYS, ROWS + 1, KEYS))) for key in range(KEYS)}


@pytest.fixture(autouse=True)
def _in_process(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request):
    if request.param == "rocksdb":
        pytest.importorskip("rocksdict")
    return request.param


def environment(backend="hashmap", numbers=NUMBERS, **options):
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in {"state.backend.type": backend, "parallelism.default": "2"}.items():
        made.get_config().set(key, value)
    for key, value in options.items():
        made.get_config().set(key.replace("__", ".").replace("_", "-"), value)
    made.execute_sql(numbers)
    return made


def last_rows(rows, last):
    """Apply changes to the last row of each key."""
    for row in rows:
        key, *values = row
        if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
            last[key] = tuple(values)
    return last


def savepoint(directory, backend="hashmap"):
    """Return the savepoint with which the query of `COUNTS` was stopped on its way."""
    result = environment(backend, SLOW_NUMBERS).execute_sql(COUNTS)
    with result.collect() as rows:
        last = last_rows([next(rows) for _ in range(20)], {})
        path = asked(result.get_job_client().stop_with_savepoint, False, str(directory))
        last_rows(rows, last)
    assert 0 < sum(count for count, _ in last.values()) < ROWS
    return path


def restored(path, sql, backend="hashmap", **options):
    tables = environment(backend, execution__state_recovery__path=path, **options)
    with tables.execute_sql(sql).collect() as rows:
        return last_rows(rows, {})


def test_a_statement_that_is_planned_again_continues(tmp_path, backend):
    """Also with another parallelism, another rate, another filter, and state that expires."""
    path = savepoint(tmp_path, backend)
    assert restored(path, COUNTS, backend) == WANTED
    assert restored(path, COUNTS, backend, parallelism__default="3") == WANTED
    filtered = COUNTS.replace("GROUP BY", "WHERE n > 0 GROUP BY")
    assert restored(path, filtered, backend, table__exec__state__ttl="1 h") == WANTED


def test_open_windows_continue_with_another_parallelism(tmp_path, backend):
    """The rows of a window that was open at the savepoint are in one result."""
    timed = NUMBERS.replace(
        "BIGINT)", "BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts)"
    ).replace(str(ROWS), "900")
    sql = (
        f"SELECT n % {KEYS}, window_end, COUNT(*), SUM(n) FROM TABLE(HOP(TABLE numbers, "
        "DESCRIPTOR(ts), INTERVAL '0.02' SECOND, INTERVAL '0.06' SECOND)) "
        f"GROUP BY n % {KEYS}, window_start, window_end"
    )
    found = []
    result = environment(backend, timed.replace("'3000'", "'300'")).execute_sql(sql)
    with result.collect() as rows:
        found += [next(rows) for _ in range(KEYS)]
        path = asked(result.get_job_client().stop_with_savepoint, False, str(tmp_path))
        found += rows
    options = {"execution__state_recovery__path": path, "parallelism__default": "3"}
    with environment(backend, timed, **options).execute_sql(sql).collect() as rows:
        found += rows
    with environment(backend, timed).execute_sql(sql).collect() as rows:
        assert sorted(map(tuple, found)) == sorted(map(tuple, rows))


def test_another_plan_is_refused_with_what_differs(tmp_path):
    path = savepoint(tmp_path)
    with pytest.raises((InvalidProgramError, JobExecutionError)) as caught:
        restored(path, COUNTS.replace("SUM", "MAX"))
    text = str(caught.value)
    assert "GroupAggregate(groupBy=[k], select=[k, COUNT(*), SUM(n)])" in text
    assert "the job has 'GroupAggregate'" in text
    assert "GroupAggregate(groupBy=[k], select=[k, COUNT(*), MAX(n)])" in text


def test_state_of_a_query_survives_failures(tmp_path, backend):
    """A function fails once after a checkpoint; groups and joins continue from it."""
    marker = tmp_path / "failed"

    @udf(result_type=DataTypes.BIGINT())
    def fragile(number):
        if number == ROWS - 500 and not marker.exists():
            marker.touch()
            raise RuntimeError("once")
        return number

    tables = environment(
        backend,
        execution__checkpointing__interval="50 ms",
        execution__checkpointing__dir=f"file://{tmp_path}/checkpoints",
        restart_strategy__type="fixed-delay",
        restart_strategy__fixed_delay__delay="10 ms",
    )
    tables.create_temporary_function("fragile", fragile)
    sql = (
        "SELECT a.k, a.c, b.s FROM (SELECT n % 5 AS k, COUNT(*) AS c FROM (SELECT fragile(n) AS n "
        "FROM numbers) GROUP BY n % 5) AS a JOIN (SELECT n % 5 AS k, SUM(n) AS s FROM numbers "
        "GROUP BY n % 5) AS b ON a.k = b.k"
    )
    with tables.execute_sql(sql).collect() as rows:
        assert last_rows(rows, {}) == WANTED
    assert marker.exists()


def test_a_compiled_plan_continues_from_the_savepoint_of_its_job(tmp_path, backend):
    """Emit the first number of each key, which needs the keys that have come before."""
    plan, rows, passed = tmp_path / "plan.json", tmp_path / "rows", tmp_path / "passed"
    first = (
        f"SELECT k, n FROM (SELECT n % {KEYS} AS k, n, ROW_NUMBER() OVER (PARTITION BY n % {KEYS} "
        "ORDER BY PROCTIME()) AS place FROM (SELECT seen(n) AS n FROM numbers)) WHERE place = 1"
    )
    sink = (
        "CREATE TABLE firsts (k BIGINT, n BIGINT) "
        f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = 'file://{rows}')"
    )

    @udf(result_type=DataTypes.BIGINT())
    def seen(number):
        if number == 2 * KEYS:
            passed.touch()
        return number

    def started(numbers, **options):
        tables = environment(backend, numbers, parallelism__default="1", **options)
        tables.create_temporary_function("seen", seen)
        tables.execute_sql(sink)
        if not plan.exists():
            tables.execute_sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO firsts {first}")
        return tables.execute_sql(f"EXECUTE PLAN '{plan}'")

    client = started(SLOW_NUMBERS).get_job_client()
    eventually(passed.exists, "the tenth row")
    path = asked(client.stop_with_savepoint, False, str(tmp_path / "savepoints"))
    started(NUMBERS, execution__state_recovery__path=path).wait()
    found = [line for path in rows.glob("[!._]*") for line in path.read_text().splitlines()]
    assert sorted(found) == sorted(f"{n % KEYS},{n}" for n in range(1, KEYS + 1))
