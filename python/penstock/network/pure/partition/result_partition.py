"""Output of one subtask for all consumers of one exchange (internals M10, M15)."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from penstock.errors import (
    CancelTaskError,
    IllegalStateError,
    NetworkError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.pure.arguments import exact_bytes, integer, integers, items_of, octets, text
from penstock.network.pure.home import OfOneProcess
from penstock.network.pure.memory.buffer_builder import BufferBuilder, BufferConsumer
from penstock.network.pure.partition.blocking import (
    BlockingSubpartition,
    BlockingSubpartitionView,
    StoredOutput,
)
from penstock.network.pure.partition.subpartition import (
    REFUSED,
    PipelinedSubpartition,
    PipelinedSubpartitionView,
)
from penstock.network.pure.partition.task_events import TaskEventQueue
from penstock.network.pure.partition.wait_clock import WaitClock
from penstock.network.pure.wire.messages import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool
    from penstock.network.pure.partition.flusher import OutputFlusher
    from penstock.network.pure.partition.view import AvailabilityListener
    from penstock.network.pure.record_writer import RecordWriter

AnySubpartitionView = PipelinedSubpartitionView | BlockingSubpartitionView

BROADCAST = -1
"""The subpartition index that means "all of them"."""


class ResultPartition(OfOneProcess):
    """Buffers of one subtask, one queue per consumer.

    One task thread writes; ``fail``, ``release`` and the flusher may run in any thread.
    ``_write_lock`` is held while builders are used, so that a release from another thread never
    returns a segment that is being written.  A writer that waits for a buffer holds it too: a
    release destroys the pool first, which wakes the writer, and takes the lock afterwards.
    """

    def __init__(
        self,
        partition_id: bytes,
        num_subpartitions: int,
        pool: LocalBufferPool,
        *,
        flush_timeout_ms: int = 100,
        exclusive_buffers_per_channel: int = 2,
        flusher: OutputFlusher | None = None,
        stored: StoredOutput | None = None,
        on_release: Callable[[ResultPartition], None] | None = None,
    ) -> None:
        super().__init__()
        if num_subpartitions < 1:
            raise ValueError(f"a partition of {num_subpartitions} subpartitions")
        if flush_timeout_ms < -1:
            raise ValueError(f"flush timeout of {flush_timeout_ms} ms; -1 means never")
        self._partition_id = partition_id
        self.num_subpartitions = num_subpartitions
        self._pool = pool
        self.flush_timeout_ms = flush_timeout_ms
        self._stored = stored
        self._subpartitions: list[PipelinedSubpartition | BlockingSubpartition] = [
            PipelinedSubpartition(index, self, exclusive_buffers_per_channel)
            if stored is None
            else BlockingSubpartition(index, self, stored)
            for index in range(num_subpartitions)
        ]
        self._unicast: list[BufferBuilder | None] = [None] * num_subpartitions
        self._broadcast: BufferBuilder | None = None
        self._flusher = flusher if flush_timeout_ms > 0 and stored is None else None
        self._flush_is_due = False
        self._waits = WaitClock()
        self._writer: Callable[[], RecordWriter | None] = lambda: None
        self._on_release = on_release
        self._finished = False
        self._released = False
        self._failure_cause: str | None = None
        self._state = threading.Condition()
        self._barriers = threading.Condition()
        self._write_lock = threading.RLock()
        self._unconsumed = set(range(num_subpartitions))
        self._task_events = TaskEventQueue()

    def __repr__(self) -> str:
        return f"partition {self._partition_id.hex()}"

    def _attach(self, writer: RecordWriter) -> None:
        """Attach the record writer.

        Raises:
            IllegalStateError: another record writer is attached.
        """
        if self._writer() is not None:
            raise IllegalStateError("the result partition has a record writer already")
        self._writer = weakref.ref(writer)

    # -- writing, task thread only --------------------------------------------------------

    def _append_framed(self, subpartition: int, framed: bytes | bytearray | memoryview) -> None:
        """Write one framed record to a subpartition, or to all of them with ``BROADCAST``.

        Blocks while no buffer is free.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the partition is finished.
        """
        with self._write_lock:
            if self._released or self._finished:
                self._check_writable()
            builder = self._broadcast if subpartition == BROADCAST else self._unicast[subpartition]
            if builder is None or not builder._append_record(framed):
                self._append(subpartition, builder, memoryview(framed))
        if self.flush_timeout_ms == 0:
            self._flush(subpartition)
        elif self._flusher is not None and not self._flush_is_due:
            self._flush_is_due = True
            self._flusher.schedule(self, self.flush_timeout_ms)

    def _append(self, subpartition: int, builder: BufferBuilder | None, view: memoryview) -> None:
        """Write a record over as many buffers as necessary."""
        if not len(view):
            return
        if builder is None:
            builder = self._request_builder(subpartition)
            self._add_builder(subpartition, builder, 0, needed=len(view))
        elif builder.writable_bytes < len(view) and not self._pool.is_available:
            # A debloated buffer grows if no other buffer is available to continue in.
            builder.trim(builder.written_bytes + len(view))
        written = builder.append_and_commit(view)
        while written < len(view):
            self._finish_builder(subpartition)
            builder = self._request_builder(subpartition)
            count = builder.append_and_commit(view[written:])
            written += count
            # Added after the append, so that the consumer never publishes a continuation before it
            # knows how much of it belongs to the earlier record.
            self._add_builder(subpartition, builder, count, needed=count)
        if builder.is_full:
            self._finish_builder(subpartition)
        self._check_written()

    def broadcast_event(self, event: bytes, data_type: int) -> None:
        """Send a serialized event to every subpartition, after all records written so far.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the data type is not an event's, or is EndOfPartition's, which
                `finish` sends; the size of the event is invalid; or the partition is finished.
        """
        exact_bytes(event)
        kind = _data_type(integer(data_type))
        if not kind.is_event or kind is DataType.END_OF_PARTITION:
            raise IllegalStateError(f"{kind.name} is not for broadcast_event")
        _check_event_size(event)
        first = BufferConsumer.of_event(bytes(event), kind)
        try:
            with self._write_lock:
                self._check_writable()
                self._finish_all_builders()
                for subpartition in self._subpartitions:
                    subpartition.add(first.copy())
                # Events are outside of the pages, so nothing else would limit their number.
                self._write_region()
                self._check_written()
        finally:
            first.close()
        if self.flush_timeout_ms == 0:
            self.flush_all()

    def overtake(self, event: bytes, data_type: int) -> list[list[bytes]]:
        """Send an event with priority ahead of all queued elements; return the data it overtakes.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the event has no priority, or the partition is a blocking one.
        """
        kind = _priority_type(integer(data_type), exact_bytes(event))
        with self._write_lock:
            self._check_writable()
            self._finish_all_builders()
            return self._overtake_each(event, kind, PipelinedSubpartition.overtake)

    def time_out_barrier(
        self, checkpoint_id: int, event: bytes, data_type: int
    ) -> list[list[bytes]]:
        """Replace a timeoutable barrier by an event with priority wherever it still waits.

        Returns the contents of the data buffers that the event overtakes, by subpartition.

        Raises:
            IllegalStateError: the event has no priority, or the partition is a blocking one.
        """
        checkpoint_id, data_type = integers(checkpoint_id, data_type)
        kind = _priority_type(data_type, exact_bytes(event))
        overtaken = self._overtake_each(
            event, kind, lambda each, barrier: each.time_out_barrier(checkpoint_id, barrier)
        )
        self._on_barrier_taken()
        return overtaken

    def wait_barrier_taken(self, checkpoint_id: int, timeout_ms: int) -> bool:
        """Wait until every reader has taken the timeoutable barrier of a checkpoint."""
        checkpoint_id, timeout_ms = integers(checkpoint_id, timeout_ms)

        def is_gone() -> bool:
            return not any(
                isinstance(each, PipelinedSubpartition) and each.holds_barrier(checkpoint_id)
                for each in self._subpartitions
            )

        with self._barriers:
            return self._barriers.wait_for(is_gone, timeout_ms / 1000)

    def _on_barrier_taken(self) -> None:
        """Wake waiters: a timeoutable barrier has left its queue."""
        with self._barriers:
            self._barriers.notify_all()

    def recover(self, subpartition: int, buffers: Sequence[bytes]) -> None:
        """Restore a reader's in-flight data in front of everything written later.

        The bytes are outside the pool's segments until they are read: if a partition waited for its
        reader here, the two could wait for each other.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the partition is a blocking one, was written to, or has no such
                subpartition.
        """
        subpartition = integer(subpartition)
        items_of(buffers)
        contents = [octets(data) for data in buffers]
        if not 0 <= subpartition < self.num_subpartitions:
            raise IllegalStateError(
                f"subpartition {subpartition} of a partition with {self.num_subpartitions}"
            )
        with self._write_lock:
            self._check_writable()
            target = self._subpartitions[subpartition]
            if isinstance(target, BlockingSubpartition):
                raise IllegalStateError("a blocking partition has nothing in flight")
            size = self._pool._segment_size
            target.recover(
                [bytes(b[at : at + size]) for b in contents for at in range(0, len(b), size)]
            )

    def _overtake_each(
        self,
        event: bytes,
        kind: DataType,
        overtake: Callable[[PipelinedSubpartition, BufferConsumer], list[bytes]],
    ) -> list[list[bytes]]:
        """Let an event overtake in every subpartition; return the contents that it overtakes."""
        first = BufferConsumer.of_event(bytes(event), kind)
        overtaken: list[list[bytes]] = []
        try:
            for subpartition in self._subpartitions:
                if isinstance(subpartition, BlockingSubpartition):
                    raise IllegalStateError("nothing is overtaken in a blocking partition")
                overtaken.append(overtake(subpartition, first.copy()))
        finally:
            first.close()
        return overtaken

    def finish(self) -> None:
        """Send EndOfPartition to every subpartition.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: it is finished already.
        """
        with self._write_lock:
            self._check_writable()
            self._finish_all_builders()
            self._finished = True
            for subpartition in self._subpartitions:
                subpartition.finish()
            self._write_region()
            self._check_written()
            self._publish()
        # No further builder is requested; buffers in flight return when they are consumed.
        self._pool.lazy_destroy()
        if self._stored is not None:
            self._stored.pages.destroy()

    # -- flushing, any thread -------------------------------------------------------------

    def flush_all(self) -> None:
        """Make every committed byte readable."""
        for subpartition in self._subpartitions:
            subpartition.flush()

    def _timed_flush(self) -> None:
        """Flush for the flusher: the next record schedules the next flush."""
        self._flush_is_due = False
        self.flush_all()

    def _flush(self, subpartition: int) -> None:
        if subpartition == BROADCAST:
            self.flush_all()
        else:
            self._subpartitions[subpartition].flush()

    # -- end, any thread ------------------------------------------------------------------

    def fail(self, cause: str) -> None:
        """Fail the partition: readers get the cause, and a blocked writer wakes."""
        text(cause)
        with self._state:
            if self._released:
                return
            self._failure_cause = cause
        self._drop_everything()

    def release(self) -> None:
        """Release everything and unregister; a second call does nothing.

        A partition that only failed stays registered, so that late readers get the cause.
        In a forked child, nothing happens.
        """
        if self._is_left:
            return
        self._drop_everything()
        if self._on_release is not None:
            self._on_release(self)

    def _drop_everything(self) -> None:
        with self._state:
            if self._released:
                return
            self._released = True
            self._state.notify_all()
        self._pool.lazy_destroy()
        self._task_events.release()
        with self._write_lock:
            self._finish_all_builders()
        for subpartition in self._subpartitions:
            subpartition.release()
        self._on_barrier_taken()
        if self._stored is not None:
            self._stored.file.release()
            self._stored.pages.destroy()

    def _on_consumed_subpartition(self, index: int) -> None:
        """Count a reader that has finished or gone, and drop what is written for it."""
        with self._state:
            self._unconsumed.discard(index)
            self._state.notify_all()
        self._subpartitions[index].release()
        self._on_barrier_taken()

    # -- reading --------------------------------------------------------------------------

    def _create_subpartition_view(
        self, index: int, listener: AvailabilityListener
    ) -> AnySubpartitionView:
        """Create a view of a subpartition; a pipelined subpartition has only one.

        Raises:
            IllegalStateError: a pipelined subpartition has a view, or had one.
            PartitionNotFoundError: there is no such subpartition, or it was released.
            ProducerFailedError: the partition has failed.
        """
        if not 0 <= index < self.num_subpartitions:
            raise PartitionNotFoundError(
                f"subpartition {index} of a partition with {self.num_subpartitions}"
            )
        if self._failure_cause is not None:
            raise ProducerFailedError(self._failure_cause)
        return self._subpartitions[index].create_read_view(listener)

    # -- state ----------------------------------------------------------------------------

    @property
    def buffers_queued(self) -> int:
        """Elements queued in all subpartitions, events included."""
        return sum(subpartition.num_queued for subpartition in self._subpartitions)

    @property
    def buffers_in_use(self) -> int:
        """The number of pool segments held by writer, queues or network."""
        return self._pool.used_segments

    @property
    def buffers_total(self) -> int:
        """The greatest number of segments that the pool may hold now."""
        return self._pool.num_buffers

    @property
    def hard_back_pressured_ms(self) -> int:
        """Total milliseconds for which the writer waited for buffers within records."""
        return self._waits.total_ms

    def take_longest_wait_ms(self) -> int:
        """Return the longest of these waits since the last call, in milliseconds."""
        return self._waits.take_longest_ms()

    @property
    def buffers_out(self) -> int:
        """Number of buffers and events added since the start."""
        return sum(subpartition.total_buffers for subpartition in self._subpartitions)

    @property
    def regions_written(self) -> int:
        """Number of regions that a blocking partition has written to its file."""
        return 0 if self._stored is None else self._stored.file.regions

    def next_task_event(self, timeout_ms: int) -> bytes | None:
        """Return the next event that a consumer sent to this task, or None.

        Raises:
            CancelTaskError: the partition was released.
        """
        return self._task_events.next(integer(timeout_ms))

    def is_available(self) -> bool:
        """Return whether a record can be started without waiting for a buffer.

        A blocking partition never waits: it writes a region for the next buffer.
        """
        return self._stored is not None or self._pool.is_available

    def wait_available(self, timeout_ms: int) -> bool:
        """Wait until ``is_available``; return False on a timeout."""
        timeout_ms = integer(timeout_ms)
        return self._stored is not None or self._pool.available_future.wait(timeout_ms / 1000)

    def wait_consumed(self, timeout_ms: int) -> bool:
        """Wait until every reader has read everything, or the partition is released."""
        deadline = time.monotonic() + integer(timeout_ms) / 1000
        with self._state:
            return self._state.wait_for(
                lambda: self._released or not self._unconsumed, deadline - time.monotonic()
            )

    # -- builders -------------------------------------------------------------------------

    def _check_writable(self) -> None:
        if self._finished:
            raise IllegalStateError("the result partition is finished")
        if self._released:
            raise CancelTaskError("the result partition was released")

    def _check_written(self) -> None:
        """Fail a blocking partition that cannot be written completely, so that no part is read."""
        if self._stored is not None and (error := self._stored.file.error) is not None:
            self.fail(str(error))
            raise NetworkError(str(error))

    def _write_region(self) -> None:
        """Write the finished pages of a blocking partition: one consumer after the other."""
        if self._stored is None:
            return
        for subpartition in self._subpartitions:
            if isinstance(subpartition, BlockingSubpartition):
                subpartition.place_finished()
        self._stored.file.write_region()

    def _publish(self) -> None:
        """Allow the readers of a blocking partition to start."""
        if self._stored is None:
            return
        for subpartition in self._subpartitions:
            if isinstance(subpartition, BlockingSubpartition):
                subpartition.publish()
        with self._state:
            self._unconsumed.clear()
            self._state.notify_all()

    def _request_builder(self, subpartition: int) -> BufferBuilder:
        """Finish the builder that the other mode left open, then wait for a new one."""
        if subpartition == BROADCAST:
            for index in range(self.num_subpartitions):
                self._finish_builder(index)
        else:
            self._finish_builder(BROADCAST)
        builder = self._pool.request_builder(subpartition)
        if builder is None and self._stored is not None:
            # Fewer pages are open than there are: the finished ones are free afterwards.
            self._write_region()
            builder = self._pool.request_builder(subpartition)
        if builder is None:
            with self._waits:
                builder = self._pool.request_builder_blocking(subpartition)
        if subpartition == BROADCAST:
            self._broadcast = builder
        else:
            self._unicast[subpartition] = builder
        return builder

    def _add_builder(
        self, subpartition: int, builder: BufferBuilder, partial: int, *, needed: int
    ) -> None:
        """Pass the builder to its readers, with the size that they want or the record needs."""
        consumer = builder.create_buffer_consumer_from_beginning()
        if subpartition != BROADCAST:
            wanted = [self._subpartitions[subpartition].add(consumer, partial)]
        else:
            try:
                wanted = [each.add(consumer.copy(), partial) for each in self._subpartitions]
            finally:
                consumer.close()
        # A refusal means that the reader has ended; data written for it is dropped.
        sizes = [size for size in wanted if size != REFUSED]
        if sizes:
            builder.trim(max(needed, min(sizes)))

    def _finish_builder(self, subpartition: int) -> None:
        if subpartition == BROADCAST:
            builder, self._broadcast = self._broadcast, None
        else:
            builder, self._unicast[subpartition] = self._unicast[subpartition], None
        if builder is not None:
            builder.finish()
            builder.close()

    def _finish_all_builders(self) -> None:
        self._finish_builder(BROADCAST)
        for index in range(self.num_subpartitions):
            self._finish_builder(index)


def _data_type(number: int) -> DataType:
    try:
        return DataType(number)
    except ValueError:
        raise IllegalStateError(f"no buffer data type {number}") from None


def _check_event_size(event: bytes) -> None:
    if not 0 < len(event) <= MAX_EVENT_BYTES:
        raise IllegalStateError(f"an event of {len(event)} bytes is outside 1..={MAX_EVENT_BYTES}")


def _priority_type(data_type: int, event: bytes) -> DataType:
    """Return the type of an event that may overtake."""
    kind = _data_type(data_type)
    if not kind.has_priority:
        raise IllegalStateError(f"{kind.name} overtakes nothing")
    _check_event_size(event)
    return kind
