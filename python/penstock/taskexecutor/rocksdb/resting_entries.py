"""Writes entries that do not change any more to the database, in slices between the elements."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from penstock.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.taskexecutor.rocksdb.row_store import RowStore, StoredState

#: Rows that are written at a time, which takes about a millisecond.
AT_A_TIME: Final = 512

#: Rows after which the database writes them to a file, while elements are processed: what is left
#: when the next snapshot is opened is written then.
_ROWS_OF_FILE: Final = 65_536


class RestingEntries:
    """Entries that are only in memory, of some states up to an epoch of each.

    An entry that changes before its row is written is left out, and one that changes later is newer
    than its row.  Until the last row is written each entry counts as changed.
    """

    def __init__(
        self, store: RowStore, states: Sequence[tuple[StoredState, int]], at_a_time: int
    ) -> None:
        """Begins.

        Args:
            store: Has the rows.
            states: States, and the last epoch whose entries are written.
            at_a_time: How many rows are written at a time.
        """
        self._store = store
        self._numbers = self._written(states, at_a_time)
        self._unflushed = 0

    def advance(self, deadline_ns: int) -> bool:
        """Writes rows until a time of the monotonic clock; True when there is nothing left.

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
            # It was serialised before, and changed in place since: as a changed entry it fails the
            # next checkpoint, in which it is again.
            self.close()
            return True
        self._flush()
        self.close()
        return True

    def close(self) -> None:
        """Gives it up: what was not written counts as changed."""
        self._numbers = iter(())
        self._store.note_rested()

    @staticmethod
    def _written(states: Sequence[tuple[StoredState, int]], at_a_time: int) -> Iterator[int]:
        """Writes; gives the number of rows of each batch."""
        for state, last in states:
            yield from state.write_resting(last, at_a_time)

    def _flush(self) -> None:
        if self._unflushed:
            self._store.database.begin_flush()
        self._unflushed = 0
