"""StateStore: the rows of all states of a backend, as the table of one state uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.rocksdb.database import Database
    from penstock.taskexecutor.state.heap import StateRows, StateTable


class StateStore(Protocol):
    """The part of a `RowStore` that the tables of its states use."""

    #: The database with the rows.
    database: Database
    #: Keys of rows.
    rows: StateRows
    #: Identities of keys.
    keys: KeyReader
    #: The key groups of this subtask.
    key_groups: range

    def new_table(self, name: str, kind: str) -> StateTable:
        """Return an empty table for entries that are read."""

    def next_sequence(self) -> int:
        """Return the number of a row that comes after all others."""

    def write_back(self) -> None:
        """Write all entries that have changed."""

    def write_rows(self, rows: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Write keys and values of rows, with the number of elements in each."""

    def make_room(self) -> None:
        """Evict some entries if there are too many in memory."""
