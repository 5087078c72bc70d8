"""The consumer's end of one subpartition: in the same process, or behind a connection.

SEMANTICS C5 and C8.
"""

from __future__ import annotations

import secrets
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import (
    CancelTaskError,
    CorruptStreamError,
    IllegalStateError,
    PartitionNotFoundError,
    ProducerFailedError,
)
from penstock.network.data_type import DataType
from penstock.network.events import EventAnnouncement, parse_event, serialize_event
from penstock.network.pure.buffer import AnyBuffer, Buffer, event_buffer
from penstock.network.pure.channel_state_persister import ChannelStatePersister, barrier_id
from penstock.network.pure.subpartition_view import next_sequence_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.network.pure.buffer_manager import BufferManager
    from penstock.network.pure.client import PartitionRequestClient
    from penstock.network.pure.partition_manager import ResultPartitionManager
    from penstock.network.pure.result_partition import AnySubpartitionView, ResultPartition
    from penstock.network.pure.wire import BufferHeader


class ChannelGate(Protocol):
    """What a channel tells its gate."""

    def notify_channel_non_empty(self, index: int, *, priority: bool = False) -> None:
        """The channel has a buffer or an error.  Called from any thread, under no lock."""


@dataclass(frozen=True, slots=True)
class ChannelBuffer:
    """A buffer taken from a channel and whether another one follows."""

    buffer: AnyBuffer
    more_available: bool


