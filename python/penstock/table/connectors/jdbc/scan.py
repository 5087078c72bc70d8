"""Scan of a database table, by ranges of a column."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.jdbc.connection import styled
from penstock.connectors.jdbc.errors import is_final, remedy
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    PythonSource,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.errors import SourceError
from penstock.external.background import ServerThreads, shut_down
from penstock.table.connectors.batches import BATCH_ROWS, record_batch
from penstock.table.connectors.jdbc.values import RowReader
from penstock.table.plan.nodes import INSERT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from penstock.connectors.jdbc.connection import JdbcConnectionOptions
    from penstock.connectors.split_source import (
        ReaderOutput,
        SourceReaderContext,
        SplitEnumeratorContext,
    )
    from penstock.table.types import RowType

#: Packages whose named cursors keep rows at the server until they are fetched.
_WITH_NAMED_CURSORS: Final = ("psycopg", "psycopg2")


@dataclass
class TableRange(SourceSplit):
    """A range of the table, and the read position in it.

    Attributes:
        number: The number of the range.
        bounds: The smallest and the largest value of the column; empty for the whole table.
        rows: The number of its rows that were emitted.
    """

    number: int
    bounds: tuple[int, ...] = ()
    rows: int = 0

    def split_id(self) -> str:
        """Return the number of the range."""
        return f"range-{self.number}"


def table_ranges(lower: int, upper: int, number: int) -> list[TableRange]:
    """Divide the values from ``lower`` to ``upper``, inclusive, into ranges.

    Each range has at least one value; the sizes of ranges differ by at most one.
    """
    count = upper - lower + 1
    number = min(number, count)
    size, larger = divmod(count, number)
    ranges, first = [], lower
    for i in range(number):
        last = first + size - 1 + (i < larger)
        ranges.append(TableRange(i, (first, last)))
        first = last + 1
    return ranges


class JdbcRows(PythonSource[Any, TableRange]):
    """Reads the rows of a query for each range, as record batches.

    Args:
        connection: The database.
        sql: The query; it has two placeholders if there are ranges.
        ranges: The ranges.
        row_type: The columns of the table.
        read: The positions of the columns that the query selects.
        fetch_size: The number of rows that are fetched at once.
    """

    def __init__(
        self,
        connection: JdbcConnectionOptions,
        sql: str,
        ranges: Sequence[TableRange],
        row_type: RowType,
        read: Sequence[int],
        fetch_size: int = BATCH_ROWS,
    ) -> None:
        super().__init__()
        self.connection = connection
        self.sql = sql
        self.ranges = list(ranges)
        self.row_type = row_type
        self.read = list(read)
        self.fetch_size = fetch_size

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED: a scan ends."""
        return Boundedness.BOUNDED

    def create_enumerator(
        self, enum_context: SplitEnumeratorContext[TableRange]
    ) -> SplitEnumerator[TableRange]:
        """Return the enumerator of all ranges."""
        return _RangeEnumerator(enum_context, self.ranges)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[TableRange], state: Any
    ) -> SplitEnumerator[TableRange]:
        """Return the enumerator of the unassigned ranges."""
        return _RangeEnumerator(enum_context, state)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[TableRange]:
        """Return the reader of a subtask."""
        return _RangeReader(self, reader_context)


class _RangeEnumerator(SplitEnumerator[TableRange]):
    """Assigns a range to each reader that requests one, until all are assigned."""

    def __init__(
        self, context: SplitEnumeratorContext[TableRange], ranges: Sequence[TableRange]
    ) -> None:
        self._context = context
        self._ranges = deque(ranges)

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Assign the next range."""
        del requester_hostname
        if self._ranges:
            self._context.assign_split(self._ranges.popleft(), subtask_id)
        else:
            self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[TableRange], subtask_id: int) -> None:
        """Add the ranges of a failed reader."""
        del subtask_id
        self._ranges.extend(splits)

    def add_reader(self, subtask_id: int) -> None:
        """Wait for the reader's request."""

    def snapshot_state(self, checkpoint_id: int) -> list[TableRange]:
        """Return the unassigned ranges."""
        del checkpoint_id
        return list(self._ranges)


