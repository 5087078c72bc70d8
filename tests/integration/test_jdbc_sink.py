"""JdbcSink in jobs whose workers are killed, over SQLite and a real PostgreSQL.

PostgreSQL is Debian's package, as a server of its own; the tests with it are skipped if the package
is not installed.
"""

import sqlite3

import pytest
from penstock.common import Row, Types, WatermarkStrategy
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.errors import SinkError
from recovery.programs import environment
from support.databases import Sqlite, opened, serving_postgres
from support.environments import in_process
from support.kill_once import KillOnce
from support.postgres_server import PostgresServer

pytestmark = pytest.mark.server

ROWS = 20_000
DECLARED = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"
UPSERT = (
    "INSERT INTO t (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
)


@pytest.fixture(scope="module")
def postgres():
    yield from serving_postgres()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path, postgres):
    with opened(request.param, tmp_path, postgres) as found:
        found.execute(TABLE)
        yield found


def test_rows_are_as_of_an_unfailed_job(database, tmp_path):
    (tmp_path / "killed").mkdir()
    env = environment({})
    env.set_parallelism(1)  # SQLite allows one writer
    options = JdbcExecutionOptions.builder().with_batch_size(1000).build()
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    connection = builder.with_url(database.url).build()
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    source = NumberSequenceSource(0, ROWS - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    kill = KillOnce(tmp_path / "killed", 7, 10_000, 19_999)
    pairs = numbers.map(kill).map(lambda number: (number, f"n{number}"), pair)
    pairs.add_sink(JdbcSink.sink(UPSERT, DECLARED, connection, options))
    env.execute()
    assert len(list((tmp_path / "killed").iterdir())) == 3
    assert database.execute("SELECT count(*), min(name), max(id) FROM t") == [
        (ROWS, "n0", ROWS - 1)
    ]


@pytest.mark.parametrize(
    ("sql", "row", "words"),
    [
        ("INSERT INTO no_such (id, name) VALUES (?, ?)", Row(1, "a"), "no_such"),
        ("INSERT INTO t (id, no_such) VALUES (?, ?)", Row(1, "a"), "no_such"),
        ("INSERT INTO t (id, name) VALUES (?, ?) SURELY", Row(1, "a"), "syntax error"),
        ("INSERT INTO t (name, id) VALUES (?, ?)", Row(1, "a"), "mismatch|invalid input syntax"),
    ],
)
def test_permanent_errors_are_not_retried(database, sql, row, words):
    """With so many retries the job would wait for hours."""
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(database.url)
    often = JdbcExecutionOptions.builder().with_max_retries(100).build()
    env = in_process(1)
    sink = JdbcSink.sink(sql, DECLARED, builder.build(), often)
    env.from_collection([row], DECLARED).add_sink(sink)
    with pytest.raises(SinkError, match=f"and a retry would not help: .*({words})"):
        env.execute()


class LockedOnce:
    """A connection whose first transaction is blocked by another one."""

    def __init__(self, mark, path):
        self._mark, self._connection = mark, sqlite3.connect(path)

    def cursor(self):
        return self._connection.cursor()

    def commit(self):
        if not self._mark.exists():
            self._mark.touch()
            raise sqlite3.OperationalError("database is locked")
        self._connection.commit()

    def close(self):
        self._connection.close()


def test_temporary_errors_are_retried(tmp_path):
    database, mark = Sqlite(tmp_path), tmp_path / "locked"
    database.execute(TABLE)
    options = JdbcConnectionOptions.of(lambda: LockedOnce(mark, tmp_path / "db"))
    env = in_process(1)
    env.from_collection([Row(1, "a")], DECLARED).add_sink(JdbcSink.sink(UPSERT, DECLARED, options))
    env.execute()
    assert mark.exists()
    assert database.execute("SELECT * FROM t") == [(1, "a")]


@pytest.fixture(scope="module")
def requiring_passwords():
    pytest.importorskip("psycopg")
    server = PostgresServer()
    server.execute("CREATE ROLE reads LOGIN PASSWORD 'p w'")
    server.wants_passwords()
    yield server
    server.stop()


@pytest.fixture
def guarded(requiring_passwords):
    """Return a server that requires passwords, whose user "reads" has only read access."""
    # Rights of "writes" end with the table.
    for statement in ("DROP TABLE IF EXISTS t", "DROP ROLE IF EXISTS writes", TABLE):
        requiring_passwords.execute(statement)
    requiring_passwords.execute("GRANT SELECT ON t TO reads")
    return requiring_passwords


@pytest.mark.parametrize("driver", [None, "org.postgresql.Driver", "psycopg", "psycopg2"])
def test_the_builder_overrides_the_user_of_the_url(guarded, driver):
    """The builder's methods name a user; the URL names none, or another one."""
    if driver == "psycopg2":
        pytest.importorskip("psycopg2")
    guarded.execute("CREATE ROLE writes LOGIN PASSWORD 'w%w'")
    guarded.execute("GRANT INSERT, SELECT, UPDATE ON t TO writes")
    for user in (None, "reads"):
        url = f"jdbc:{guarded.url_of(user or 'nobody', 'wrong', 'postgres')}"
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
        builder.with_user_name("writes").with_password("w%w")
        if driver is not None:
            builder.with_driver_name(driver)
        env = in_process(1)
        sink = JdbcSink.sink(
            "INSERT INTO t (id, name) VALUES (?, 'a%?') ON CONFLICT (id) DO UPDATE SET name = ?",
            DECLARED,
            builder.build(),
        )
        env.from_collection([Row(1, "a")], DECLARED).add_sink(sink)
        env.execute()
        assert guarded.execute("SELECT id, name FROM t") == [(1, "a%?" if user is None else "a")]


def test_users_and_rights(guarded):
    for password, database, message in (
        ("hidden", "postgres", "cannot connect to jdbc:postgresql:.*password authentication"),
        ("p%20w", "nowhere", 'cannot connect to jdbc:postgresql:.*"nowhere" does not exist'),
        (
            "p%20w",
            "postgres",
            "cannot write 1 rows into .* by 'INSERT .*permission denied.*; GRANT",
        ),
    ):
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        builder.with_url(f"jdbc:{guarded.url_of('reads', password, database)}")
        often = JdbcExecutionOptions.builder().with_max_retries(100).build()
        env = in_process(1)
        sink = JdbcSink.sink(
            "INSERT INTO t (id, name) VALUES (?, ?)", DECLARED, builder.build(), often
        )
        env.from_collection([Row(1, "a")], DECLARED).add_sink(sink)
        with pytest.raises(SinkError, match=message) as raised:
            env.execute()
        assert "hidden" not in str(raised.value)
