"""Values of keyed state that functions have, and may change in place.

A state keeps the objects that functions put in, and gives out the objects that it keeps, as Flink's
heap and PyFlink's cache do.  What is changed in place is then in the state without another call.
Three places must know of it: a snapshot, which reads the state later; an incremental one, which
leaves out what has not changed; and a cache in front of a database, which lets go of what is
written.  So each value that can change is noted when it is put in or given out, which counts as a
change.  Once nobody but the state refers to it and its parts, nobody can change it any more, and it
is forgotten.  The others count as changed again whenever the table begins an epoch.

``penstock._native.lent_values`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.compiled.value_copies import never_changes
from penstock.taskexecutor.copies.held_values import is_held

if TYPE_CHECKING:
    from collections.abc import Hashable

#: Values that are noted at least before it is found out which ones are still held.
_FEW: Final = 32

#: Values that are held beside their state at most: of more, the state gets copies.
MOST: Final = 1024

#: Stands for the element of a value that may be a part of an entry.
PART: Final = object()

#: Where in an entry the value is.
_VALUE: Final = 4


class LentValues:
    """The values of one operator's keyed state that somebody beside the state may change."""

    def __init__(self) -> None:
        """Starts without values."""
        #: By namespace, key and element: the state, these three, and the value.
        self._lent: dict[tuple[Any, Any, Any], tuple[Any, Any, Any, Any, Any]] = {}
        self._limit = _FEW

    def lend(self, state: Any, contents: Any, key: Any, element: Hashable, value: Any) -> None:
        """Notes a value that was put into a state or given out, if it can change.

        Args:
            state: The state, whose ``touch`` counts an element as changed.
            contents: The entries of its current namespace.
            key: The current key.
            element: What the value is in the entry of the key; None for all of it.
            value: The value.
        """
        if never_changes(value):
            return
        if len(self._lent) >= self._limit:
            self.settle()
        name = id(value) if element is PART else element
        self._lent[contents, key, name] = state, contents, key, element, value

    def lend_part(self, state: Any, contents: Any, key: Any, value: Any) -> None:
        """Notes a value of which the entry of a key may have become the owner; see ``lend``."""
        self.lend(state, contents, key, PART, value)

    def settle(self) -> None:
        """Forgets the values that nobody can change, and the oldest of too many others."""
        for slot in list(self._lent):
            if not is_held(self._lent[slot], _VALUE):
                del self._lent[slot]
        for slot in list(self._lent)[: max(len(self._lent) - MOST, 0)]:
            part_from(*self._lent.pop(slot)[:_VALUE])
        self._limit = _FEW + 2 * len(self._lent)

    def hold(self) -> None:
        """Keeps the values in memory, whatever is written next."""
        for state, contents, key, *_ in self._lent.values():
            state.hold(contents, key)

    def touch(self) -> None:
        """Counts the values as changed in the present epoch."""
        for state, contents, key, element, _ in self._lent.values():
            state.touch(contents, key, element)

    def clear(self) -> None:
        """Forgets all values."""
        self._lent.clear()


def part_from(state: Any, contents: Any, key: Any, element: Hashable) -> None:
    """Gives a state a copy of a value, and leaves the value to those who hold it."""
    from penstock.taskexecutor.compiled import ValueCopier

    copier = ValueCopier(f"the state {state.name!r} keeps")
    state.keep_copy(contents, key, element, copier.copied)
