"""The rows that are in the table when a job begins, as one transaction sees them.

They come in the order of the table's key, so that a checkpoint can hold how far.  A job that
goes on in their midst reads the rest in another transaction, which sees the table at a later
position of the log: another part.  The changes that follow begin at the position of the first part,
and leave out those of a key that were committed before the position of the part that has it.
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
        lsn: All that was committed before this position is in the rows, and nothing else.
        key: That of the table; without one the rows have no order.
        time_ms: When the transaction began, since the epoch.
        key_places: Where it is in the rows, which have the texts of the columns to be read, then
            of what they lack of the key.
        rows: Those that have come and were not emitted.
        is_copied: Whether no more rows come; the last word of the server may.
        is_over: Whether it has come.
        stop_lsn: Where a bounded source ends, once it is over; None for others.
    """

    def __init__(self, connection: Connection, source: TableDescription, split: TableSplit) -> None:
        """Begins; blocks, and does not change the split.

        Raises:
            SourceError: The server refuses, or the split cannot be read on.
            UnreachableError: It is away.
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
                f"{connection.shown}: the key of {source.table_name} is another one than when the "
                "job began to read its rows, and they cannot be read on; start the job anew, "
                "without its checkpoints"
            )
        if source.snapshot:
            self.lsn = connection.begin_snapshot()
            connection.copy(snapshot_query(connection, source, self.key, behind))
        else:
            self.is_copied = True
            self._end()

    def take(self, limit: int) -> None:
        """Takes rows that have come, without waiting.

        Raises:
            UnreachableError: The server is away.
        """
        found, self.is_copied = self._connection.copied_rows(limit)
        self.rows.extend(found)

    def finish(self) -> None:
        """Waits for the server's last word; blocks.

        Raises:
            SourceError: It is that the rows are not complete.
            UnreachableError: It is away.
        """
        self._connection.end_copy()
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


def was_read(
    split: TableSplit, commit_lsn: int, key: tuple[str, ...], ask: Callable[[], Connection]
) -> bool:
    """Return whether the snapshot has what a transaction did to the row of a key.

    Args:
        split: It has been read into its midst.
        commit_lsn: Where the transaction was committed.
        key: That of the row.
        ask: Gives a connection to a server, which alone knows the order of some keys.
    """
    bounds = [part.upto for part in split.parts if part.upto is not None]
    if is_compared_here(split.key):
        ordered = [order_of(split.key, bound) for bound in bounds]
        number = bisect_left(ordered, order_of(split.key, key))
    else:
        number = count_before(ask(), split.key, bounds, key)
    return number < len(split.parts) and commit_lsn < split.parts[number].lsn
