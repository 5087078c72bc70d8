"""Which entries of a table were removed, for a log of its changes: both runtimes use it.

An entry that changes knows its epoch, one that is gone does not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.state.key_group_entries import KeyGroupEntries

#: What was removed of each namespace: keys, each once.
_Removed = dict[Any, dict[Any, None]]

#: Keys between two looks at the clock.
_STEPS = 64


class Removals:
    """The keys that were removed, by the epochs of their table."""

    def __init__(self, epoch: int) -> None:
        """Begins with an epoch of the table."""
        self._removed: _Removed = {}
        self._by_epoch = {epoch: self._removed}

    def note(self, namespace: Any, identity: Any) -> None:
        """An entry was removed."""
        self._removed.setdefault(namespace, {})[identity] = None

    def begin(self, epoch: int) -> None:
        """Another epoch of the table has begun: what came before changes no more."""
        self._removed = {}
        self._by_epoch[epoch] = self._removed

    def since(self, epoch: int) -> list[_Removed]:
        """Return the removals of an epoch and later ones, of epochs that are over."""
        return [
            removed
            for at, removed in self._by_epoch.items()
            if at >= epoch and removed is not self._removed
        ]

    def forget(self, epoch: int) -> None:
        """Nobody will ask for what was removed before an epoch."""
        for at in [at for at in self._by_epoch if at < epoch]:
            del self._by_epoch[at]


class RemovalsSnapshot:
    """Keys that were removed, serialised in slices.

    Attributes:
        entries: What is serialised, by key group; whole once ``advance`` has given True.
    """

    def __init__(self, removed: list[_Removed], entries: KeyGroupEntries) -> None:
        """Begins; the removed keys do not change any more."""
        self.entries = entries
        self._left = _numbered(removed)

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: A key cannot be serialised.
        """
        for step, (namespace, number, identity) in enumerate(self._left, 1):
            self.entries.add_removed(namespace, number, identity)
            if step % _STEPS == 0 and time.monotonic_ns() >= deadline_ns:
                return False
        return True

    def close(self) -> None:
        """Gives it up."""
        self._left = iter(())


def _numbered(removed: list[_Removed]) -> Iterator[tuple[Any, int, Any]]:
    numbers: dict[Any, int] = {None: 0}
    for of_epoch in removed:
        for namespace, identities in of_epoch.items():
            number = numbers.setdefault(namespace, len(numbers))
            for identity in identities:
                yield namespace, number, identity
