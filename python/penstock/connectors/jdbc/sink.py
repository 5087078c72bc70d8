"""JDBC's names over DB-API 2: rows into the tables of a database."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.common.argument_kinds import checks_arguments
from penstock.common.composite_types import RowTypeInfo
from penstock.common.instants import datetime_of, instant_micros
from penstock.common.missing_methods import NoJavaMembers
from penstock.common.record_types import as_row_type
from penstock.common.typeinfo import Types
from penstock.connectors.jdbc.connection import JdbcConnectionOptions, marks_of, styled
from penstock.connectors.jdbc.errors import is_final, remedy
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.datastream.functions.source_sink import SinkFunction
from penstock.errors import FormatError, InvalidProgramError, SinkError
from penstock.external.background import ServerThreads, shut_down
from penstock.formats.json_values import field_values
from penstock.formats.misfit import Misfit, note_place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

__all__ = ["JdbcExecutionOptions", "JdbcSink"]

#: The time before the first repetition; before the second it is twice as long, and so on.
_PAUSE_S: Final = 1.0


@checks_arguments
class JdbcSink(SinkFunction):
    """Writes rows into a database, at least once; made by `sink`, for `DataStream.add_sink`."""

    def __init__(self, sink: PythonSink[Any]) -> None:
        """Makes a sink; use `sink`."""
        self._sink = sink

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Executes a statement for each row.

        Args:
            sql: A statement with a ``?`` for each field, in their order.
            type_info: The type of the rows; dictionaries and tuples are taken for rows too.
            jdbc_connection_options: The database.
            jdbc_execution_options: How rows are put together; `JdbcExecutionOptions.defaults`
                unless given.

        Raises:
            InvalidProgramError: The type is not a row, or the statement has not one ``?`` for each
                field.
            DependencyError: The database's package is not installed.
        """
        type_info = as_row_type(type_info)
        if not isinstance(type_info, RowTypeInfo):
            raise InvalidProgramError(f"JdbcSink.sink takes a row type, got {type_info!r}")
        names = type_info.get_field_names()
        marks = marks_of(sql)
        if marks != len(names):
            raise InvalidProgramError(
                f"JdbcSink.sink: the statement has {marks} marks ? for {len(names)} fields: {sql}"
            )
        jdbc_connection_options.check()
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        types = type_info.get_field_types()
        instants = [place for place, kind in enumerate(types) if kind == Types.INSTANT()]
        return JdbcSink(_RowSink(sql, names, instants, jdbc_connection_options, options))

    def _as_sink(self) -> PythonSink[Any]:
        return self._sink


