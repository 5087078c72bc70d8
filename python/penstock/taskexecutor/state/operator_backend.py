"""Operator state: lists, union lists and broadcast maps that belong to no key."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.state.declared_types import DeclaredTypes, Migration
from penstock.taskexecutor.state.heap import value_check
from penstock.taskexecutor.state.isolated_states import Copies
from penstock.taskexecutor.state.operator_contents import (
    BroadcastContent,
    ContentSnapshot,
    ListContent,
)
from penstock.taskexecutor.state.sliced_parts import SlicedParts
from penstock.taskexecutor.state.snapshot_contents import EncodedValues

if TYPE_CHECKING:
    from penstock.taskexecutor.compiled import ValueCopier


logger = logging.getLogger(__name__)


class OperatorListState:
    """A list of one subtask, spread over the new subtasks when the parallelism changes."""

    def __init__(self, content: ListContent, copier: ValueCopier | None = None) -> None:
        """Opens a view of ``content``; what goes in or out is copied by ``copier`` if there is."""
        self._content = content
        self._copier = copier

    def get(self) -> list[Any]:
        """The values."""
        return self._copies(self._content.values)

    def add(self, value: Any) -> None:
        """Appends a value."""
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        """Appends values."""
        self._content.values.extend(self._copies(values))

    def update(self, values: Iterable[Any]) -> None:
        """Replaces all values."""
        self._content.values = self._copies(values)

    def clear(self) -> None:
        """Removes all values."""
        self._content.values = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def _copies(self, values: Iterable[Any]) -> list[Any]:
        return list(values) if self._copier is None else self._copier.copied_all(values)


class ReadOnlyBroadcastStateView:
    """View of a broadcast state for the side that is not broadcast.

    PyFlink's view has ``clear`` too, which is why it is not missing here; it is refused.
    """

    def __init__(self, content: BroadcastContent, copier: ValueCopier | None = None) -> None:
        """Opens a view of ``content``; what goes in or out is copied by ``copier`` if there is."""
        self._content = content
        self._copier = copier

    def get(self, key: Any) -> Any:
        """The value of a key, None when there is none."""
        return self._copy(self._content.get(key))

    def contains(self, key: Any) -> bool:
        """Return whether there is such a key."""
        return key in self._content

    def items(self) -> Iterable[tuple[Any, Any]]:
        """The pairs of key and value."""
        return self._copies(self._content.items())

    def keys(self) -> Iterable[Any]:
        """The keys."""
        return self._copies(self._content.keys())

    def values(self) -> Iterable[Any]:
        """The values."""
        return self._copies(self._content.values())

    def is_empty(self) -> bool:
        """Return whether ``clear`` left no key.

        As in PyFlink, a state that was never filled, or of which keys were removed one by one,
        does not count as empty; ask for its keys instead.
        """
        return self._content.was_cleared and not self._content.pairs

    def clear(self) -> None:
        """Refused: only the broadcast side may change the state.

        Raises:
            TypeError: Always.
        """
        msg = "only process_broadcast_element may change a broadcast state"
        raise TypeError(msg)

    def __getitem__(self, key: Any) -> Any:
        return self.get(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._content

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def _copy(self, value: Any) -> Any:
        return value if self._copier is None else self._copier.copied(value)

    def _copies(self, view: Collection[Any]) -> Iterable[Any]:
        return view if self._copier is None else Copies(view, self._copier.copied)


class BroadcastStateView(ReadOnlyBroadcastStateView):
    """A broadcast state: every subtask has the same content if its function is deterministic."""

    def __init__(
        self, content: BroadcastContent, descriptor: Any, copier: ValueCopier | None = None
    ) -> None:
        """Opens a view of ``content``; what goes in or out is copied by ``copier`` if there is."""
        super().__init__(content, copier)
        name = descriptor.get_name()
        self._check_key = value_check(getattr(descriptor.type_info, "key_type", None), name)
        self._check_value = value_check(getattr(descriptor.type_info, "value_type", None), name)

    def put(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        if self._check_key is not None:
            self._check_key(key)
        if self._check_value is not None and value is not None:
            self._check_value(value)
        self._content.was_cleared = False
        self._content.put(self._copy(key), self._copy(value))

    def put_all(self, content: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several: a dictionary, or pairs of key and value."""
        for key, value in content.items() if isinstance(content, Mapping) else content:
            self.put(key, value)

    def remove(self, key: Any) -> None:
        """Removes a key; nothing happens when there is none."""
        self._content.remove(key)

    def clear(self) -> None:
        """Removes all keys."""
        self._content.clear()
        self._content.was_cleared = True

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)


@dataclass(frozen=True)
class OperatorStates:
    """The states of an operator that belong to no key, serialised; see ``OperatorSnapshot``."""

    lists: Mapping[str, EncodedValues]
    union_lists: Mapping[str, EncodedValues]
    broadcast: Mapping[str, EncodedValues]


