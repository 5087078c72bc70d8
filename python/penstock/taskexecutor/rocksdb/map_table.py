"""Maps in which each pair is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import SerializationError
from penstock.taskexecutor.rocksdb.element_parts import MapPart
from penstock.taskexecutor.rocksdb.element_rows import pair_suffix, read_pair, without_original
from penstock.taskexecutor.rocksdb.element_tables import ElementTable, is_constant
from penstock.taskexecutor.rocksdb.namespaces import tail_in
from penstock.taskexecutor.rocksdb.row_format import rows_of
from penstock.taskexecutor.state.naming import name_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.taskexecutor.rocksdb.element_tables import Contents

#: Pairs of a map read at a time; a map with fewer stays in memory as a whole once read.
_PAIRS_AT_A_TIME: Final = 128

#: Changed pairs of a map that are merged with its rows; beyond, they are written first.
_MOST_UNSORTED: Final = 1024


class MapTable(ElementTable[MapPart]):
    """A map state."""

    _new = MapPart

    def lookup(
        self, contents: Contents[MapPart], key: object, suffix: bytes
    ) -> tuple[Any, Any] | None:
        """Return a pair, or None; a mutable one counts as changed."""
        part = self.part(contents, key)
        pair = part.pairs.get(suffix)
        if pair is None:
            if part.is_complete or suffix in part.removed:
                return None
            value = self._store.database.get(part.prefix + suffix)
            if value is None:
                return None
            if part.original:
                value = without_original(part.prefix, tail_in(part.prefix), value)[1]
            pair = part.pairs[suffix] = self._read_pair(suffix, value)
            self._grow(1)
        if not is_constant(pair[1]) and suffix not in part.changed:
            part.changed.add(suffix)
            self._changed[part] = None
        return pair

    def put(
        self, contents: Contents[MapPart], key: object, suffix: bytes, pair: tuple[object, object]
    ) -> None:
        """Set a pair."""
        known = contents.parts.get(key)
        if known is not None and suffix in known.changed:
            known.pairs[suffix] = pair
            known.is_used = True
            self.version += 1
            return
        part = self.part(contents, key)
        if suffix not in part.pairs:
            part.removed.discard(suffix)
            self._grow(1)
        part.pairs[suffix] = pair
        part.changed.add(suffix)
        self.note_change(part)

    def remove(self, contents: Contents[MapPart], key: object, suffix: bytes) -> None:
        """Remove a pair, if it exists."""
        part = self.part(contents, key)
        if part.pairs.pop(suffix, None) is not None:
            self._grow(-1)
        elif part.is_complete:
            return
        part.changed.discard(suffix)
        if part.has_rows and not part.is_cleared:
            part.removed.add(suffix)
            # The removal is remembered until it is written.
            self.room -= 1
        self.note_change(part)

    def touch(self, contents: Contents[MapPart], key: object, element: object) -> None:
        """Mark a pair in memory as changed."""
        part = contents.parts.get(key)
        if part is not None and element in part.pairs:
            part.changed.add(element)
            self._changed[part] = None

    def keep_copy(
        self,
        contents: Contents[MapPart],
        key: object,
        element: Any,
        copied: Callable[[object], object],
    ) -> None:
        """Replace the value of a pair by a copy."""
        pair = self.lookup(contents, key, element)
        if pair is not None:
            self.put(contents, key, element, (pair[0], copied(pair[1])))

    def pairs(
        self, contents: Contents[MapPart], key: object, *, lent: bool = False
    ) -> Iterator[tuple[bytes, Any, Any]]:
        """Yield the pairs of an entry in the order of their rows: key suffix, key and value.

        The map may change meanwhile: a pair is yielded once, with its current value, unless it is
        removed before; an added pair is yielded if it comes later in the order.

        Args:
            contents: The namespace.
            key: The key of the entry.
            lent: Whether the values may be changed in place.
        """
        last: bytes | None = b""
        while last is not None:
            part = self.part(contents, key)
            if len(part.changed) > _MOST_UNSORTED and not part.is_complete:
                self._store.write_back()
                part = self.part(contents, key)
            if part.is_complete:
                batch = [(suffix, part.pairs[suffix]) for suffix in sorted(part.pairs)]
                if last:
                    batch = [item for item in batch if item[0] > last]
                last = None
            else:
                batch, last = self._read_pairs(part, last)
            version = self.version
            for suffix, pair in batch:
                is_lent = (lent or suffix in part.pairs) and not is_constant(pair[1])
                if version != self.version or is_lent:
                    found = self.lookup(contents, key, suffix)
                    if found is None:
                        continue
                    pair = found
                yield suffix, *pair

    def whole(self, contents: Contents[MapPart], key: object) -> dict[object, object] | None:
        """Return the map of a key, or None if it is empty."""
        return {name: value for _, name, value in self.pairs(contents, key)} or None

    def fill(self, contents: Contents[MapPart], key: object, value: Any) -> None:
        """Add pairs."""
        for name, item in value.items():
            self.put(contents, key, pair_suffix(name), (name, item))

    def _read_pairs(
        self, part: MapPart, last: bytes
    ) -> tuple[list[tuple[bytes, tuple[Any, Any]]], bytes | None]:
        """Return the next pairs of an entry, and the key suffix of the last; None at the end."""
        found: dict[bytes, tuple[Any, Any]] = {}
        prefix, pairs = part.prefix, part.pairs
        tail = tail_in(prefix)
        end: bytes | None = None
        begin = prefix + last + b"\x00" if last else prefix
        for number, (row, value) in enumerate(rows_of(self._store.database, prefix, begin)):
            if number == _PAIRS_AT_A_TIME:
                break
            end = row[len(prefix) :]
            if end in pairs:
                found[end] = pairs[end]
            elif end not in part.removed:
                data = without_original(prefix, tail, value)[1] if part.original else value
                found[end] = self._read_pair(end, data)
        else:
            end = None
        for suffix in part.changed:
            if suffix > last and (end is None or suffix <= end):
                found[suffix] = pairs[suffix]
        if end is None and not last:
            # The map is small: keep all of it.
            self._grow(len(found) - len(pairs))
            part.pairs = found
            part.is_complete = True
        return sorted(found.items()), end

    def _read_pair(self, suffix: bytes, data: bytes) -> tuple[object, object]:
        try:
            return read_pair(suffix, data)
        except SerializationError as error:
            name_state(error, self.name)
            raise

    def _elements(self, part: MapPart) -> Iterator[tuple[object, object, object]]:
        for suffix, (_, value) in list(part.pairs.items()):
            yield _PairOf(self, part.contents, suffix), part.key, value


class _PairOf:
    """One pair, in the form of a namespace's contents."""

    def __init__(self, table: MapTable, contents: Contents[MapPart], suffix: bytes) -> None:
        self._table = table
        self._contents = contents
        self._suffix = suffix

    def remove(self, key: object) -> None:
        """Remove the pair."""
        self._table.remove(self._contents, key, self._suffix)
