"""JdbcLookup over SQLite and a real PostgreSQL, by URLs of JDBC's and of SQLAlchemy's."""

import asyncio
import contextlib
import os
import socket
import sqlite3
import sys
import threading

import pytest
from integration.test_jdbc_sink import TABLE
from penstock.common import Configuration, Time, Types
from penstock.datastream import AsyncDataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcLookup, JdbcSink
from penstock.errors import DependencyError, InvalidProgramError, JobCancelledError, SourceError
from support.databases import opened, serving_postgres
from support.environments import in_process
from support.patience import PATIENCE_S
from support.threads import assert_over

pytestmark = pytest.mark.server

PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
QUERY = "SELECT name FROM t WHERE id = ?"


@pytest.fixture(scope="module")
def postgres():
    yield from serving_postgres()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path, postgres):
    with opened(request.param, tmp_path, postgres) as found:
        found.execute(TABLE)
        found.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        yield found


@pytest.fixture(params=["native", "pure"])
def runtime(request, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)


def environment():
    configuration = Configuration()
    if os.environ.get("PENSTOCK_RUNTIME") != "pure":  # the pure runtime needs processes
        configuration.set_string("execution.target", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    return env


def by_jdbc(url):
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()


def by_sqlalchemy(url):
    place = url.removeprefix("jdbc:")
    if place.startswith("sqlite:"):
        return JdbcConnectionOptions.of_sqlalchemy("sqlite:///" + place.removeprefix("sqlite:"))
    return JdbcConnectionOptions.of_sqlalchemy("postgresql+psycopg" + place[len("postgresql") :])


def lookup(options, **settings):
    return JdbcLookup(
        QUERY,
        lambda n: (n,),
        lambda n, rows: [(n, row.name) for row in rows],
        options,
        retry_delay_ms=1,
        **settings,
    )


def looked_up(env, function, numbers=(1, 2, 3, 4)):
    stream = env.from_collection(list(numbers), Types.LONG())
    found = AsyncDataStream.ordered_wait(stream, function, Time.seconds(60), 10, PAIR)
    with found.execute_and_collect() as elements:
        return list(elements)


@pytest.mark.parametrize("options", [by_jdbc, by_sqlalchemy])
def test_rows_join_elements(database, options):
    found = looked_up(environment(), lookup(options(database.url)))
    assert found == [(1, "one"), (2, "two"), (3, "three")]


class Meets:
    """A connection to SQLite whose queries wait until a number of them run."""

    def __init__(self, others):
        self._connection, self._others = sqlite3.connect(":memory:"), others
        self.close, self.rollback = self._connection.close, self._connection.rollback
        self.commit = self._connection.commit

    def cursor(self):
        self._others.wait()
        return self._connection.cursor()


@pytest.mark.parametrize("connections", [1, 3])
def test_so_many_queries_are_under_way_at_a_time(connections):
    made, others = [], threading.Barrier(connections, timeout=PATIENCE_S)

    def connect():
        made.append(Meets(others))
        return made[-1]

    asks = JdbcLookup(
        "SELECT ?",
        lambda n: (n,),
        lambda n, rows: [tuple(rows[0])],
        JdbcConnectionOptions.of(connect),
        connections=connections,
    )
    asks.open(None)
    try:

        async def ask():
            return await asyncio.gather(*(asks.async_invoke(n) for n in range(6)))

        assert asyncio.run(ask()) == [[(n,)] for n in range(6)]
    finally:
        asks.close()
    assert len(made) == connections


def test_arguments_reach_the_package_behind_sqlalchemy():
    made = JdbcConnectionOptions.of_sqlalchemy("sqlite://", isolation_level=None).connect()
    with contextlib.closing(made) as connection:
        assert connection.isolation_level is None


def test_a_lookup_sees_what_was_committed_meanwhile(database):
    def result(n, rows):
        database.execute(f"UPDATE t SET name = 'changed {n}' WHERE id = 1")
        return [(n, row.name) for row in rows]

    asks = JdbcLookup(QUERY, lambda n: (1,), result, by_jdbc(database.url), connections=1)
    stream = in_process().from_collection([5, 6], Types.LONG())
    found = AsyncDataStream.ordered_wait(stream, asks, Time.seconds(60), 1, PAIR)
    with found.execute_and_collect() as elements:
        assert list(elements) == [(5, "one"), (6, "changed 5")]


def test_rows_have_the_names_of_the_columns(database):
    sql = "SELECT id AS number, name FROM t WHERE id < ? AND name <> ? ORDER BY id"
    asks = JdbcLookup(
        sql,
        lambda n: (n, "two"),
        lambda n, rows: [(row.number, repr(row.as_dict())) for row in rows],
        by_jdbc(database.url),
    )
    rows = [{"number": 1, "name": "one"}, {"number": 3, "name": "three"}]
    assert looked_up(in_process(), asks, [4]) == [(row["number"], repr(row)) for row in rows]


def test_sink_by_sqlalchemy(database, runtime):
    declared = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    env = environment()
    stream = env.from_collection([(7, "seven"), (8, "eight")], PAIR)
    sql = "INSERT INTO t (id, name) VALUES (?, ?)"
    stream.add_sink(JdbcSink.sink(sql, declared, by_sqlalchemy(database.url)))
    env.execute()
    assert database.execute("SELECT count(*) FROM t WHERE id > 6") == [(2,)]


@pytest.mark.parametrize("options", [by_jdbc, by_sqlalchemy])
def test_permanent_errors_are_not_retried(database, options):
    asks = JdbcLookup(
        "SELECT 1 FROM no_such WHERE 1 = ?",
        lambda n: (n,),
        lambda n, rows: rows,
        options(database.url),
        retry_delay_ms=600_000,
    )
    words = r"cannot look up \(1,\) in .*no_such.*, and a retry would not help: .*no_such"
    with pytest.raises(SourceError, match=words):
        looked_up(in_process(), asks, [1])


def test_a_query_that_fails_is_tried_again_and_then_named():
    def connect():
        raise sqlite3.OperationalError("database is locked")

    asks = lookup(JdbcConnectionOptions.of(connect), max_retries=1)
    with pytest.raises(SourceError, match=r"cannot look up \(1,\).*tried 2 times: .*locked"):
        looked_up(in_process(), asks, [1])


class ForOneQuery:
    """A connection that is lost before its answer is read."""

    def __init__(self, path):
        self._connection = sqlite3.connect(path)

    def cursor(self):
        return self._connection.cursor()

    def rollback(self):
        raise sqlite3.OperationalError("the connection is lost")

    def close(self):
        self._connection.close()


def test_connections_that_are_lost_are_made_again(tmp_path):
    path = tmp_path / "db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE t (id, name)")
        made.execute("INSERT INTO t VALUES (1, 'one')")
    made.close()

    def connect():
        try:
            (tmp_path / "opened").touch(exist_ok=False)
        except FileExistsError:
            return sqlite3.connect(path)
        return ForOneQuery(path)

    asks = lookup(JdbcConnectionOptions.of(connect), connections=1)
    assert looked_up(in_process(), asks, [1, 1]) == [(1, "one"), (1, "one")]


