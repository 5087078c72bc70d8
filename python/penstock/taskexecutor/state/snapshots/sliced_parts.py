"""Snapshots that are serialised one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class SlicedPart(Protocol):
    """A snapshot that is serialised in slices, as ``SlicedParts`` is."""

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left."""

    def close(self) -> None:
        """Discard the snapshot."""


class SlicedParts:
    """Parts of a snapshot that remain to be serialised."""

    def __init__(self, parts: Iterable[SlicedPart]) -> None:
        """Create a sequence of parts, the last one first."""
        self._left = list(parts)

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until ``deadline_ns`` (monotonic clock); return True when nothing is left.

        Raises:
            Exception: A value cannot be serialised.
        """
        while self._left:
            if not self._left[-1].advance(deadline_ns):
                return False
            self._left.pop()
        return True

    def close(self) -> None:
        """Discard the remaining parts."""
        while self._left:
            self._left.pop().close()
