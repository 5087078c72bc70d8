"""One consumer's part of a blocking partition: written to a file, read any number of times.

The writer's buffers are pages of managed memory.  When no page is free, the finished ones are
written to the partition's file as one region, sorted by consumer: each consumer's data lies in one
piece of it.  So the writer never waits for a reader.  Nothing can be read before the whole
partition is in the file: the index of a subpartition is published when every subpartition has its
end, and a write that fails (a full disk) fails the partition instead.  Readers have positions of
their own.

The file has no name, so nothing stays on disk however the process ends.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import (
    IllegalStateError,
    InsufficientBuffersError,
    NetworkError,
    PartitionNotFoundError,
)
from penstock.network.data_type import DataType
from penstock.network.events import EndOfPartition, serialize_event
from penstock.network.pure.memory.buffer import FREEING_RECYCLER, Buffer
from penstock.network.pure.memory.buffer_builder import BufferConsumer
from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
from penstock.network.pure.memory.segment import MemorySegment
from penstock.network.pure.memory.temporary_file import REMEDY, create_temporary_file
from penstock.network.pure.partition.subpartition import REFUSED
from penstock.network.pure.partition.view import (
    AvailabilityListener,
    BufferAndBacklog,
    Subpartition,
    SubpartitionView,
    next_sequence_number,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from penstock.network.pure.memory.buffer import BufferSlice
    from penstock.network.pure.partition.result_partition import ResultPartition

_ANY_SIZE = 2**31 - 1
_ENOUGH_BACKLOG = 1024
"""Limit of a reported backlog: no receiver has more free buffers."""
_LEAST_PAGE_BYTES = 1 << 10
"""Size of the smallest page."""
_PAGES_PER_OPEN_ONE = 4
"""Number of pages for each open one, if their size allows it: the other ones make up a region."""
_WRITE_BYTES = 256 << 10
"""Limit of one write, beside a single page."""
_WRITE_PAGES = 1024
"""Number of pages that the system accepts in one write."""


def allocate_pages(
    num_subpartitions: int, managed_bytes: int, segment_bytes: int
) -> NetworkBufferPool:
    """Create the pages of a partition: of the size of network buffers if there are enough of them.

    Raises:
        InsufficientBuffersError: every subpartition and the broadcast buffer cannot have a page.
    """
    open_pages = num_subpartitions + 1
    fitting = managed_bytes // (open_pages * _PAGES_PER_OPEN_ONE) // _LEAST_PAGE_BYTES
    least = min(_LEAST_PAGE_BYTES, segment_bytes)
    page_bytes = min(max(least, fitting * _LEAST_PAGE_BYTES), segment_bytes)
    pages = managed_bytes // page_bytes
    if pages < open_pages:
        raise InsufficientBuffersError(
            f"a blocking partition of {num_subpartitions} subpartitions needs at least "
            f"{open_pages * page_bytes} bytes of managed memory and has {managed_bytes}"
        )
    return NetworkBufferPool(pages, page_bytes)


class PartitionFile:
    """The file of one partition, region by region."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._lock = threading.Lock()
        descriptor, self._directory = create_temporary_file(
            list(directories), "a blocking partition", "partition"
        )
        self._file: IO[bytes] | None = os.fdopen(descriptor, "r+b", buffering=0)
        self._written = 0
        self._region: list[BufferSlice] = []
        self._end = 0
        # Broadcast pages belong to every subpartition and are written once.
        self._placed: dict[MemorySegment, int] = {}
        self.regions = 0
        self.error: NetworkError | None = None

    def place(self, page: BufferSlice) -> int:
        """Add a page to the next region unless the region has it, and return its offset.

        The region recycles the page when it is written.
        """
        segment = page.parent._segment
        with self._lock:
            if (placed := self._placed.get(segment)) is not None:
                page.recycle()
                return placed
            offset = self._placed[segment] = self._end
            self._end += page.size
            self._region.append(page)
            return offset

    def write_region(self) -> None:
        """Write the next region, so that its pages are free.

        Do nothing if it is empty, and only free the pages once failed or released.
        """
        with self._lock:
            self._placed.clear()
            pages, self._region = self._region, []
            if self._file is not None and pages:
                try:
                    _write_pages(self._file.fileno(), [page._readable() for page in pages])
                    self._written = self._end
                    self.regions += 1
                except OSError as error:
                    self.error = NetworkError(
                        f"writing a blocking partition into {self._directory}, after "
                        f"{self._written} bytes ({REMEDY}): {error}"
                    )
                    # The written data is of no further use.
                    self._file.close()
                    self._file = None
        for page in pages:
            page.recycle()

    def read(self, offset: int, size: int) -> bytearray | None:
        """Read written data; return None once released.

        Raises:
            NetworkError: the file cannot be read.
        """
        with self._lock:
            if self._file is None:
                return None
            try:
                data = bytearray(os.pread(self._file.fileno(), size, offset))
            except OSError as error:
                raise NetworkError(f"reading a blocking partition: {error}") from error
        if len(data) != size:
            raise NetworkError(f"reading a blocking partition: {len(data)} of {size} bytes")
        return data

    def release(self) -> None:
        """Free the space; a second call does nothing."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def _write_pages(descriptor: int, pages: list[memoryview]) -> None:
    """Append pages to a file, many in one call."""
    first = 0
    while first < len(pages):
        last, size = first + 1, len(pages[first])
        while last < min(len(pages), first + _WRITE_PAGES) and (
            size + len(pages[last]) <= _WRITE_BYTES
        ):
            size += len(pages[last])
            last += 1
        written = os.writev(descriptor, pages[first:last])
        while first < len(pages) and written >= len(pages[first]):
            written -= len(pages[first])
            first += 1
        if written:
            pages[first] = pages[first][written:]


@dataclass(frozen=True)
class StoredOutput:
    """The file of a blocking partition and the managed memory in which its regions are sorted.

    Attributes:
        file: The file.
        pages: The managed memory.
        buffer_bytes: Limit of the buffers that are read.
    """

    file: PartitionFile
    pages: NetworkBufferPool
    buffer_bytes: int


class Extent(NamedTuple):
    """Position of a buffer in the file: neighbouring pages, or an event."""

    offset: int
    size: int
    data_type: DataType


class BlockingSubpartition(Subpartition):
    """An index into the partition's file, and the elements that are not in the file yet."""

    def __init__(self, index: int, parent: ResultPartition, stored: StoredOutput) -> None:
        super().__init__(index, parent)
        self._file = stored.file
        self._buffer_bytes = stored.buffer_bytes
        self._lock = threading.Lock()
        self._pending: deque[BufferConsumer] = deque()
        self._extents: list[Extent] = []
        self._published = False
        self._ended = False
        self._views: list[BlockingSubpartitionView] = []

    # -- the writing side -----------------------------------------------------------------

    def add(self, consumer: BufferConsumer, partial_record_length: int = 0) -> int:
        """Add a consumer; return the next buffer size, or REFUSED (the consumer is closed)."""
        del partial_record_length
        with self._lock:
            refused = self._ended or self._released
            if not refused:
                self._pending.append(consumer)
        if refused:
            consumer.close()
            return REFUSED
        return _ANY_SIZE

    def flush(self) -> None:
        """Do nothing: nothing is readable before the end."""

    def finish(self) -> None:
        """Write the end; nothing is visible before ``publish``."""
        event = serialize_event(EndOfPartition())
        self.add(BufferConsumer.of_event(event, DataType.END_OF_PARTITION))
        with self._lock:
            self._ended = True

    def publish(self) -> None:
        """Allow reads, since the whole partition is in the file."""
        with self._lock:
            self._published = not self._released
            views = list(self._views)
        for view in views:
            view.notify_data_available()

    def release(self) -> None:
        """Drop everything; a second call does nothing."""
        with self._lock:
            if self._released:
                return
            self._released = True
            self._published = False
            self._extents = []
            pending, self._pending = self._pending, deque()
            views, self._views = self._views, []
        for consumer in pending:
            consumer.close()
        for view in views:
            view.notify_data_available()

    def place_finished(self) -> None:
        """Move finished buffers to the next region of the file."""
        with self._lock:
            while self._pending:
                consumer = self._pending[0]
                # Read the writer's marker, since ``is_finished`` may be outdated.
                consumer.skip(0)
                if not consumer.is_finished:
                    return
                self._pending.popleft()
                page = consumer.build()
                size, data_type = page.size, page.data_type
                if size:
                    self._index(self._file.place(page), size, data_type)
                else:
                    page.recycle()
                consumer.close()

    def _index(self, offset: int, size: int, data_type: DataType) -> None:
        """Add a page to the index: to the buffer that it continues, if that has room."""
        if self._extents and data_type.is_buffer:
            last = self._extents[-1]
            if (
                last.data_type is data_type
                and last.offset + last.size == offset
                and last.size + size <= self._buffer_bytes
            ):
                self._extents[-1] = Extent(last.offset, last.size + size, data_type)
                return
        self._extents.append(Extent(offset, size, data_type))
        self.total_buffers += 1

    # -- the reading side -----------------------------------------------------------------

    def create_read_view(self, listener: AvailabilityListener) -> BlockingSubpartitionView:
        """Create a view, which reads from the beginning.

        Raises:
            PartitionNotFoundError: the subpartition was released.
        """
        with self._lock:
            if self._released:
                raise PartitionNotFoundError(
                    f"subpartition {self.index} of {self._parent} has been released"
                )
            view = BlockingSubpartitionView(self, listener)
            self._views.append(view)
            readable = self._published
        if readable:
            view.notify_data_available()
        return view

    def forget(self, view: BlockingSubpartitionView) -> None:
        """Remove a reader."""
        with self._lock:
            if view in self._views:
                self._views.remove(view)

    def extents(self) -> list[Extent]:
        """Return the index; empty until the partition is complete."""
        return self._extents if self._published else []

    def read(self, extent: Extent) -> Buffer | None:
        """Read one buffer; return None once released."""
        data = self._file.read(extent.offset, extent.size)
        if data is None:
            return None
        self.total_bytes += extent.size
        return Buffer(MemorySegment(data), FREEING_RECYCLER, extent.data_type, extent.size)

    # -- state ----------------------------------------------------------------------------

    @property
    def num_queued(self) -> int:
        """The number of elements that are not in the file yet."""
        return len(self._pending)


