"""Managed memory: memory of operators beside the program's own objects, by slot."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

from penstock.errors import IllegalStateError

#: The part of a slot's memory in which stored outputs are sorted.
OUTPUTS_PART: Final = 4


class MemoryManager:
    """Reserves shares of a number of bytes; any thread.

    It only counts, and owns no memory: an operator that cannot reserve more continues with what it
    has, usually by writing to disk.

    Attributes:
        size_bytes: Total size.
    """

    def __init__(self, size_bytes: int) -> None:
        """Create a manager with all bytes free."""
        self.size_bytes = size_bytes
        self._lock = threading.Lock()
        self._reserved: dict[Any, int] = {}

    @property
    def available_bytes(self) -> int:
        """Number of unreserved bytes."""
        with self._lock:
            return self._available()

    def reserve(self, owner: object, num_bytes: int) -> bool:
        """Reserve more for an owner; return False, without any change, if too little is free."""
        with self._lock:
            if num_bytes > self._available():
                return False
            self._reserved[owner] = self._reserved.get(owner, 0) + num_bytes
            return True

    def release(self, owner: object, num_bytes: int) -> None:
        """Release part of an owner's reservation.

        Raises:
            IllegalStateError: The owner has reserved less.
        """
        with self._lock:
            left = self._reserved.get(owner, 0) - num_bytes
            if left < 0:
                raise IllegalStateError(
                    f"{owner!r} releases {num_bytes} bytes of managed memory and has reserved "
                    f"{left + num_bytes}"
                )
            self._reserved[owner] = left

    def release_all(self, owner: object) -> None:
        """Release all of an owner's reservations."""
        with self._lock:
            self._reserved.pop(owner, None)

    def _available(self) -> int:
        return self.size_bytes - sum(self._reserved.values())


@dataclass(frozen=True)
class SlotMemory:
    """The managed memory of a slot, divided by use, as a sort of inputs reserves all that it can.

    Attributes:
        sorts: For the inputs of operators.
        outputs: For the output of stages that later ones read.
    """

    sorts: MemoryManager
    outputs: MemoryManager

    @staticmethod
    def of(size_bytes: int) -> SlotMemory:
        """Divide the memory of a slot."""
        outputs = size_bytes // OUTPUTS_PART
        return SlotMemory(MemoryManager(size_bytes - outputs), MemoryManager(outputs))

    @property
    def used_bytes(self) -> int:
        """Number of reserved bytes."""
        users = (self.sorts, self.outputs)
        return sum(user.size_bytes - user.available_bytes for user in users)
