"""Rows that wait until the watermark has passed their times."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.operators.relational.expiring_rows import KeyedRows
    from penstock.taskexecutor.state.state_map import CopyOnWriteStateMap


class WaitingRows:
    """Rows of each partition in keyed state, and the times at which partitions are due.

    An entry of a row is a tuple that begins with the row's time in ms.

    Args:
        table: Lists of entries, by the text of the partition's key.
    """

    def __init__(self, table: CopyOnWriteStateMap | KeyedRows) -> None:
        self._table = table
        self._due: list[tuple[int, str]] = []

    def open(self) -> None:
        """Register the rows in state."""
        for text, entries in self._table.items():
            for time, *_ in entries:
                self.wake(time, text)

    def wake(self, time: int, text: str) -> None:
        """Make a partition due at a time, whether or not a row waits for it."""
        heapq.heappush(self._due, (time, text))

    def add(self, text: str, entry: tuple[Any, ...]) -> None:
        """Store a row until its time has passed."""
        found = self._table.get(text) or []
        found.append(entry)
        self._table.put(text, found)
        self.wake(entry[0], text)

    def passed(self, timestamp: int) -> Iterator[tuple[str, list[Any]]]:
        """Remove and yield the due entries of each partition, in order of arrival."""
        touched: dict[str, None] = {}
        while self._due and self._due[0][0] <= timestamp:
            touched[heapq.heappop(self._due)[1]] = None
        for text in touched:
            found = self._table.get(text) or []
            kept = [entry for entry in found if entry[0] > timestamp]
            if kept:
                self._table.put(text, kept)
            else:
                self._table.remove(text)
            yield text, [entry for entry in found if entry[0] <= timestamp]
