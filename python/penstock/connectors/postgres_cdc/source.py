"""PostgresCdcSource: the configuration of the source, and its reader."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.composite_types import RowTypeInfo
from penstock.common.types import Row
from penstock.connectors.postgres_cdc.description import TableDescription, TableSplit
from penstock.connectors.postgres_cdc.reader import TableReader
from penstock.connectors.postgres_cdc.server import connection_settings
from penstock.connectors.postgres_cdc.values import reader_of
from penstock.connectors.single_split import SingleSplitSource
from penstock.connectors.split_source import Boundedness, SourceReader, SourceReaderContext
from penstock.errors import InvalidProgramError
from penstock.formats.dead_letters import Policy

if TYPE_CHECKING:
    from penstock.common.typeinfo import TypeInformation
    from penstock.datastream.output_tag import OutputTag

#: Valid names of replication slots.
_SLOT_NAME: Final = re.compile(r"[a-z0-9_]{1,63}")


@checks_arguments
class PostgresCdcSource(SingleSplitSource[Row, TableSplit]):
    """Source of the rows of a PostgreSQL table, then of all its changes, exactly once.

    The records are rows with kinds.  First come all rows, as INSERT, then for each committed
    change: an INSERT; UPDATE_BEFORE and UPDATE_AFTER, the first only of tables with ``REPLICA
    IDENTITY FULL``; a DELETE, whose columns outside of the key are None without that identity.
    An update that changes the key of a row is a DELETE of the old and an INSERT of the new one.
    Changes have the time of their commit as their timestamp, in the order of commits.

    One subtask reads; the others end at once.  A checkpoint stores the position in the server's
    log; the replication slot keeps the log from the last complete checkpoint on.
    """

    def __init__(
        self,
        url: str,
        table: str,
        row_type: RowTypeInfo,
        *,
        slot: str,
        publication: str | None = None,
        snapshot: bool = True,
        bounded: bool = False,
        retry_timeout_ms: int = 60_000,
        skip_undecodable_records: bool = False,
        dead_letters: OutputTag | None = None,
    ) -> None:
        """Create a source.

        Args:
            url: The database: ``postgresql://user:password@host/database``, or libpq's settings.
            table: The name of the table, with its schema unless that is ``public``.
            row_type: The names and types of the columns to read.
            slot: A replication slot that only this job uses; created if missing, and kept when the
                job ends.
            publication: The publication of the table; if None, the one with the slot's name, which
                is created if missing.
            snapshot: Whether a new job starts with all rows; otherwise it starts with the changes
                that the slot has kept, or with new changes if the slot is new.
            bounded: Whether the source ends with what was committed when it began.
            retry_timeout_ms: The longest time to retry while the server is unavailable.
            skip_undecodable_records: Whether to leave out rows with a value that is not of its
                declared type, such as a year that `datetime` does not support; otherwise they fail
                the job, whatever its restart strategy.
            dead_letters: The side output for such rows.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: psycopg is not installed.
        """
        super().__init__()
        settings = connection_settings(url)
        given: Any = row_type
        if not isinstance(given, RowTypeInfo):
            raise InvalidProgramError(
                "PostgresCdcSource takes a row type, as Types.ROW_NAMED(['id'], [Types.LONG()]), "
                f"got {row_type!r}"
            )
        if not _SLOT_NAME.fullmatch(slot):
            raise InvalidProgramError(
                f"PostgresCdcSource: {slot!r} is not a name of a slot: up to 63 of a-z, 0-9 and _"
            )
        if retry_timeout_ms < 0:
            raise InvalidProgramError(
                f"PostgresCdcSource: retry_timeout_ms is at least 0, got {retry_timeout_ms}"
            )
        if publication == "":
            raise InvalidProgramError("PostgresCdcSource: publication is a name, got ''")
        schema, dot, name = table.rpartition(".")
        if not name or (dot and not schema):
            raise InvalidProgramError(
                f"PostgresCdcSource takes a table as 'public.orders' or 'orders', got {table!r}"
            )
        described = TableDescription(
            settings,
            schema or "public",
            name,
            row_type,
            slot,
            publication or slot,
            snapshot,
            bounded,
            retry_timeout_ms,
            Policy.of(
                "PostgresCdcSource",
                skip_malformed=skip_undecodable_records,
                dead_letters=dead_letters,
            ),
        )
        for column, declared in zip(described.columns, row_type.get_field_types(), strict=True):
            reader_of(declared, column)
        self._table = described

    def get_boundedness(self) -> Boundedness:
        """Return whether the source ends."""
        return Boundedness.BOUNDED if self._table.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation:
        """Return the declared row type."""
        return self._table.row_type

    def first_split(self) -> TableSplit:
        """Return the split of the table at its beginning."""
        return TableSplit()

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[TableSplit]:
        """Create the reader of a subtask."""
        return TableReader(self._table, reader_context)
