"""Removed keys of a table, for a log of its changes; both runtimes use them.

A changed entry knows its epoch, a removed one is gone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.state.key_group_entries import KeyGroupEntries

#: Removed keys by namespace, each once.
_Removed = dict[Any, dict[Any, None]]

#: Keys between two readings of the clock.
_STEPS = 64


class Removals:
    """The keys that were removed, by the epochs of their table."""

    def __init__(self, epoch: int) -> None:
        """Start with an epoch of the table."""
        self._removed: _Removed = {}
        self._by_epoch = {epoch: self._removed}

    def note(self, namespace: object, identity: object) -> None:
        """Note the removal of an entry."""
        self._removed.setdefault(namespace, {})[identity] = None

    def begin(self, epoch: int) -> None:
        """Start another epoch of the table; the removals before it are final."""
        self._removed = {}
        self._by_epoch[epoch] = self._removed

    def since(self, epoch: int) -> list[_Removed]:
        """Return the removals since an epoch, without those of the current one."""
        return [
            removed
            for at, removed in self._by_epoch.items()
            if at >= epoch and removed is not self._removed
        ]

    def forget(self, epoch: int) -> None:
        """Drop the removals before an epoch, which nobody will ask for."""
        for at in [at for at in self._by_epoch if at < epoch]:
            del self._by_epoch[at]


class RemovalsSnapshot:
    """Removed keys, serialised in slices.

    Attributes:
        entries: The serialised keys, by key group; complete after ``advance`` returned True.
    """

    def __init__(self, removed: list[_Removed], entries: KeyGroupEntries) -> None:
        """Start a snapshot of removals that are final."""
        self.entries = entries
        self._left = _numbered(removed)

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left.

        Raises:
            Exception: A key cannot be serialised.
        """
        for step, (namespace, number, identity) in enumerate(self._left, 1):
            self.entries.add_removed(namespace, number, identity)
            if step % _STEPS == 0 and time.monotonic_ns() >= deadline_ns:
                return False
        return True

    def close(self) -> None:
        """Discard the snapshot."""
        self._left = iter(())


def _numbered(removed: list[_Removed]) -> Iterator[tuple[object, int, object]]:
    numbers: dict[Any, int] = {None: 0}
    for of_epoch in removed:
        for namespace, identities in of_epoch.items():
            number = numbers.setdefault(namespace, len(numbers))
            for identity in identities:
                yield namespace, number, identity
