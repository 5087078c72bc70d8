"""Changes of rows, written into a table of a database: the last row of each key is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.connectors.change_rows import ChangeKey, OldRows, is_deletion
from penstock.connectors.jdbc.batch_writer import BatchWriter, RowValues, StatementSink
from penstock.connectors.jdbc.connection import styled
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.connectors.jdbc.connection import JdbcConnectionOptions
    from penstock.connectors.jdbc.dialect import TableStatements
    from penstock.connectors.jdbc.execution_options import JdbcExecutionOptions


class ChangeStatementSink(StatementSink, Protocol):
    """A sink whose changes a `ChangeWriter` writes.

    Attributes:
        key: The positions of the key; empty for an append-only table.
        deletion: The statement that deletes the row of a key; empty without a key.
    """

    key: tuple[int, ...]
    deletion: str


class ChangeWriter(BatchWriter):
    """Collects pairs of "is a deletion" and values, and writes the last one of each key.

    Args:
        sink: The sink.
    """

    def __init__(self, sink: ChangeStatementSink) -> None:
        self._key = sink.key
        self._deletion = styled(sink.deletion, sink.connection.paramstyle)
        super().__init__(sink)

    def _run(self, cursor: Any, rows: Sequence[Any]) -> None:
        """Execute the statements for changes, in the thread that owns the connection."""
        key = self._key
        if not key:
            cursor.executemany(self._sql, [row for _, row in rows])
            return
        last = {tuple(row[i] for i in key): (deletes, row) for deletes, row in rows}
        deleted = [values for values, (deletes, _) in last.items() if deletes]
        upserted = [row for deletes, row in last.values() if not deletes]
        if deleted:
            cursor.executemany(self._deletion, deleted)
        if upserted:
            cursor.executemany(self._sql, upserted)


class UpsertSink(PythonSink[Any]):
    """Sink that writes changes of rows by key.

    Args:
        statements: Builder of the statements.
        values: Reader of the values of rows.
        key: The key columns.
        connection: The database.
        options: The batching of rows.
    """

    def __init__(
        self,
        statements: TableStatements,
        values: RowValues,
        key: ChangeKey,
        connection: JdbcConnectionOptions,
        options: JdbcExecutionOptions,
    ) -> None:
        super().__init__()
        self.values = values
        self.connection = connection
        self.options = options
        self.sql = statements.upsert(key.names)
        self.deletion = statements.delete(key.names)
        self.key = tuple(statements.columns.index(name) for name in key.names)
        self._key = key

    def key_of_records(self) -> Callable[[Any], Any]:
        """Return the key selector, which keeps the changes of a key in order."""
        return self._key

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask."""
        del context
        return _UpsertWriter(self)


class _UpsertWriter(ChangeWriter):
    def __init__(self, sink: UpsertSink) -> None:
        self._values = sink.values
        self._old = OldRows()
        super().__init__(sink)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a change."""
        del context
        self._keep_all(self._old.joined(element))

    def flush(self, end_of_input: bool) -> None:
        """Write the buffered rows."""
        self._keep_all(self._old.taken())
        super().flush(end_of_input)

    def _keep_all(self, elements: Sequence[Any]) -> None:
        if elements:
            self.keep([(is_deletion(each), self._values(each)) for each in elements])
