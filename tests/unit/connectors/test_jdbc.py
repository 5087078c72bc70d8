"""JdbcSink over SQLite: batches, retries, and the fate of rows at checkpoints and failures."""

import pickle
import re
import sqlite3
import sys
import threading
import types
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal

import pytest
from penstock.common import Row, RowKind, Types
from penstock.connectors.jdbc import batch_writer as jdbc
from penstock.connectors.jdbc.connection import styled
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from penstock.errors import DependencyError, FormatError, InvalidProgramError, SinkError
from penstock.graph import operators
from penstock.testing import OneInputStreamOperatorTestHarness
from support.patience import PATIENCE_S

DECLARED = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
UPSERT = (
    "INSERT INTO t (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
)
Builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()
    return path


def rows(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT id, name FROM t ORDER BY id").fetchall()
    finally:
        connection.close()


def options(path):
    return Builder().with_url(f"jdbc:sqlite:{path}").build()


def harness(connection, *, sql=UPSERT, **settings):
    builder = JdbcExecutionOptions.builder()
    for name, value in settings.items():
        getattr(builder, name)(value)
    sink = JdbcSink.sink(sql, DECLARED, connection, builder.build())._as_sink()
    return OneInputStreamOperatorTestHarness(operators.SinkWriter(sink))


def test_rows_of_a_type_without_names_go_to_the_marks_by_position(database):
    row = Row(1, "a")
    row.set_field_names(["f0", "f1"])
    with harness(options(database)) as test:
        test.process_element(row)
        with pytest.raises(FormatError, match=r"\['id', 'surname'\], not \['id', 'name'\]"):
            test.process_element(Row(id=1, surname="a"))
        test.end_input()
    assert rows(database) == [(1, "a")]


def test_rows_are_written_in_batches_and_before_checkpoints(database):
    with harness(options(database), with_batch_size=2) as test:
        test.process_element(Row(id=1, name="a"))
        assert rows(database) == []
        test.process_element({"id": 2, "name": "b"})
        assert rows(database) == [(1, "a"), (2, "b")]
        test.process_element((3, None))
        test.snapshot(1)
        assert len(rows(database)) == 3
        test.process_element((1, "again"))
        test.end_input()
    assert rows(database) == [(1, "again"), (2, "b"), (3, None)]


class Unreliable:
    """A database that fails some times, and reports commits."""

    def __init__(self, path, failures):
        self.path = path
        self.failures = failures
        self.connections = 0
        self.committed = threading.Event()

    def __call__(self):
        self.connections += 1
        return Connection(self, sqlite3.connect(self.path))


class Connection:
    def __init__(self, database, connection):
        self.database = database
        self.connection = connection
        self.cursor = connection.cursor
        self.close = connection.close

    def commit(self):
        if self.database.failures:
            self.database.failures -= 1
            raise OSError("away")
        self.connection.commit()
        self.database.committed.set()


def test_batches_are_tried_again_with_new_connections(database, monkeypatch):
    monkeypatch.setattr(jdbc, "_PAUSE_S", 0.0)
    unreliable = Unreliable(database, 2)
    with harness(JdbcConnectionOptions.of(unreliable), with_max_retries=2) as test:
        test.process_element((1, "a"))
        test.snapshot(1)
    assert rows(database) == [(1, "a")]
    assert unreliable.connections == 3
    unreliable.failures = 3
    with harness(JdbcConnectionOptions.of(unreliable), with_max_retries=2) as test:
        test.process_element((2, "b"))
        with pytest.raises(SinkError, match=r"cannot write 1 rows .*tried 3 times: OSError: away"):
            test.snapshot(1)
    assert rows(database) == [(1, "a")]


def test_rows_wait_no_longer_than_the_interval(database, monkeypatch):
    monkeypatch.setattr(jdbc, "_PAUSE_S", 0.0)
    unreliable = Unreliable(database, 0)
    with harness(JdbcConnectionOptions.of(unreliable), with_batch_interval_ms=1) as test:
        test.process_element((1, "a"))
        assert unreliable.committed.wait(PATIENCE_S)
        assert rows(database) == [(1, "a")]


def test_errors_name_the_statement(database):
    with harness(options(database), sql="INSERT INTO no VALUES (?, ?)", with_max_retries=0) as test:
        test.process_element((1, "a"))
        with pytest.raises(SinkError, match=r"INSERT INTO no.*OperationalError: no such table: no"):
            test.snapshot(1)
    with (
        pytest.raises(SinkError, match=r"cannot connect to jdbc:sqlite:/no/folder/db"),
        harness(options("/no/folder/db")),
    ):
        pass
    with (
        harness(options(database)) as test,
        pytest.raises(FormatError, match="1 fields, not the 2"),
    ):
        test.process_element((1,))


def test_an_error_names_the_sink_that_applies_changes(database, caplog):
    hint = r"rows of the kind -D, .*JdbcSink\.upsert applies changes by key"
    with harness(options(database), sql="INSERT INTO t VALUES (?, ?)") as test:
        test.process_element(Row(1, "a"))
        test.process_element(Row.of_kind(RowKind.DELETE, 1, "a"))
        with pytest.raises(SinkError, match=f"UNIQUE.*{hint}"):
            test.snapshot(1)
    [logged] = caplog.messages
    assert re.search(hint, logged)


def test_marks_of_other_packages():
    statement = "INSERT INTO t VALUES (?, '?%', \"?\", ?) -- 5%"
    assert styled(statement, "format") == ("INSERT INTO t VALUES (%s, '?%%', \"?\", %s) -- 5%%")


def test_options():
    connection = (
        Builder()
        .with_url("jdbc:postgresql://host:5432/db?password=hush")
        .with_driver_name("org.postgresql.Driver")
        .with_user_name("me")
        .with_password("hush")
        .build()
    )
    assert connection.get_db_url() == "jdbc:postgresql://host:5432/db?password=hush"
    assert (connection.get_user_name(), connection.get_password()) == ("me", "hush")
    assert connection.get_driver_name() == "org.postgresql.Driver"
    assert "hush" not in repr(connection)
    assert pickle.loads(pickle.dumps(connection)).get_user_name() == "me"
    defaults = JdbcExecutionOptions.defaults()
    assert defaults.get_batch_size() == 5000
    assert defaults.get_batch_interval_ms() == 0
    assert defaults.get_max_retries() == 3


def test_invalid_options_are_rejected(database, monkeypatch):
    for wrong in (
        lambda: Builder().build(),
        lambda: Builder().with_url("jdbc:oracle:thin:@x"),
        lambda: Builder().with_url("sqlite:x"),
        lambda: (
            Builder().with_url("jdbc:sqlite:x").with_driver_name("org.postgresql.Driver").build()
        ),
        lambda: JdbcExecutionOptions.builder().with_batch_size(0),
        lambda: JdbcExecutionOptions.builder().with_max_retries(-1),
        lambda: JdbcSink.sink("INSERT INTO t VALUES (?)", DECLARED, options(database)),
        lambda: JdbcSink.sink(UPSERT, Types.LONG(), options(database)),
        lambda: JdbcConnectionOptions.of("x"),
        lambda: JdbcConnectionOptions.of(print, "named"),
    ):
        with pytest.raises(InvalidProgramError):
            wrong()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(DependencyError, match=r"penstock-engine\[postgres\]"):
        JdbcSink.sink(UPSERT, DECLARED, Builder().with_url("jdbc:postgresql://h/d").build())


@dataclass
class Address:
    town: str


@dataclass
class Visitor:
    id: int
    home: Address


@pytest.mark.parametrize(
    ("declared", "field"),
    [
        (Types.of(Visitor), "'home' is a RowTypeInfo"),
        (Types.ROW_NAMED(["id", "home"], [Types.LONG(), Types.MAP(*[Types.STRING()] * 2)]), "home"),
        (Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.LONG())]), "tags"),
    ],
)
def test_fields_that_no_column_can_store_are_rejected(database, declared, field):
    for make in (
        lambda given: JdbcSink.sink("INSERT INTO t VALUES (?, ?)", declared, given),
        lambda given: JdbcSink.upsert("t", declared, ["id"], given),
    ):
        with pytest.raises(InvalidProgramError, match=f"{field}.* map the records to flat rows"):
            make(options(database))
    with pytest.raises(InvalidProgramError, match=r"write Types.of\(Visitor\)"):
        JdbcSink.upsert("t", Visitor, ["id"], options(database))
    own = JdbcConnectionOptions.of(lambda: sqlite3.connect(database))
    JdbcSink.sink("INSERT INTO t VALUES (?, ?)", declared, own)


