"""Contents of operator states, readable as of one moment while they change.

Opening a snapshot copies nothing: from then on a list only grows behind what belongs to the
snapshot, and of a map what changes is kept beside it until the snapshot has been serialised.

That takes values which nobody changes in place.  A content of which somebody has the values
themselves, such as an operator of the engine or a function of a job that reuses objects, is
serialised at once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_GONE: Final = object()

FOREVER_NS: Final = (1 << 63) - 1

#: Values that are serialised between two looks at the clock: at first, and at most.
_FIRST_STEP: Final = 64
_LONGEST_STEP: Final = 8192

#: How long a step should take.
_STEP_NS: Final = 250_000


@cache
def _serializer() -> TypeSerializer[Any]:
    """Writes the values; made once, as that takes longer than to write few."""
    return TypeSerializer()


class ContentSnapshot:
    """The values of a list, or the pairs of a map, of one moment.

    Attributes:
        blocks: What is serialised: of a list each value, of a map lists of some pairs.
        is_done: Whether that is all of it.
    """

    def __init__(
        self,
        values: Iterable[Any],
        *,
        is_list: bool,
        closed: Callable[[ContentSnapshot], None] = lambda snapshot: None,  # noqa: ARG005
    ) -> None:
        """Begins; ``closed`` is called when ``values`` are not read any more."""
        self.blocks: list[bytes] = []
        self.is_done = False
        self._values = iter(values)
        self._is_list = is_list
        self._closed = closed
        self._step = _FIRST_STEP
        self._failure: Exception | None = None

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: A value cannot be serialised.
        """
        started_ns = time.monotonic_ns()
        while not self.is_done:
            try:
                self._serialise()
            except Exception as error:
                self._failure = error
                self.close()
            now_ns = time.monotonic_ns()
            if now_ns - started_ns < _STEP_NS:
                self._step = min(self._step * 2, _LONGEST_STEP)
            elif now_ns - started_ns > 2 * _STEP_NS:
                self._step = max(self._step // 2, 1)
            if now_ns >= deadline_ns:
                break
            started_ns = now_ns
        if self._failure is not None:
            raise self._failure
        return self.is_done

    def finish(self) -> None:
        """Serialises the rest; ``advance`` raises what goes wrong."""
        with suppress(Exception):
            self.advance(FOREVER_NS)

    def close(self) -> None:
        """Reads no further."""
        if not self.is_done:
            self.is_done = True
            self._values = iter(())
            self._closed(self)

    def _serialise(self) -> None:
        encode = _serializer().serialize
        chunk = list(itertools.islice(self._values, self._step))
        if self._is_list:
            self.blocks.extend(map(encode, chunk))
        elif chunk or not self.blocks:
            self.blocks.append(encode(chunk))
        if len(chunk) < self._step:
            self.close()


class ListContent:
    """The values of a list state.

    Attributes:
        values: Appended to in place, else replaced.
        is_private: Whether nobody else has these values, or nobody can change them.
    """

    def __init__(self) -> None:
        """Starts without values."""
        self.values: list[Any] = []
        self.is_private = True

    def open_snapshot(self) -> ContentSnapshot:
        """The values as they are now."""
        opened = ContentSnapshot(itertools.islice(self.values, len(self.values)), is_list=True)
        if not self.is_private:
            opened.finish()
        return opened


class BroadcastContent:
    """The pairs of a broadcast state.

    Attributes:
        pairs: All of them, but for ``changes``.
        changes: While a snapshot is open what has changed since, ``_GONE`` for a removed key; else
            None.
        was_cleared: Whether ``clear`` is what emptied it.
        is_private: As of a list.
    """

    def __init__(self) -> None:
        """Starts without pairs."""
        self.pairs: dict[Any, Any] = {}
        self.changes: dict[Any, Any] | None = None
        self.was_cleared = False
        self.is_private = True
        self._snapshot: ContentSnapshot | None = None

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none."""
        if self.changes is not None and key in self.changes:
            value = self.changes[key]
            return None if value is _GONE else value
        return self.pairs.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        (self.pairs if self.changes is None else self.changes)[key] = value

    def remove(self, key: Any) -> None:
        """Removes a key; nothing happens when there is none."""
        if self.changes is None:
            self.pairs.pop(key, None)
        elif key in self.pairs:
            self.changes[key] = _GONE
        else:
            self.changes.pop(key, None)

    def clear(self) -> None:
        """Removes all keys; a snapshot keeps them."""
        self.pairs = {}
        self.changes = None
        self._snapshot = None

    def items(self) -> Collection[tuple[Any, Any]]:
        """The pairs of key and value."""
        return self._view() or self.pairs.items()

    def keys(self) -> Collection[Any]:
        """The keys."""
        return self._view(0) or self.pairs.keys()

    def values(self) -> Collection[Any]:
        """The values."""
        return self._view(1) or self.pairs.values()

    def __contains__(self, key: object) -> bool:
        if self.changes is not None and key in self.changes:
            return self.changes[key] is not _GONE
        return key in self.pairs

    def open_snapshot(self) -> ContentSnapshot:
        """The pairs as they are now; one that is open is serialised to its end."""
        if self._snapshot is not None:
            self._snapshot.finish()
        opened = ContentSnapshot(self.pairs.items(), is_list=False, closed=self._closed)
        self._snapshot, self.changes = opened, {}
        if not self.is_private:
            opened.finish()
        return opened

    def _closed(self, snapshot: ContentSnapshot) -> None:
        """Nobody reads the pairs any more: what has changed comes among them."""
        if self._snapshot is not snapshot:
            return
        for key, value in (self.changes or {}).items():
            if value is _GONE:
                del self.pairs[key]
            else:
                self.pairs[key] = value
        self.changes = self._snapshot = None

    def _view(self, part: int | None = None) -> _ChangedView | None:
        """The pairs or a part of each; None where they are those of ``pairs``."""
        return _ChangedView(self.pairs, self.changes, part) if self.changes else None


class _ChangedView(Collection[Any]):
    """Pairs of a map, or their keys or values, with changes that are kept beside it."""

    def __init__(self, pairs: dict[Any, Any], changes: dict[Any, Any], part: int | None) -> None:
        self._pairs = pairs
        self._changes = changes
        self._part = part

    def __bool__(self) -> bool:
        return True

    def __contains__(self, element: object) -> bool:
        return any(found is element or found == element for found in self)

    def __iter__(self) -> Iterator[Any]:
        for pair in self._items():
            yield pair if self._part is None else pair[self._part]

    def __len__(self) -> int:
        return sum(1 for _ in self._items())

    def _items(self) -> Iterator[tuple[Any, Any]]:
        pairs, changes = self._pairs, self._changes
        for key, kept in pairs.items():
            value = changes.get(key, kept)
            if value is not _GONE:
                yield key, value
        for key, value in changes.items():
            if key not in pairs:
                yield key, value
