"""The rows of the table when a job begins, as one transaction sees them.

They arrive in the order of the table's key, so that a checkpoint can store the position.  A job
restored during the snapshot reads the rest in another transaction, which sees the table at a later
position of the log: another part.  The changes that follow begin at the position of the first part;
changes of a key that were committed before the position of the key's own part are skipped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.connectors.postgres_cdc.description import SnapshotPart
from penstock.connectors.postgres_cdc.server import lsn_of
from penstock.connectors.postgres_cdc.table import (
    check_slot,
    check_table,
    columns_read,
    count_before,
    is_compared_here,
    key_of_table,
    number_of,
    order_of,
    publish,
    slot_position,
    snapshot_query,
)
from penstock.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.postgres_cdc.description import TableDescription, TableSplit
    from penstock.connectors.postgres_cdc.server import Connection


class Snapshot:
    """Reads the rows that a split has not read yet.

    Attributes:
        lsn: The rows contain exactly the transactions committed before this position.
        key: The key of the table; without one the rows have no order.
        time_ms: The time at which the transaction began, in ms since the epoch.
        key_places: The positions of the key in the rows, which hold the columns to read, then the
            key columns that are not among them.
        rows: The rows that have arrived and were not emitted.
        is_copied: True if no more rows follow; the server's final result may.
        is_over: True if the final result has arrived.
        stop_lsn: The position at which a bounded source ends, set at the end; None for others.
    """

    def __init__(self, connection: Connection, source: TableDescription, split: TableSplit) -> None:
        """Begin the snapshot; block, and do not change the split.

        Raises:
            SourceError: The server refuses, or the split cannot be continued.
            UnreachableError: The server is unavailable.
        """
        self._connection, self._source = connection, source
        self.rows: deque[list[Any]] = deque()
        self.is_copied = self.is_over = False
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
                f"{connection.shown}: the key of {source.table_name} has changed since the job "
                "began to read its rows, so it cannot continue; start the job without its "
                "checkpoints"
            )
        if source.snapshot:
            self.lsn = connection.begin_snapshot()
            connection.copy(snapshot_query(connection, source, self.key, behind))
        else:
            self.is_copied = True
            self._end()

    def take(self, limit: int) -> None:
        """Fetch rows that have arrived, without waiting.

        Raises:
            UnreachableError: The server is unavailable.
        """
        found, self.is_copied = self._connection.copied_rows(limit)
        self.rows.extend(found)

    def finish(self) -> None:
        """Wait for the server's final result; block.

        Raises:
            SourceError: The rows are incomplete.
            UnreachableError: The server is unavailable.
        """
        self._connection.end_copy()
        self._end()

    def note(self, split: TableSplit, last: tuple[str, ...] | None) -> None:
        """Move the split behind a row that was emitted; behind all rows if it is None."""
        former = split.parts
        if former and former[-1].lsn == self.lsn:
            former = former[:-1]
        split.parts = (*former, SnapshotPart(self.lsn, last))
        split.key = self.key

    def _end(self) -> None:
        self.is_over = True
        if self._source.bounded:
            self.stop_lsn = lsn_of(number_of(self._connection, "pg_current_wal_flush_lsn()"))


def was_read(
    split: TableSplit, commit_lsn: int, key: tuple[str, ...], ask: Callable[[], Connection]
) -> bool:
    """Return whether the snapshot contains a transaction's change of the row of a key.

    Args:
        split: A split whose snapshot was read in parts.
        commit_lsn: The position of the transaction's commit.
        key: The key of the row.
        ask: Returns a connection to the server, which alone knows the order of some keys.
    """
    bounds = [part.upto for part in split.parts if part.upto is not None]
    if is_compared_here(split.key):
        ordered = [order_of(split.key, bound) for bound in bounds]
        number = bisect_left(ordered, order_of(split.key, key))
    else:
        number = count_before(ask(), split.key, bounds, key)
    return number < len(split.parts) and commit_lsn < split.parts[number].lsn
