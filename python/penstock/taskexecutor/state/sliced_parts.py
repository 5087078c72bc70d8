"""Snapshots that are serialised one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class SlicedPart(Protocol):
    """A snapshot that is serialised in slices, as ``SlicedParts`` is."""

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left."""

    def close(self) -> None:
        """Gives it up."""


class SlicedParts:
    """Parts of a snapshot that remain to be serialised."""

    def __init__(self, parts: Iterable[SlicedPart]) -> None:
        """Begins."""
        self._left = list(parts)

    def advance(self, deadline_ns: int) -> bool:
        """Serialises until a time of the monotonic clock; True when there is nothing left.

        Raises:
            Exception: A value cannot be serialised.
        """
        while self._left:
            if not self._left[-1].advance(deadline_ns):
                return False
            self._left.pop()
        return True

    def close(self) -> None:
        """Gives up what is left."""
        while self._left:
            self._left.pop().close()
