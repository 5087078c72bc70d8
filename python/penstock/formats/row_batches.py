"""Consecutive batches of rows that a source may emit one by one, or several as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class RowBatches(Sequence[Any]):
    """A record batch as a sequence of batches that have the same number of rows, except the last.

    The position in a file counts these batches, whatever number of them is emitted at a time.
    """

    def __init__(self, rows: Any, size: int) -> None:
        """Divide a record batch.

        Args:
            rows: The record batch.
            size: The number of rows of a batch.
        """
        self._rows = rows
        self._size = size

    def __len__(self) -> int:
        return -(-int(self._rows.num_rows) // self._size)

    def __getitem__(self, places: Any) -> Any:
        first, last, _ = places.indices(len(self))
        return RowBatches(self.merged(first, last - first), self._size)

    def __iter__(self) -> Iterator[Any]:
        return RowBatchRun(self)

    def merged(self, first: int, number: int) -> Any:
        """Return consecutive batches as one."""
        return self._rows.slice(first * self._size, number * self._size)


class RowBatchRun:
    """The batches that have not been emitted; also an iterator over them."""

    def __init__(self, batches: RowBatches) -> None:
        """Begin with the first batch."""
        self._batches = batches
        self._taken = 0

    def __length_hint__(self) -> int:
        return len(self._batches) - self._taken

    def take(self, number: int) -> list[Any]:
        """Return the next batches as one; there are at least so many."""
        found = self._batches.merged(self._taken, number)
        self._taken += number
        return [found]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._taken == len(self._batches):
            raise StopIteration
        return self.take(1)[0]
