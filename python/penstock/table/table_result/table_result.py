"""TableResult: the result of a statement: rows of a job, static rows, or an insertion."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from penstock.common.row_kind import RowKind
from penstock.common.types import Row
from penstock.table import types
from penstock.table.connectors.batches import rows_of
from penstock.table.options.time_zones import time_zone as zone_of
from penstock.table.result_kind import ResultKind
from penstock.table.schema.resolved_schema import ResolvedSchema
from penstock.table.table_result.display import (
    MAX_COLUMN_WIDTH,
    NULL,
    box_lines,
    cell_text,
    content_widths,
    type_widths,
)
from penstock.table.table_schema import TableSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.common.job_client import JobClient
    from penstock.datastream.data_stream.collect import CloseableIterator as JobResults


_KINDS = tuple(sorted(RowKind, key=lambda kind: kind.value))


def collected_type(data_type: types.DataType) -> types.DataType:
    """Return a type for PyFlink's results, in which intervals are nullable."""
    intervals = (types.DayTimeIntervalType, types.YearMonthIntervalType)
    return data_type.nullable() if isinstance(data_type, intervals) else data_type


class CloseableIterator:
    """The rows of a result; close it, for example by a ``with`` statement.

    Args:
        rows: The rows.
        close: Function that releases the source of the rows.
    """

    def __init__(self, rows: Iterator[Row], close: Callable[[], None] | None = None) -> None:
        self._rows = rows
        self._close = close

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    def next(self) -> Row:
        """Return the next row.

        Raises:
            StopIteration: There are no more rows.
            Exception: The error of the job.
        """
        return next(self._rows)

    def close(self) -> None:
        """Cancel the job if it is still running."""
        if self._close is not None:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        self.close()


class TableResult:
    """The result of a statement.

    Args:
        names: The names of the columns.
        data_types: Their types.
        is_streaming: Whether ``print`` shows the kind of each row.
        time_zone: The session's time zone.
    """

    #: The cell that ``print`` shows for NULL.
    _null = NULL

    def __init__(
        self,
        names: Sequence[str],
        data_types: Sequence[types.DataType],
        *,
        is_streaming: bool = False,
        time_zone: str = "UTC",
        longest: int = MAX_COLUMN_WIDTH,
    ) -> None:
        self._names = list(names)
        self._types = list(data_types)
        self._is_streaming = is_streaming
        self._zone = zone_of(time_zone)
        self._longest = longest

    def get_job_client(self) -> JobClient | None:
        """Return the client of the job; None for a statement without a job."""
        return None

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait for the first row of a query, or for the end of an insertion.

        Args:
            timeout_ms: The longest time to wait; None for no limit.

        Raises:
            TimeoutError: The timeout has passed.
            Exception: The error of the job.
        """

    def get_table_schema(self) -> TableSchema:
        """Return the names and types of the columns."""
        return TableSchema(self._names, [collected_type(kind) for kind in self._types])

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns."""
        return ResolvedSchema.physical(self._names, self._types)

    def get_result_kind(self) -> int:
        """Return SUCCESS_WITH_CONTENT for rows, SUCCESS for a statement without rows."""
        return ResultKind.SUCCESS_WITH_CONTENT

    def collect(self) -> CloseableIterator:
        """Return the rows; the rows of a job can be collected or printed once."""
        raise NotImplementedError

    def print(self) -> None:
        """Print the rows as a table."""
        with self.collect() as rows:
            cells = self._cells(rows)
            widths = type_widths(self._names, self._types, self._longest)
            names = self._names
            if self._is_streaming:
                names, widths = ["op", *names], [2, *widths]
            for line in box_lines(names, cells, widths):
                print(line, flush=True)

    def _cells(self, rows: CloseableIterator) -> Iterator[list[str]]:
        for row in rows:
            cells = [
                self._null if value is None else cell_text(value, kind, self._zone)
                for value, kind in zip(row, self._types, strict=True)
            ]
            yield [str(row.get_row_kind()), *cells] if self._is_streaming else cells


