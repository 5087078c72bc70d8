"""The namespaces of a state that have rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.rocksdb.namespaces import namespace_of, tail_of
from penstock.taskexecutor.rocksdb.row_format import tails_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.taskexecutor.rocksdb.state_store import StateStore
    from penstock.taskexecutor.state.state_rows import NamespaceContents

#: Most namespaces of a state tracked; beyond, any may have rows.
_MOST_NAMESPACES: Final = 100_000


class StoredNamespaces:
    """Tracks which namespaces of a state have rows, unless there are too many.

    Attributes:
        number: The state's number in the keys of rows.
    """

    def __init__(self, store: StateStore, number: int) -> None:
        """Look up the namespaces with rows.

        Args:
            store: The store with the rows of all states.
            number: The state's number in the keys of rows.
        """
        self._store = store
        #: Namespaces that may have rows; None if any may.
        self._known: set[Any] | None = None
        self.take_over(number)

    def take_over(self, number: int) -> None:
        """Use a new number in the database; nothing is in memory."""
        self.number = number
        self._known = set(itertools.islice(self.stored_namespaces(), _MOST_NAMESPACES + 1))
        self._check_known()

    def adopt(self, contents: NamespaceContents) -> None:
        """Set the tail of new contents, and whether their namespace may have rows."""
        contents.tail, contents.original = tail_of(self.number, contents.namespace)
        contents.is_stored = self._known is None or contents.namespace in self._known

    def note_stored(self, namespaces: Iterable[object]) -> None:
        """Note that namespaces have rows now."""
        if self._known is not None:
            self._known.update(namespaces)
            self._check_known()

    def note_cleared(self, namespace: object) -> None:
        """Note that a namespace has no rows any more."""
        if self._known is not None:
            self._known.discard(namespace)

    def stored_namespaces(self) -> Iterator[object]:
        """Yield the namespaces that have rows."""
        found = set()
        for group in self._store.key_groups:
            for tail, value in tails_of(self._store.database, group, self.number):
                if tail not in found:
                    found.add(tail)
                    yield namespace_of(tail, value)

    def _check_known(self) -> None:
        if self._known is not None and len(self._known) > _MOST_NAMESPACES:
            self._known = None