@dataclass(frozen=True)
class JdbcExecutionOptions(NoJavaMembers):
    """Batching of rows; created by `builder`.

    Attributes:
        batch_interval_ms: How long a row waits at most; 0 for any time.
        batch_size: How many rows are written at once.
        max_retries: How often a batch is tried again.
    """

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Return the longest time a row waits, in ms; 0 for no limit."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows written at once."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return the number of retries of a batch."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """5000 rows, without a time, three repetitions, as in Flink."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Starts with the defaults."""
        return JdbcExecutionOptions.Builder()

    @checks_arguments
    class Builder(NoJavaMembers):
        """Collects options."""

        def __init__(self) -> None:
            """Starts with the defaults."""
            self._settings: dict[str, int] = {}

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Sets how many rows are written at once."""
            return self._set("batch_size", size, 1)

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Sets how long a row waits at most, in ms; 0 for any time."""
            return self._set("batch_interval_ms", interval_ms, 0)

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Sets how often a batch is tried again."""
            return self._set("max_retries", max_retries, 0)

        def build(self) -> JdbcExecutionOptions:
            """The options."""
            return JdbcExecutionOptions(**self._settings)

        def _set(self, name: str, value: int, least: int) -> JdbcExecutionOptions.Builder:
            if value < least:
                raise InvalidProgramError(f"{name} is at least {least}, got {value}")
            self._settings[name] = value
            return self


class _RowSink(PythonSink[Any]):
    def __init__(
        self,
        sql: str,
        names: list[str],
        instants: list[int],
        connection: JdbcConnectionOptions,
        options: JdbcExecutionOptions,
    ) -> None:
        super().__init__()
        self.sql = sql
        self.names = names
        #: The places of the fields that are instants, which drivers take as datetimes of UTC.
        self.instants = instants
        self.connection = connection
        self.options = options

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """The writer of a subtask."""
        del context
        return _RowWriter(self)


def _moment(value: Any) -> Any:
    try:
        return None if value is None else datetime_of(instant_micros(value))
    except (TypeError, ValueError, OverflowError) as error:
        raise Misfit(f"{value!r} is no instant that a database takes: {error}") from None


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


class BatchWriter(SinkWriter[Any]):
    """Keeps rows, and has a thread that owns the connection write them.

    Args:
        sink: The sink.
    """

    def __init__(self, sink: StatementSink) -> None:
        self._sink = sink
        self._sql = styled(sink.sql, sink.connection.paramstyle)
        self._lock = threading.Lock()
        self._rows: list[Any] = []
        self._connection: Any = None
        self._failure: BaseException | None = None
        self._threads = ServerThreads("jdbc-sink")
        try:
            self._threads.call(self._reconnect)
        except BaseException:  # nothing was created, so nothing is closed
            self._threads.close(self._disconnect)
            raise
        self._clock: threading.Thread | None = None
        if sink.options.batch_interval_ms > 0:
            self._clock = threading.Thread(target=self._tick, name="jdbc-sink-clock", daemon=True)
            self._clock.start()

    def keep(self, rows: Sequence[Any]) -> None:
        """Keep rows, and wait until all are written if there are as many as one batch has."""
        with self._lock:
            self._rows.extend(rows)
            is_full = len(self._rows) >= self._sink.options.batch_size
        if is_full:
            self._threads.call(self._write_rows)

    def flush(self, end_of_input: bool) -> None:
        """Writes the rows that are kept."""
        del end_of_input
        self._threads.call(self._write_rows)

    def close(self) -> None:
        """Ends the connection, also one that the thread waits at."""
        self._threads.close(self._disconnect, lambda: shut_down(self._connection))
        if self._clock is not None:
            self._clock.join()

    def _tick(self) -> None:
        """Has rows written that wait for others; what fails is told with the next ones."""
        threads, interval_s = self._threads, self._sink.options.batch_interval_ms / 1000
        writing: Future[None] | None = None
        while not threads.closed.wait(interval_s):
            if writing is None or writing.done():
                writing = threads.submit(self._write_rows)

    def _write_rows(self) -> None:
        """Writes all rows that are kept, in the thread that has the connection."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            rows, self._rows = self._rows, []
        if rows:
            try:
                self._execute(rows)
            except BaseException as error:
                self._failure = error
                raise

    def _run(self, cursor: Any, rows: list[Any]) -> None:
        """Execute the statement for each row."""
        cursor.executemany(self._sql, rows)

    def _execute(self, rows: list[Any]) -> None:
        retries, closed = self._sink.options.max_retries, self._threads.closed
        for attempt in range(retries + 1):
            try:
                if self._connection is None:
                    self._reconnect()
                cursor = self._connection.cursor()
                self._run(cursor, rows)
                if closed.is_set():  # what follows this task may have begun
                    raise SinkError("the task was cancelled meanwhile")
                self._connection.commit()
                cursor.close()
            except Exception as error:
                # A connection that failed may be broken, and has a transaction that is.
                self._disconnect()
                what = (
                    f"cannot write {len(rows)} rows into {self._sink.connection.shown} by "
                    f"{self._sink.sql!r}"
                )
                if is_final(error):
                    raise SinkError(
                        f"{what}, and trying again would not help: {type(error).__name__}: "
                        f"{error}{remedy(error)}"
                    ) from error
                if attempt == retries or closed.wait(_PAUSE_S * (attempt + 1)):
                    raise SinkError(
                        f"{what}, tried {attempt + 1} times: {type(error).__name__}: {error}"
                    ) from error
            else:
                return

    def _reconnect(self) -> None:
        try:
            self._connection = self._sink.connection.connect()
        except Exception as error:
            raise SinkError(
                f"cannot connect to {self._sink.connection.shown} for {self._sink.sql!r}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # A broken one may be closed already.
            with suppress(Exception):
                connection.close()


class _RowWriter(BatchWriter):
    """Writes the fields of rows in the order of their names."""

    def __init__(self, sink: _RowSink) -> None:
        self._names, self._instants = sink.names, sink.instants
        super().__init__(sink)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Takes a row."""
        del context
        try:
            values = field_values(element, self._names)
            if self._instants:
                values = list(values)  # not those of the row itself
            for field in self._instants:
                values[field] = _moment(values[field])
            row = tuple(values)
        except Misfit as misfit:
            error = FormatError(f"JdbcSink: {misfit}")
            place = f"{self._sink.connection.shown} by {self._sink.sql!r}"
            raise note_place(error, place) from None
        self.keep([row])
