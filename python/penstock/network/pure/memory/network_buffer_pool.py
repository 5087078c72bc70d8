"""All network segments of one TaskExecutor (internals M4).

Two locks: ``_factory_lock`` guards the set of local pools and the count of required segments,
``_lock`` the free segments.  Requests and returns of pooled segments take only ``_lock``, so they
continue while pools are created.  Order: factory lock, then a local pool's lock, then ``_lock``;
futures are completed under neither of the last two.

``_owed`` counts the promised segments (minima of pools, exclusive segments) that their owners
have not taken yet.  No other request gets them: neither a pool that grows beyond its minimum nor an
overdraft, which exceeds the sizes that redistribution sets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from penstock.common.options.network import BUFFERS_REQUEST_TIMEOUT, SEGMENTS
from penstock.errors import IllegalStateError, InsufficientBuffersError
from penstock.network.pure.arguments import integers
from penstock.network.pure.memory.availability import AvailabilityFuture, AvailabilityHelper
from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool, segment_count
from penstock.network.pure.memory.segment import MemorySegment
from penstock.network.pure.memory.shared_memory import SharedMemory, SharedSegment
from penstock.serialization.pure.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

UNBOUNDED = 2**63 - 1
"""The size of a pool without an upper limit."""

_WAIT_SLICE_SECONDS = 2.0


class PooledSegment(Uncopied):
    """A segment for exclusive use, to be returned to its pool."""

    __slots__ = ("_segment",)

    def __init__(self, segment: MemorySegment) -> None:
        self._segment = segment


class NetworkBufferPool(Uncopied):
    """Assigns segments to local pools, and exclusive ones to channels.

    Args:
        num_segments: Number of segments, which are allocated at once.
        segment_size: Bytes of each segment, less than 2^31.
        request_timeout_ms: Longest wait for segments that are promised but in use.
        is_shared: Whether other processes can read them; of the pure runtime only.

    Raises:
        MemoryError: the memory cannot be allocated.
        OSError: shared memory was requested, and the system cannot provide it.
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        num_segments: int,
        segment_size: int,
        request_timeout_ms: int = 30_000,
        *,
        is_shared: bool = False,
    ) -> None:
        integers(num_segments, segment_size, request_timeout_ms)
        request_timeout_ms = segment_count("a request timeout in ms", request_timeout_ms)
        num_segments = segment_count("a number of segments", num_segments)
        segment_size = segment_count("segments", segment_size)
        if not request_timeout_ms:
            raise ValueError("the timeout for requesting network buffers must be positive")
        if not 0 < segment_size < 2**31:
            raise ValueError(
                f"a segment of {segment_size} bytes is not between 1 and 2147483647 bytes"
            )
        self._segment_size = segment_size
        self._memory = SharedMemory(num_segments * segment_size) if is_shared else None
        """Memory of all segments, one after the other, if other processes can read them."""
        self._total = num_segments
        self._request_timeout_ms = request_timeout_ms
        self._factory_lock = threading.RLock()
        self._pools: dict[LocalBufferPool, None] = {}
        self._resizable: dict[LocalBufferPool, None] = {}
        self._required = 0
        self._destroyed = False
        self._lock = threading.Lock()
        self._free: deque[MemorySegment] = deque()
        self._owed = 0
        self._exclusive: set[MemorySegment] = set()
        self._reported_usage: int | None = None
        allocated = 0
        try:
            for _ in range(num_segments):
                if self._memory is None:
                    segment = MemorySegment.allocate_heap(segment_size)
                else:
                    place = allocated * segment_size
                    segment = SharedSegment(self._memory, place, segment_size)
                self._free.append(segment)
                allocated += 1
        except MemoryError as error:
            self._free.clear()
            required, got = num_segments * segment_size >> 20, allocated * segment_size >> 20
            raise MemoryError(
                f"network memory: {required} MiB required, {got} MiB allocated, "
                f"{required - got} MiB missing"
            ) from error
        self._availability = AvailabilityHelper(available=num_segments > 0)
        self._surplus = AvailabilityHelper(available=num_segments > 0)

    # -- sizes ----------------------------------------------------------------------------

    @property
    def total_segments(self) -> int:
        """Number of segments; 0 once destroyed."""
        return 0 if self._destroyed else self._total

    @property
    def available_segments(self) -> int:
        """Number of free segments."""
        return len(self._free)

    @property
    def required_segments(self) -> int:
        """Segments promised: every pool's minimum and every exclusive one."""
        return self._required

    @property
    def owed_segments(self) -> int:
        """Promised segments that their owners have not taken yet."""
        return self._owed

    @property
    def num_pools(self) -> int:
        """Number of registered local pools."""
        return len(self._pools)

    @property
    def is_destroyed(self) -> bool:
        """Return whether ``destroy`` was called."""
        return self._destroyed

    @property
    def available_future(self) -> AvailabilityFuture:
        """Completed while a segment is free."""
        return self._availability.future

    @property
    def _surplus_future(self) -> AvailabilityFuture:
        """Completed while a segment is free that is not promised to any owner."""
        return self._surplus.future

    def usage_message(self) -> str | None:
        """Return a log message if the usage crossed 100 % since the last call, either way.

        A usage of twice the last message's also counts: each of a job's hundred tasks adds a
        little.
        """
        with self._factory_lock:
            percent = self._usage_percent()
            before = self._reported_usage
            if percent < 100:
                self._reported_usage = None
                normal = f"Memory usage [{percent}%] of network buffers is back to normal."
                return None if before is None else normal
            if before is not None and percent < 2 * before:
                return None
            self._reported_usage = percent
        return (
            f"Memory usage [{percent}%] of {self._total} network buffers is too high; jobs will "
            f"be slower than they could be. Raise {SEGMENTS.key!r}."
        )

    def _usage_percent(self) -> int:
        """Return the segments that pools and channels request, in percent of all."""
        minima = sum(pool._min_segments for pool in self._pools)
        wanted = sum(
            pool._min_segments if pool._max_segments == UNBOUNDED else pool._max_segments
            for pool in self._pools
        )
        wanted += self._required - minima
        return wanted * 100 // self._total if self._total else 0

    # -- pooled segments ------------------------------------------------------------------

    def _request_pooled_segment(self, *, promised: bool) -> MemorySegment | None:
        """Take a free segment, or None if there is none.

        Args:
            promised: True if the segment was promised to the caller; else it must not be promised
                to any owner.
        """
        with self._lock:
            if not promised and len(self._free) <= self._owed:
                return None
            segment = self._take()
            if segment is not None and promised:
                self._owed -= 1
            return segment

    def _settle(self, count: int) -> None:
        """Reduce the promised segments by ``count``: they were taken, or the promise has ended."""
        with self._lock:
            self._owed -= count
            waiting = self._refresh()
        self._complete(waiting)

    def _recycle_pooled_segment(self, segment: MemorySegment) -> None:
        """Return a segment."""
        self._give_back((segment,))

    def _borrow_segments(self, count: int) -> list[MemorySegment]:
        """Take ``count`` segments that a local pool was promised, waiting for them.

        The caller settles the segments that were still promised to it on arrival.

        Raises:
            InsufficientBuffersError: the segments did not arrive within the request timeout.
        """
        segments: list[MemorySegment] = []
        try:
            self._collect(segments, count)
        except BaseException:
            self._give_back(segments)
            raise
        return segments

    # -- exclusive segments ---------------------------------------------------------------

    def request_unpooled_segments(self, count: int) -> list[PooledSegment]:
        """Take ``count`` segments for exclusive use; wait if they are promised but in use.

        Raises:
            InsufficientBuffersError: the pool is too small, or the request timed out.
            IllegalStateError: the pool was destroyed.
        """
        return [PooledSegment(segment) for segment in self._request_exclusive(count)]

    def _request_exclusive(self, count: int) -> list[MemorySegment]:
        count = segment_count("a request", count)
        if count == 0:
            return []
        with self._factory_lock:
            self._check_not_destroyed()
            self._reserve(count)
            self._redistribute()
        segments: list[MemorySegment] = []
        try:
            self._collect(segments, count)
        except BaseException:
            self._settle(count)
            self._give_back(segments)
            with self._factory_lock:
                self._required -= count
                self._redistribute()
            raise
        self._settle(count)
        with self._factory_lock:
            self._exclusive.update(segments)
        return segments

    def recycle_unpooled_segments(self, segments: Sequence[PooledSegment]) -> None:
        """Return exclusive segments; the local pools grow by them.

        Raises:
            IllegalStateError: a segment is not exclusive, or was returned before.
        """
        self._recycle_exclusive([segment._segment for segment in segments])

    def _recycle_exclusive(self, segments: Sequence[MemorySegment]) -> None:
        if not segments:
            return
        with self._factory_lock:
            if len(set(segments) & self._exclusive) < len(segments):
                raise IllegalStateError("the segment was returned before")
            self._exclusive.difference_update(segments)
        self._give_back(segments)
        with self._factory_lock:
            self._required -= len(segments)
            self._redistribute()

    def _collect(self, segments: list[MemorySegment], count: int) -> None:
        deadline = time.monotonic() + self._request_timeout_ms / 1000
        while len(segments) < count:
            with self._lock:
                segment = self._take()
                future = self._availability.future
            if segment is not None:
                segments.append(segment)
                continue
            if self._destroyed:
                raise IllegalStateError("Network buffer pool has already been destroyed.")
            left = deadline - time.monotonic()
            if left <= 0:
                raise InsufficientBuffersError(
                    f"Timeout of {self._request_timeout_ms} ms while waiting for network buffers "
                    "that other tasks hold; if this happens, raise "
                    f"{SEGMENTS.key!r} or {BUFFERS_REQUEST_TIMEOUT.key!r}."
                )
            future.wait(min(left, _WAIT_SLICE_SECONDS))

    # -- local pools ----------------------------------------------------------------------

    def create_buffer_pool(
        self,
        min_segments: int,
        max_segments: int | None = None,
        num_subpartitions: int = 0,
        max_buffers_per_channel: int | None = None,
        max_overdraft: int = 0,
    ) -> LocalBufferPool:
        """Create a local pool that always gets ``min_segments`` and may get ``max_segments``.

        None stands for no limit.

        Raises:
            InsufficientBuffersError: the minimum cannot be guaranteed.
            IllegalStateError: the pool was destroyed.
            ValueError: the limits contradict each other.
        """
        if max_buffers_per_channel is None:
            max_buffers_per_channel = UNBOUNDED
        if max_segments is None:
            max_segments = UNBOUNDED
        integers(min_segments, max_segments, num_subpartitions)
        integers(max_buffers_per_channel, max_overdraft)
        min_segments = segment_count("a minimum", min_segments)
        max_segments = segment_count("a maximum", max_segments)
        num_subpartitions = segment_count("subpartitions", num_subpartitions)
        max_buffers_per_channel = segment_count("buffers per channel", max_buffers_per_channel)
        max_overdraft = segment_count("an overdraft", max_overdraft)
        if max_segments < min_segments:
            raise ValueError(
                f"the maximum of {max_segments} segments is less than the minimum of {min_segments}"
            )
        if max_segments == 0:
            raise ValueError("a pool needs room for at least one segment")
        if num_subpartitions > 0 and max_buffers_per_channel == 0:
            raise ValueError("the buffers per channel must be positive")
        with self._factory_lock:
            self._check_not_destroyed()
            self._reserve(min_segments)
            pool = LocalBufferPool(
                self,
                min_segments,
                max_segments,
                num_subpartitions=num_subpartitions,
                max_buffers_per_channel=max_buffers_per_channel,
                max_overdraft=max_overdraft,
            )
            self._pools[pool] = None
            if min_segments < max_segments:
                self._resizable[pool] = None
            self._redistribute()
        return pool

    def _destroy_buffer_pool(self, pool: LocalBufferPool, owed: int) -> None:
        """Remove a local pool, which had not taken ``owed`` segments of its minimum."""
        with self._factory_lock:
            if pool not in self._pools:
                return
            del self._pools[pool]
            self._resizable.pop(pool, None)
            self._required -= pool._min_segments
            self._settle(owed)
            self._redistribute()

    def destroy_all_buffer_pools(self) -> None:
        """Destroy every local pool.

        Raises:
            IllegalStateError: exclusive segments are still in use.
        """
        with self._factory_lock:
            for pool in list(self._pools):
                pool.lazy_destroy()
            if self._pools or self._required:
                raise IllegalStateError(
                    f"{len(self._pools)} pools and {self._required} promised segments remain"
                )

    def destroy(self) -> None:
        """Free the segments; waiting requests fail."""
        with self._factory_lock:
            self._destroyed = True
            with self._lock:
                segments, self._free = self._free, deque()
                waiting = (self._availability.future, self._surplus.future)
            for segment in segments:
                segment.free()
            memory, self._memory = self._memory, None
            if memory is not None:
                memory.close()
        self._complete(waiting)

    # -- inside ---------------------------------------------------------------------------

    def _take(self) -> MemorySegment | None:
        if not self._free:
            return None
        segment = self._free.popleft()
        self._refresh()
        return segment

    def _refresh(self) -> Sequence[AvailabilityFuture | None]:
        """Update both futures to match free and promised segments; return those to complete."""
        waiting = []
        for helper, available in (
            (self._availability, len(self._free) > 0),
            (self._surplus, len(self._free) > self._owed),
        ):
            if available or self._destroyed:
                waiting.append(helper.reset_available())
            else:
                helper.reset_unavailable()
        return waiting

    def _complete(self, waiting: Iterable[AvailabilityFuture | None]) -> None:
        for future in waiting:
            if future is not None:
                future._complete()

    def _give_back(self, segments: Iterable[MemorySegment]) -> None:
        with self._lock:
            if self._destroyed:
                for segment in segments:
                    segment.free()
                return
            self._free.extend(segments)
            waiting = self._refresh()
        self._complete(waiting)

    def _check_not_destroyed(self) -> None:
        if self._destroyed:
            raise IllegalStateError("Network buffer pool has already been destroyed.")

    def _reserve(self, count: int) -> None:
        if self._required + count > self._total:
            raise InsufficientBuffersError(
                f"Insufficient number of network buffers: required {count}, but only "
                f"{self._total - self._required} available. The total number of network buffers "
                f"is currently set to {self._total} of {self._segment_size} bytes each. You can "
                f"increase this number by setting {SEGMENTS.key!r}."
            )
        self._required += count
        with self._lock:
            self._owed += count
            self._refresh()

    def _redistribute(self) -> None:
        """Distribute unpromised segments in proportion to each pool's remaining capacity."""
        free = self._total - self._required
        if free == 0:
            for pool in list(self._resizable):
                pool.set_num_buffers(pool._min_segments)
            return
        capacities = {p: min(free, p._max_segments - p._min_segments) for p in self._resizable}
        capacity = sum(capacities.values())
        if capacity == 0:
            return
        share = min(free, capacity)
        used = given = 0
        for pool, mine in capacities.items():
            used += mine
            extra = share * used // capacity - given
            given += extra
            pool.set_num_buffers(pool._min_segments + extra)
        assert used == capacity, "redistribution visits every pool"
        assert given == share, "redistribution gives away everything it may"
