# cython: annotation_typing=False, boundscheck=True, binding=False
"""Iterators over map states that can remove pairs; one source, two uses, as `heap_states`.

As in PyFlink, only the iterator may change the map while it is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.state.lent_values import LentValues

#: Part of each pair that an iterator returns.
ITEMS: Final = 0
KEYS: Final = 1
VALUES: Final = 2

#: Marks the absence of a last key.
_NONE: Final = object()


class MapIterator:
    """Iterates over the pairs of one key in a map state; can remove them."""

    def __init__(
        self,
        state: Any,
        contents: object,
        current: object,
        pairs: Iterator[tuple[object, object]],
        shown: int,
        lent: LentValues | None,
    ) -> None:
        """Start before the first pair.

        Args:
            state: The map state, which counts its ``changes``.
            contents: The entries of its namespace.
            current: The current key of the stream.
            pairs: The pairs of key and value.
            shown: ``ITEMS``, ``KEYS`` or ``VALUES``.
            lent: Notes returned values; None if they are immutable.
        """
        self._state = state
        self._contents = contents
        self._current = current
        self._pairs = pairs
        self._shown = shown
        self._changes: int = state.changes
        self._lent = None if shown == KEYS else lent
        self._last: Any = _NONE

    def __iter__(self) -> MapIterator:
        return self

    def __next__(self) -> Any:
        if self._changes != self._state.changes:
            raise self._changed()
        pair = next(self._pairs)
        self._last = pair[0]
        if self._lent is not None:
            self._lent.lend(self._state, self._contents, self._current, pair[0], pair[1])
        if self._shown == ITEMS:
            return pair
        return pair[0] if self._shown == KEYS else pair[1]

    def remove(self) -> None:
        """Remove the pair that was returned last.

        Raises:
            IllegalStateError: There is no such pair, or other code changed the map.
        """
        last, self._last = self._last, _NONE
        if last is _NONE:
            raise IllegalStateError(
                f"remove() of an iterator over the map state {self._state.name!r} has no pair to "
                "remove: call next() before"
            )
        if self._changes != self._state.changes:
            raise self._changed()
        state = self._state
        self._pairs = state.remove_pair(self._contents, self._current, last, self._pairs)
        self._changes = state.changes

    def _changed(self) -> IllegalStateError:
        return IllegalStateError(
            f"the map state {self._state.name!r} was changed while it was iterated over: change it "
            "after the iteration, or remove pairs by the remove() of the iterator"
        )
