"""Values of keyed state that functions hold and may change in place.

A state stores the objects that functions pass, and returns the objects that it stores, as Flink's
heap and PyFlink's cache do.  A change in place is then in the state without another call.  Three
places must know of it: a snapshot, which reads the state later; an incremental one, which leaves
out unchanged entries; and a cache in front of a database, which evicts written entries.  So each
mutable value is noted when it is stored or returned, which counts as a change.  Once only the state
refers to the value and its parts, nobody can change it any more, and it is forgotten.  The others
count as changed again whenever the table begins an epoch.

``penstock._native.state.lent_values`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.compiled.value_copies import ValueCopier, never_changes
from penstock.taskexecutor.copies.held_values import is_held

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: Minimum number of noted values before a check of which ones are still held.
_FEW: Final = 32

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
        if len(self._lent) >= self._limit:
            self.settle()
        name = id(value) if element is PART else element
        self._lent[contents, key, name] = state, contents, key, element, value

    def lend_part(self, state: object, contents: object, key: object, value: object) -> None:
        """Note a value that the entry of a key may now contain; see ``lend``."""
        self.lend(state, contents, key, PART, value)

    def settle(self) -> None:
        """Forget the values that only their state holds, and the oldest of too many others."""
        for slot in list(self._lent):
            if not is_held(self._lent[slot], _VALUE):
                del self._lent[slot]
        part_from_oldest(self._lent, len(self._lent) - MOST, ValueCopier)
        self._limit = _FEW + 2 * len(self._lent)

    def hold(self) -> None:
        """Keep the values in memory, whatever is written next."""
        for state, contents, key, *_ in self._lent.values():
            state.hold(contents, key)

    def touch(self) -> None:
        """Mark the values as changed in the present epoch."""
        for state, contents, key, element, _ in self._lent.values():
            state.touch(contents, key, element)

    def clear(self) -> None:
        """Forget all values."""
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
