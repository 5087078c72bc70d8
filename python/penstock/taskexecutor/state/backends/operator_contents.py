"""Contents of operator states, of which a snapshot can be read while they change.

Opening a snapshot copies nothing: from then on a list only grows behind the part that belongs to
the snapshot, and changes of a map are stored beside it until the snapshot is serialised.

This requires values that nobody changes in place.  Contents whose values other code holds, such as
an operator of the engine or a function of a job that reuses objects, are serialised at once.
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

#: Values serialised between two readings of the clock: at first, and at most.
_FIRST_STEP: Final = 64
_LONGEST_STEP: Final = 8192

#: Intended duration of a step.
_STEP_NS: Final = 250_000


@cache
def _serializer() -> TypeSerializer[object]:
    """Return the shared serializer of values; creating one costs more than a few values."""
    return TypeSerializer()


class ContentSnapshot:
    """The values of a list, or the pairs of a map, at one moment.

    Attributes:
        blocks: The serialised part: each value of a list, or lists of some pairs of a map.
        is_done: Whether everything is serialised.
    """

    def __init__(
        self,
        values: Iterable[object],
        *,
        is_list: bool,
        closed: Callable[[ContentSnapshot], None] = lambda snapshot: None,  # noqa: ARG005
    ) -> None:
        """Start a snapshot; ``closed`` is called when ``values`` are no longer read."""
        self.blocks: list[bytes] = []
        self.is_done = False
        self._values = iter(values)
        self._is_list = is_list
        self._closed = closed
        self._step = _FIRST_STEP
        self._failure: Exception | None = None

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left.

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
        """Serialise the rest; ``advance`` raises the error, if any."""
        with suppress(Exception):
            self.advance(FOREVER_NS)

    def close(self) -> None:
        """Stop reading values."""
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
        is_private: Whether no other code holds these values, or they are immutable.
    """

    def __init__(self) -> None:
        """Start without values."""
        self.values: list[Any] = []
        self.is_private = True

    def open_snapshot(self) -> ContentSnapshot:
        """Open a snapshot of the present values."""
        opened = ContentSnapshot(itertools.islice(self.values, len(self.values)), is_list=True)
        if not self.is_private:
            opened.finish()
        return opened


class BroadcastContent:
    """The pairs of a broadcast state.

    Attributes:
        pairs: All pairs, save for ``changes``.
        changes: Changes since the open snapshot, ``_GONE`` for a removed key; None without a
            snapshot.
        was_cleared: Whether ``clear`` emptied the state.
        is_private: See `ListContent`.
    """

    def __init__(self) -> None:
        """Start without pairs."""
        self.pairs: dict[Any, Any] = {}
        self.changes: dict[Any, Any] | None = None
        self.was_cleared = False
        self.is_private = True
        self._snapshot: ContentSnapshot | None = None

    def get(self, key: object) -> object:
        """Return the value of a key, or None."""
        if self.changes is not None and key in self.changes:
            value = self.changes[key]
            return None if value is _GONE else value
        return self.pairs.get(key)

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        (self.pairs if self.changes is None else self.changes)[key] = value

    def remove(self, key: object) -> None:
        """Remove a key, if present."""
        if self.changes is None:
            self.pairs.pop(key, None)
        elif key in self.pairs:
            self.changes[key] = _GONE
        else:
            self.changes.pop(key, None)

    def clear(self) -> None:
        """Remove all keys; an open snapshot still has them."""
        self.pairs = {}
        self.changes = None
        self._snapshot = None

    def items(self) -> Collection[tuple[object, object]]:
        """Return the pairs of key and value."""
        return self._view() or self.pairs.items()

    def keys(self) -> Collection[object]:
        """Return the keys."""
        return self._view(0) or self.pairs.keys()

    def values(self) -> Collection[object]:
        """Return the values."""
        return self._view(1) or self.pairs.values()

    def __contains__(self, key: object) -> bool:
        if self.changes is not None and key in self.changes:
            return self.changes[key] is not _GONE
        return key in self.pairs

    def lend(self) -> None:
        """Let a function change a value in place: snapshots are serialised at once from now on."""
        self.finish_snapshot()
        self.is_private = False

    def finish_snapshot(self) -> None:
        """Serialise the rest of an open snapshot."""
        if self._snapshot is not None:
            self._snapshot.finish()

    def open_snapshot(self) -> ContentSnapshot:
        """Open a snapshot of the present pairs; an earlier open one is serialised first."""
        self.finish_snapshot()
        opened = ContentSnapshot(self.pairs.items(), is_list=False, closed=self._closed)
        self._snapshot, self.changes = opened, {}
        if not self.is_private:
            opened.finish()
        return opened

    def _closed(self, snapshot: ContentSnapshot) -> None:
        """Apply the changes to the pairs, which the snapshot no longer reads."""
        if self._snapshot is not snapshot:
            return
        for key, value in (self.changes or {}).items():
            if value is _GONE:
                del self.pairs[key]
            else:
                self.pairs[key] = value
        self.changes = self._snapshot = None

    def _view(self, part: int | None = None) -> _ChangedView | None:
        """Return a view of the pairs or a part of each; None if ``pairs`` has no changes."""
        return _ChangedView(self.pairs, self.changes, part) if self.changes else None


class _ChangedView(Collection[Any]):
    """Pairs of a map, or their keys or values, with changes applied."""

    def __init__(
        self, pairs: dict[object, object], changes: dict[object, object], part: int | None
    ) -> None:
        self._pairs = pairs
        self._changes = changes
        self._part = part

    def __bool__(self) -> bool:
        return True

    def __contains__(self, element: object) -> bool:
        return any(found is element or found == element for found in self)

    def __iter__(self) -> Iterator[object]:
        for pair in self._items():
            yield pair if self._part is None else pair[self._part]

    def __len__(self) -> int:
        return sum(1 for _ in self._items())

    def _items(self) -> Iterator[tuple[object, object]]:
        pairs, changes = self._pairs, self._changes
        for key, kept in pairs.items():
            value = changes.get(key, kept)
            if value is not _GONE:
                yield key, value
        for key, value in changes.items():
            if key not in pairs:
                yield key, value