def test_a_job_is_cancelled_while_a_database_says_nothing():
    pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        env = in_process()
        threads = set(threading.enumerate())
        asks = lookup(by_jdbc(f"jdbc:postgresql://u:p@127.0.0.1:{port}/d?connect_timeout=3600"))
        stream = env.from_collection([1], Types.LONG())
        AsyncDataStream.unordered_wait(stream, asks, Time.hours(1), 10, PAIR).print()
        job = env.execute_async()
        connection, _ = server.accept()
        with connection:
            job.cancel().result()
            with pytest.raises(JobCancelledError):
                job.get_job_execution_result().result()
    assert_over(threads)


def in_memory():
    return sqlite3.connect(":memory:")


HIDDEN = "secret"
SQLITE = JdbcConnectionOptions.of(in_memory)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: JdbcLookup(QUERY, 1, print, SQLITE), "function as parameters"),
        (lambda: JdbcLookup(QUERY, print, 1, SQLITE), "function as result"),
        (lambda: JdbcLookup(QUERY, print, print, "x"), "must be a JdbcConnectionOptions"),
        (lambda: JdbcLookup(QUERY, print, print, SQLITE, connections=0), "connections is at least"),
        (lambda: JdbcLookup(QUERY, print, print, SQLITE, max_retries=-1), "max_retries is at"),
        (lambda: JdbcConnectionOptions.of_sqlalchemy(HIDDEN), "ArgumentError"),
        (lambda: JdbcConnectionOptions.of_sqlalchemy(f"nosuch://u:{HIDDEN}@h/d"), "NoSuchModule"),
    ],
)
def test_arguments_that_cannot_be_meant_so(make, words):
    with pytest.raises(InvalidProgramError, match=words) as found:
        make()
    assert HIDDEN not in str(found.value)


def test_as_many_values_as_marks():
    asks = JdbcLookup(QUERY, lambda n: (n, n), lambda n, rows: rows, SQLITE)
    with pytest.raises(InvalidProgramError, match=r"2 values for 1 placeholders \?"):
        looked_up(in_process(), asks, [1])


@pytest.mark.parametrize(
    ("parameters", "result", "name"),
    [
        (lambda number: number, lambda number, rows: rows, "parameters"),
        (lambda number: "1", lambda number, rows: rows, "parameters"),
        (lambda number: (number,), lambda number, rows: "one", "result"),
        (lambda number: (number,), lambda number, rows: None, "result"),
    ],
)
def test_functions_that_return_no_list_are_named(parameters, result, name):
    function = JdbcLookup("SELECT 1 WHERE 1 = ?", parameters, result, SQLITE)
    with pytest.raises(InvalidProgramError, match=f"the function {name} must return a list"):
        looked_up(environment(), function, [1])


def test_a_statement_that_is_not_a_query_is_rejected():
    asks = JdbcLookup("CREATE TABLE x (a)", lambda n: (), lambda n, rows: rows, SQLITE)
    with pytest.raises((SourceError, InvalidProgramError), match="is not a query"):
        looked_up(in_process(), asks, [1])


def test_columns_of_one_name_are_rejected():
    """One of them would be lost, since a row has its fields by name."""
    asks = JdbcLookup("SELECT 1 AS a, 2 AS b, 3 AS a", lambda n: (), lambda n, rows: rows, SQLITE)
    with pytest.raises(InvalidProgramError, match=r"of one name: \['a', 'b', 'a'\]"):
        looked_up(in_process(), asks, [1])


def test_packages_that_are_missing(monkeypatch):
    with pytest.raises(DependencyError, match="mysql"):
        JdbcConnectionOptions.of_sqlalchemy("mysql+mysqlconnector://u:p@h/d")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[sqlalchemy\]"):
        JdbcConnectionOptions.of_sqlalchemy("sqlite://")
