"""JdbcLookup: queries a database for each record (beyond PyFlink).

It is also exported by `penstock.connectors.jdbc.sink`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.types import Row
from penstock.connectors.jdbc.connection import JdbcConnectionOptions, marks_of, styled
from penstock.connectors.jdbc.dialect import database_of, sqlite_values
from penstock.connectors.jdbc.errors import is_final, is_unreadable, remedy
from penstock.datastream.functions.asynchronous import AsyncFunction
from penstock.errors import InvalidProgramError, SourceError, UndecodableRecordError
from penstock.external.background import ServerThreads, shut_down

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)


@checks_arguments
class JdbcLookup(AsyncFunction[Any, Any]):
    """Queries a database, for `AsyncDataStream.ordered_wait` or ``unordered_wait``."""

    def __init__(
        self,
        sql: str,
        parameters: Callable[[Any], Sequence[Any]],
        result: Callable[[Any, list[Row]], Iterable[Any]],
        jdbc_connection_options: JdbcConnectionOptions,
        *,
        connections: int = 4,
        max_retries: int = 3,
        retry_delay_ms: int = 1000,
    ) -> None:
        """Create a function.

        Args:
            sql: A query with a ``?`` for each value.
            parameters: Function that returns the values for a record, in their order.
            result: Function that returns the records to emit, from the record and the rows, whose
                fields have the names of the query's columns.
            jdbc_connection_options: The database.
            connections: Number of concurrent queries of a subtask.
            max_retries: Number of retries of a failed query, with a new connection.
            retry_delay_ms: Delay before the first retry; doubled before each further one.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The database's package is not installed.
        """
        for name, given in (("parameters", parameters), ("result", result)):
            if not callable(given):
                raise InvalidProgramError(f"JdbcLookup takes a function as {name}, got {given!r}")
        for name, number, least in (
            ("connections", connections, 1),
            ("max_retries", max_retries, 0),
            ("retry_delay_ms", retry_delay_ms, 0),
        ):
            if number < least:
                raise InvalidProgramError(
                    f"JdbcLookup: {name} must be at least {least}, got {number}"
                )
        if not sql.strip():
            raise InvalidProgramError(f"JdbcLookup takes a query as sql, got {sql!r}")
        jdbc_connection_options.check()
        self._sql, self._marks = sql, marks_of(sql)
        self._parameters, self._result = parameters, result
        self._options = jdbc_connection_options
        self._connections = connections
        self._max_retries, self._retry_delay_ms = max_retries, retry_delay_ms
        self._asking: _Asking | None = None

    def open(self, runtime_context: Any) -> None:
        """Create the threads; each connects at its first query."""
        del runtime_context
        self._asking = _Asking(
            self._options,
            self._sql,
            self._connections,
            self._max_retries,
            self._retry_delay_ms,
        )

    def close(self) -> None:
        """Close the connections."""
        if self._asking is not None:
            self._asking.close()

    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the records emitted for a record."""
        assert self._asking is not None, "opened"
        parameters = tuple(_several("parameters", self._parameters(value)))
        if len(parameters) != self._marks:
            raise InvalidProgramError(
                f"JdbcLookup: {len(parameters)} values for {self._marks} placeholders ? of "
                f"{self._sql!r}"
            )
        rows = await self._asking.rows(parameters)
        return list(_several("result", self._result(value, rows)))


def _several(function: str, given: Any) -> Iterable[Any]:
    """Return the values of a user function's result, and reject a text or a single value.

    Raises:
        InvalidProgramError: The result is neither a sequence nor an iterable of values.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InvalidProgramError(
            f"JdbcLookup: the function {function} must return a list or a tuple, got {given!r:.100}"
        )
    return given


class _Asking:
    """Threads with one connection each: some packages confine a connection to its thread."""

    def __init__(
        self,
        options: JdbcConnectionOptions,
        sql: str,
        connections: int,
        max_retries: int,
        retry_delay_ms: int,
    ) -> None:
        self._options, self._sql = options, sql
        self._styled = styled(sql, options.paramstyle)
        self._is_sqlite = database_of(options.get_db_url()) == "sqlite"
        self._max_retries, self._retry_delay_ms = max_retries, retry_delay_ms
        self._own = threading.local()
        self._open: list[Any] = []
        self._threads = ServerThreads("jdbc-lookup", connections, self._disconnect)

    async def rows(self, parameters: tuple[Any, ...]) -> list[Row]:
        """Return the rows for the parameters."""
        return await asyncio.wrap_future(self._threads.submit(partial(self._ask, parameters)))

    def close(self) -> None:
        """Close the connections; running queries are aborted."""
        self._threads.close(cut_short=self._shut_down)

    def _ask(self, parameters: tuple[Any, ...]) -> list[Row]:
        closed, delay_ms = self._threads.closed, self._retry_delay_ms
        for tries_left in range(self._max_retries, -1, -1):
            try:
                return self._asked(parameters)
            except (InvalidProgramError, UndecodableRecordError):
                self._disconnect()
                raise
            except Exception as error:
                # The connection may be broken, and its transaction is aborted.
                self._disconnect()
                what = (
                    f"cannot look up {parameters!r:.200} in {self._options.shown} by {self._sql!r}"
                )
                if is_final(error):
                    raise SourceError(
                        f"{what}, and a retry would not help: {type(error).__name__}: "
                        f"{error}{remedy(error)}"
                    ) from error
                if tries_left == 0 or closed.is_set():
                    raise SourceError(
                        f"{what}, tried {self._max_retries + 1} times: "
                        f"{type(error).__name__}: {error}"
                    ) from error
                logger.warning(
                    "JdbcLookup: %s: %s; trying again in %d ms",
                    self._options.shown,
                    error,
                    delay_ms,
                )
                closed.wait(delay_ms / 1000)
                delay_ms *= 2
        raise AssertionError("the last try has returned or raised")

    def _asked(self, parameters: tuple[Any, ...]) -> list[Row]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._options.connect()
            self._open.append(connection)
        cursor = connection.cursor()
        cursor.execute(self._styled, sqlite_values(parameters) if self._is_sqlite else parameters)
        if cursor.description is None:
            raise InvalidProgramError(f"{self._sql!r} is not a query")
        names = [column[0] for column in cursor.description]
        if len(set(names)) < len(names):
            raise InvalidProgramError(
                f"JdbcLookup: {self._sql!r} returns several columns of one name: {names}; give "
                "them different names with AS"
            )
        try:
            rows = cursor.fetchall()
        except Exception as error:
            if not is_unreadable(error):
                raise
            raise UndecodableRecordError(
                f"JdbcLookup: a row of {self._sql!r} for {parameters!r:.200} has a value that "
                f"Python cannot represent: {error}; cast the column to text in the query"
            ) from error
        found = [Row(**dict(zip(names, values, strict=True))) for values in rows]
        cursor.close()
        # The next query must see later commits.
        connection.rollback()
        return found

    def _disconnect(self) -> None:
        """Close the connection of this thread."""
        connection, self._own.connection = getattr(self._own, "connection", None), None
        if connection is not None:
            self._open.remove(connection)
            # A broken connection may be closed already.
            with suppress(Exception):
                connection.close()

    def _shut_down(self) -> None:
        for connection in list(self._open):
            shut_down(connection)
