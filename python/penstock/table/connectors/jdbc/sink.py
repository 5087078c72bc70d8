"""Changes of a table, written into a database table: the last row of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.jdbc.changes import ChangeWriter
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.table.connectors.batches import rows_of
from penstock.table.connectors.jdbc.values import RowWriter
from penstock.table.plan.nodes import ADDED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connectors.jdbc.connection import JdbcConnectionOptions
    from penstock.connectors.jdbc.dialect import TableStatements
    from penstock.connectors.jdbc.sink import JdbcExecutionOptions
    from penstock.table.types import RowType


class JdbcChanges(PythonSink[Any]):
    """Writes record batches of changes.

    Args:
        connection: The database.
        statements: Builder of the statements.
        row_type: The columns.
        key: The positions of the primary key; empty for an append-only table.
        options: Number of rows in a batch, and number of retries.
    """

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        statements: TableStatements,
        row_type: RowType,
        key: Sequence[int],
        options: JdbcExecutionOptions,
    ) -> None:
        super().__init__()
        self.connection = connection
        self.row_type = row_type
        self.key = tuple(key)
        self.options = options
        self.database = statements.kind
        names = row_type.field_names()
        keys = [names[i] for i in key]
        self.sql = statements.upsert(keys) if keys else statements.insert()
        self.deletion = statements.delete(keys) if keys else ""

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Return the writer of a subtask."""
        del context
        return ChangesWriter(self)


class ChangesWriter(ChangeWriter):
    """Buffers changes, and writes the last one of each key.

    Args:
        sink: The sink.
    """

    def __init__(self, sink: JdbcChanges) -> None:
        self._changes = sink
        self._written = RowWriter(sink.database, sink.row_type.field_types())
        super().__init__(sink)

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a batch of changes."""
        del context
        rows = [
            (kind not in ADDED, self._written(row))
            for kind, row in rows_of(element, self._changes.row_type)
        ]
        self.keep(rows)
