"""Lists in which each batch of appended values is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import SerializationError
from penstock.taskexecutor.rocksdb.element_parts import MOST_PIECES, ListPart
from penstock.taskexecutor.rocksdb.element_tables import ElementTable, is_constant
from penstock.taskexecutor.state.naming import name_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.taskexecutor.rocksdb.element_tables import Contents


class ListTable(ElementTable[ListPart]):
    """A list state."""

    _new = ListPart

    def values(self, contents: Contents[ListPart], key: object) -> list[Any]:
        """Return an entry's values as a new list; mutable values count as changed."""
        part = self.part(contents, key)
        if not part.is_complete:
            self._read(part)
            if part.num_pieces > MOST_PIECES:
                part.rewrite()
                self.note_change(part)
        if not all(map(is_constant, part.values)):
            part.rewrite()
            self.note_change(part)
        return list(part.values)

    def append(self, contents: Contents[ListPart], key: object, values: Sequence[object]) -> None:
        """Append values."""
        part = self.part(contents, key)
        part.values += values
        self._grow(len(values))
        self.note_change(part)

    def touch(self, contents: Contents[ListPart], key: object, element: object) -> None:
        """Mark all values of an entry as changed, if they are in memory."""
        del element
        part = contents.parts.get(key)
        if part is not None and part.is_complete:
            part.rewrite()
            self.note_change(part)

    def hold(self, contents: Contents[ListPart], key: object) -> None:
        """Read the values that are not in memory: a complete list keeps all values when written."""
        part = contents.parts.get(key)
        if part is not None:
            self._read(part)

    def keep_copy(
        self,
        contents: Contents[ListPart],
        key: object,
        element: object,
        copied: Callable[[object], object],
    ) -> None:
        """Replace all values of an entry by copies."""
        del element
        contents.put(key, [copied(value) for value in self.values(contents, key)])

    def whole(self, contents: Contents[ListPart], key: object) -> list[object] | None:
        """Return the list of a key, or None if it is empty."""
        return self.values(contents, key) or None

    def fill(self, contents: Contents[ListPart], key: object, value: Any) -> None:
        """Append values."""
        self.append(contents, key, value)

    def _read(self, part: ListPart) -> None:
        """Read all values of an entry into memory."""
        try:
            self._grow(part.read(self._store.database))
        except SerializationError as error:
            name_state(error, self.name)
            raise

    def _elements(self, part: ListPart) -> Iterator[tuple[object, object, object]]:
        if part.is_complete and part.values:
            yield part.contents, part.key, part.values