def test_messages_show_neither_user_nor_password():
    url = "jdbc:postgresql://me:hidden@h:5432/shop?password=hidden"
    options = Builder().with_url(url).build()
    assert repr(options) == "JdbcConnectionOptions(jdbc:postgresql://h:5432/shop)"
    with pytest.raises(InvalidProgramError) as found:
        Builder().with_url("jdbc:no-such://me:hidden" + "@h/shop")
    assert "'jdbc:no-such://h/shop'" in str(found.value)


MYSQL = "jdbc:mysql://db:3307/shop?useSSL=false&serverTimezone=UTC"


def mysql(url=MYSQL, driver="com.mysql.cj.jdbc.Driver"):
    return Builder().with_url(url).with_driver_name(driver).with_user_name("u").with_password("p@:")


def test_urls_of_mysql_are_reached_by_sqlalchemy(monkeypatch):
    driver = types.SimpleNamespace(paramstyle="pyformat", version_info=(1, 4, 6), __version__="1")
    monkeypatch.setitem(sys.modules, "pymysql", driver)
    for made in (mysql().build(), mysql(driver="pymysql").build()):
        connect = made._connect
        assert connect.args[0] == "mysql+pymysql://u:p%40%3A@db:3307/shop"
        assert (made.paramstyle, made.shown) == ("pyformat", "jdbc:mysql://db:3307/shop")
        assert made.get_db_url() == MYSQL
    with pytest.raises(InvalidProgramError, match=r"useSSL=true is for Java's .*of_sqlalchemy"):
        mysql("jdbc:mysql://db/shop?useSSL=true").build()
    with pytest.raises(InvalidProgramError, match=r"names no host.*of_sqlalchemy"):
        mysql("jdbc:mysql:loadbalance://a,b/shop").build()


