"""Values of keyed state that functions hold and may change in place.

A state stores the objects that functions pass, and returns the objects that it stores, as Flink's
heap and PyFlink's cache do.  A change in place is then in the state without another call.  Three
places must know of it: a snapshot, which reads the state later; an incremental one, which leaves
out unchanged entries; and a cache in front of a database, which evicts written entries.  So each
mutable value is noted when it is stored or returned, which counts as a change.  Once only the state
refers to the value and its parts, nobody can change it any more, and it is forgotten.  The others
count as changed again whenever the table begins an epoch.

Whether that is so is checked for a few values at a time.  A value with many parts, such as a set of
thousands, is not searched each time: it stays noted until an epoch begins, or until more values
are noted than were in states at the last complete search.

``penstock._native.state.lent_values`` is the native twin.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.compiled.value_copies import ValueCopier, never_changes
from penstock.taskexecutor.copies.held_values import is_held

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: The number of noted values after which they are checked for other owners.
_FEW: Final = 32

#: Most parts of a value that such a check visits.
VISITED: Final = 64

#: Most values noted as held outside of their state: beyond, the state stores copies.
MOST: Final = 1024

#: Element of a value that may be a part of an entry.
PART: Final = object()

#: Index of the value in an entry.
_VALUE: Final = 4


class LentValues:
    """The values of one operator's keyed state that other code may change."""

    def __init__(self) -> None:
        """Start without values."""
        #: By namespace, key and element: the state, these three, and the value.
        self._lent: dict[tuple[Any, Any, Any], tuple[Any, Any, Any, Any, Any]] = {}
        #: In the same form, earlier values that other code may change.
        self._held: dict[tuple[Any, Any, Any], tuple[Any, Any, Any, Any, Any]] = {}
        self._limit = _FEW

    def lend(
        self, state: object, contents: object, key: object, element: Hashable, value: object
    ) -> None:
        """Note a value that a state stored or returned, if it is mutable.

        Args:
            state: The state, whose ``touch`` marks an element as changed.
            contents: The entries of its current namespace.
            key: The current key.
            element: The value's place in the entry of the key; None for the whole entry.
            value: The value.
        """
        if never_changes(value):
            return
        if len(self._lent) >= _FEW:
            self._take_over()
        name = id(value) if element is PART else element
        self._lent[contents, key, name] = state, contents, key, element, value

    def lend_part(self, state: object, contents: object, key: object, value: object) -> None:
        """Note a value that the entry of a key may now contain; see ``lend``."""
        self.lend(state, contents, key, PART, value)

    def _take_over(self) -> None:
        """Forget those of the last values that certainly no other code can change."""
        for slot in list(self._lent):
            if is_held(self._lent[slot], _VALUE, VISITED) is not False:
                self._held[slot] = self._lent[slot]
            del self._lent[slot]
        if len(self._held) >= self._limit:
            self.settle()

    def settle(self) -> None:
        """Forget the values that no other code can change, and the oldest of too many others."""
        self._held |= self._lent
        self._lent.clear()
        owned = 0
        for slot in list(self._held):
            # Beside the reference of the tuple and that of the call.
            owned += sys.getrefcount(self._held[slot][_VALUE]) > 2
            if not is_held(self._held[slot], _VALUE):
                del self._held[slot]
        part_from_oldest(self._held, len(self._held) - MOST, ValueCopier)
        self._limit = _FEW + 2 * owned

    def hold(self) -> None:
        """Keep the values in memory, whatever is written next."""
        for state, contents, key, *_ in self._held.values():
            state.hold(contents, key)

    def touch(self) -> None:
        """Mark the values as changed in the present epoch."""
        for state, contents, key, element, _ in self._held.values():
            state.touch(contents, key, element)

    def clear(self) -> None:
        """Forget all values."""
        self._held.clear()
        self._lent.clear()


def part_from_oldest(
    lent: dict[tuple[Any, Any, Any], tuple[Any, ...]],
    number: int,
    create_copier: Callable[[str], ValueCopier],
) -> None:
    """Store copies of the oldest values in their states; the holders keep the originals.

    Args:
        lent: The values, as in `LentValues`; those that are copied are removed.
        number: The number of the oldest ones.
        create_copier: Creates a copier of the same runtime, given its name in messages.
    """
    entries = set()
    for slot in list(lent)[: max(number, 0)]:
        state, contents, key, element, _ = lent.pop(slot)
        if element is PART:
            if slot[:2] in entries:
                continue
            entries.add(slot[:2])
        copier = create_copier(f"the state {state.name!r} keeps")
        state.keep_copy(contents, key, element, copier.copied)
    # A state has copied all parts of these entries.
    for slot in [slot for slot, (*_, element, _) in lent.items() if element is PART]:
        if slot[:2] in entries:
            del lent[slot]
