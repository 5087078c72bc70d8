"""States that share no value that can change with those who use them.

Each wraps a state of any backend: what is put in and what is got out are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled import ValueCopier

#: ``make(*types)`` gives the copier for values of declared types, None when they never change.
MakeCopier = Callable[..., "ValueCopier | None"]


def isolated(state: Any, descriptor: Any, make: MakeCopier) -> Any:
    """The state itself if its values never change, else one that copies them."""
    declared = descriptor.type_info
    if isinstance(descriptor, ListStateDescriptor):
        copier = make(declared.element_type)
        return state if copier is None else IsolatedListState(state, copier)
    if isinstance(descriptor, MapStateDescriptor):
        copier = make(declared.key_type, declared.value_type)
        return state if copier is None else IsolatedMapState(state, copier)
    copier = make(declared)
    if copier is None:
        return state
    if isinstance(descriptor, ValueStateDescriptor):
        return IsolatedValueState(state, copier)
    assert isinstance(descriptor, (ReducingStateDescriptor, AggregatingStateDescriptor))
    return IsolatedFoldingState(state, copier)


class _IsolatedState:
    """What all of them share."""

    def __init__(self, state: Any, copier: ValueCopier) -> None:
        """Wraps ``state``."""
        self._state = state
        self._copied = copier.copied
        self.clear = state.clear
        self.set_current_namespace = state.set_current_namespace

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges the current key's content of other namespaces into that of ``target``."""
        self._state.merge_namespaces(target, sources)


class IsolatedValueState(_IsolatedState):
    """One value."""

    def value(self) -> Any:
        """A copy of the value, None when there is none."""
        return self._copied(self._state.value())

    def update(self, value: Any) -> None:
        """Replaces the value by a copy; None removes it."""
        self._state.update(self._copied(value))


class IsolatedListState(_IsolatedState):
    """A list of values."""

    def get(self) -> list[Any]:
        """Copies of the values; empty when there are none."""
        copied = self._copied
        return [copied(value) for value in self._state.get()]

    def add(self, value: Any) -> None:
        """Appends a copy of one value."""
        self._state.add(self._copied(value))

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends copies of several values."""
        self._state.add_all(map(self._copied, values))

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all values by copies of others."""
        self._state.update(map(self._copied, values))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())


class Copies(Collection[Any]):
    """Copies of the elements of a view, each made when it is asked for."""

    def __init__(self, view: Any, copied: Callable[[Any], Any]) -> None:
        """Shows ``view`` through ``copied``."""
        self._view = view
        self._copied = copied

    def __contains__(self, element: object) -> bool:
        return element in self._view

    def __iter__(self) -> Iterator[Any]:
        return map(self._copied, self._view)

    def __len__(self) -> int:
        return len(self._view)


class IsolatedMapState(_IsolatedState):
    """A dictionary."""

    def get(self, key: Any) -> Any:
        """A copy of the value of a key, None when there is none."""
        return self._copied(self._state.get(key))

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key to a copy."""
        self._state.put(self._copied(key), self._copied(value))

    def put_all(self, content: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several: a dictionary, or pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def contains(self, key: Any) -> bool:
        """Whether there is such a key."""
        return self._state.contains(key)  # type: ignore[no-any-return]

    def remove(self, key: Any) -> None:
        """Removes a key; nothing happens when there is none."""
        self._state.remove(key)

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Copies of the pairs of key and value."""
        return Copies(self._state.items(), self._copied)

    def keys(self) -> Iterable[Any]:
        """Copies of the keys."""
        return Copies(self._state.keys(), self._copied)

    def values(self) -> Iterable[Any]:
        """Copies of the values."""
        return Copies(self._state.values(), self._copied)

    def is_empty(self) -> bool:
        """Whether there is no key."""
        return self._state.is_empty()  # type: ignore[no-any-return]

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def __contains__(self, key: Any) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())


class IsolatedFoldingState(_IsolatedState):
    """A fold or an accumulator into which values are added."""

    def get(self) -> Any:
        """A copy of the fold or of the accumulator's result; None when nothing was added."""
        return self._copied(self._state.get())

    def add(self, value: Any) -> None:
        """Adds a copy of one value."""
        self._state.add(self._copied(value))
