"""Databases for tests of JDBC: files of SQLite, and databases of a PostgreSQL server."""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.postgres_server import PostgresServer


class Sqlite:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.url = f"jdbc:sqlite:{folder / 'db'}"
        self._path = folder / "db"

    def execute(self, sql):
        connection = sqlite3.connect(self._path)
        try:
            with connection:
                return connection.execute(sql).fetchall()
        finally:
            connection.close()


class Postgres:
    """A new database of a server."""

    kind = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = f"test_{uuid.uuid4().hex}"
        server.execute(f"CREATE DATABASE {self._name}")
        self._place = server.url.replace("/postgres?", f"/{self._name}?")
        self.url = f"jdbc:{self._place}"

    def execute(self, sql):
        return self._server.execute(sql, self._place)

    def drop(self) -> None:
        self._server.execute(f"DROP DATABASE {self._name} WITH (FORCE)")


def serving_postgres() -> Iterator[PostgresServer | BaseException]:
    """Yield a server for a module, or why there is none: tests of SQLite do without."""
    try:
        pytest.importorskip("psycopg")
        server = PostgresServer()
    except pytest.skip.Exception as missing:
        yield missing
        return
    yield server
    server.stop()


@contextmanager
def opened(
    kind: str, folder: Path, server: PostgresServer | BaseException
) -> Iterator[Sqlite | Postgres]:
    """Open an empty database of a kind."""
    if kind == Sqlite.kind:
        yield Sqlite(folder)
        return
    if isinstance(server, BaseException):
        raise server
    database = Postgres(server)
    yield database
    database.drop()
