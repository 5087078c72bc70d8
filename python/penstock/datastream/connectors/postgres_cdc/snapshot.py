"""The rows that are in the table when a job begins, as one transaction sees them.

They are read in the order of the table's key, so that a checkpoint can hold how far.  A job that
goes on in their midst reads the rest in another transaction, which sees the table at a later
position of the log: another part.  The changes that follow begin at the position of the first part,
and leave out those of a key that were committed before the position of the part that has it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.datastream.connectors.postgres_cdc.description import SnapshotPart
from penstock.datastream.connectors.postgres_cdc.server import lsn_of
from penstock.datastream.connectors.postgres_cdc.table import (
    check_slot,
    check_table,
    columns_read,
    key_of_table,
    number_of,
    order_of,
    publish,
    slot_position,
    snapshot_query,
)
from penstock.errors import SourceError

if TYPE_CHECKING:
    from penstock.datastream.connectors.postgres_cdc.description import (
        TableDescription,
        TableSplit,
    )
    from penstock.datastream.connectors.postgres_cdc.server import Connection


class Snapshot:
    """Reads the rows that a split has not read yet.

    Attributes:
        lsn: All that was committed before this position is in the rows, and nothing else.
        key: That of the table; without one the rows have no order.
        time_ms: When the transaction began, since the epoch.
        key_places: Where it is in the rows.
        rows: Those that were fetched: the texts of the columns to be read, then of what they lack
            of the key.
        is_over: Whether these are the last ones.
        stop_lsn: Where a bounded source ends, once it is over; None for others.
    """

    def __init__(self, connection: Connection, source: TableDescription, split: TableSplit) -> None:
        """Begins, and fetches the first rows; blocks, and does not change the split.

        Raises:
            SourceError: The server refuses, or the split cannot be read on.
            UnreachableError: It is away.
        """
        self._connection, self._source = connection, source
        self.rows: deque[tuple[Any, ...]] = deque()
        self.is_over = False
        self.stop_lsn: int | None = None
        check_table(connection, source)
        publish(connection, source)
        if split.parts:
            check_slot(connection, source, split.parts[0].lsn)
        else:
            self.lsn = slot_position(connection, source)
        self.key = key_of_table(connection, source) if source.snapshot else ()
        columns = columns_read(source, self.key)
        self.key_places = [columns.index(column.name) for column in self.key]
        self.time_ms = int(number_of(connection, "(extract(epoch FROM now()) * 1000)::bigint"))
        behind = split.parts[-1].upto if split.parts else None
        if behind is not None and self.key != split.key:
            raise SourceError(
                f"{connection.shown}: the key of {source.table_name} is another one than when the "
                "job began to read its rows, and they cannot be read on; start the job anew, "
                "without its checkpoints"
            )
        if source.snapshot:
            self.lsn = connection.begin_snapshot()
            connection.declare(snapshot_query(connection, source, self.key, behind))
            self.fetch()
        else:
            self._end()

    def fetch(self) -> None:
        """Fetches more rows; blocks.

        Raises:
            UnreachableError: The server is away.
        """
        found = self._connection.fetch()
        self.rows.extend(found)
        if not found:
            self._end()

    def note(self, split: TableSplit, last: tuple[str, ...] | None) -> None:
        """Has the split begin behind a row that was emitted; behind all when None."""
        former = split.parts
        if former and former[-1].lsn == self.lsn:
            former = former[:-1]
        split.parts = (*former, SnapshotPart(self.lsn, last))
        split.key = self.key

    def _end(self) -> None:
        self.is_over = True
        if self._source.bounded:
            self.stop_lsn = lsn_of(number_of(self._connection, "pg_current_wal_flush_lsn()"))


def was_read(split: TableSplit, commit_lsn: int, key: tuple[str, ...]) -> bool:
    """Whether the snapshot has what a transaction did to the row of a key."""
    place = order_of(split.key, key)
    for part in split.parts:
        if part.upto is None or place <= order_of(split.key, part.upto):
            return commit_lsn < part.lsn
    return False
