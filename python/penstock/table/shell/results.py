"""Results of queries on a terminal: a table, a list of changes, or the final rows."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from penstock.common.row_kind import RowKind
from penstock.table.table_result.display import NULL, box_lines, cell_text, content_widths

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterator, Sequence

    from penstock.table.table_result.table_result import TableResult

_ADDING: Final = (RowKind.INSERT, RowKind.UPDATE_AFTER)


class ResultView:
    """Shows the rows of one result.

    Args:
        result: The result.
        zone: The session's time zone.
        write: Writes a line.
    """

    def __init__(
        self, result: TableResult, zone: datetime.tzinfo, write: Callable[[str], None]
    ) -> None:
        self._result = result
        self._zone = zone
        self._write = write
        schema = result.get_table_schema()
        self._names = schema.get_field_names()
        self._types = schema.get_field_data_types()

    def show(self, mode: str, most_rows: int) -> None:
        """Print the rows until they end or Ctrl-C cancels the job.

        Args:
            mode: ``tableau``, ``changelog`` or ``table``.
            most_rows: The largest number of rows for ``table``.
        """
        if mode == "changelog":
            self._changelog()
        elif mode == "table":
            self._table(most_rows)
        else:
            self._result.print()

    def vertical(self) -> None:
        """Print each row as a list of its columns."""
        width = max(map(len, self._names), default=0)
        number = 0
        with self._result.collect() as rows:
            for number, row in enumerate(rows, 1):
                self._write(f"*************************** {number}. row {row.get_row_kind()}")
                for name, cell in zip(self._names, self._cells(row), strict=True):
                    self._write(f"{name:>{width}}: {cell}")
        if not number:
            self._write("Empty set")

    def _cells(self, row: Any) -> list[str]:
        return [
            NULL if value is None else cell_text(value, kind, self._zone)
            for value, kind in zip(row, self._types, strict=True)
        ]

    def _changelog(self) -> None:
        """Print a line for each change immediately."""
        with self._result.collect() as rows:
            for row in rows:
                self._write(f"{row.get_row_kind()}[{', '.join(self._cells(row))}]")

    def _table(self, most_rows: int) -> None:
        """Print the remaining rows at the end, or when Ctrl-C ends the query."""
        left: Counter[tuple[str, ...]] = Counter()
        try:
            with self._result.collect() as rows:
                for row in rows:
                    cells = tuple(self._cells(row))
                    left[cells] += 1 if row.get_row_kind() in _ADDING else -1
                    if not left[cells]:
                        del left[cells]
        except KeyboardInterrupt:
            self._box(list(islice(left.elements(), most_rows)))
            raise
        self._box(list(islice(left.elements(), most_rows)))

    def _box(self, rows: Sequence[Sequence[str]]) -> None:
        lines: Iterator[str] = box_lines(self._names, rows, content_widths(self._names, rows))
        for line in lines:
            self._write(line)
