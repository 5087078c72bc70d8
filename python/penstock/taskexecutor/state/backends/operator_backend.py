"""Operator state: lists, union lists and broadcast maps, none of them keyed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.copies.copy_plans import UNCHANGING_CLASSES
from penstock.taskexecutor.state.backends.declared_types import DeclaredTypes, Migration
from penstock.taskexecutor.state.backends.operator_contents import (
    BroadcastContent,
    ContentSnapshot,
    ListContent,
)
from penstock.taskexecutor.state.heap import value_check
from penstock.taskexecutor.state.isolated_states import Copies
from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedParts
from penstock.taskexecutor.state.snapshots.snapshot_contents import EncodedValues

if TYPE_CHECKING:
    from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, StateDescriptor
    from penstock.taskexecutor.compiled.value_copies import ValueCopier


logger = logging.getLogger(__name__)


class OperatorListState:
    """A list of one subtask, redistributed when the parallelism changes."""

    def __init__(self, content: ListContent, copier: ValueCopier | None = None) -> None:
        """Create a view of ``content``; ``copier``, if any, copies values that enter or leave."""
        self._content = content
        self._copier = copier

    def get(self) -> list[object]:
        """Return the values."""
        return self._copies(self._content.values)

    def add(self, value: object) -> None:
        """Append a value."""
        self.add_all((value,))

    def add_all(self, values: Iterable[object]) -> None:
        """Append values."""
        self._content.values.extend(self._copies(values))

    def update(self, values: Iterable[object]) -> None:
        """Replace all values."""
        self._content.values = self._copies(values)

    def clear(self) -> None:
        """Remove all values."""
        self._content.values = []

    def __iter__(self) -> Iterator[object]:
        return iter(self.get())

    def _copies(self, values: Iterable[object]) -> list[Any]:
        return list(values) if self._copier is None else self._copier.copied_all(values)


class ReadOnlyBroadcastStateView:
    """View of a broadcast state for the side that is not broadcast.

    PyFlink's view has ``clear`` as well, so this one has it too; it always fails.
    """

    def __init__(self, content: BroadcastContent, copier: ValueCopier | None = None) -> None:
        """Create a view of ``content``; ``copier``, if any, copies values that enter or leave."""
        self._content = content
        self._copier = copier

    def get(self, key: object) -> object:
        """Return the value of a key, or None."""
        return self._copy(self._content.get(key))

    def contains(self, key: object) -> bool:
        """Return whether the key exists."""
        return key in self._content

    def items(self) -> Iterable[tuple[object, object]]:
        """Return the pairs of key and value."""
        return self._copies(self._content.items())

    def keys(self) -> Iterable[object]:
        """Return the keys."""
        return self._copies(self._content.keys())

    def values(self) -> Iterable[object]:
        """Return the values."""
        return self._copies(self._content.values())

    def is_empty(self) -> bool:
        """Return whether ``clear`` left the state without keys.

        As in PyFlink, a state that was never filled, or whose keys were removed one by one, does
        not count as empty; ask for its keys instead.
        """
        return self._content.was_cleared and not self._content.pairs

    def clear(self) -> None:
        """Raise TypeError: only the broadcast side may change the state.

        Raises:
            TypeError: Always.
        """
        msg = "only process_broadcast_element may change a broadcast state"
        raise TypeError(msg)

    def __getitem__(self, key: object) -> object:
        return self.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._content

    def __iter__(self) -> Iterator[object]:
        return iter(self.keys())

    def _copy(self, value: object) -> object:
        return value if self._copier is None else self._copier.copied(value)

    def _copies(self, view: Collection[object]) -> Iterable[Any]:
        return view if self._copier is None else Copies(view, self._copier.copied)


class BroadcastStateView(ReadOnlyBroadcastStateView):
    """A broadcast state: the same in every subtask if the function is deterministic.

    It stores the objects that functions put, and returns the objects that it stores: a change in
    place changes the state.
    """

    def __init__(
        self,
        content: BroadcastContent,
        descriptor: MapStateDescriptor,
        copier: ValueCopier | None = None,
    ) -> None:
        """Create a view of ``content``; ``copier``, if any, copies values that enter or leave."""
        super().__init__(content, copier)
        name = descriptor.get_name()
        self._check_key = value_check(getattr(descriptor.type_info, "key_type", None), name)
        self._check_value = value_check(getattr(descriptor.type_info, "value_type", None), name)

    def get(self, key: object) -> object:
        """Return the value of a key, or None."""
        value = self._content.get(key)
        return value if self._copier is None else self._lent(value)

    def items(self) -> Iterable[tuple[object, object]]:
        """Return the pairs of key and value."""
        return self._all_lent(self._content.items, self._lent_pair)

    def values(self) -> Iterable[object]:
        """Return the values."""
        return self._all_lent(self._content.values, self._lent)

    def _all_lent(
        self, view: Callable[[], Collection[object]], lent: Callable[[Any], Any]
    ) -> Iterable[Any]:
        if self._copier is None:
            return view()
        # First, because the end of a snapshot changes the pairs that the view iterates over.
        self._content.finish_snapshot()
        return Copies(view(), lent)

    def _lent_pair(self, pair: tuple[object, object]) -> tuple[object, object]:
        return self._copy(pair[0]), self._lent(pair[1])

    def _lent(self, value: object) -> object:
        content = self._content
        # The copy of what never changes, such as a tuple of numbers, is the value itself.
        if type(value) not in UNCHANGING_CLASSES and not (
            content.is_private and self._copy(value) is value
        ):
            content.lend()
        return value

    def put(self, key: object, value: object) -> None:
        """Set the value of a key."""
        if self._check_key is not None:
            self._check_key(key)
        if self._check_value is not None and value is not None:
            self._check_value(value)
        self._content.was_cleared = False
        kept = value if self._copier is None else self._lent(value)
        self._content.put(self._copy(key), kept)

    def put_all(self, content: Mapping[object, object] | Iterable[tuple[object, object]]) -> None:
        """Set several pairs, given as a dictionary or as pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def remove(self, key: object) -> None:
        """Remove a key, if present."""
        self._content.remove(key)

    def clear(self) -> None:
        """Remove all keys."""
        self._content.clear()
        self._content.was_cleared = True

    def __setitem__(self, key: object, value: object) -> None:
        self.put(key, value)

    def __delitem__(self, key: object) -> None:
        self.remove(key)