class StaticResult(TableResult):
    """Rows that are available without a job; ``print`` leaves the cells of NULL empty.

    Args:
        names: The names of the columns.
        data_types: Their types.
        rows: The values of the rows.
    """

    _null = ""

    def __init__(
        self,
        names: Sequence[str],
        data_types: Sequence[types.DataType],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        super().__init__(names, data_types)
        self._rows = [Row(*row) for row in rows]

    def collect(self) -> CloseableIterator:
        """Return the rows."""
        return CloseableIterator(iter(self._rows))

    def print(self) -> None:
        """Print the rows as a table with columns of matching width."""
        cells = list(self._cells(self.collect()))
        widths = content_widths(self._names, cells, sys.maxsize)
        for line in box_lines(self._names, cells, widths):
            print(line, flush=True)


class TextResult(StaticResult):
    """A text of several lines, the only cell of a column ``result``: SHOW CREATE.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        super().__init__(["result"], [types.DataTypes.STRING()], [[text]])
        self.text = text


class ExplainResult(TextResult):
    """The text of EXPLAIN, which is printed without a box.

    Args:
        text: The text.
    """

    def print(self) -> None:
        """Print the text."""
        print(self.text, flush=True)


class OkResult(StaticResult):
    """The result of a statement without rows."""

    def __init__(self) -> None:
        super().__init__(["result"], [types.DataTypes.STRING()], [["OK"]])

    def get_result_kind(self) -> int:
        """Return SUCCESS."""
        return ResultKind.SUCCESS

    def print(self) -> None:
        """Print OK."""
        print("OK", flush=True)


class InsertResult(TableResult):
    """An insertion that runs as a job.

    Args:
        sinks: The full names of the written tables.
        client: The client of the job.
    """

    def __init__(self, sinks: Sequence[str], client: JobClient) -> None:
        super().__init__(sinks, [types.DataTypes.BIGINT()] * len(sinks))
        self._client = client

    def get_job_client(self) -> JobClient | None:
        """Return the client of the job."""
        return self._client

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the job ends.

        Raises:
            TimeoutError: The timeout has passed.
            Exception: The error of the job.
        """
        _wait_for_end(self._client, timeout_ms)
        self._client.wait_for_result()

    def collect(self) -> CloseableIterator:
        """Return one row when the job has ended: -1 for each table, as rows are not counted."""

        def rows() -> Iterator[Row]:
            self.wait()
            yield Row(*[-1] * len(self._names))

        return CloseableIterator(rows(), self._cancel)

    def _cancel(self) -> None:
        if not self._client.get_job_status().result().is_globally_terminal_state():
            self._client.cancel().result()

    def print(self) -> None:
        """Wait until the job ends; print -1 for each table, as rows are not counted."""
        for row in self.collect():
            print(", ".join(map(str, row)), flush=True)


class QueryResult(TableResult):
    """The rows of a query that runs as a job.

    Args:
        row_type: The type of the rows.
        results: The batches of the job.
        is_streaming: Whether ``print`` shows the kind of each row.
        time_zone: The session's time zone.
    """

    def __init__(
        self,
        row_type: types.RowType,
        results: JobResults[Any],
        *,
        is_streaming: bool,
        time_zone: str,
        longest: int = MAX_COLUMN_WIDTH,
    ) -> None:
        super().__init__(
            row_type.field_names(),
            row_type.field_types(),
            is_streaming=is_streaming,
            time_zone=time_zone,
            longest=longest,
        )
        self._row_type = row_type
        self._results = results
        self._first: list[Any] = []

    def get_job_client(self) -> JobClient | None:
        """Return the client of the job."""
        return self._results.get_job_client()

    def batches(self) -> Iterator[Any]:
        """Yield the batches of the job (beyond PyFlink)."""
        while self._first:
            yield self._first.pop()
        yield from self._results

    def wait(self, timeout_ms: int | None = None) -> None:
        """Wait until the first rows are available, or the job ends.

        Raises:
            TimeoutError: The timeout has passed; only raised for jobs that end.
            Exception: The error of the job.
        """
        if self._first:
            return
        _wait_for_end(self._results.get_job_client(), timeout_ms)
        for batch in self._results:
            self._first.append(batch)
            return

    def collect(self) -> CloseableIterator:
        """Return the rows, each with its kind."""
        return CloseableIterator(self._rows(), self._results.close)

    def _rows(self) -> Iterator[Row]:
        for batch in self.batches():
            for kind, values in rows_of(batch, self._row_type, is_collected=True):
                row = Row(*values)
                if kind:
                    row.set_row_kind(_KINDS[kind])
                yield row


def _wait_for_end(client: JobClient, timeout_ms: int | None) -> None:
    """Wait for the end of a job; without a timeout, return at once.

    Raises:
        TimeoutError: The timeout has passed.
    """
    if timeout_ms is None:
        return
    if not client.handle.wait(timeout_ms / 1000):
        raise TimeoutError(f"The job has not ended within {timeout_ms} ms")
