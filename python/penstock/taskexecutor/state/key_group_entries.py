"""What a snapshot has serialised of one table, by key group: `docs/formats/checkpoint.md`.

``penstock._native.key_group_entries`` is the native twin.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import IllegalStateError
from penstock.graph.key_groups import key_group
from penstock.serialization.pure.dynamic_codec import encode_dynamic
from penstock.serialization.pure.key_hash import key_hash
from penstock.serialization.pure.keys import key_of

#: What follows in the bytes of a key group: key and value, or the namespace of the next entries.
ENTRY: Final = 1
NAMESPACE: Final = 2


class KeyGroupEntries:
    """The entries of each key group, in the order in which they were serialised."""

    def __init__(
        self, kind: str | None, max_parallelism: int, key_groups: range, has_timers: bool
    ) -> None:
        """Starts without entries.

        Args:
            kind: That of the declared type of keys, which their hash depends on; None for none.
            max_parallelism: Number of all key groups.
            key_groups: Those that keys may be in.
            has_timers: Whether keys are pairs of key and namespace, or keys alone that are no
                tuples for None as the namespace; values are then nothing.
        """
        self._hash_of = key_hash(kind)
        self._max_parallelism = max_parallelism
        self._key_groups = key_groups
        self._has_timers = has_timers
        self._groups: dict[int, bytearray] = {}
        self._namespaces: dict[int, int] = {}
        self._changed: set[int] = set()
        #: When entries of a group were last removed.
        self._removed: dict[int, int] = {}

    def note_removal(self, identity: Any, epoch: int) -> None:
        """An entry of a key was removed."""
        self._removed[self._group_of(identity)] = epoch

    def note_changed(self, identity: Any) -> None:
        """The group of a key differs from what the snapshot is based on."""
        self._changed.add(self._group_of(identity))

    def note_all_removed(self, epoch: int) -> None:
        """Entries of any group were removed."""
        self._removed = dict.fromkeys(self._key_groups, epoch)

    def mark_removals(self, removals: KeyGroupEntries, since: int) -> None:
        """Groups from which an entry was removed have changed."""
        self._changed.update(group for group, epoch in removals._removed.items() if epoch >= since)

    def add(self, namespace: Any, number: int, identity: Any, value: Any, is_changed: bool) -> None:
        """Serialises an entry.

        Args:
            namespace: Its namespace.
            number: Differs between namespaces; 0 is None.
            identity: What stands for its key.
            value: Its value.
            is_changed: Whether it differs from what the snapshot is based on.

        Raises:
            IllegalStateError: Its key is in none of the key groups.
            SerializationError: It cannot be serialised.
        """
        if self._has_timers:
            identity, value = identity if type(identity) is tuple else (identity, None)
        key = key_of(identity)
        group = key_group(self._hash_of(key), self._max_parallelism)
        if group not in self._key_groups:
            raise IllegalStateError(
                f"a key of group {group} is in the state of a subtask that has the groups "
                f"{self._key_groups.start} to {self._key_groups.stop - 1}"
            )
        out = bytearray()
        if self._namespaces.get(group, 0) != number:
            out.append(NAMESPACE)
            encode_dynamic(out, namespace)
        out.append(ENTRY)
        encode_dynamic(out, key)
        encode_dynamic(out, value)
        self._groups.setdefault(group, bytearray()).extend(out)
        self._namespaces[group] = number
        if is_changed:
            self._changed.add(group)

    def _group_of(self, identity: Any) -> int:
        if self._has_timers and type(identity) is tuple:
            identity = identity[0]
        key = key_of(identity)
        return key_group(self._hash_of(key), self._max_parallelism)

    def key_groups(self) -> list[int]:
        """The groups that have entries, in their order."""
        return sorted(self._groups)

    def changed_groups(self) -> list[int]:
        """The groups that differ from what the snapshot is based on, with or without entries."""
        return sorted(self._changed)

    def take(self, key_group: int) -> bytes:
        """The entries of a group, which are not kept here any more."""
        self._namespaces.pop(key_group, None)
        return bytes(self._groups.pop(key_group, b""))