class BlockingSubpartitionView(SubpartitionView[BlockingSubpartition]):
    """One reader's handle on a subpartition, with its position."""

    def __init__(self, subpartition: BlockingSubpartition, listener: AvailabilityListener) -> None:
        super().__init__(subpartition, listener)
        self._next = 0
        self._sequence_number = 0
        self._blocked = False

    def get_next_buffer(self) -> BufferAndBacklog | None:
        """Read the next buffer, or None."""
        extents = self._subpartition.extents()
        if self._blocked or self._next >= len(extents):
            return None
        extent = extents[self._next]
        buffer = self._subpartition.read(extent)
        if buffer is None:
            return None
        self._next += 1
        self._blocked = extent.data_type.is_blocking_upstream
        number = self._sequence_number
        self._sequence_number = next_sequence_number(number)
        more = not self._blocked and self._next < len(extents)
        following = extents[self._next].data_type if more else DataType.NONE
        piece = buffer.slice(0, extent.size)
        return BufferAndBacklog(piece, self._backlog(extents), following, number)

    def _backlog(self, extents: list[Extent]) -> int:
        if self._blocked:
            return 0
        ahead = extents[self._next : self._next + _ENOUGH_BACKLOG]
        return sum(extent.data_type.is_buffer for extent in ahead)

    def resume_consumption(self) -> None:
        """Continue after a blocking event.

        Raises:
            IllegalStateError: the subpartition is not blocked.
        """
        if not self._blocked:
            raise IllegalStateError("the subpartition is not blocked")
        self._blocked = False

    def availability_and_backlog(self, *, has_credit: bool) -> tuple[bool, int]:
        """Return whether something can be read (an event needs no credit) and the backlog."""
        extents = self._subpartition.extents()
        available = not self._blocked and self._next < len(extents)
        if available and not has_credit:
            available = extents[self._next].data_type.is_event
        return available, self._backlog(extents)

    def notify_new_buffer_size(self, size: int) -> None:
        """Do nothing: buffers in a file already have their size."""

    def release_all_resources(self) -> None:
        """End the reader; the data stays for others."""
        self._released = True
        self._subpartition.forget(self)