def test_user_and_password_in_a_url_of_mysql_are_decoded(monkeypatch):
    driver = types.SimpleNamespace(paramstyle="pyformat", version_info=(1, 4, 6), __version__="1")
    monkeypatch.setitem(sys.modules, "pymysql", driver)
    made = Builder().with_url("jdbc:mysql://u%40x:p%3A@db:3307/shop").build()
    assert made._connect.args[0] == "mysql+pymysql://u%40x:p%3A@db:3307/shop"


@pytest.mark.parametrize("missing", ["pymysql", "sqlalchemy"])
def test_the_error_names_a_missing_package_for_mysql(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, "pymysql", types.SimpleNamespace(paramstyle="pyformat"))
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DependencyError, match=r"SQLAlchemy.*pymysql.*of_sqlalchemy"):
        mysql(driver="pymysql").build()
    with pytest.raises(InvalidProgramError, match="of_sqlalchemy"):
        Builder().with_url("jdbc:oracle:thin:@db")


@pytest.mark.parametrize("sink", ["sink", "upsert"])
def test_sqlite_stores_decimals_and_times_as_texts(tmp_path, sink):
    """A column of numbers makes a number of the text, as it does for Java's driver."""
    kinds = {
        "id": (Types.BIG_DEC(), Decimal("7.50"), "TEXT PRIMARY KEY", "7.50"),
        "price": (Types.BIG_DEC(), Decimal("1.10"), "DECIMAL(10, 2)", 1.1),
        "at": (Types.SQL_TIMESTAMP(), datetime(2026, 1, 2, 3), "TEXT", "2026-01-02 03:00:00"),
        "day": (Types.SQL_DATE(), date(2026, 1, 2), "TEXT", "2026-01-02"),
        "hour": (Types.SQL_TIME(), time(3), "TEXT", "03:00:00"),
        "none": (Types.BIG_DEC(), None, "TEXT", None),
    }
    path = tmp_path / "db"
    row_type = Types.ROW_NAMED(list(kinds), [kind for kind, *_ in kinds.values()])
    connection = sqlite3.connect(path)
    columns = ", ".join(f"{name} {column}" for name, (_, _, column, _) in kinds.items())
    connection.execute(f"CREATE TABLE t ({columns})")
    if sink == "sink":
        made = JdbcSink.sink("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", row_type, options(path))
    else:
        made = JdbcSink.upsert("t", row_type, ["id"], options(path))
    with OneInputStreamOperatorTestHarness(operators.SinkWriter(made._as_sink())) as test:
        test.process_element(Row(**{name: value for name, (_, value, *_) in kinds.items()}))
        test.snapshot(1)
        found = connection.execute("SELECT * FROM t").fetchall()
        assert found == [tuple(stored for *_, stored in kinds.values())]
        if sink == "upsert":
            gone = Row(**{name: value for name, (_, value, *_) in kinds.items()})
            gone.set_row_kind(RowKind.DELETE)
            test.process_element(gone)
            test.snapshot(2)
            assert connection.execute("SELECT * FROM t").fetchall() == []
    connection.close()
