"""JdbcSink in jobs whose workers are killed, over SQLite and a real PostgreSQL.

PostgreSQL is that of Debian's package, as a server of its own; the tests with it are
skipped where the package is not installed.
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from recovery.programs import environment

ROWS = 20_000
DECLARED = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
UPSERT = (
    "INSERT INTO t (id, name) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
)


class Sqlite:
    def __init__(self, folder):
        self.url = f"jdbc:sqlite:{folder / 'db'}"
        self._path = folder / "db"
        self.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")

    def execute(self, sql):
        connection = sqlite3.connect(self._path)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def stop(self):
        pass


def programs():
    """The folder of PostgreSQL's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class Postgres:
    """A server with an empty table; it refuses to run as root."""

    def __init__(self, _):
        # Nobody but root gets into the folders of pytest.
        folder = self._folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._user = None
        if os.getuid() == 0:
            self._user = "nobody"
            shutil.chown(folder, "nobody")
        data = folder / "data"
        self._run("initdb", "-D", str(data), "-U", "penstock", "-A", "trust", "--no-sync")
        # Without a port: two servers never want the same.
        settings = f"-h '' -k {folder} -F"
        log = str(folder / "log")
        self._run("pg_ctl", "-D", str(data), "-w", "-l", log, "-o", settings, "start")
        self.url = f"jdbc:postgresql:///postgres?host={folder}&user=penstock"
        self.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")

    def execute(self, sql):
        import psycopg

        with psycopg.connect(self.url.removeprefix("jdbc:"), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def stop(self):
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", "-m", "immediate", "stop")
        shutil.rmtree(self._folder)

    def _run(self, name, *arguments):
        done = subprocess.run(
            [programs() / name, *arguments],
            user=self._user,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "postgres":
        pytest.importorskip("psycopg")
        if programs() is None:
            pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    found = (Sqlite if request.param == "sqlite" else Postgres)(tmp_path)
    yield found
    found.stop()


class KillOnce(MapFunction):
    """Kills its worker at some numbers, at each once."""

    def __init__(self, folder):
        self.folder = str(folder)

    def map(self, value):
        if value in (7, 10_000, 19_999):
            try:
                Path(self.folder, str(value)).touch(exist_ok=False)
            except FileExistsError:
                return (value, f"n{value}")
            os.kill(os.getpid(), signal.SIGKILL)
        return (value, f"n{value}")


def test_rows_are_as_of_an_unfailed_job(database, tmp_path):
    (tmp_path / "killed").mkdir()
    env = environment({})
    env.set_parallelism(1)  # SQLite has one writer
    options = JdbcExecutionOptions.builder().with_batch_size(1000).build()
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    connection = builder.with_url(database.url).build()
    pair = Types.TUPLE([Types.LONG(), Types.STRING()])
    source = NumberSequenceSource(0, ROWS - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(
        KillOnce(tmp_path / "killed"), pair
    )
    numbers.add_sink(JdbcSink.sink(UPSERT, DECLARED, connection, options))
    env.execute()
    assert len(list((tmp_path / "killed").iterdir())) == 3
    assert database.execute("SELECT count(*), min(name), max(id) FROM t") == [
        (ROWS, "n0", ROWS - 1)
    ]
