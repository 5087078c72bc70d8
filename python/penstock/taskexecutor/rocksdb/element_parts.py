"""Parts in memory of maps and lists whose elements are rows.

A part caches one entry: some pairs of a map, the appended values of a list, or all of either.
Changes are only in the part until they are written back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.rocksdb.element_rows import (
    SEQUENCE,
    decode,
    elements_of,
    encode,
    pair_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.rocksdb.database import Database
    from penstock.taskexecutor.rocksdb.element_tables import Contents

#: Size of a part without elements, in elements.
PART_SIZE: Final = 4

#: Pieces of a list after which it is rewritten as one.
MOST_PIECES: Final = 8


class Part:
    """Part in memory of one key's entry in one namespace.

    Attributes:
        contents: The namespace.
        key: The identity of the key.
        prefix: Key prefix of its rows.
        original: Value prefix of its rows.
        is_complete: Whether the whole entry is in memory.
        has_rows: Whether it may have rows.
        is_cleared: Whether its rows must be removed before others are written.
        is_used: Whether it was used since the last check.
    """

    __slots__ = (
        "contents", "has_rows", "is_cleared", "is_complete", "is_used", "key", "original", "prefix",
    )  # fmt: skip

    def __init__(
        self, contents: Contents[Any], key: object, prefix: bytes, original: bytes
    ) -> None:
        """Create a part without elements."""
        self.contents = contents
        self.key = key
        self.prefix = prefix
        self.original = original
        self.has_rows = contents.is_stored
        self.is_complete = not contents.is_stored
        self.is_cleared = False
        self.is_used = True

    def __len__(self) -> int:
        """Return the number of elements in memory."""
        raise NotImplementedError

    @property
    def is_changed(self) -> bool:
        """Return whether there are changes to write."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget all elements and mark their rows for removal."""
        raise NotImplementedError

    def removed_rows(self) -> list[bytes]:
        """Return the keys of the rows to remove one by one."""
        raise NotImplementedError

    def rows(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the changes: key and value of a row, and the number of elements in it."""
        raise NotImplementedError

    def written(self) -> int:
        """Mark the part as written; return the number of elements dropped from memory."""
        raise NotImplementedError

    def let_go(self, wanted: int) -> int:
        """Evict some unchanged elements; return their number."""
        raise NotImplementedError


class MapPart(Part):
    """Pairs of a map.

    Attributes:
        pairs: Key and value, by the key suffix of their row.
        changed: Suffixes of pairs that differ from their rows.
        removed: Suffixes of removed pairs that may have rows.
    """

    __slots__ = ("changed", "pairs", "removed")

    def __init__(
        self, contents: Contents[Any], key: object, prefix: bytes, original: bytes
    ) -> None:
        """Create a part without pairs."""
        super().__init__(contents, key, prefix, original)
        self.pairs: dict[bytes, tuple[Any, Any]] = {}
        self.changed: set[bytes] = set()
        self.removed: set[bytes] = set()

    def __len__(self) -> int:
        return len(self.pairs)

    def reset(self) -> None:
        """Forget all elements and mark their rows for removal."""
        self.pairs.clear()
        self.changed.clear()
        self.removed.clear()
        self.is_complete = True
        self.is_cleared = self.has_rows

    def removed_rows(self) -> list[bytes]:
        """Return the keys of the rows to remove one by one."""
        return [self.prefix + suffix for suffix in self.removed]

    def rows(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the changes: key and value of a row, and the number of elements in it."""
        for suffix in self.changed:
            value = pair_value(self.original, suffix, self.pairs[suffix])
            yield self.prefix + suffix, value, 1

    def written(self) -> int:
        """Mark the part as written; return the number of elements dropped from memory."""
        self.has_rows = bool(self.changed) or (self.has_rows and not self.is_cleared)
        self.is_cleared = False
        self.changed.clear()
        self.removed.clear()
        return 0

    def let_go(self, wanted: int) -> int:
        """Evict some unchanged elements; return their number."""
        if self.is_cleared or len(self.changed) == len(self.pairs):
            return 0
        gone: list[bytes] = []
        for suffix in self.pairs:
            if len(gone) >= wanted:
                break
            if suffix not in self.changed:
                gone.append(suffix)
        for suffix in gone:
            del self.pairs[suffix]
        self.is_complete = False
        return len(gone)

    @property
    def is_changed(self) -> bool:
        """Return whether there are changes to write."""
        return self.is_cleared or bool(self.changed) or bool(self.removed)


class ListPart(Part):
    """A list, or the end of one.

    Attributes:
        values: All values; if the part is not complete, those that are not in rows.
        num_written: Number of the values that are in rows.
        num_pieces: Number of rows, as far as known.
        sequence: The number of the next row once a write was tried, else -1.
    """

    __slots__ = ("num_pieces", "num_written", "sequence", "values")

    def __init__(
        self, contents: Contents[Any], key: object, prefix: bytes, original: bytes
    ) -> None:
        """Create a part without values."""
        super().__init__(contents, key, prefix, original)
        self.values: list[Any] = []
        self.num_written = 0
        self.num_pieces = 0
        self.sequence = -1

    def __len__(self) -> int:
        return len(self.values)

    def read(self, database: Database) -> int:
        """Read all values; return the number of values added."""
        if self.is_complete:
            return 0
        pieces = [decode(data) for _, data in elements_of(database, self.prefix)]
        values = [value for piece in pieces for value in piece]
        self.num_written = len(values)
        self.num_pieces = len(pieces)
        self.values = values + self.values
        self.is_complete = True
        return self.num_written

    def rewrite(self) -> None:
        """Rewrite all values at the next write; the part must be complete."""
        self.is_cleared = self.has_rows
        self.num_written = 0

    def reset(self) -> None:
        """Forget all elements and mark their rows for removal."""
        self.values = []
        self.is_complete = True
        self.rewrite()

    def removed_rows(self) -> list[bytes]:
        """Return no keys: rows of a list are removed together."""
        # All its rows are removed, or none.
        return []

    def rows(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield the changes: key and value of a row, and the number of elements in it."""
        added = self.values[self.num_written :]
        if added:
            if self.sequence < 0:
                # A failed write uses the same number again, and replaces its rows.
                self.sequence = self.contents.table.next_sequence()
            key = self.prefix + SEQUENCE.pack(self.sequence)
            yield key, self.original + encode(added), len(added)

    def written(self) -> int:
        """Mark the part as written; return the number of elements dropped from memory."""
        is_more = len(self.values) > self.num_written
        self.has_rows = is_more or (self.has_rows and not self.is_cleared)
        self.num_pieces = is_more + (0 if self.is_cleared else self.num_pieces)
        self.is_cleared = False
        self.sequence = -1
        if self.is_complete:
            self.num_written = len(self.values)
            return 0
        gone = len(self.values)
        self.values = []
        return gone

    def let_go(self, wanted: int) -> int:  # noqa: ARG002
        """Evict some unchanged elements; return their number."""
        if self.is_changed or not self.values:
            return 0
        gone = len(self.values)
        self.values = []
        self.num_written = 0
        self.is_complete = False
        return gone

    @property
    def is_changed(self) -> bool:
        """Return whether there are changes to write."""
        return self.is_cleared or len(self.values) > self.num_written
