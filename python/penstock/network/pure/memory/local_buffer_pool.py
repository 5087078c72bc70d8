"""The segments of one result partition or input gate (internals M5)."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol, SupportsIndex

from penstock.errors import CancelTaskError
from penstock.network.pure.arguments import integer
from penstock.network.pure.memory.availability import (
    AvailabilityFuture,
    AvailabilityHelper,
    call,
    report,
)
from penstock.network.pure.memory.buffer import Buffer, BufferRecycler
from penstock.network.pure.memory.buffer_builder import BufferBuilder
from penstock.serialization.pure.uncopied import Uncopied

if TYPE_CHECKING:
    from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
    from penstock.network.pure.memory.segment import MemorySegment

UNKNOWN_CHANNEL = -1


def segment_count(what: str, value: SupportsIndex) -> int:
    """Return a number of segments, bytes or the like.

    Raises:
        ValueError: it is negative.
        OverflowError: it has more than 64 bits.
        TypeError: it is not an integer.
    """
    number = integer(value)
    if number < 0:
        raise ValueError(f"{what} of {number}")
    return number


class BufferListener(Protocol):
    """Waits for one buffer of an empty pool."""

    def notify_buffer_available(self, buffer: Buffer) -> bool:
        """Accept the buffer, or return False if it is no longer needed.

        If the listener raises, the buffer is recycled, and `sys.unraisablehook` gets the exception:
        whichever thread returned the buffer has nothing to do with the listener.
        """

    def notify_buffer_destroyed(self) -> None:
        """Stop waiting, since the pool was destroyed."""


class _SubpartitionRecycler:
    """Remembers the subpartition for which a segment was counted, if any."""

    __slots__ = ("_channel", "_pool")

    def __init__(self, pool: LocalBufferPool, channel: int) -> None:
        self._pool = pool
        self._channel = channel

    def recycle(self, segment: MemorySegment) -> None:
        self._pool._recycle_segment(segment, self._channel)


class LocalBufferPool(Uncopied):
    """A share of the network buffer pool that grows and shrinks between its limits.

    One lock guards the state.  Everything that may call out (completing futures, handing a
    buffer to a listener, returning segments to the global pool) happens after it is released.
    """

    def __init__(
        self,
        network_pool: NetworkBufferPool,
        min_segments: int,
        max_segments: int,
        *,
        num_subpartitions: int = 0,
        max_buffers_per_channel: int,
        max_overdraft: int,
    ) -> None:
        self._min_segments = min_segments
        self._max_segments = max_segments
        self._network_pool = network_pool
        self._pool_size = min_segments
        self._max_overdraft = max_overdraft
        self._uncounted: BufferRecycler = _SubpartitionRecycler(self, UNKNOWN_CHANNEL)
        self._recyclers: list[BufferRecycler] = [
            _SubpartitionRecycler(self, channel) for channel in range(num_subpartitions)
        ]
        self._counts = [0] * num_subpartitions
        self._quotas = [max_buffers_per_channel] * num_subpartitions
        self._at_quota = 0
        self._lock = threading.Lock()
        self._available: deque[MemorySegment] = deque()
        self._requested = 0
        self._listeners: deque[BufferListener] = deque()
        self._destroyed = False
        self._waiting_for_global = False
        self._watch_is_due = False
        self._availability = AvailabilityHelper(available=False)
        with self._lock:
            waiting = self._update_availability()
        self._finish(waiting)

    # -- state ----------------------------------------------------------------------------

    @property
    def _segment_size(self) -> int:
        """Bytes of each segment."""
        return self._network_pool._segment_size

    @property
    def num_buffers(self) -> int:
        """The current target size."""
        return self._pool_size

    @property
    def requested(self) -> int:
        """Segments obtained from the global pool and not returned to it."""
        return self._requested

    @property
    def available_segments(self) -> int:
        """The number of free segments in the pool."""
        return len(self._available)

    @property
    def used_segments(self) -> int:
        """The number of segments in use."""
        with self._lock:
            return max(0, self._requested - len(self._available))

    @property
    def is_destroyed(self) -> bool:
        """Return whether ``lazy_destroy`` was called."""
        return self._destroyed

    @property
    def is_available(self) -> bool:
        """Return whether the next request succeeds and no subpartition is at its quota."""
        return self._availability.is_available

    @property
    def available_future(self) -> AvailabilityFuture:
        """Completed while the pool is available, and permanently once it is destroyed."""
        with self._lock:
            return self._availability.future

    # -- requests -------------------------------------------------------------------------

    def _request_segment(self, channel: int = UNKNOWN_CHANNEL) -> MemorySegment | None:
        """Take a segment without waiting; None if there is none.

        Quota and overdraft only make the pool unavailable: a record that was begun may be
        completed.

        Raises:
            CancelTaskError: the pool was destroyed.
            ValueError: the pool has no such subpartition.
        """
        if not UNKNOWN_CHANNEL <= channel < len(self._counts):
            raise ValueError(f"subpartition {channel} of a pool with {len(self._counts)}")
        waiting: AvailabilityFuture | None = None
        with self._lock:
            self._check_not_destroyed()
            segment = self._available.popleft() if self._available else self._request_overdraft()
            if segment is not None and channel != UNKNOWN_CHANNEL:
                self._counts[channel] += 1
                if self._counts[channel] == self._quotas[channel]:
                    self._at_quota += 1
            waiting = self._update_availability()
        self._finish(waiting)
        return segment

    def _request_segment_blocking(self, channel: int = UNKNOWN_CHANNEL) -> MemorySegment:
        """Take a segment, waiting for one.

        Raises:
            CancelTaskError: the pool was destroyed, before or during the wait.
        """
        while True:
            segment = self._request_segment(channel)
            if segment is not None:
                return segment
            with self._lock:
                future = self._availability.future
                if self._available and not self._destroyed:
                    # The pool is unavailable by quota only, so a request still succeeds.
                    continue
            future.wait()

    def request_buffer(self) -> Buffer | None:
        """Take a buffer without waiting; None if there is none."""
        segment = self._request_segment()
        return None if segment is None else Buffer(segment, self._recycler(UNKNOWN_CHANNEL))

    def request_builder(self, channel: int = UNKNOWN_CHANNEL) -> BufferBuilder | None:
        """Take a builder without waiting; None if there is none."""
        channel = integer(channel)
        segment = self._request_segment(channel)
        return None if segment is None else BufferBuilder(segment, self._recycler(channel))

    def request_builder_blocking(self, channel: int = UNKNOWN_CHANNEL) -> BufferBuilder:
        """Take a builder, waiting for one.

        Raises:
            CancelTaskError: the pool was destroyed, before or during the wait.
        """
        channel = integer(channel)
        return BufferBuilder(self._request_segment_blocking(channel), self._recycler(channel))

    def add_buffer_listener(self, listener: BufferListener) -> bool:
        """Queue a listener for a buffer; return False if one is free or the pool is destroyed."""
        with self._lock:
            if self._available or self._destroyed:
                return False
            self._listeners.append(listener)
            return True

    # -- returns --------------------------------------------------------------------------

    def _recycle_segment(self, segment: MemorySegment, channel: int) -> None:
        """Recycle a segment: to the global pool if this pool has too many, else to a waiter."""
        waiting: AvailabilityFuture | None
        counted = channel
        while True:
            listener: BufferListener | None = None
            with self._lock:
                if counted != UNKNOWN_CHANNEL:
                    if self._counts[counted] == self._quotas[counted]:
                        self._at_quota -= 1
                    self._counts[counted] -= 1
                    counted = UNKNOWN_CHANNEL
                surplus = self._destroyed or self._requested > self._pool_size
                if surplus:
                    self._requested -= 1
                elif self._listeners:
                    listener = self._listeners.popleft()
                else:
                    self._available.append(segment)
                waiting = None if self._destroyed else self._update_availability()
            self._finish(waiting)
            if surplus:
                self._network_pool._recycle_pooled_segment(segment)
                return
            if listener is None or self._is_taken(listener, segment):
                return

    # -- size and end ---------------------------------------------------------------------

    def set_num_buffers(self, count: int) -> None:
        """Change the target size.

        Raises:
            ValueError: the size lies below the pool's minimum.
        """
        count = segment_count("a size", count)
        if count < self._min_segments:
            raise ValueError(
                f"the pool needs at least {self._min_segments} buffers, but its size was set to "
                f"{count}"
            )
        waiting: AvailabilityFuture | None = None
        with self._lock:
            self._pool_size = min(count, self._max_segments)
            excess = self._take_excess()
            if not self._destroyed:
                waiting = self._update_availability()
        for segment in excess:
            self._network_pool._recycle_pooled_segment(segment)
        self._finish(waiting)

    def _set_quota(self, channel: int, max_buffers: int) -> None:
        """Change the number of buffers of a subpartition at which the pool is unavailable."""
        with self._lock:
            count, before = self._counts[channel], self._quotas[channel]
            self._quotas[channel] = max_buffers
            self._at_quota += (count >= max_buffers) - (count >= before)
            waiting = None if self._destroyed else self._update_availability()
        self._finish(waiting)

    def reserve_segments(self, count: int) -> None:
        """Wait until the pool holds ``count`` segments of its own, at most its minimum.

        Raises:
            InsufficientBuffersError: the segments did not arrive within the request timeout.
        """
        count = segment_count("a reserve", count)
        if count > self._min_segments:
            raise ValueError(
                f"{count} segments cannot be reserved in a pool that requires {self._min_segments}"
            )
        with self._lock:
            self._check_not_destroyed()
            missing = count - self._requested
        if missing <= 0:
            return
        # The minimum is reserved already, so the exclusive request must not count twice.
        segments = self._network_pool._borrow_segments(missing)
        with self._lock:
            settled = 0 if self._destroyed else min(len(segments), self._owed())
            self._requested += len(segments)
        self._network_pool._settle(settled)
        for segment in segments:
            self._recycle_segment(segment, UNKNOWN_CHANNEL)

    def lazy_destroy(self) -> None:
        """Return free segments and wake waiters; segments in use return when recycled."""
        with self._lock:
            if self._destroyed:
                return
            self._destroyed = True
            owed = self._owed()
            segments, self._available = self._available, deque()
            self._requested -= len(segments)
            listeners, self._listeners = self._listeners, deque()
            waiting = self._availability.reset_available()
        for segment in segments:
            self._network_pool._recycle_pooled_segment(segment)
        for listener in listeners:
            call(listener.notify_buffer_destroyed)
        if waiting is not None:
            waiting._complete()
        self._network_pool._destroy_buffer_pool(self, owed)

    # -- inside, under the lock -----------------------------------------------------------

    def _check_not_destroyed(self) -> None:
        if self._destroyed:
            raise CancelTaskError("Buffer pool has already been destroyed.")

    def _recycler(self, channel: int) -> BufferRecycler:
        return self._uncounted if channel == UNKNOWN_CHANNEL else self._recyclers[channel]

    def _request_overdraft(self) -> MemorySegment | None:
        overdraft = self._requested - self._pool_size
        if not 0 <= overdraft < self._max_overdraft:
            return None
        return self._fetch()

    def _fetch(self) -> MemorySegment | None:
        segment = self._network_pool._request_pooled_segment(promised=self._owed() > 0)
        if segment is not None:
            self._requested += 1
        return segment

    def _owed(self) -> int:
        """Return the number of segments of the minimum that the pool has not taken."""
        return max(0, self._min_segments - self._requested)

    def _take_excess(self) -> list[MemorySegment]:
        excess = []
        while self._requested > self._pool_size and self._available:
            excess.append(self._available.popleft())
            self._requested -= 1
        return excess

    def _update_availability(self) -> AvailabilityFuture | None:
        """Update the future to match the state; return the future to complete, if any."""
        if not self._available and self._requested < self._pool_size:
            segment = self._fetch()
            if segment is not None:
                self._available.append(segment)
            else:
                self._watch_global()
        if self._available and self._at_quota == 0:
            return self._availability.reset_available()
        self._availability.reset_unavailable()
        return None

    def _watch_global(self) -> None:
        if not self._waiting_for_global and not self._network_pool.is_destroyed:
            self._waiting_for_global = True
            # ``_finish`` registers callbacks: a completed future calls back at once, into our lock.
            self._watch_is_due = True

    # -- outside the lock -----------------------------------------------------------------

    def _finish(self, waiting: AvailabilityFuture | None) -> None:
        if waiting is not None:
            waiting._complete()
        if self._watch_is_due:
            self._watch_is_due = False
            network_pool = self._network_pool
            with self._lock:
                promised = self._owed() > 0
            future = network_pool.available_future if promised else network_pool._surplus_future
            future.add_callback(self._on_global_available)

    def _on_global_available(self) -> None:
        listener: BufferListener | None = None
        segment: MemorySegment | None = None
        with self._lock:
            self._waiting_for_global = False
            if self._destroyed:
                return
            waiting = self._update_availability()
            if self._available and self._listeners:
                listener = self._listeners.popleft()
                segment = self._available.popleft()
        self._finish(waiting)
        if listener is not None and segment is not None:
            self._offer(listener, segment)

    def _is_taken(self, listener: BufferListener, segment: MemorySegment) -> bool:
        buffer = Buffer(segment, self._uncounted)
        try:
            is_accepted = listener.notify_buffer_available(buffer)
        except Exception as error:
            if not buffer.is_recycled:
                buffer.recycle()
            report(error)
            return True
        # A listener that has retained or recycled the buffer has taken it, whatever it returns.
        return bool(is_accepted) or not buffer._disown()

    def _offer(self, listener: BufferListener, segment: MemorySegment) -> None:
        if not self._is_taken(listener, segment):
            self._recycle_segment(segment, UNKNOWN_CHANNEL)
            return
        with self._lock:
            waiting = None if self._destroyed else self._update_availability()
        self._finish(waiting)
