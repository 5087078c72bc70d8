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
    """A column of the key by whose order the snapshot is read.

    Attributes:
        name: That of the column.
        kind: The server's name of its type.
        collation: That by which the server orders its values; None for types without one.
    """

    name: str
    kind: str
    collation: str | None


@dataclass(frozen=True)
class SnapshotPart:
    """Rows that one transaction has read: those behind the part before.

    Attributes:
        lsn: What was committed before this position is in the rows, and nothing else.
        upto: The key of the last one; None where they are all that was left.
    """

    lsn: int
    upto: tuple[str, ...] | None


@dataclass
class TableSplit(SourceSplit):
    """Read position of a table; one split covers the whole table.

    Attributes:
        lsn: All that was committed before this position was emitted; None until the snapshot is.
        commit_lsn: The transaction behind it of which a part was emitted; 0 if there is none.
        emitted: How many changes of the table that part has.
        stop_lsn: Where a bounded source ends; None for others.
        parts: What was read of the snapshot, until changes have reached the last of them; there
            are several if the job went on from a checkpoint in its midst.
        key: What the rows of the snapshot are ordered by.
        time_ms: The time of the first part, since the epoch.
    """

    lsn: int | None = None
    commit_lsn: int = 0
    emitted: int = 0
    stop_lsn: int | None = None
    parts: tuple[SnapshotPart, ...] = ()
    key: tuple[KeyColumn, ...] = ()
    time_ms: int = 0

    def split_id(self) -> str:
        """Always the same: there is one."""
        return "table"


@dataclass(frozen=True)
class TableDescription:
    """A table, and how to read it.

    Attributes:
        settings: Libpq's, of the connection.
        schema: That of the table.
        table: Its name in the schema.
        row_type: The columns to be read.
        slot: The replication slot.
        publication: The publication.
        snapshot: Whether to begin with all rows.
        bounded: Whether to end.
        retry_timeout_ms: How long to try again when the server is away.
        undecodable: What becomes of a row with a value that is not of its declared type.
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
        """The names of the columns to be read."""
        return list(self.row_type.get_field_names())

    @property
    def table_name(self) -> str:
        """The table with its schema."""
        return f"{self.schema}.{self.table}"
