"""Writes entries that no longer change to the database, in slices between records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.taskexecutor.rocksdb.row_store import RowStore, StoredState

#: Rows written at a time, which takes about a millisecond.
AT_A_TIME: Final = 512

#: Rows after which the database flushes them to a file while records are processed; opening the
#: next snapshot flushes the rest.
_ROWS_OF_FILE: Final = 65_536


class RestingEntries:
    """Entries that are only in memory, of some states up to an epoch of each.

    An entry that changes before its row is written is skipped, and one that changes later is newer
    than its row.  Until the last row is written, each entry counts as changed.
    """

    def __init__(
        self, store: RowStore, states: Sequence[tuple[StoredState, int]], at_a_time: int
    ) -> None:
        """Create a writer.

        Args:
            store: The store with the rows.
            states: States, and the last epoch whose entries are written.
            at_a_time: Number of rows written at a time.
        """
        self._store = store
        self._numbers = self._written(states, at_a_time)
        self._unflushed = 0

    def advance(self, deadline_ns: int) -> bool:
        """Write rows until a time of the monotonic clock; return True when none is left.

        Raises:
            StateBackendError: The database cannot be written.
        """
        try:
            for number in self._numbers:
                self._unflushed += number
                if self._unflushed >= _ROWS_OF_FILE:
                    self._flush()
                if time.monotonic_ns() >= deadline_ns:
                    return False
        except SerializationError:
            # The entry was serialised before, and changed in place since: as a changed entry it is
            # part of the next checkpoint, and fails it.
            self.close()
            return True
        self._flush()
        self.close()
        return True

    def close(self) -> None:
        """Stop: unwritten entries count as changed."""
        self._numbers = iter(())
        self._store.note_rested()

    @staticmethod
    def _written(states: Sequence[tuple[StoredState, int]], at_a_time: int) -> Iterator[int]:
        """Write the entries; yield the number of rows of each batch."""
        for state, last in states:
            yield from state.write_resting(last, at_a_time)

    def _flush(self) -> None:
        if self._unflushed:
            self._store.database.begin_flush()
        self._unflushed = 0
