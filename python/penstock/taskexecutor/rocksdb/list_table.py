"""Lists of which what was appended at a time is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.rocksdb.element_tables import ElementTable, is_constant
from penstock.taskexecutor.rocksdb.parts import MOST_PIECES, ListPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.taskexecutor.rocksdb.element_tables import Contents


class ListTable(ElementTable[ListPart]):
    """A list state."""

    _new = ListPart

    def values(self, contents: Contents[ListPart], key: Any) -> list[Any]:
        """The values of an entry, as a new list; taken as changed if they can be in place."""
        part = self.part(contents, key)
        if not part.is_complete:
            self._grow(part.read(self._store.database))
            if part.num_pieces > MOST_PIECES:
                part.rewrite()
                self.note_change(part)
        if not all(map(is_constant, part.values)):
            part.rewrite()
            self.note_change(part)
        return list(part.values)

    def append(self, contents: Contents[ListPart], key: Any, values: Sequence[Any]) -> None:
        """Appends values."""
        part = self.part(contents, key)
        part.values += values
        self._grow(len(values))
        self.note_change(part)

    def whole(self, contents: Contents[ListPart], key: Any) -> list[Any] | None:
        """The list of a key, None when it is empty."""
        return self.values(contents, key) or None

    def fill(self, contents: Contents[ListPart], key: Any, value: Any) -> None:
        """Appends values."""
        self.append(contents, key, value)

    def _elements(self, part: ListPart) -> Iterator[tuple[Any, Any, Any]]:
        if part.is_complete and part.values:
            yield part.contents, part.key, part.values
