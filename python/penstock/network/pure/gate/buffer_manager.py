"""The buffers of one remote channel, and the credit they amount to (internals M19)."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import TYPE_CHECKING

from penstock.errors import CancelTaskError
from penstock.network.pure.memory.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool
    from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
    from penstock.network.pure.memory.segment import MemorySegment


class BufferManager:
    """Holds exclusive segments until the channel is released, and borrows floating ones.

    ``on_credit(n)`` is called, under no lock, for every n buffers that became free to receive.
    """

    def __init__(
        self,
        network_pool: NetworkBufferPool,
        floating_pool: LocalBufferPool,
        on_credit: Callable[[int], None],
    ) -> None:
        self._network_pool = network_pool
        self._floating_pool = floating_pool
        self._on_credit = on_credit
        self._lock = Lock()
        self._exclusive: deque[Buffer] = deque()
        self._floating: deque[Buffer] = deque()
        self._required = 0
        self._waiting = False
        self._released = False
        self.num_exclusive = 0

    # -- state ----------------------------------------------------------------------------

    @property
    def available(self) -> int:
        """Buffers free to receive."""
        return len(self._exclusive) + len(self._floating)

    @property
    def required(self) -> int:
        """The number of buffers that the producer's backlog needs."""
        return self._required

    @property
    def is_waiting(self) -> bool:
        """Return whether a listener waits for a floating buffer."""
        return self._waiting

    @property
    def is_released(self) -> bool:
        """Return whether all buffers were returned."""
        return self._released

    # -- set-up and use -------------------------------------------------------------------

    def request_exclusive(self, count: int) -> None:
        """Take the exclusive segments; they are credited by the partition request."""
        segments = self._network_pool._request_exclusive(count)
        with self._lock:
            self.num_exclusive += count
            self._exclusive.extend(Buffer(segment, self) for segment in segments)

    def take(self) -> Buffer | None:
        """Take a buffer for arriving data, floating ones first; None is a producer error."""
        with self._lock:
            self._required -= 1
            if self._floating:
                return self._floating.popleft()
            return self._exclusive.popleft() if self._exclusive else None

    def require(self, count: int) -> None:
        """Borrow floating buffers until ``count`` are available or none is left."""
        with self._lock:
            if self._released:
                return
            self._required = count
        if credited := self._borrow():
            self._on_credit(credited)

    def _borrow(self) -> int:
        """Borrow without holding our lock: the pool may offer a buffer to another channel."""
        credited = 0
        while True:
            with self._lock:
                if self._released or self._waiting or self.available >= self._required:
                    return credited
            try:
                buffer = self._floating_pool.request_buffer()
            except CancelTaskError:
                # The gate was closed; this channel is about to be released.
                return credited
            if buffer is None:
                if self._wait_for_buffer():
                    return credited
                continue
            with self._lock:
                wanted = not self.is_released and self.available < self._required
                if wanted:
                    self._floating.append(buffer)
            if not wanted:
                buffer.recycle()
                return credited
            credited += 1

    def _wait_for_buffer(self) -> bool:
        """Register as a listener, once; return False if a buffer arrived meanwhile."""
        with self._lock:
            if self._waiting:
                return True
            self._waiting = True
        if self._floating_pool.add_buffer_listener(self):
            return True
        with self._lock:
            self._waiting = False
        return self._floating_pool.is_destroyed

    # -- buffers coming back --------------------------------------------------------------

    def recycle(self, segment: MemorySegment) -> None:
        """Take an exclusive segment back; if there is one too many, return a floating one."""
        surplus: Buffer | None = None
        with self._lock:
            released = self._released
            if not released:
                self._exclusive.append(Buffer(segment, self))
                if self.available > self._required and self._floating:
                    surplus = self._floating.popleft()
        if released:
            self._network_pool._recycle_exclusive([segment])
        elif surplus is not None:
            surplus.recycle()
        else:
            self._on_credit(1)

    def notify_buffer_available(self, buffer: Buffer) -> bool:
        """Accept a buffer that the floating pool offers; return False if it is no longer needed."""
        with self._lock:
            self._waiting = False
            if self._released or self.available >= self._required:
                return False
            self._floating.append(buffer)
        self._on_credit(1 + self._borrow())
        return True

    def notify_buffer_destroyed(self) -> None:
        """Ignore the end of the floating pool: the channel will be released, too."""

    # -- end ------------------------------------------------------------------------------

    def release_floating(self) -> None:
        """Return the floating buffers, since the producer is blocked."""
        with self._lock:
            floating, self._floating = self._floating, deque()
            self._required = 0
        for buffer in floating:
            buffer.recycle()

    def release(self) -> None:
        """Release all buffers; those in use follow when they are recycled."""
        with self._lock:
            if self._released:
                return
            self._released = True
            floating, self._floating = self._floating, deque()
            exclusive, self._exclusive = self._exclusive, deque()
        for buffer in floating:
            buffer.recycle()
        self._network_pool._recycle_exclusive([buffer._segment for buffer in exclusive])