@dataclass(frozen=True)
class OperatorStates:
    """Serialised operator state of one operator; see ``OperatorSnapshot``."""

    lists: Mapping[str, EncodedValues]
    union_lists: Mapping[str, EncodedValues]
    broadcast: Mapping[str, EncodedValues]


class OperatorStatesSnapshot:
    """The operator state of one operator at one moment."""

    def __init__(
        self,
        lists: dict[str, ContentSnapshot],
        union_lists: dict[str, ContentSnapshot],
        broadcast: dict[str, ContentSnapshot],
    ) -> None:
        """Create a snapshot from one of each state."""
        self._states = lists, union_lists, broadcast
        self._left = SlicedParts(content for states in self._states for content in states.values())

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left.

        Raises:
            Exception: A value cannot be serialised.
        """
        return self._left.advance(deadline_ns)

    def close(self) -> None:
        """Discard the snapshot."""
        self._left.close()

    def blocks(self) -> Iterator[bytes]:
        """Yield the serialised values after ``advance`` returned True."""
        for states in self._states:
            for content in states.values():
                yield from content.blocks

    def states(self) -> OperatorStates:
        """Return all states, after ``advance`` returned True."""
        return OperatorStates(
            *(
                {name: EncodedValues(content.blocks) for name, content in states.items()}
                for states in self._states
            )
        )


class OperatorStateBackend:
    """The operator state of one operator in one subtask.

    Attributes:
        types: The declared types of the states.
    """

    def __init__(self) -> None:
        """Create a backend without states."""
        self.types = DeclaredTypes()
        self._lists: dict[str, ListContent] = {}
        self._union_lists: dict[str, ListContent] = {}
        self._broadcast: dict[str, BroadcastContent] = {}

    def list_state(
        self,
        descriptor: ListStateDescriptor,
        copier: ValueCopier | None = None,
        *,
        is_private: bool = False,
    ) -> OperatorListState:
        """Return a list that is split when the parallelism changes.

        Args:
            descriptor: The descriptor of the state.
            copier: Copies values that enter or leave; None copies nothing, here and below.
            is_private: Whether no other code can change the stored values, here and below: a
                snapshot may then serialise them later.
        """
        return OperatorListState(self._list("split", self._lists, descriptor, is_private), copier)

    def union_list_state(
        self,
        descriptor: ListStateDescriptor,
        copier: ValueCopier | None = None,
        *,
        is_private: bool = False,
    ) -> OperatorListState:
        """Return a list that every subtask restores as a whole."""
        return OperatorListState(
            self._list("union", self._union_lists, descriptor, is_private), copier
        )

    def broadcast_state(
        self,
        descriptor: MapStateDescriptor,
        copier: ValueCopier | None = None,
        *,
        is_private: bool = False,
    ) -> BroadcastStateView:
        """Return a broadcast state for the broadcast side."""
        return BroadcastStateView(self._content(descriptor, is_private), descriptor, copier)

    def read_only_broadcast_state(
        self,
        descriptor: MapStateDescriptor,
        copier: ValueCopier | None = None,
        *,
        is_private: bool = False,
    ) -> ReadOnlyBroadcastStateView:
        """Return a read-only view of a broadcast state for the other side."""
        return ReadOnlyBroadcastStateView(self._content(descriptor, is_private), copier)

    @property
    def is_unused(self) -> bool:
        """Return whether a snapshot would be empty: no state was opened or restored."""
        return not (self._lists or self._union_lists or self._broadcast)

    def open_snapshot(self) -> OperatorStatesSnapshot:
        """Open a snapshot of all states, to be serialised while they change."""
        return OperatorStatesSnapshot(
            *(
                {name: content.open_snapshot() for name, content in contents.items()}
                for contents in (self._lists, self._union_lists, self._broadcast)
            )
        )

    def restore(self, states: OperatorStates) -> None:
        """Add the content of a snapshot."""
        for name, values in states.lists.items():
            self._lists.setdefault(name, ListContent()).values.extend(values)
        for name, values in states.union_lists.items():
            self._union_lists.setdefault(name, ListContent()).values.extend(values)
        for name, contents in states.broadcast.items():
            content = self._broadcast.setdefault(name, BroadcastContent())
            for items in contents:
                content.pairs.update(items)
        by_kind: dict[str, Any] = {
            "split": self._lists,
            "union": self._union_lists,
            "broadcast": self._broadcast,
        }
        for kind, name, migrate in self.types.pending():
            _replace(by_kind[kind][name], migrate)

    def _list(
        self,
        kind: str,
        lists: dict[str, ListContent],
        descriptor: ListStateDescriptor,
        is_private: bool,
    ) -> ListContent:
        name = descriptor.get_name()
        _warn_of_time_to_live(name, descriptor, name in lists)
        content = lists.setdefault(name, ListContent())
        content.is_private &= is_private
        migrate = self.types.declare(kind, name, getattr(descriptor, "type_info", None))
        _replace(content, migrate)
        return content

    def _content(self, descriptor: MapStateDescriptor, is_private: bool) -> BroadcastContent:
        name = descriptor.get_name()
        _warn_of_time_to_live(name, descriptor, name in self._broadcast)
        content = self._broadcast.setdefault(name, BroadcastContent())
        content.is_private &= is_private
        migrate = self.types.declare("broadcast", name, getattr(descriptor, "type_info", None))
        _replace(content, migrate)
        return content


def _warn_of_time_to_live(name: str, descriptor: StateDescriptor, is_known: bool) -> None:
    """Warn that operator state never expires, as in Flink, despite a time to live."""
    ttl = getattr(descriptor, "ttl_config", None)
    if ttl is not None and ttl.is_enabled() and not is_known:
        logger.warning("state %r belongs to no key: its time to live has no effect", name)


def _replace(content: ListContent | BroadcastContent, migration: Migration | None) -> None:
    """Convert the values of a list or map to another type."""
    if migration is None or migration.values is None:
        return
    if isinstance(content, ListContent):
        content.values = migration.values(content.values)
    else:
        for key, value in migration.values(dict(content.items())).items():
            content.put(key, value)
