"""Serialised entries of one table by key group: `docs/formats/checkpoint.md`.

``penstock._native.state.key_group_entries`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import IllegalStateError
from penstock.graph.key_groups import key_group
from penstock.serialization.pure.dynamic_codec import encode_dynamic
from penstock.serialization.pure.key_hash import key_hash
from penstock.serialization.pure.keys import key_of

if TYPE_CHECKING:
    from collections.abc import Collection

#: Tags in the bytes of a key group: a key and value, or the namespace of the next entries.
ENTRY: Final = 1
NAMESPACE: Final = 2


class KeyGroupEntries:
    """The entries of each key group, in the order in which they were serialised."""

    def __init__(
        self,
        kind: str | None,
        max_parallelism: int,
        key_groups: range,
        has_timers: bool,
        kept: Collection[int] = (),
    ) -> None:
        """Start without entries.

        Args:
            kind: Kind of the declared type of keys, which their hash depends on, or None.
            max_parallelism: Number of all key groups.
            key_groups: The key groups that keys may belong to.
            has_timers: Whether keys are pairs of key and namespace (a key alone, if no tuple, has
                the namespace None) and entries have no values.
            kept: Groups whose entries are left out.
        """
        self._hash_of = key_hash(kind)
        self._max_parallelism = max_parallelism
        self._key_groups = key_groups
        self._has_timers = has_timers
        self._kept = frozenset(kept)
        self._groups: dict[int, bytearray] = {}
        self._namespaces: dict[int, int] = {}
        #: Number of entries serialised, and their bytes.
        self.num_added = self.added_bytes = 0
        #: Epoch of the last change, by group.
        self._changed: dict[int, int] = {}

    @property
    def keeps_all(self) -> bool:
        """Return whether the entries of every group are left out."""
        return all(group in self._kept for group in self._key_groups)

    def note_change(self, identity: object, epoch: int) -> None:
        """Note that an entry of a key changes, may change, or is removed.

        Raises:
            IllegalStateError: The key is in none of the key groups.
        """
        self._changed[self._group_of(identity)] = epoch

    def note_all_changed(self, epoch: int) -> None:
        """Note that entries of any group were removed."""
        self._changed = dict.fromkeys(self._key_groups, epoch)

    def changed_since(self, since: int) -> list[int]:
        """Return the groups that changed in an epoch or later, in order; all for 0."""
        return [group for group in self._key_groups if self._changed.get(group, 0) >= since]

    def add(self, namespace: object, number: int, identity: object, value: object) -> None:
        """Serialise an entry, unless its group is left out.

        Args:
            namespace: Its namespace.
            number: Number of the namespace in the table; 0 for None.
            identity: The identity of its key in state.
            value: Its value.

        Raises:
            IllegalStateError: Its key is in none of the key groups.
            SerializationError: It cannot be serialised.
        """
        group = self._group_of(identity)
        if group in self._kept:
            return
        if self._has_timers:
            identity, value = identity if type(identity) is tuple else (identity, None)
        key = key_of(identity)
        out = bytearray()
        if self._namespaces.get(group, 0) != number:
            out.append(NAMESPACE)
            encode_dynamic(out, namespace)
        out.append(ENTRY)
        encode_dynamic(out, key)
        encode_dynamic(out, value)
        self._groups.setdefault(group, bytearray()).extend(out)
        self._namespaces[group] = number
        self.num_added += 1
        self.added_bytes += len(out)

    def add_removed(self, namespace: object, number: int, identity: object) -> None:
        """Serialise the key of a removed entry, with None for its value.

        Args and errors: see ``add``.
        """
        self.add(namespace, number, identity, None)

    def _group_of(self, identity: object) -> int:
        if self._has_timers and type(identity) is tuple:
            identity = identity[0]
        group = key_group(self._hash_of(key_of(identity)), self._max_parallelism)
        if group not in self._key_groups:
            raise IllegalStateError(
                f"a key of group {group} is in the state of a subtask that has the groups "
                f"{self._key_groups.start} to {self._key_groups.stop - 1}"
            )
        return group

    def key_groups(self) -> list[int]:
        """Return the groups that have entries, in order."""
        return sorted(self._groups)

    def take(self, key_group: int) -> bytes:
        """Remove and return the entries of a group."""
        self._namespaces.pop(key_group, None)
        return bytes(self._groups.pop(key_group, b""))
