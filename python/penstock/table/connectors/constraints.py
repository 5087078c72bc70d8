"""Checks of rows for a table with NOT NULL columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class NotNullEnforcer:
    """Rejects or drops rows with NULL in a NOT NULL column.

    Args:
        table: The name of the table, for errors.
        columns: The positions and names of the NOT NULL columns.
        drops: Whether such rows are dropped; otherwise they fail the job.
    """

    def __init__(self, table: str, columns: Sequence[tuple[int, str]], drops: bool) -> None:
        self._table = table
        self._columns = list(columns)
        self._drops = drops

    def __call__(self, batch: Any) -> Iterator[Any]:
        """Yield the batch without the rows that are dropped.

        Raises:
            SinkError: A row has NULL, and rows are not dropped.
        """
        import pyarrow.compute as pc

        for position, name in self._columns:
            column = batch.column(position)
            if column.null_count == 0:
                continue
            if not self._drops:
                raise SinkError(
                    f"Column '{name}' of table {self._table} is NOT NULL, however, a null value is "
                    "being written into it. Set 'table.exec.sink.not-null-enforcer'='DROP' to "
                    "suppress this exception and drop such records silently"
                )
            batch = batch.filter(pc.is_valid(column))
        if batch.num_rows:
            yield batch