class _RangeReader(SourceReader[TableRange]):
    """Reads ranges in turn; a thread waits for the database."""

    def __init__(self, source: JdbcRows, context: SourceReaderContext) -> None:
        self._source, self._context = source, context
        self._ranges: deque[TableRange] = deque()
        self._no_more_splits = False
        self._threads = ServerThreads("jdbc-scan")
        self._fetching: Future[list[Any]] | None = None
        self._connection: Any = None
        self._cursor: Any = None
        kinds = source.row_type.field_types()
        names = source.row_type.field_names()
        self._row_of = RowReader([names[i] for i in source.read], [kinds[i] for i in source.read])

    def start(self) -> None:
        """Request a range, unless a checkpoint restored one."""
        if not self._ranges:
            self._context.send_split_request()

    def add_splits(self, splits: list[TableRange]) -> None:
        """Add ranges."""
        self._ranges.extend(map(replace, splits))

    def notify_no_more_splits(self) -> None:
        """Note that all ranges are assigned."""
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit the fetched rows as one batch."""
        if not self._ranges:
            is_over = self._no_more_splits
            return InputStatus.END_OF_INPUT if is_over else InputStatus.NOTHING_AVAILABLE
        current = self._ranges[0]
        if self._fetching is None:
            self._fetching = self._threads.submit(lambda: self._fetch(current))
        if not self._fetching.done():
            return InputStatus.NOTHING_AVAILABLE
        rows, self._fetching = self._fetching.result(), None
        if rows:
            output.create_output_for_split(current.split_id()).collect(self._batch(rows))
            current.rows += len(rows)
            return InputStatus.MORE_AVAILABLE
        self._ranges.popleft()
        output.release_output_for_split(current.split_id())
        if not self._ranges:
            self._context.send_split_request()
        return InputStatus.MORE_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return the future of the rows being fetched."""
        return self._fetching

    def snapshot_state(self, checkpoint_id: int) -> list[TableRange]:
        """Return the ranges that are not read to the end."""
        del checkpoint_id
        return list(map(replace, self._ranges))

    def close(self) -> None:
        """Close the connection, even if the thread waits for it."""
        self._threads.close(self._disconnect, lambda: shut_down(self._connection))

    # In the thread --------------------------------------------------------------------------------

    def _fetch(self, current: TableRange) -> list[Any]:
        """Return the next rows of a range; none at its end."""
        try:
            if self._cursor is None:
                self._open(current)
            rows: list[Any] = self._cursor.fetchmany(self._source.fetch_size)
            if not rows:
                self._disconnect()
        except Exception as error:
            self._disconnect()
            advice = remedy(error) if is_final(error) else ""
            raise SourceError(
                f"cannot read {self._source.connection.shown} by {self._source.sql!r}: "
                f"{type(error).__name__}: {error}{advice}"
            ) from error
        return rows

    def _open(self, current: TableRange) -> None:
        options = self._source.connection
        self._connection = options.connect()
        package = options.load()
        named = package is not None and package.__name__ in _WITH_NAMED_CURSORS
        cursor = self._connection.cursor
        self._cursor = cursor("penstock_scan") if named else cursor()
        self._cursor.execute(styled(self._source.sql, options.paramstyle), current.bounds)
        left = current.rows
        while left > 0:
            skipped = len(self._cursor.fetchmany(min(left, self._source.fetch_size)))
            if skipped == 0:
                return
            left -= skipped

    def _disconnect(self) -> None:
        for opened in (self._cursor, self._connection):
            if opened is not None:
                # A broken connection may be closed already.
                with suppress(Exception):
                    opened.close()
        self._connection = self._cursor = None

    # In the task ----------------------------------------------------------------------------------

    def _batch(self, rows: Sequence[Any]) -> Any:
        """Return rows as a batch; columns that the query does not select are NULL."""
        places = self._source.read
        made = []
        for row in rows:
            values: list[Any] = [None] * len(self._source.row_type)
            read = self._row_of(row) if places else ()
            for place, value in zip(places, read, strict=True):
                values[place] = value
            made.append((INSERT, values))
        return record_batch(made, self._source.row_type)
