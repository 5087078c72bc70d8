"""Managed memory: what operators may use beside the program's own objects, slot by slot."""

from __future__ import annotations

import threading
from typing import Any

from penstock.errors import IllegalStateError


class MemoryManager:
    """Hands out shares of a number of bytes; any thread.

    It counts and owns nothing: who cannot reserve more makes do with what it has, usually by
    writing to disk.

    Attributes:
        size_bytes: All of it.
    """

    def __init__(self, size_bytes: int) -> None:
        """Starts with all of it free."""
        self.size_bytes = size_bytes
        self._lock = threading.Lock()
        self._reserved: dict[Any, int] = {}

    @property
    def available_bytes(self) -> int:
        """Number of unreserved bytes."""
        with self._lock:
            return self._available()

    def reserve(self, owner: object, num_bytes: int) -> bool:
        """Reserves more for an owner; False, and nothing has changed, when there is not as much."""
        with self._lock:
            if num_bytes > self._available():
                return False
            self._reserved[owner] = self._reserved.get(owner, 0) + num_bytes
            return True

    def release(self, owner: object, num_bytes: int) -> None:
        """Gives back a part of what an owner has reserved.

        Raises:
            IllegalStateError: It has not reserved as much.
        """
        with self._lock:
            left = self._reserved.get(owner, 0) - num_bytes
            if left < 0:
                raise IllegalStateError(
                    f"{owner!r} gives back {num_bytes} bytes of managed memory and has "
                    f"{left + num_bytes}"
                )
            self._reserved[owner] = left

    def release_all(self, owner: object) -> None:
        """Gives back all that an owner has reserved."""
        with self._lock:
            self._reserved.pop(owner, None)

    def _available(self) -> int:
        return self.size_bytes - sum(self._reserved.values())
