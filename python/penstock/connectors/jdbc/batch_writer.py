"""Batches of rows for the tables of a database, written by a thread that owns the connection."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.common.typeinfo import Types
from penstock.common.values.instants import datetime_of, instant_micros
from penstock.connectors.batching import BatchLimits, BufferingWriter
from penstock.connectors.jdbc.connection import styled
from penstock.connectors.jdbc.dialect import sqlite_values
from penstock.connectors.jdbc.errors import is_final, remedy
from penstock.errors import FormatError, SinkError
from penstock.external.background import shut_down
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit, note_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.composite_types import RowTypeInfo
    from penstock.connectors.jdbc.connection import JdbcConnectionOptions
    from penstock.connectors.jdbc.execution_options import JdbcExecutionOptions

#: The pause before the first retry; before each further one it is longer by as much.
_PAUSE_S: Final = 1.0


class RowValues:
    """Reads the values of rows in the order of their columns.

    Args:
        row_type: The type of the rows; dictionaries and tuples are accepted as rows, too.
        place: The table and the database, for errors.
        database: The kind of database.
    """

    def __init__(self, row_type: RowTypeInfo, place: str, database: str) -> None:
        self._names = row_type.get_field_names()
        types = row_type.get_field_types()
        #: The positions of the fields that are instants, which drivers accept as datetimes in UTC.
        self._instants = [place for place, kind in enumerate(types) if kind == Types.INSTANT()]
        self._place = place
        self._is_sqlite = database == "sqlite"

    def __call__(self, element: Any) -> tuple[Any, ...]:
        """Return the values of a row.

        Raises:
            FormatError: The argument is not a row of these columns.
        """
        try:
            values = field_values(element, self._names)
            if self._instants:
                values = list(values)  # a copy: the row itself must not change
            for field in self._instants:
                values[field] = _moment(values[field])
            return sqlite_values(values) if self._is_sqlite else tuple(values)
        except Misfit as misfit:
            raise note_place(FormatError(f"JdbcSink: {misfit}"), self._place) from None


def _moment(value: Any) -> Any:
    try:
        return None if value is None else datetime_of(instant_micros(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise Misfit(f"{value!r} is not an instant that a database can store: {error}") from None


class StatementSink(Protocol):
    """A sink whose rows a `BatchWriter` writes.

    Attributes:
        sql: The statement for each row, with a ``?`` for each value.
        connection: The database.
        options: The batching of rows.
    """

    sql: str
    connection: JdbcConnectionOptions
    options: JdbcExecutionOptions


class BatchWriter(BufferingWriter[Any]):
    """Collects rows that a thread writes, which owns the connection.

    Args:
        sink: The sink.

    Attributes:
        hint: What errors add about the rows so far, after a semicolon.
    """

    hint = ""

    def __init__(self, sink: StatementSink) -> None:
        self._sink = sink
        self._sql = styled(sink.sql, sink.connection.paramstyle)
        self._connection: Any = None
        options = sink.options
        limits = BatchLimits(max_entries=options.batch_size, interval_ms=options.batch_interval_ms)
        super().__init__("jdbc-sink", limits)
        try:
            self.threads.call(self._reconnect)
        except BaseException:  # nobody closes a writer that was not created
            self.close()
            raise

    def cut_short(self) -> None:
        """Abort the statement that the thread waits for."""
        shut_down(self._connection)

    def release(self) -> None:
        """Close the connection; a broken one may be closed already."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def send_all(self, entries: Sequence[Any]) -> None:
        """Write rows in one transaction; retry after transient errors."""
        retries, closed = self._sink.options.max_retries, self.threads.closed
        for attempt in range(retries + 1):
            try:
                if self._connection is None:
                    self._reconnect()
                cursor = self._connection.cursor()
                self._run(cursor, entries)
                if closed.is_set():  # the next attempt of the task may have started
                    raise SinkError("the task was cancelled meanwhile")
                self._connection.commit()
                cursor.close()
            except Exception as error:
                # The connection may be broken, and its transaction is aborted.
                self.release()
                what = (
                    f"cannot write {len(entries)} rows into {self._sink.connection.shown} by "
                    f"{self._sink.sql!r}"
                )
                if is_final(error):
                    raise SinkError(
                        f"{what}, and a retry would not help: {type(error).__name__}: "
                        f"{error}{remedy(error)}{self.hint}"
                    ) from error
                if attempt == retries or closed.wait(_PAUSE_S * (attempt + 1)):
                    raise SinkError(
                        f"{what}, tried {attempt + 1} times: {type(error).__name__}: {error}"
                        f"{self.hint}"
                    ) from error
            else:
                return

    def _run(self, cursor: Any, rows: Sequence[Any]) -> None:
        """Execute the statement for each row."""
        cursor.executemany(self._sql, rows)

    def _reconnect(self) -> None:
        try:
            self._connection = self._sink.connection.connect()
        except Exception as error:
            raise SinkError(
                f"cannot connect to {self._sink.connection.shown} for {self._sink.sql!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
