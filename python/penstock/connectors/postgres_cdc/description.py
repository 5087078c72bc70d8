"""Table and read position, which the parts of the source share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.split_source import SourceSplit

if TYPE_CHECKING:
    from penstock.common.composite_types import RowTypeInfo
    from penstock.formats.dead_letters import Policy


@dataclass(frozen=True)
class KeyColumn:
    """Column of the key that orders the snapshot.

    Attributes:
        name: The name of the column.
        kind: The server's name of its type.
        collation: The collation by which the server orders its values; None for types without one.
    """

    name: str
    kind: str
    collation: str | None


@dataclass(frozen=True)
class SnapshotPart:
    """Rows that one transaction has read: those after the previous part.

    Attributes:
        lsn: The rows contain exactly the transactions committed before this position.
        upto: The key of the last row; None if the part has all remaining rows.
    """

    lsn: int
    upto: tuple[str, ...] | None


@dataclass
class TableSplit(SourceSplit):
    """Read position of a table; one split covers the whole table.

    Attributes:
        lsn: All transactions committed before this position were emitted; None during the snapshot.
        commit_lsn: The next transaction, if it was emitted in part; otherwise 0.
        emitted: The number of its changes of the table that were emitted.
        stop_lsn: The position at which a bounded source ends; None for others.
        parts: The parts of the snapshot, kept until the changes reach the last one; several if a
            checkpoint was restored during the snapshot.
        key: The columns that order the rows of the snapshot.
        time_ms: The time of the first part, in ms since the epoch.
    """

    lsn: int | None = None
    commit_lsn: int = 0
    emitted: int = 0
    stop_lsn: int | None = None
    parts: tuple[SnapshotPart, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    time_ms: int = 0

    def split_id(self) -> str:
        """Constant: there is only one split."""
        return "table"

    def advance(self, lsn: int) -> None:
        """Note that all transactions committed before a position were emitted.

        A server that decodes a long transaction names earlier positions meanwhile: the number of
        its emitted changes remains.
        """
        if self.lsn is None or lsn > self.lsn:
            self.lsn = lsn
            if lsn > self.commit_lsn:
                self.commit_lsn, self.emitted = 0, 0


@dataclass(frozen=True)
class TableDescription:
    """A table, and how to read it.

    Attributes:
        settings: Libpq's settings of the connection.
        schema: The schema of the table.
        table: Its name in the schema.
        row_type: The columns to read.
        slot: The replication slot.
        publication: The publication.
        snapshot: Whether to start with all rows.
        bounded: Whether the source ends.
        retry_timeout_ms: The longest time to retry while the server is unavailable.
        undecodable: The policy for a row with a value that is not of its declared type.
    """

    settings: dict[str, Any]
    schema: str
    table: str
    row_type: RowTypeInfo
    slot: str
    publication: str
    snapshot: bool
    bounded: bool
    retry_timeout_ms: int
    undecodable: Policy

    @property
    def columns(self) -> list[str]:
        """The names of the columns to read."""
        return list(self.row_type.get_field_names())

    @property
    def table_name(self) -> str:
        """The table with its schema."""
        return f"{self.schema}.{self.table}"
