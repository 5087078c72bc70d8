"""Small consecutive batches, joined because a kernel's fixed cost would dominate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.columns.column_batch import concat

if TYPE_CHECKING:
    from penstock.columns.column_batch import ColumnBatch

#: Number of records that justifies a kernel call.
ENOUGH_ROWS: Final = 4096


class GatheredBatches:
    """Gathers batches of one stream until they have enough records.

    Attributes:
        rows: The number of gathered records.
    """

    def __init__(self) -> None:
        """Start without batches."""
        self.rows = 0
        self._batches: list[ColumnBatch] = []

    def add(self, batch: ColumnBatch) -> ColumnBatch | None:
        """Add a batch; return all gathered batches, joined, if they have enough records."""
        first = self._batches[0] if self._batches else None
        if first is not None and not _can_follow(batch, first):
            taken = self.take()
            self._keep(batch)
            return taken
        self._keep(batch)
        return self.take() if self.rows >= ENOUGH_ROWS else None

    def take(self) -> ColumnBatch | None:
        """Remove the gathered batches and return them joined; None without any."""
        batches, self._batches, self.rows = self._batches, [], 0
        return concat(batches) if batches else None

    def _keep(self, batch: ColumnBatch) -> None:
        self._batches.append(batch)
        self.rows += len(batch)


def _can_follow(batch: ColumnBatch, first: ColumnBatch) -> bool:
    return batch.declared == first.declared and batch.data.schema == first.data.schema
