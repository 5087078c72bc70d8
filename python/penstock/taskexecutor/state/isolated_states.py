"""States of window contents that share no mutable value with functions.

Each wraps a state of any backend and copies values on the way in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
)

if TYPE_CHECKING:
    from penstock.datastream.state import StateDescriptor
    from penstock.taskexecutor.compiled.value_copies import ValueCopier

#: ``make(*types)`` returns the copier for values of declared types, or None if they are immutable.
MakeCopier = Callable[..., "ValueCopier | None"]


def isolated(state: object, descriptor: StateDescriptor, make: MakeCopier) -> Any:
    """Return the state itself if its values are immutable, else a wrapper that copies them."""
    if isinstance(descriptor, ListStateDescriptor):
        copier = make(descriptor.element_type)
        return state if copier is None else IsolatedListState(state, copier)
    assert isinstance(descriptor, (ReducingStateDescriptor, AggregatingStateDescriptor))
    copier = make(descriptor.type_info)
    return state if copier is None else IsolatedFoldingState(state, copier)


class _IsolatedState:
    """Common part of all isolated states."""

    def __init__(self, state: Any, copier: ValueCopier) -> None:
        """Wrap ``state``."""
        self._state = state
        self._copied = copier.copied
        self.clear = state.clear
        self.set_current_namespace = state.set_current_namespace

    def merge_namespaces(self, target: object, sources: Iterable[object]) -> None:
        """Merge the current key's content of other namespaces into that of ``target``."""
        self._state.merge_namespaces(target, sources)


class IsolatedListState(_IsolatedState):
    """A list of values."""

    def get(self) -> list[object]:
        """Return copies of the values; empty if there are none."""
        copied = self._copied
        return [copied(value) for value in self._state.get()]

    def add(self, value: object) -> None:
        """Append a copy of one value."""
        self._state.add(self._copied(value))

    def add_all(self, values: Iterable[object]) -> None:
        """Append copies of several values."""
        self._state.add_all(map(self._copied, values))

    def update(self, values: Iterable[object]) -> None:
        """Replace all values by copies of the given ones."""
        self._state.update(map(self._copied, values))

    def __iter__(self) -> Iterator[object]:
        return iter(self.get())


class Copies(Collection[Any]):
    """Lazy copies of the elements of a view."""

    def __init__(self, view: Collection[Any], copied: Callable[[object], object]) -> None:
        """Wrap ``view``; ``copied`` copies an element."""
        self._view = view
        self._copied = copied

    def __contains__(self, element: object) -> bool:
        return element in self._view

    def __iter__(self) -> Iterator[object]:
        return map(self._copied, self._view)

    def __len__(self) -> int:
        return len(self._view)


class IsolatedFoldingState(_IsolatedState):
    """A fold or an accumulator into which values are added."""

    def get(self) -> object:
        """Return a copy of the fold or of the accumulator's result; None if nothing was added."""
        return self._copied(self._state.get())

    def add(self, value: object) -> None:
        """Add a copy of one value."""
        self._state.add(self._copied(value))
