"""Lending of buffers, which a consumer on the same host copies from the producer's memory.

The producer shares the memory of its pool with the consumer, and sends references to buffers
instead of their bytes.  It keeps a lent buffer until the consumer has returned it.  If the
connection ends earlier, the producer raises a flag and recycles the buffers at once.  A consumer
checks the flag after each copy, so it never accepts bytes that were overwritten.  This requires a
machine that preserves the order of stores and of loads, such as x86, since plain Python has no
fences.  Only the event loop's thread uses this module.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import CorruptStreamError, PartitionConnectionError
from penstock.network.pure.memory.shared_memory import ForeignMemory, SharedMemory, SharedSegment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.network.pure.memory.buffer import BufferSlice
    from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
    from penstock.network.pure.memory.segment import MemorySegment

logger = logging.getLogger(__name__)

DESCRIPTORS = 2
"""Number of descriptors that a producer passes: the memory and the flag."""

_MIN_LENT_BYTES = 512
"""Smaller buffers are sent as bytes: returning a reference would cost more."""

_DOWN, _RAISED = b"\0\0\0\0", b"\1\0\0\0"


class Lender:
    """The producer's end."""

    def __init__(self, pool: NetworkBufferPool, memory: SharedMemory) -> None:
        """Create a lender of buffers in the memory of a pool.

        Raises:
            OSError: the system has no memory for the flag.
        """
        self._pool = pool
        self._memory = memory
        self._flag = SharedMemory(len(_RAISED))
        self._accepted = False
        self._lent: deque[BufferSlice] = deque()

    @property
    def descriptors(self) -> Sequence[int]:
        """Return the descriptors that the consumer receives."""
        return self._memory.descriptor, self._flag.descriptor

    def accept(self) -> None:
        """Note that the consumer has mapped both descriptors.

        Raises:
            CorruptStreamError: the consumer reports it twice.
        """
        if self._accepted:
            raise CorruptStreamError("memory accepted twice")
        self._accepted = True

    def place_of(self, buffer: BufferSlice) -> int | None:
        """Return the offset of a buffer's bytes in the consumer's mapping, if it can be lent."""
        segment = buffer.parent._segment
        if (
            not self._accepted
            or not isinstance(segment, SharedSegment)
            or not buffer.data_type.is_buffer
            or buffer.readable_bytes < _MIN_LENT_BYTES
        ):
            return None
        return segment.place + buffer.memory_segment_offset + buffer.reader_index

    def lend(self, buffer: BufferSlice) -> None:
        """Keep a buffer until it is returned, at the expense of the network pool only.

        Bytes queued in a socket would not block their writer either, so the buffer's own pool gets
        another segment instead, if one is available.
        """
        if buffer.parent.references == 1:
            spare = self._pool._request_pooled_segment(promised=False)
            if spare is not None:
                buffer.parent._exchange(spare, _Returned(self._pool))
        self._lent.append(buffer)

    def take_back(self, count: int) -> None:
        """Recycle the buffers of the oldest ``count`` references, which the consumer has copied.

        Raises:
            CorruptStreamError: fewer references are outstanding.
        """
        if not 0 < count <= len(self._lent):
            raise CorruptStreamError(f"{count} buffers returned of {len(self._lent)} lent")
        for _ in range(count):
            self._lent.popleft().recycle()

    def close(self) -> None:
        """End the connection: raise the flag and recycle buffers that were not returned."""
        if self._lent:
            self._flag.view[: len(_RAISED)] = _RAISED
            self.take_back(len(self._lent))
        self._flag.close()


class _Returned:
    """Recycler of segments that have left their local pool."""

    def __init__(self, pool: NetworkBufferPool) -> None:
        self._pool = pool

    def recycle(self, segment: MemorySegment) -> None:
        self._pool._recycle_pooled_segment(segment)


class Borrower:
    """The consumer's end."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        """Map the memory that the producer shares.

        Raises:
            CorruptStreamError: the memory cannot be mapped safely.
            OSError: the system cannot map it.
        """
        if len(descriptors) != DESCRIPTORS:
            raise CorruptStreamError(f"{len(descriptors)} descriptors")
        self._memory = ForeignMemory(descriptors[0])
        try:
            self._flag = ForeignMemory(descriptors[1])
        except BaseException:
            self._memory.close()
            raise
        self._owed = 0

    def borrow(self) -> bool:
        """Count a received reference; return whether it is the first one to return.

        Several are returned at once.
        """
        self._owed += 1
        return self._owed == 1

    def take_owed(self) -> int:
        """Return how many references to return now."""
        owed, self._owed = self._owed, 0
        return owed

    def copy(self, place: int, into: memoryview) -> None:
        """Copy the bytes of a reference.

        Raises:
            CorruptStreamError: the reference is outside the memory.
            PartitionConnectionError: the producer has abandoned the connection.
        """
        end = place + len(into)
        if end > len(self._memory.view):
            raise CorruptStreamError(
                f"a reference to {len(into)} bytes at {place}, outside of the shared memory"
            )
        into[:] = self._memory.view[place:end]
        if self._flag.view[: len(_DOWN)] != _DOWN:
            raise PartitionConnectionError(
                "the remote task manager has closed the connection with buffers under way; it may "
                "have been lost"
            )

    def close(self) -> None:
        """Unmap both."""
        self._memory.close()
        self._flag.close()
