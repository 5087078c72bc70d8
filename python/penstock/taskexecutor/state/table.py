"""The entries of one named state: a dictionary of keys for each namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.network import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class StateTable:
    """All keys and namespaces of one state of one operator.

    Attributes:
        name: The name of its descriptor.
        kind: ``value``, ``list``, ``map``, ``reducing`` or ``aggregating``.
        entries: Namespace to (key to value).  Keyed streams outside windows have the namespace
            None.  The dictionary of a namespace is the one that operators read and write.  What
            stands for a key is its identity, see ``penstock.network.pure.keys``.
    """

    def __init__(self, name: str, kind: str) -> None:
        """Creates an empty table."""
        self.name = name
        self.kind = kind
        self.entries: dict[Any, dict[Any, Any]] = {None: {}}

    def namespace(self, namespace: Any) -> dict[Any, Any]:
        """The keys of a namespace, created when missing."""
        keys = self.entries.get(namespace)
        if keys is None:
            keys = self.entries[namespace] = {}
        return keys

    def drop_if_empty(self, namespace: Any) -> None:
        """Forgets a namespace that holds no key any more."""
        if namespace is not None and not self.entries.get(namespace, True):
            del self.entries[namespace]

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """Every entry as (namespace, key, value)."""
        for namespace, keys in self.entries.items():
            for key, value in keys.items():
                yield namespace, key, value

    def __len__(self) -> int:
        return sum(map(len, self.entries.values()))

    def snapshot(
        self, key_group_of: Callable[[Any], int], copy: Callable[[Any], Any]
    ) -> dict[int, list[tuple[Any, Any, Any]]]:
        """The entries by key group, with values that later changes do not reach.

        Args:
            key_group_of: Gives the key group of a key.
            copy: Copies a value that its owner may change in place.
        """
        groups: dict[int, list[tuple[Any, Any, Any]]] = {}
        for namespace, key, value in self:
            key = key_of(key)
            groups.setdefault(key_group_of(key), []).append((namespace, key, copy(value)))
        return groups

    def restore(
        self, entries: list[tuple[Any, Any, Any]], identity_of: Callable[[Any], Any]
    ) -> None:
        """Adds entries of a snapshot; ``identity_of`` gives what stands for a key here."""
        for namespace, key, value in entries:
            self.namespace(namespace)[identity_of(key)] = value
