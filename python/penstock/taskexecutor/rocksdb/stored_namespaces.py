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

#: Namespaces of a state that are known to have rows; beyond, any may have some.
_MOST_NAMESPACES: Final = 100_000


class StoredNamespaces:
    """Knows which namespaces of a state have rows, as long as they are not too many.

    Attributes:
        number: What the state is in the keys of rows.
    """

    def __init__(self, store: StateStore, number: int) -> None:
        """Looks for them.

        Args:
            store: Has the rows of all states.
            number: What the state is in the keys of rows.
        """
        self._store = store
        #: Namespaces that may have rows; None for any.
        self._known: set[Any] | None = None
        self.take_over(number)

    def take_over(self, number: int) -> None:
        """The state has this number in the database; nothing is in memory."""
        self.number = number
        self._known = set(itertools.islice(self.stored_namespaces(), _MOST_NAMESPACES + 1))
        self._check_known()

    def adopt(self, contents: NamespaceContents) -> None:
        """Something was made that has a part of a namespace in memory."""
        contents.tail, contents.original = tail_of(self.number, contents.namespace)
        contents.is_stored = self._known is None or contents.namespace in self._known

    def note_stored(self, namespaces: Iterable[Any]) -> None:
        """These namespaces have rows now."""
        if self._known is not None:
            self._known.update(namespaces)
            self._check_known()

    def note_cleared(self, namespace: Any) -> None:
        """A namespace has no rows any more."""
        if self._known is not None:
            self._known.discard(namespace)

    def stored_namespaces(self) -> Iterator[Any]:
        """The namespaces that have rows."""
        found = set()
        for group in self._store.key_groups:
            for tail, value in tails_of(self._store.database, group, self.number):
                if tail not in found:
                    found.add(tail)
                    yield namespace_of(tail, value)

    def _check_known(self) -> None:
        if self._known is not None and len(self._known) > _MOST_NAMESPACES:
            self._known = None