class InputChannel:
    """What both kinds have in common."""

    def __init__(
        self, gate: ChannelGate, index: int, partition_id: bytes, subpartition: int
    ) -> None:
        self.index = index
        self.partition_id = partition_id
        self.subpartition = subpartition
        self._gate = gate
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self._persister = ChannelStatePersister()

    def request(self) -> None:
        """Ask the producer for the subpartition."""
        raise NotImplementedError

    def next_buffer(self) -> ChannelBuffer | None:
        """Take the next buffer, or None.

        Raises:
            CancelTaskError: the channel was released.
            NetworkError: the channel has failed.
        """
        raise NotImplementedError

    def resume_consumption(self) -> None:
        """Let the producer continue after a blocking event."""
        raise NotImplementedError

    def send_task_event(self, event: bytes) -> None:
        """Send a serialized task event to the producer; the channel fails if it is not there."""
        raise NotImplementedError

    # -- unaligned checkpoints ------------------------------------------------------------

    def start_persisting(self, checkpoint_id: int) -> None:
        """Keep copies of the data that belongs to a checkpoint."""
        with self._lock:
            self._persister.start(checkpoint_id, self._waiting())

    def stop_persisting(self, checkpoint_id: int) -> None:
        """The checkpoint, and any before it, needs no more."""
        with self._lock:
            self._persister.stop(checkpoint_id)

    def take_persisted(self) -> tuple[list[bytes], bool]:
        """Return what was kept since the last call, and whether that was all."""
        with self._lock:
            return self._persister.take()

    def prioritize_barrier(self, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it; False when it is not here.

        It never is where a channel reads its producer's own queue: there it times out.
        """
        del checkpoint_id
        return False

    def _waiting(self) -> Iterable[AnyBuffer]:
        """What lies in the channel; under its lock."""
        raise NotImplementedError

    # -- debloating -----------------------------------------------------------------------

    @property
    def buffers_in_use(self) -> int:
        """Buffers between the producer and the reader, as far as known here."""
        raise NotImplementedError

    def announce_buffer_size(self, size: int) -> None:
        """Tell the producer how many bytes its next buffers should have."""
        raise NotImplementedError

    def release(self) -> None:
        """Give everything back; a second call does nothing."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Keep the first error and show it to the gate."""
        if self._error is None:
            self._error = error
        self._gate.notify_channel_non_empty(self.index)

    def _check_error(self) -> None:
        if self._error is not None:
            raise self._error


class LocalInputChannel(InputChannel):
    """Polls the producer's subpartition in this process: no copies, no credit."""

    def __init__(
        self,
        gate: ChannelGate,
        index: int,
        partition_id: bytes,
        subpartition: int,
        partitions: ResultPartitionManager,
        call_later: Callable[[Callable[[], None]], None],
    ) -> None:
        super().__init__(gate, index, partition_id, subpartition)
        self._partitions = partitions
        self._call_later = call_later
        self._view: AnySubpartitionView | None = None
        self._requested = False
        self._released = False

    def request(self) -> None:
        """Open the view, or wait until the partition is registered."""
        with self._lock:
            if self._requested or self._released:
                return
            self._requested = True
        partition = self._partitions.find_or_listen(self.partition_id, self._open)
        if partition is not None:
            self._open(partition)
        else:
            self._call_later(self._expire)

    def _open(self, partition: ResultPartition) -> None:
        try:
            view = partition.create_subpartition_view(self.subpartition, self)
        except (PartitionNotFoundError, ProducerFailedError, IllegalStateError) as error:
            self.fail(error)
            return
        with self._lock:
            self._view = view
            released = self._released
        if released:
            view.release_all_resources()
        else:
            # What the view announced before it was stored could not be polled yet.
            self.notify_data_available()

    def _expire(self) -> None:
        if self._partitions.remove_listener(self.partition_id, self._open):
            self.fail(
                PartitionNotFoundError(
                    f"partition {self.partition_id.hex()} was not registered in time"
                )
            )

    def notify_data_available(self) -> None:
        """The view has something."""
        self._gate.notify_channel_non_empty(self.index)

    def notify_priority_event(self, sequence_number: int) -> None:
        """The view has something urgent."""
        del sequence_number
        self._gate.notify_channel_non_empty(self.index, priority=True)

    def next_buffer(self) -> ChannelBuffer | None:
        """Poll the view."""
        self._check_error()
        with self._lock:
            if self._released:
                raise CancelTaskError("the input channel has been released")
            view = self._view
        if view is None:
            return None
        result = view.get_next_buffer()
        if result is None:
            if view.is_released:
                self._raise_released(view)
            return None
        with self._lock:
            self._persister.on_arrival(result.buffer, ())
        return ChannelBuffer(result.buffer, result.next_data_type is not DataType.NONE)

    def _raise_released(self, view: AnySubpartitionView) -> None:
        if view.failure_cause is not None:
            raise ProducerFailedError(view.failure_cause)
        raise CancelTaskError(f"partition {self.partition_id.hex()} has been released")

    def resume_consumption(self) -> None:
        """Unblock the view; it may have data already."""
        with self._lock:
            view = self._view
        if view is None:
            raise IllegalStateError("consumption resumed before it began")
        view.resume_consumption()
        self.notify_data_available()

    def send_task_event(self, event: bytes) -> None:
        """Hand the event to the partition."""
        try:
            self._partitions.publish_task_event(self.partition_id, event)
        except IllegalStateError as error:
            self.fail(error)

    def _waiting(self) -> Iterable[AnyBuffer]:
        """Nothing: the producer keeps what its barrier overtakes."""
        return ()

    @property
    def buffers_in_use(self) -> int:
        """Elements queued in the subpartition."""
        with self._lock:
            view = None if self._released else self._view
        return view.num_queued if view is not None else 0

    def announce_buffer_size(self, size: int) -> None:
        """Tell the subpartition."""
        with self._lock:
            view = None if self._released else self._view
        if view is not None:
            view.notify_new_buffer_size(size)

    def release(self) -> None:
        """Release the view."""
        with self._lock:
            if self._released:
                return
            self._released = True
            view = self._view
        self._partitions.remove_listener(self.partition_id, self._open)
        if view is not None:
            view.release_all_resources()


class RemoteInputChannel(InputChannel):
    """Receives from another TaskExecutor.

    Invariant (C-7): credit granted, announced or about to be, less data buffers received, is the
    number of buffers free to receive.
    """

    def __init__(
        self,
        gate: ChannelGate,
        index: int,
        partition_id: bytes,
        subpartition: int,
        address: tuple[str, int],
        client: PartitionRequestClient,
        initial_credit: int,
    ) -> None:
        super().__init__(gate, index, partition_id, subpartition)
        self.receiver = secrets.token_bytes(16)
        self.address = address
        self.initial_credit = initial_credit
        self.buffers: BufferManager | None = None
        self._client = client
        self._received: deque[AnyBuffer] = deque()
        self._num_priority = 0
        self._expected_sequence = 0
        self._unannounced_credit = 0
        self._requested = False
        self._released = False

    # -- task thread ----------------------------------------------------------------------

    def request(self) -> None:
        """Send the partition request, once."""
        with self._lock:
            if self._requested or self._released:
                return
            self._requested = True
        self._client.request(self)

    def next_buffer(self) -> ChannelBuffer | None:
        """Take the head of the queue."""
        self._check_error()
        with self._lock:
            if self._released:
                raise CancelTaskError("the input channel has been released")
            if not self._received:
                return None
            buffer = self._received.popleft()
            if self._num_priority:
                self._num_priority -= 1
            self._persister.on_taken(buffer)
            return ChannelBuffer(buffer, bool(self._received))

    def resume_consumption(self) -> None:
        """Tell the producer to continue."""
        if self.initial_credit == 0:
            # The producer forgets what was granted while it was blocked.
            with self._lock:
                self._unannounced_credit = 0
        self._client.resume(self)

    def send_task_event(self, event: bytes) -> None:
        """Send the event to the producer."""
        self._client.send_task_event(self, event)

    def prioritize_barrier(self, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it; False when it is not here."""
        with self._lock:
            announced = (each for each in self._received if each.data_type.requires_announcement)
            buffer = next((each for each in announced if barrier_id(each) == checkpoint_id), None)
            if buffer is None:
                return False
            self._received.remove(buffer)
            buffer.data_type = DataType.PRIORITIZED_EVENT_BUFFER
            self._received.insert(self._num_priority, buffer)
            self._num_priority += 1
        self._gate.notify_channel_non_empty(self.index, priority=True)
        return True

    def _waiting(self) -> Iterable[AnyBuffer]:
        """What was received and not taken."""
        return self._received

    @property
    def buffers_in_use(self) -> int:
        """Buffers received, and those announced beyond the exclusive ones."""
        required = self.buffers.required if self.buffers is not None else 0
        return len(self._received) + max(0, required - self.initial_credit)

    def announce_buffer_size(self, size: int) -> None:
        """Tell the producer."""
        if not self._released:
            self._client.announce_buffer_size(self, size)

    def release(self) -> None:
        """Give the buffers back and cancel the request."""
        with self._lock:
            if self._released:
                return
            self._released = True
            received, self._received = self._received, deque()
            requested = self._requested
        for buffer in received:
            buffer.recycle()
        if self.buffers is not None:
            self.buffers.release()
        if requested:
            self._client.cancel(self)

    # -- credit, any thread ---------------------------------------------------------------

    def notify_credit(self, count: int) -> None:
        """Count new credit; the first since the last announcement has it sent."""
        with self._lock:
            if self._released:
                return
            first = self._unannounced_credit == 0
            self._unannounced_credit += count
        if first:
            self._client.notify_credit(self)

    def take_unannounced_credit(self) -> int:
        """Return the credit to announce now, and count it as announced."""
        with self._lock:
            credit, self._unannounced_credit = self._unannounced_credit, 0
            return 0 if self._released else credit

    @property
    def unannounced_credit(self) -> int:
        """Credit that the producer does not know of yet."""
        return self._unannounced_credit

    @property
    def num_queued(self) -> int:
        """Buffers received and not taken."""
        return len(self._received)

    @property
    def is_released(self) -> bool:
        """Whether the channel was released."""
        return self._released

    # -- event loop -----------------------------------------------------------------------

    def buffer_for(self, header: BufferHeader) -> Buffer | None:
        """Return the buffer that a payload goes into, or None if the channel is released.

        Raises:
            CorruptStreamError: the producer sent data without credit, or more than a segment.
        """
        data_type = DataType(header.data_type)
        if self._released or self.buffers is None:
            return None
        if data_type.is_event:
            return event_buffer(bytearray(header.size), data_type)
        buffer = self.buffers.take()
        if buffer is None:
            if self._released:
                return None
            raise CorruptStreamError(
                f"no buffer available for channel {self.index}: the producer exceeded its credit"
            )
        try:
            buffer.data_type = data_type
            buffer.size = header.size
        except IndexError as error:
            buffer.recycle()
            raise CorruptStreamError(
                f"buffer of {header.size} bytes for segments of {buffer.capacity}"
            ) from error
        return buffer

    def on_buffer(self, buffer: AnyBuffer, sequence_number: int, backlog: int) -> None:
        """Queue what arrived."""
        announcement = self._announcement_of(buffer, sequence_number)
        with self._lock:
            released = self._released
            in_order = sequence_number == self._expected_sequence
            was_empty = not self._received
            if in_order and not released:
                self._expected_sequence = next_sequence_number(sequence_number)
                self._persister.on_arrival(buffer, self._received)
                for item in (announcement, buffer):
                    if item is None:
                        continue
                    if item.data_type.has_priority:
                        self._received.insert(self._num_priority, item)
                        self._num_priority += 1
                    else:
                        self._received.append(item)
        if released or not in_order:
            buffer.recycle()
            if not released:
                self._fail_order(sequence_number)
            return
        blocking = buffer.data_type.is_blocking_upstream
        priority = buffer.data_type.has_priority or announcement is not None
        if was_empty or priority:
            self._gate.notify_channel_non_empty(self.index, priority=priority)
        if blocking:
            if backlog != 0:
                self.fail(CorruptStreamError(f"a blocking event with a backlog of {backlog}"))
            elif self.initial_credit == 0 and self.buffers is not None:
                self.buffers.release_floating()
        elif backlog >= 0:
            self.on_backlog(backlog)

    def on_empty_buffer(self, sequence_number: int, backlog: int) -> None:
        """A finished buffer without bytes: only order and backlog matter."""
        with self._lock:
            if self._released:
                return
            in_order = sequence_number == self._expected_sequence
            if in_order:
                self._expected_sequence = next_sequence_number(sequence_number)
        if not in_order:
            self._fail_order(sequence_number)
        elif backlog >= 0:
            self.on_backlog(backlog)

    def on_backlog(self, backlog: int) -> None:
        """Make room for what waits at the producer, as far as floating buffers go."""
        if self.buffers is not None:
            self.buffers.require(backlog + self.initial_credit)

    def _fail_order(self, sequence_number: int) -> None:
        self.fail(
            CorruptStreamError(
                f"Buffer re-ordering: expected buffer with sequence number "
                f"{self._expected_sequence} but received {sequence_number}"
            )
        )

    @staticmethod
    def _announcement_of(buffer: AnyBuffer, sequence_number: int) -> AnyBuffer | None:
        if not buffer.data_type.requires_announcement:
            return None
        event = EventAnnouncement(parse_event(buffer.view()), sequence_number)
        return event_buffer(serialize_event(event), DataType.PRIORITIZED_EVENT_BUFFER)
