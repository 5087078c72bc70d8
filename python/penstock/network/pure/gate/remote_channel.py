"""A channel whose producer is at the other end of a connection, and its credits (internals M19)."""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import CancelTaskError, CorruptStreamError
from penstock.network.data_type import DataType
from penstock.network.events import EventAnnouncement, parse_event, serialize_event
from penstock.network.pure.gate.input_channel import ChannelBuffer, InputChannel
from penstock.network.pure.gate.persister import barrier_id
from penstock.network.pure.memory.buffer import AnyBuffer, Buffer, event_buffer
from penstock.network.pure.partition.view import next_sequence_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.network.pure.gate.buffer_manager import BufferManager
    from penstock.network.pure.gate.input_channel import ChannelGate
    from penstock.network.pure.transport.client import PartitionRequestClient
    from penstock.network.pure.wire.messages import BufferHeader


class RemoteInputChannel(InputChannel):
    """Receives from another TaskExecutor.

    Invariant: the granted credit, announced or not, minus the received data buffers is the number
    of buffers free to receive.
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

    # -- task thread ----------------------------------------------------------------------

    def _request_subpartition(self) -> None:
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
            belongs = self._persister.on_taken(buffer)
            more = bool(self._received)
        if belongs:
            self._kept.append(bytes(buffer._readable()))
        return ChannelBuffer(buffer, more)

    def resume_consumption(self) -> None:
        """Ask the producer to continue."""
        if self.initial_credit == 0:
            # The producer discards credit that was granted while it was blocked.
            with self._lock:
                self._unannounced_credit = 0
        self._client.resume(self)

    def send_task_event(self, event: bytes) -> None:
        """Send the event to the producer."""
        self._client.send_task_event(self, event)

    def prioritize_barrier(self, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it; return False if it is absent."""
        with self._lock:
            announced = (each for each in self._received if each.data_type.requires_announcement)
            buffer = next((each for each in announced if barrier_id(each) == checkpoint_id), None)
            if buffer is None:
                return False
            self._received.remove(buffer)
            buffer._data_type = DataType.PRIORITIZED_EVENT_BUFFER
            self._received.insert(self._num_priority, buffer)
            self._num_priority += 1
        self._gate.notify_channel_non_empty(self.index, priority=True)
        return True

    def _waiting(self) -> Iterable[AnyBuffer]:
        """Return the received buffers that were not read."""
        return self._received

    @property
    def has_priority(self) -> bool:
        """Return whether the next element is an event that overtakes data."""
        return self._num_priority > 0

    @property
    def buffers_in_use(self) -> int:
        """Buffers received, and those announced beyond the exclusive ones."""
        required = self.buffers.required if self.buffers is not None else 0
        return len(self._received) + max(0, required - self.initial_credit)

    def usage(self) -> tuple[int, int, int | None]:
        """Return the received buffers twice, and the number of the channel's own."""
        received = len(self._received)
        return received, received, self.initial_credit

    def announce_buffer_size(self, size: int) -> None:
        """Announce the size to the producer."""
        if not self._released:
            self._client.announce_buffer_size(self, size)

    def release(self) -> None:
        """Return the buffers and cancel the request."""
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
        """Count new credit; the first since the last announcement triggers the next one."""
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
        """Credit that was not announced to the producer yet."""
        return self._unannounced_credit

    @property
    def num_queued(self) -> int:
        """Buffers received and not taken."""
        return len(self._received)

    @property
    def is_released(self) -> bool:
        """Return whether the channel was released."""
        return self._released

    # -- event loop -----------------------------------------------------------------------

    def buffer_for(self, header: BufferHeader) -> Buffer | None:
        """Return the buffer for a payload, or None if the channel is released.

        Raises:
            CorruptStreamError: the producer sent data without credit, or more than a segment holds.
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
            buffer._data_type = data_type
            buffer.size = header.size
        except IndexError as error:
            capacity = buffer.capacity
            buffer.recycle()
            raise CorruptStreamError(
                f"buffer of {header.size} bytes for segments of {capacity}"
            ) from error
        return buffer

    def on_buffer(self, buffer: AnyBuffer, sequence_number: int, backlog: int) -> None:
        """Queue a received buffer."""
        data_type = buffer.data_type  # the reader may recycle the buffer as soon as it is queued
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
        priority = data_type.has_priority or announcement is not None
        if was_empty or priority:
            self._gate.notify_channel_non_empty(self.index, priority=priority)
        if data_type.is_blocking_upstream:
            if backlog != 0:
                self.fail(CorruptStreamError(f"a blocking event with a backlog of {backlog}"))
            elif self.initial_credit == 0 and self.buffers is not None:
                self.buffers.release_floating()
        elif backlog >= 0:
            self.on_backlog(backlog)

    def on_empty_buffer(self, sequence_number: int, backlog: int) -> None:
        """Handle a finished buffer without bytes: only order and backlog matter."""
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
        """Borrow floating buffers for the producer's backlog."""
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
        event = EventAnnouncement(parse_event(buffer._readable()), sequence_number)
        return event_buffer(serialize_event(event), DataType.PRIORITIZED_EVENT_BUFFER)
