"""JDBC sinks over DB-API 2: rows for the tables of a database."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.composite_types import RowTypeInfo
from penstock.common.record_types import as_row_type
from penstock.common.row_kind import RowKind
from penstock.common.values.change_rows import kind_of_change
from penstock.connectors.jdbc.batch_writer import BatchWriter, RowValues
from penstock.connectors.jdbc.connection import JdbcConnectionOptions, marks_of
from penstock.connectors.jdbc.dialect import database_of
from penstock.connectors.jdbc.execution_options import JdbcExecutionOptions
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.datastream.functions.source_sink import SinkFunction
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["JdbcExecutionOptions", "JdbcSink"]

logger = logging.getLogger(__name__)


@checks_arguments
class JdbcSink(SinkFunction):
    """Writes rows into a database, at least once; created by `sink`, for `DataStream.add_sink`."""

    def __init__(self, sink: PythonSink[Any]) -> None:
        """Create a sink; use `sink`."""
        self._sink = sink

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that executes a statement for each row.

        Args:
            sql: A statement with a ``?`` for each field, in their order.
            type_info: The type of the rows; dictionaries and tuples are accepted as rows too.
            jdbc_connection_options: The database.
            jdbc_execution_options: Batching of the rows; `JdbcExecutionOptions.defaults`
                unless given.

        Raises:
            InvalidProgramError: The type is not a row, the numbers of fields and ``?`` differ, or
                no column of the database can store the values of a field.
            DependencyError: The database's package is not installed.
        """
        type_info = _row_type("JdbcSink.sink", type_info)
        names = type_info.get_field_names()
        marks = marks_of(sql)
        if marks != len(names):
            raise InvalidProgramError(
                f"JdbcSink.sink: the statement has {marks} placeholders ? for {len(names)} "
                f"fields: {sql}"
            )
        jdbc_connection_options.check()
        jdbc_connection_options.check_fields("JdbcSink.sink", type_info)
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        values = RowValues(
            type_info,
            f"{jdbc_connection_options.shown} by {sql!r}",
            database_of(jdbc_connection_options.get_db_url()),
        )
        return JdbcSink(_RowSink(sql, values, jdbc_connection_options, options))

    @staticmethod
    def upsert(
        table: str,
        type_info: RowTypeInfo,
        key: Sequence[str],
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that applies changes of rows to a table by key (beyond PyFlink).

        ``+I`` and ``+U`` insert the row of a key or replace it; ``-D`` deletes it, as does ``-U``
        unless a row with the same key follows.  The changes of a key go to one subtask, in order.
        Repeated changes result in the same table.

        Args:
            table: The name of the table, with its schema if it needs one.
            type_info: The type of the rows: the columns.
            key: The columns of a primary key or unique index of the table.
            jdbc_connection_options: The database: SQLite, PostgreSQL or MySQL, by a URL.
            jdbc_execution_options: Batching of the rows; `JdbcExecutionOptions.defaults`
                unless given.

        Raises:
            InvalidProgramError: The type is not a row, it lacks a key column, the options have no
                URL that names the database, or no column can store the values of a field.
            DependencyError: The database's package is not installed.
        """
        from penstock.connectors.change_rows import ChangeKey
        from penstock.connectors.jdbc.changes import UpsertSink
        from penstock.connectors.jdbc.dialect import TableStatements

        type_info = _row_type("JdbcSink.upsert", type_info)
        names = type_info.get_field_names()
        change_key = ChangeKey("JdbcSink.upsert", key, names)
        statements = TableStatements.of_url(jdbc_connection_options.get_db_url(), table, names)
        if not statements.is_known:
            raise InvalidProgramError(
                "JdbcSink.upsert writes into SQLite, PostgreSQL and MySQL, and takes connection "
                f"options with a URL that names one of them, got {jdbc_connection_options!r}"
            )
        jdbc_connection_options.check()
        jdbc_connection_options.check_fields("JdbcSink.upsert", type_info)
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        place = f"{jdbc_connection_options.shown}, table {table}"
        values = RowValues(type_info, place, statements.kind)
        return JdbcSink(
            UpsertSink(statements, values, change_key, jdbc_connection_options, options)
        )

    def _as_sink(self) -> PythonSink[Any]:
        return self._sink


def _row_type(used_by: str, given: Any) -> RowTypeInfo:
    """Return the row type of an argument.

    Raises:
        InvalidProgramError: It is something else; for a class, the message shows its type.
    """
    declared = as_row_type(given)
    if not isinstance(declared, RowTypeInfo):
        hint = f"; write Types.of({given.__name__})" if isinstance(given, type) else ""
        raise InvalidProgramError(f"{used_by} takes a row type, got {given!r}{hint}")
    return declared


class _RowSink(PythonSink[Any]):
    def __init__(
        self,
        sql: str,
        values: RowValues,
        connection: JdbcConnectionOptions,
        options: JdbcExecutionOptions,
    ) -> None:
        super().__init__()
        self.sql = sql
        self.values = values
        self.connection = connection
        self.options = options

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask."""
        del context
        return _RowWriter(self)


class _RowWriter(BatchWriter):
    """Writes the fields of rows in the order of their names."""

    def __init__(self, sink: _RowSink) -> None:
        self._values = sink.values
        super().__init__(sink)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a row; the first one that is no insertion is logged."""
        del context
        if not self.hint and (kind := kind_of_change(element)) is not RowKind.INSERT:
            self.hint = (
                f"; there are rows of the kind {kind}, for which JdbcSink.sink executes the same "
                "statement: JdbcSink.upsert applies changes by key"
            )
            logger.warning("%s, %r%s", self._sink.connection.shown, self._sink.sql, self.hint)
        self.keep([self._values(element)])
