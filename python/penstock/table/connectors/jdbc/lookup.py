"""Lookup of rows of a database table by keys, with an optional cache."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.jdbc.connection import styled
from penstock.connectors.jdbc.errors import is_final, remedy
from penstock.errors import SourceError
from penstock.external.background import ServerThreads, shut_down
from penstock.table.connectors.jdbc.values import RowReader, RowWriter
from penstock.table.connectors.lookup_cache import CachedKeyLookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connectors.jdbc.connection import JdbcConnectionOptions
    from penstock.connectors.jdbc.dialect import TableStatements
    from penstock.table.connectors.lookup_cache import CacheOptions, Key, Rows
    from penstock.table.types import RowType

_FIRST_PAUSE_S: Final = 1.0


class JdbcKeyLookup(CachedKeyLookup):
    """Queries a database for the rows of keys.

    Args:
        connection: The database.
        statements: Builder of the queries.
        row_type: The columns of the table.
        cache: The limits of the cache; None for no cache.
        max_retries: Number of retries of a failed query.
    """

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        statements: TableStatements,
        row_type: RowType,
        cache: CacheOptions | None,
        max_retries: int,
    ) -> None:
        super().__init__(cache)
        self._options = connection
        self._statements = statements
        self._row_type = row_type
        self._max_retries = max_retries
        self._row_of = RowReader(row_type.field_names(), row_type.field_types())
        self._threads = ServerThreads("jdbc-lookup")
        self._connection: Any = None

    def ask(self, names: Sequence[str], keys: Sequence[Key]) -> dict[Key, Rows]:
        """Query the database for the rows of each key."""
        return self._threads.call(partial(self._of_keys, names, keys))

    def close(self) -> None:
        """Close the connection, even if the thread waits for it."""
        self._threads.close(self._disconnect, lambda: shut_down(self._connection))

    # In the thread --------------------------------------------------------------------------------

    def _of_keys(self, names: Sequence[str], keys: Sequence[Key]) -> dict[Key, Rows]:
        columns = self._row_type.field_names()
        places = [columns.index(name) for name in names]
        found: dict[Key, Rows] = {key: [] for key in keys}
        for row in self._asked(names, keys):
            key = tuple(row[i] for i in places)
            if key not in found:
                # Values that are equal in the database may differ here, such as texts compared
                # without case: only a query per key tells whose row it is.
                return {key: self._asked(names, [key]) for key in keys}
            found[key].append(row)
        return found

    def _asked(self, names: Sequence[str], keys: Sequence[Key]) -> Rows:
        sql = self._statements.select(
            self._row_type.field_names(), where=self._statements.any_of(names, len(keys))
        )
        columns = self._row_type.field_names()
        kinds = [self._row_type.field_types()[columns.index(name)] for name in names]
        written = RowWriter(self._statements.kind, kinds)
        parameters = [value for key in keys for value in written(key)]
        closed, delay_s = self._threads.closed, _FIRST_PAUSE_S
        for tries_left in range(self._max_retries, -1, -1):
            try:
                return self._executed(sql, parameters)
            except SourceError:
                raise
            except Exception as error:
                self._disconnect()
                what = (
                    f"cannot look up {len(keys)} keys in {self._options.shown} by {sql!r:.500}: "
                    f"{type(error).__name__}: {error}"
                )
                if is_final(error):
                    raise SourceError(f"{what}{remedy(error)}") from error
                if tries_left == 0 or closed.wait(delay_s):
                    raise SourceError(what) from error
                delay_s *= 2
        raise AssertionError("the last try has returned or raised")

    def _executed(self, sql: str, parameters: Sequence[Any]) -> Rows:
        if self._connection is None:
            self._connection = self._options.connect()
        self.queries += 1
        cursor = self._connection.cursor()
        cursor.execute(styled(sql, self._options.paramstyle), parameters)
        rows = [tuple(self._row_of(row)) for row in cursor.fetchall()]
        cursor.close()
        # The next query must see later commits.
        self._connection.rollback()
        return rows

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # A broken connection may be closed already.
            with suppress(Exception):
                connection.close()
