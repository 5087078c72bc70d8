"""One consumer's part of a pipelined result partition (internals M16).

The task thread adds buffer consumers, one reader polls slices of them.  One lock guards the
state; the reader is notified, and buffers are closed, after it is released.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import IllegalStateError, PartitionNotFoundError
from penstock.network.data_type import DataType
from penstock.network.events import (
    CheckpointBarrier,
    EndOfPartition,
    parse_event,
    serialize_event,
)
from penstock.network.pure.memory.buffer_builder import BufferConsumer
from penstock.network.pure.partition.reader_pace import ReaderPace
from penstock.network.pure.partition.view import (
    AvailabilityListener,
    BufferAndBacklog,
    Subpartition,
    SubpartitionView,
    next_sequence_number,
)

if TYPE_CHECKING:
    from penstock.network.pure.memory.buffer import BufferSlice
    from penstock.network.pure.partition.result_partition import ResultPartition

REFUSED = -1
"""Return value of ``add`` if the subpartition is finished or released."""


class PipelinedSubpartition(Subpartition):
    """A queue of buffer consumers that can be read once."""

    def __init__(self, index: int, parent: ResultPartition, exclusive_buffers: int = 2) -> None:
        super().__init__(index, parent)
        self._exclusive_buffers = exclusive_buffers
        self._lock = threading.Lock()
        self._buffers: deque[BufferConsumer] = deque()
        self._num_priority = 0
        self._backlog = 0
        self._flush_requested = False
        self._finished = False
        self._blocked = False
        self._view: PipelinedSubpartitionView | None = None
        self._sequence_number = 0
        self._desired_size = 2**31 - 1
        self._pace = ReaderPace()

    # -- the writing side -----------------------------------------------------------------

    def add(self, consumer: BufferConsumer, partial_record_length: int = 0) -> int:
        """Queue a consumer; return the next buffer size, or REFUSED (the consumer is closed)."""
        return self._add(consumer, partial_record_length, finish=False)

    def finish(self) -> None:
        """Queue EndOfPartition; nothing can follow."""
        event = serialize_event(EndOfPartition())
        self._add(BufferConsumer.of_event(event, DataType.END_OF_PARTITION), 0, finish=True)

    def overtake(self, consumer: BufferConsumer) -> list[bytes]:
        """Queue an element with priority; return the contents of the data that it overtakes."""
        overtaken: list[bytes] = []
        self._add(consumer, 0, finish=False, overtaken=overtaken)
        return overtaken

    def time_out_barrier(self, checkpoint_id: int, consumer: BufferConsumer) -> list[bytes]:
        """Replace the timeoutable barrier of a checkpoint by an element with priority.

        Returns:
            The contents of the overtaken data; nothing if the barrier has left the queue.
        """
        with self._lock:
            waiting = list(self._buffers)
            at = next((i for i, e in enumerate(waiting) if _is_barrier(e, checkpoint_id)), None)
            if at is not None:
                del self._buffers[at]
                self._buffers.insert(self._num_priority, consumer)
                self._num_priority += 1
            overtaken = list(filter(None, map(_unread, waiting[:at])))
            notify = self._num_priority == 1 and not self._blocked
            view, sequence_number = self._view, self._sequence_number
        if at is None:
            consumer.close()
            return []
        waiting[at].close()
        if notify and view is not None:
            view.notify_priority_event(sequence_number)
        return overtaken

    def recover(self, buffers: list[bytes]) -> None:
        """Queue the reader's in-flight data in front of everything written later.

        Raises:
            IllegalStateError: something was written.
        """
        if self.total_buffers:
            raise IllegalStateError(
                f"in-flight data is recovered before subpartition {self.index} is written to"
            )
        for data in buffers:
            self.add(BufferConsumer._of_bytes(data, DataType.DATA_BUFFER))
        self.flush()

    def holds_barrier(self, checkpoint_id: int) -> bool:
        """Return whether the timeoutable barrier of a checkpoint waits for its reader."""
        with self._lock:
            return any(_is_barrier(each, checkpoint_id) for each in self._buffers)

    def _add(
        self,
        consumer: BufferConsumer,
        partial_record_length: int,
        *,
        finish: bool,
        overtaken: list[bytes] | None = None,
    ) -> int:
        consumer.partial_record_length = partial_record_length
        notify = notify_priority = False
        with self._lock:
            view = self._view
            if overtaken is not None and not (self._finished or self._released):
                overtaken += filter(None, map(_unread, self._buffers))
            refused = self._finished or self._released
            if not refused:
                self.total_buffers += 1
                if consumer.data_type.has_priority:
                    self._buffers.insert(self._num_priority, consumer)
                    self._num_priority += 1
                    notify_priority = self._num_priority == 1 and not self._blocked
                else:
                    self._buffers.append(consumer)
                    if consumer.is_buffer:
                        self._backlog += 1
                    notify = finish or self._should_notify()
                self._finished |= finish
            sequence_number = self._sequence_number
            size = self._desired_size
        if refused:
            consumer.close()
            return REFUSED
        if view is not None:
            if notify_priority:
                view.notify_priority_event(sequence_number)
            elif notify:
                view.notify_data_available()
        return size

    def flush(self) -> None:
        """Make the committed bytes of the unfinished last buffer readable."""
        with self._lock:
            if not self._buffers or self._flush_requested:
                return
            count = len(self._buffers)
            in_unfinished = count == 1 and self._buffers[0].is_data_available
            notify = not self._blocked and in_unfinished
            self._flush_requested = count > 1 or in_unfinished
            view = self._view
        if notify and view is not None:
            view.notify_data_available()

    def release(self) -> None:
        """Drop every buffer and the view; a second call does nothing."""
        with self._lock:
            if self._released:
                return
            self._released = True
            buffers, self._buffers = self._buffers, deque()
            self._num_priority = self._backlog = 0
            view, self._view = self._view, None
        for consumer in buffers:
            consumer.close()
        if view is not None:
            view.notify_data_available()

    # -- the reading side -----------------------------------------------------------------

    def create_read_view(self, listener: AvailabilityListener) -> PipelinedSubpartitionView:
        """Create the only view.

        Raises:
            IllegalStateError: a view exists or existed: pipelined data is read once.
            PartitionNotFoundError: the subpartition was released.
        """
        with self._lock:
            if self._released:
                raise PartitionNotFoundError(
                    f"subpartition {self.index} of {self._parent} has been released"
                )
            if self._view is not None:
                raise IllegalStateError(
                    f"subpartition {self.index} of {self._parent} is being or has been consumed; "
                    "a pipelined subpartition can be consumed once"
                )
            view = self._view = PipelinedSubpartitionView(self, listener)
            notify = bool(self._buffers)
        if notify:
            view.notify_data_available()
        return view

    def poll(self) -> BufferAndBacklog | None:
        """Return the next slice, or None if nothing can be read now."""
        drop: list[BufferConsumer | BufferSlice] = []
        try:
            with self._lock:
                taken = self._poll(drop)
                quota = self._pace.take_change()
        finally:
            for item in drop:
                if isinstance(item, BufferConsumer):
                    item.close()
                else:
                    item.recycle()
        # A view has one reader, which polls with one thread, so changes are applied in order.
        if quota is not None:
            self._parent._pool._set_quota(self.index, quota)
        return taken

    def _poll(self, drop: list[BufferConsumer | BufferSlice]) -> BufferAndBacklog | None:
        if self._blocked:
            return None
        if not self._buffers:
            self._flush_requested = False
        piece: BufferSlice | None = None
        while self._buffers:
            consumer = self._buffers[0]
            piece = consumer.build()
            only = len(self._buffers) == 1
            if not consumer.is_finished and not only:
                drop.append(piece)
                raise IllegalStateError("an unfinished buffer has another one behind it")
            if only:
                self._flush_requested = False
            finished = consumer.is_finished
            if finished:
                self._remove_head()
                drop.append(consumer)
                if consumer.is_buffer:
                    self._pace.on_taken(time.monotonic_ns())
            if piece.size > 0 or (finished and self._exclusive_buffers == 0):
                break
            drop.append(piece)
            piece = None
            if not finished:
                break
        if piece is None:
            return None
        if piece.data_type.is_blocking_upstream:
            self._blocked = True
        self.total_bytes += piece.size
        number = self._sequence_number
        self._sequence_number = next_sequence_number(number)
        following = self._buffers[0].data_type if self._is_data_available() else DataType.NONE
        return BufferAndBacklog(piece, self._reported_backlog(), following, number)

    def resume_consumption(self) -> None:
        """Deliver again after a blocking event.

        Raises:
            IllegalStateError: the subpartition is not blocked.
        """
        with self._lock:
            if not self._blocked:
                raise IllegalStateError("the subpartition is not blocked")
            self._blocked = False
            self._pace.restart()

    def availability_and_backlog(self, *, has_credit: bool) -> tuple[bool, int]:
        """Return whether something can be polled (an event needs no credit) and the backlog."""
        with self._lock:
            if has_credit:
                available = self._is_data_available()
            else:
                available = self._is_data_available() and self._buffers[0].data_type.is_event
            return available, self._reported_backlog()

    def notify_new_buffer_size(self, size: int) -> None:
        """Set the size that ``add`` returns for the next buffer.

        Raises:
            ValueError: the size is negative.
        """
        if size < 0:
            raise ValueError(f"buffer size of {size} bytes")
        if size:
            with self._lock:
                self._desired_size = size

    def release_view(self) -> None:
        """Release the view, since the reader needs no more data."""
        self._parent._on_consumed_subpartition(self.index)

    # -- state ----------------------------------------------------------------------------

    def on_barrier_taken(self) -> None:
        """Notify the parent that a timeoutable barrier has left the queue."""
        self._parent._on_barrier_taken()

    @property
    def buffers_in_backlog(self) -> int:
        """Data buffers queued, the unfinished one included."""
        return self._backlog

    @property
    def has_priority(self) -> bool:
        """Return whether the next element has priority."""
        return self._num_priority > 0 and not self._blocked

    @property
    def num_queued(self) -> int:
        """Elements queued."""
        return len(self._buffers)

    # -- inside, under the lock -----------------------------------------------------------

    def _remove_head(self) -> None:
        consumer = self._buffers.popleft()
        if self._num_priority:
            self._num_priority -= 1
        if consumer.is_buffer:
            self._backlog -= 1
            assert self._backlog >= 0, "backlog counts the queued data buffers"

    def _finished_buffers(self) -> int:
        count = len(self._buffers)
        if count == 1:
            return 1 if self._buffers[0].is_finished else 0
        return max(0, count - 1)

    def _should_notify(self) -> bool:
        return not self._flush_requested and not self._blocked and self._finished_buffers() == 1

    def _is_data_available(self) -> bool:
        if self._blocked or not self._buffers:
            return False
        return self._flush_requested or self._finished_buffers() > 0

    def _reported_backlog(self) -> int:
        if self._blocked or not self._buffers:
            return 0
        backlog = self._backlog
        if not (self._flush_requested or self._finished or not self._buffers[-1].is_buffer):
            backlog = max(backlog - 1, 0)
        # A remote reader prepares a buffer for each reported one, filled ahead of slow readers.
        return min(backlog, 1) if self._pace.is_slow else backlog


def _is_barrier(consumer: BufferConsumer, checkpoint_id: int) -> bool:
    """Return whether an element is the timeoutable barrier of a checkpoint."""
    if not consumer.data_type.requires_announcement:
        return False
    event = parse_event(_content(consumer))
    return isinstance(event, CheckpointBarrier) and event.checkpoint_id == checkpoint_id


def _unread(consumer: BufferConsumer) -> bytes:
    """Return the unread bytes of a data buffer; none of an event."""
    return _content(consumer) if consumer.is_buffer else b""


def _content(consumer: BufferConsumer) -> bytes:
    """Return the bytes that a consumer has not built yet."""
    copy = consumer.copy()
    try:
        built = copy.build()
        try:
            return bytes(built._readable())
        finally:
            built.recycle()
    finally:
        copy.close()


class PipelinedSubpartitionView(SubpartitionView[PipelinedSubpartition]):
    """The reader's handle on a subpartition."""

    def __init__(self, subpartition: PipelinedSubpartition, listener: AvailabilityListener) -> None:
        super().__init__(subpartition, listener)
        self._lock = threading.Lock()

    def get_next_buffer(self) -> BufferAndBacklog | None:
        """Take the next slice, or None."""
        taken = self._subpartition.poll()
        if taken is not None and taken.buffer.data_type.requires_announcement:
            self._subpartition.on_barrier_taken()
        return taken

    def notify_priority_event(self, sequence_number: int) -> None:
        """Forward the notification to the reader."""
        self._listener.notify_priority_event(sequence_number)

    def resume_consumption(self) -> None:
        """Continue after a blocking event."""
        self._subpartition.resume_consumption()

    def availability_and_backlog(self, *, has_credit: bool) -> tuple[bool, int]:
        """Return whether something can be polled and the backlog."""
        return self._subpartition.availability_and_backlog(has_credit=has_credit)

    def notify_new_buffer_size(self, size: int) -> None:
        """Forward the receiver's buffer size."""
        self._subpartition.notify_new_buffer_size(size)

    def release_all_resources(self) -> None:
        """End the reader; a second call does nothing."""
        with self._lock:
            if self._released:
                return
            self._released = True
        self._subpartition.release_view()
