# cython: annotation_typing=False, boundscheck=True, binding=False
"""Iterators over map states, by which pairs may be removed; one source, two uses, as `heap_states`.

As in PyFlink, nothing but the iterator may change the map while it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.state.lent_values import LentValues

#: What an iterator shows of each pair.
ITEMS: Final = 0
KEYS: Final = 1
VALUES: Final = 2

#: Marks that there is no last key.
_NONE: Final = object()


class MapIterator:
    """Goes through the pairs of one key in a map state, and removes some of them."""

    def __init__(
        self,
        state: Any,
        contents: Any,
        current: Any,
        pairs: Iterator[tuple[Any, Any]],
        shown: int,
        lent: LentValues | None,
    ) -> None:
        """Begins with the first pair.

        Args:
            state: The map state, which counts its ``changes``.
            contents: The entries of its namespace.
            current: The key of the stream whose pairs they are.
            pairs: The pairs of key and value.
            shown: ``ITEMS``, ``KEYS`` or ``VALUES``.
            lent: Notes the values that are given out; None where they cannot change.
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
        """Removes the pair that was given last.

        Raises:
            IllegalStateError: There is none, or something else has changed the map.
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