class OperatorStatesSnapshot:
    """The states of an operator that belong to no key, at one moment."""

    def __init__(
        self,
        lists: dict[str, ContentSnapshot],
        union_lists: dict[str, ContentSnapshot],
        broadcast: dict[str, ContentSnapshot],
    ) -> None:
        """Begins, with a snapshot of each state."""
        self._states = lists, union_lists, broadcast
        self._left = SlicedParts(content for states in self._states for content in states.values())

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: A value cannot be serialised.
        """
        return self._left.advance(deadline_ns)

    def close(self) -> None:
        """Gives it up."""
        self._left.close()

    def blocks(self) -> Iterator[bytes]:
        """Their serialised values, once ``advance`` has given True."""
        for states in self._states:
            for content in states.values():
                yield from content.blocks

    def states(self) -> OperatorStates:
        """All states, once ``advance`` has given True."""
        return OperatorStates(
            *(
                {name: EncodedValues(content.blocks) for name, content in states.items()}
                for states in self._states
            )
        )


class OperatorStateBackend:
    """The state of one operator of one subtask that belongs to no key.

    Attributes:
        types: The declared types of the states.
    """

    def __init__(self) -> None:
        """Creates a backend without states."""
        self.types = DeclaredTypes()
        self._lists: dict[str, ListContent] = {}
        self._union_lists: dict[str, ListContent] = {}
        self._broadcast: dict[str, BroadcastContent] = {}

    def list_state(
        self, descriptor: Any, copier: ValueCopier | None = None, *, is_private: bool = False
    ) -> OperatorListState:
        """A list that is split when the parallelism changes.

        Args:
            descriptor: Of the state.
            copier: Copies what goes in or out; None copies nothing, here and below.
            is_private: Whether nobody can change the values that are kept, here and below: a
                snapshot may serialise them later then.
        """
        return OperatorListState(self._list("split", self._lists, descriptor, is_private), copier)

    def union_list_state(
        self, descriptor: Any, copier: ValueCopier | None = None, *, is_private: bool = False
    ) -> OperatorListState:
        """A list of which every subtask gets all parts when it is restored."""
        return OperatorListState(
            self._list("union", self._union_lists, descriptor, is_private), copier
        )

    def broadcast_state(
        self, descriptor: Any, copier: ValueCopier | None = None, *, is_private: bool = False
    ) -> BroadcastStateView:
        """A map for the broadcast side."""
        return BroadcastStateView(self._content(descriptor, is_private), descriptor, copier)

    def read_only_broadcast_state(
        self, descriptor: Any, copier: ValueCopier | None = None, *, is_private: bool = False
    ) -> ReadOnlyBroadcastStateView:
        """The same map for the other side."""
        return ReadOnlyBroadcastStateView(self._content(descriptor, is_private), copier)

    @property
    def is_unused(self) -> bool:
        """Return whether a snapshot would be empty: no state was opened or restored."""
        return not (self._lists or self._union_lists or self._broadcast)

    def open_snapshot(self) -> OperatorStatesSnapshot:
        """All states as they are now, to be serialised while they change."""
        return OperatorStatesSnapshot(
            *(
                {name: content.open_snapshot() for name, content in contents.items()}
                for contents in (self._lists, self._union_lists, self._broadcast)
            )
        )

    def restore(self, states: OperatorStates) -> None:
        """Adds the content of a snapshot."""
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
        self, kind: str, lists: dict[str, ListContent], descriptor: Any, is_private: bool
    ) -> ListContent:
        name = descriptor.get_name()
        _warn_of_time_to_live(name, descriptor, name in lists)
        content = lists.setdefault(name, ListContent())
        content.is_private &= is_private
        migrate = self.types.declare(kind, name, getattr(descriptor, "type_info", None))
        _replace(content, migrate)
        return content

    def _content(self, descriptor: Any, is_private: bool) -> BroadcastContent:
        name = descriptor.get_name()
        _warn_of_time_to_live(name, descriptor, name in self._broadcast)
        content = self._broadcast.setdefault(name, BroadcastContent())
        content.is_private &= is_private
        migrate = self.types.declare("broadcast", name, getattr(descriptor, "type_info", None))
        _replace(content, migrate)
        return content


def _warn_of_time_to_live(name: str, descriptor: Any, is_known: bool) -> None:
    """As in Flink, state that belongs to no key lives for ever; here that is said."""
    ttl = getattr(descriptor, "ttl_config", None)
    if ttl is not None and ttl.is_enabled() and not is_known:
        logger.warning("state %r belongs to no key: its time to live has no effect", name)


def _replace(content: ListContent | BroadcastContent, migration: Migration | None) -> None:
    """Brings the values of a list or of a map to another type."""
    if migration is None or migration.values is None:
        return
    if isinstance(content, ListContent):
        content.values = migration.values(content.values)
    else:
        for key, value in migration.values(dict(content.items())).items():
            content.put(key, value)
