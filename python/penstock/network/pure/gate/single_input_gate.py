"""Input of one task from one exchange (internals M23)."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from penstock.errors import CancelTaskError, CorruptStreamError, IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.events import EndOfChannelState, serialize_event
from penstock.network.pure.arguments import exact_bytes, integer, integers, items_of, octets
from penstock.network.pure.framing.deserializer import SPILL_THRESHOLD_BYTES
from penstock.network.pure.gate.input_gate import InputGate
from penstock.network.pure.gate.remote_channel import RemoteInputChannel
from penstock.network.pure.memory.buffer import FREEING_RECYCLER, Buffer, event_buffer
from penstock.network.pure.memory.segment import MemorySegment
from penstock.network.pure.partition.task_events import check_task_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.pure.gate.input_channel import InputChannel
    from penstock.network.pure.memory.buffer import AnyBuffer
    from penstock.network.pure.memory.debloat import GateDebloating
    from penstock.network.pure.memory.local_buffer_pool import LocalBufferPool


class SingleInputGate(InputGate):
    """Channels of one exchange, served in turn, one buffer each."""

    def __init__(
        self,
        num_channels: int,
        pool: LocalBufferPool | None,
        *,
        debloating: GateDebloating | None = None,
        temp_directories: Sequence[str] = (),
        spill_threshold_bytes: int = SPILL_THRESHOLD_BYTES,
        on_close: Callable[[SingleInputGate], None] | None = None,
    ) -> None:
        super().__init__(num_channels, temp_directories, spill_threshold_bytes)
        self.channels: list[InputChannel] = []
        self.pool = pool
        self._debloating = debloating
        self._received = [0, 0, 0, 0]
        self._on_close = on_close
        self._ready: deque[int] = deque()
        self._is_queued = [False] * num_channels
        self._num_priority = 0
        self._ended = [False] * num_channels
        self._num_ended = 0
        self._requested = False
        self._recovered: deque[tuple[int, AnyBuffer]] = deque()
        """In-flight data of the checkpoint that the task starts from, by channel."""
        self._kept: list[list[bytes]] = [[] for _ in range(num_channels)]
        """Recovered buffers that a pending checkpoint has not yet stored."""

    def request_partitions(self) -> None:
        """Request the data of all producers.

        Raises:
            CancelTaskError: the gate was closed.
        """
        with self._lock:
            if self._closed:
                raise CancelTaskError("the input gate is closed")
            self._requested = True
        for channel in self.channels:
            channel.request()

    def notify_channel_non_empty(self, index: int, *, priority: bool = False) -> None:
        """Queue a channel that has a buffer or an error."""
        with self._lock:
            if self._closed or self._ended[index]:
                return
            if self._is_queued[index]:
                if priority and index in list(self._ready)[self._num_priority :]:
                    self._ready.remove(index)
                else:
                    return
            self._is_queued[index] = True
            if priority:
                self._ready.insert(self._num_priority, index)
                self._num_priority += 1
            else:
                self._ready.append(index)
            self._lock.notify()
        self._notify_ready()

    def recover(self, channel: int, buffers: Sequence[bytes]) -> None:
        """Restore a channel's in-flight data in front of everything that arrives later."""
        channel = integer(channel)
        items_of(buffers)
        contents = [octets(data) for data in buffers]
        self._index(channel)
        with self._lock:
            if self._closed:
                raise CancelTaskError("the input gate is closed")
            if self._requested:
                raise IllegalStateError(
                    "in-flight data is recovered before the partitions are requested"
                )
            for data in contents:
                segment = MemorySegment(bytearray(data))
                buffer = Buffer(segment, FREEING_RECYCLER, DataType.DATA_BUFFER, len(data))
                self._recovered.append((channel, buffer))
            end = serialize_event(EndOfChannelState())
            self._recovered.append((channel, event_buffer(end, DataType.RECOVERY_COMPLETION)))
            self._lock.notify()
        self._notify_ready()

    def _is_ready(self) -> bool:
        return bool(self._ready or self._recovered)

    @property
    def _is_urgent(self) -> bool:
        """Return whether a queued channel has an event that overtakes data."""
        return self._num_priority > 0

    def _poll_urgent(self) -> tuple[int, AnyBuffer] | None:
        while self._is_urgent:
            with self._lock:
                if not self._num_priority:
                    return None
                index = self._pop_channel()
            if self.channels[index].has_priority:
                taken = self._poll_channel(index)
                if taken is not None:
                    return taken
            else:
                # It was read already in the channel's regular turn, which is due again.
                self.notify_channel_non_empty(index)
        return None

    def _pop_channel(self) -> int:
        """Take the first channel of the queue; under the lock."""
        index = self._ready.popleft()
        self._is_queued[index] = False
        if self._num_priority:
            self._num_priority -= 1
        return index

    def _poll(self) -> tuple[int, AnyBuffer] | None:
        with self._lock:
            if self._recovered and not self._num_priority:
                return self._recovered.popleft()
            if not self._ready:
                return None
            index = self._pop_channel()
        return self._poll_channel(index)

    def _poll_channel(self, index: int) -> tuple[int, AnyBuffer] | None:
        if self._ended[index]:
            return None
        channel = self.channels[index]
        try:
            result = channel.next_buffer()
        except Exception as error:
            self._keep_failure(error)
            raise
        if result is None:
            return None
        buffer = result.buffer
        if result.more_available:
            urgent = buffer.data_type.has_priority and channel.has_priority
            self.notify_channel_non_empty(index, priority=urgent)
        if buffer.data_type is DataType.END_OF_PARTITION:
            self._end_channel(channel, buffer, more=result.more_available)
        if self._debloating is not None:
            self._debloating.on_buffer(buffer.size)
        first = 2 if isinstance(channel, RemoteInputChannel) else 0
        self._received[first] += buffer.size
        self._received[first + 1] += 1
        return index, buffer

    def debloat(self, share: float = 1.0) -> list[tuple[int, int]]:
        """Announce the next buffer size to the producers."""
        share = math.ldexp(share, 0)  # of a number only, as float() is not
        if self._debloating is None:
            return []
        in_use = sum(channel.buffers_in_use for channel in self.channels)
        size = self._debloating.recalculate(in_use, share)
        if size is not None:
            for channel in self.channels:
                channel.announce_buffer_size(size)
        return [self._debloating.figures]

    def buffer_usage(self) -> tuple[int, int, int]:
        """Return the number of unread buffers, and the usage of the gate's own memory."""
        usages = [channel.usage() for channel in self.channels]
        own = [exclusive for _, _, exclusive in usages if exclusive is not None]
        total = sum(own)
        if own and self.pool is not None:
            total += self.pool.num_buffers
        return sum(usage[0] for usage in usages), sum(usage[1] for usage in usages), total

    def received(self) -> tuple[int, int, int, int]:
        """Return bytes and buffers read from local producers, and from remote ones."""
        local_bytes, local_buffers, remote_bytes, remote_buffers = self._received
        return local_bytes, local_buffers, remote_bytes, remote_buffers

    def start_persisting(self, checkpoint_id: int) -> None:
        """Start to copy in every channel."""
        checkpoint_id = integer(checkpoint_id)
        # In every channel, barriers follow the recovered data.
        self._kept = [[] for _ in range(self.num_channels)]
        for index, buffer in self._recovered:
            if buffer.data_type.is_buffer:
                self._kept[index].append(bytes(buffer._readable()))
        for channel in self.channels:
            channel.start_persisting(checkpoint_id)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop copying in every channel."""
        checkpoint_id = integer(checkpoint_id)
        for channel in self.channels:
            channel.stop_persisting(checkpoint_id)
        self._kept = [[] for _ in range(self.num_channels)]

    def take_persisted(self, channel: int) -> tuple[list[bytes], bool]:
        """Return the copies of a channel."""
        channel = self._index(channel)
        live, is_complete = self.channels[channel].take_persisted()
        recovered, self._kept[channel] = self._kept[channel], []
        return recovered + live, is_complete

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let a barrier overtake in a channel."""
        channel, checkpoint_id = integers(channel, checkpoint_id)
        return self.channels[self._index(channel)].prioritize_barrier(checkpoint_id)

    def _on_empty(self) -> None:
        if self._debloating is not None:
            self._debloating.on_empty()

    def _keep_failure(self, error: Exception) -> None:
        """Store a failure: a failed gate stays failed for all channels."""
        with self._lock:
            if self._failure is None and not self._closed:
                self._failure = error

    def _end_channel(self, channel: InputChannel, buffer: AnyBuffer, *, more: bool) -> None:
        if more:
            buffer.recycle()
            error = CorruptStreamError(f"data follows EndOfPartition on channel {channel.index}")
            self._keep_failure(error)
            raise error
        with self._lock:
            self._ended[channel.index] = True
            self._num_ended += 1
        # The buffer holds an event and is unpooled, so it outlives its channel.
        channel.release()

    def resume_consumption(self, channel: int) -> None:
        """Let a channel continue after a blocking event."""
        channel = self._index(channel)
        with self._lock:
            if self._closed:
                raise CancelTaskError("the input gate is closed")
            if self._ended[channel]:
                raise IllegalStateError(f"channel {channel} has ended")
        self.channels[channel].resume_consumption()

    def send_task_event(self, event: bytes) -> None:
        """Send a task event to the producers of all channels that have not ended."""
        check_task_event(exact_bytes(event))
        with self._lock:
            if self._closed:
                raise CancelTaskError("the input gate is closed")
            if not self._requested:
                raise IllegalStateError("a task event before the partitions were requested")
            channels = [channel for channel in self.channels if not self._ended[channel.index]]
        for channel in channels:
            channel.send_task_event(event)

    def is_finished(self) -> bool:
        """Return whether every channel has ended."""
        return self._num_ended == self.num_channels

    def _release(self) -> None:
        for channel in self.channels:
            channel.release()
        if self.pool is not None:
            self.pool.lazy_destroy()
        if self._on_close is not None:
            self._on_close(self)
