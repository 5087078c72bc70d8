"""Input of one task: the common part of a gate of one exchange and a union (internals M23)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, SupportsIndex

from penstock.errors import CancelTaskError, CorruptStreamError, IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.pure.arguments import amount, exact_bytes, integer, integers, items_of
from penstock.network.pure.framing.deserializer import SPILL_THRESHOLD_BYTES, RecordDeserializer
from penstock.network.pure.home import OfOneProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.network.pure.memory.buffer import AnyBuffer

NOTHING = 0
DATA = 1
EVENT = 2
END_OF_INPUT = 3

RecordBatch = tuple[int, int, int, list[bytes | memoryview]]
"""Kind, channel, data type, and the records (kind DATA) or the one event (kind EVENT)."""


class InputGate(OfOneProcess):
    """The reading interface; one task thread reads, any thread may wake or close.

    A buffer's bytes are copied once when it is taken, and the buffer returns to its pool at once.
    A gate may be closed while its reader works, so the reader must never hold a segment.
    """

    def __init__(
        self,
        num_channels: int,
        temp_directories: Sequence[str] = (),
        spill_threshold_bytes: int = SPILL_THRESHOLD_BYTES,
    ) -> None:
        super().__init__()
        self.num_channels = num_channels
        self._idle_ns = 0
        """Nanoseconds spent waiting in reads."""
        self._lock = threading.Condition()
        self._woken = False
        self._closed = False
        self._failure: Exception | None = None
        self._deserializers = [
            RecordDeserializer(temp_directories, spill_threshold_bytes) for _ in range(num_channels)
        ]
        self._on_ready: Callable[[], None] | None = None
        self._gathers: bytes | None = None
        """The barrier that is counted and not returned; None until the first one arrives."""
        self._barriers_left = 0
        self._gathered: list[int] = []
        self._first_gathered: tuple[bytes, int, int] | None = None
        """The first barrier if it came while gathering: its bytes, time, and preceding bytes."""
        self._bytes = 0
        """Bytes of elements and events returned by `next_records`, lengths included."""

    # -- reading --------------------------------------------------------------------------

    def next_buffer(self, timeout_ms: int) -> tuple[int, int, bytes] | None:
        """Return channel, data type and bytes of the next buffer.

        None means a timeout, a wakeup of the gate, or the end of all input.
        A negative timeout waits without limit.

        Raises:
            CancelTaskError: the gate was closed.
            NetworkError: a channel has failed.
        """
        taken = self._take(_deadline(integer(timeout_ms)))
        if taken is None:
            return None
        channel, buffer = taken
        return channel, int(buffer.data_type), _contents(buffer)

    def _next_records(self, timeout_ms: int) -> RecordBatch:
        """Return the records that end in the next buffer, or the next event.

        Raises:
            CancelTaskError: the gate was closed.
            NetworkError: a channel has failed.
        """
        deadline = _deadline(timeout_ms)
        while True:
            taken = self._take(deadline, data_first=True)
            if taken is None:
                return (END_OF_INPUT if self.is_finished() else NOTHING), -1, 0, []
            channel, buffer = taken
            data_type = buffer.data_type
            data = _contents(buffer)
            deserializer = self._deserializers[channel]
            if data_type.is_buffer:
                records = deserializer._views_of(memoryview(data))
                if not records:
                    continue
                self._bytes += sum(map(len, records)) + 4 * len(records)
                return DATA, channel, data_type, records
            # Recovered data may end within a record, which later data completes.
            may_split = data_type.has_priority or data_type is DataType.RECOVERY_COMPLETION
            if deserializer.has_pending_bytes and not may_split:
                raise CorruptStreamError(
                    f"{data_type.name} on channel {channel} inside a record: broken serialization"
                )
            if not self._gathers_it(channel, data_type, data):
                self._bytes += len(data)
                return EVENT, channel, data_type, [data]

    def gather_barriers(self, event: bytes | None, left: int) -> None:
        """Count aligned barriers that equal ``event``, except the last outstanding one.

        Raises:
            OverflowError: the number of barriers left is negative.
        """
        if event is not None:
            exact_bytes(event)
        self._gathers, self._barriers_left = event, amount(left)

    def take_gathered(self) -> tuple[list[int], tuple[bytes, int, int] | None]:
        """Stop gathering; return the channels with counted barriers, and the first barrier."""
        gathered, self._gathered = self._gathered, []
        first, self._first_gathered = self._first_gathered, None
        self._gathers, self._barriers_left = None, 0
        if first is None:
            return gathered, None
        event, came_ns, before = first
        return gathered, (event, time.monotonic_ns() - came_ns, before)

    def _gathers_it(self, channel: int, data_type: DataType, event: bytes) -> bool:
        if (
            self._barriers_left <= 1
            or data_type is not DataType.ALIGNED_CHECKPOINT_BARRIER
            or self._gathers not in (None, event)
        ):
            return False
        if self._gathers is None:
            self._gathers = event
            self._first_gathered = event, time.monotonic_ns(), self._bytes
        self._barriers_left -= 1
        self._gathered.append(channel)
        return True

    def _next_urgent(self) -> tuple[int, int, bytes] | None:
        """Return channel, data type and bytes of the next event that overtakes data, or None.

        Raises:
            CancelTaskError: the gate was closed.
            NetworkError: a channel has failed.
        """
        if not self._is_urgent:
            return None
        with self._lock:
            self._check_open()
        taken = self._poll_urgent()
        if taken is None:
            return None
        channel, buffer = taken
        data_type = int(buffer.data_type)
        data = _contents(buffer)
        self._bytes += len(data)
        return channel, data_type, data

    def _take(
        self, deadline: float | None, *, data_first: bool = False
    ) -> tuple[int, AnyBuffer] | None:
        """Wait for a buffer of any channel.

        If ``data_first``, a pending wakeup is left to a call that finds no data.
        """
        while self._wait_ready(deadline, data_first=data_first):
            taken = self._poll()
            if taken is not None:
                return taken
        return None

    def _wait_ready(self, deadline: float | None, *, data_first: bool) -> bool:
        with self._lock:
            while True:
                self._check_open()
                if self._woken and not (data_first and self._is_ready()):
                    self._woken = False
                    return False
                if self._is_ready():
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                self._on_empty()
                if (left is not None and left <= 0) or self.is_finished():
                    return False
                began = time.monotonic_ns()
                self._lock.wait(left)
                self._idle_ns += time.monotonic_ns() - began

    def _check_open(self) -> None:
        if self._closed:
            raise CancelTaskError("the input gate is closed")
        if self._failure is not None:
            raise self._failure

    def unconsumed(self, channel: int) -> bytes:
        """Return the bytes of a channel's incomplete record.

        Raises:
            IllegalStateError: there is no such channel.
        """
        return self._deserializers[self._index(channel)].unconsumed()

    def _index(self, channel: SupportsIndex) -> int:
        """Return the index of a channel.

        Raises:
            IllegalStateError: there is no such channel.
        """
        index = integer(channel)
        if not 0 <= index < self.num_channels:
            raise IllegalStateError(f"channel {index} of a gate with {self.num_channels}")
        return index

    # - what the kinds of gates implement -----------------------------------------------

    def debloat(self, share: float = 1.0) -> list[tuple[int, int]]:
        """Announce the next buffer size to the producers, by the throughput since the last call.

        Returns:
            For each debloated gate, the announced size in bytes, and the ms that processing
            all in-flight data takes.
        """
        raise NotImplementedError

    def buffer_usage(self) -> tuple[int, int, int]:
        """Return the number of unread buffers, and the usage of the gate's own memory."""
        raise NotImplementedError(type(self).__name__ + ".buffer_usage")

    def received(self) -> tuple[int, int, int, int]:
        """Return bytes and buffers read from local producers, and from remote ones."""
        raise NotImplementedError(type(self).__name__ + ".received")

    def _on_empty(self) -> None:
        """Stop the measurement of the throughput, since the input is empty."""
        raise NotImplementedError

    def start_persisting(self, checkpoint_id: int) -> None:
        """Start to copy the data that belongs to an unaligned checkpoint.

        Raises:
            IllegalStateError: a later checkpoint's barrier has arrived.
        """
        raise NotImplementedError

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop copying for a checkpoint and any earlier one, and drop remaining copies."""
        raise NotImplementedError

    def take_persisted(self, channel: int) -> tuple[list[bytes], bool]:
        """Return the copied data of a channel since the last call, and whether it is complete.

        Raises:
            IllegalStateError: there is no such channel.
        """
        raise NotImplementedError

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it in its channel.

        Returns:
            False if the barrier was not announced, or was read already.

        Raises:
            IllegalStateError: there is no such channel.
        """
        raise NotImplementedError

    def recover(self, channel: int, buffers: Sequence[bytes]) -> None:
        """Restore a channel's in-flight data in front of everything that arrives later.

        Raises:
            CancelTaskError: the gate was closed.
            IllegalStateError: there is no such channel, or the partitions were requested.
        """
        raise NotImplementedError

    @property
    def _is_urgent(self) -> bool:
        """Return whether `_poll_urgent` may return something."""
        raise NotImplementedError

    def _poll_urgent(self) -> tuple[int, AnyBuffer] | None:
        """Take the next event that overtakes data; never waits."""
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def _poll(self) -> tuple[int, AnyBuffer] | None:
        raise NotImplementedError

    def request_partitions(self) -> None:
        """Request the data of all producers; return at once, failures appear when reading."""
        raise NotImplementedError

    def resume_consumption(self, channel: int) -> None:
        """Let a channel continue after a blocking event.

        Raises:
            CancelTaskError: the gate was closed.
            IllegalStateError: there is no such channel, or it has ended or is not blocked.
        """
        raise NotImplementedError

    def resume_all(self, channels: Sequence[int]) -> None:
        """Let several channels continue after blocking events."""
        items_of(channels)
        for channel in [self._index(each) for each in integers(*channels)]:
            self.resume_consumption(channel)

    def send_task_event(self, event: bytes) -> None:
        """Send a serialized task event to the producers of all channels that have not ended.

        Raises:
            CancelTaskError: the gate was closed.
            CorruptStreamError: the bytes are no task event.
            IllegalStateError: the event is too long, or the partitions were not requested.
        """
        raise NotImplementedError

    def is_finished(self) -> bool:
        """Return whether every channel has delivered EndOfPartition."""
        raise NotImplementedError

    def release_batch(self) -> None:
        """Do nothing, since reads return copies."""

    # -- any thread -----------------------------------------------------------------------

    def wakeup(self) -> None:
        """Make the current or the next read return without a buffer."""
        with self._lock:
            self._woken = True
            self._lock.notify_all()

    def close(self) -> None:
        """Release all buffers; blocked and later reads raise CancelTaskError.

        In a forked child, nothing happens.
        """
        if self._is_left:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._lock.notify_all()
        self._release()
        self._notify_ready()

    def _release(self) -> None:
        raise NotImplementedError

    def _notify_ready(self) -> None:
        if self._on_ready is not None:
            self._on_ready()


def _deadline(timeout_ms: int) -> float | None:
    return None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000


def _contents(buffer: AnyBuffer) -> bytes:
    """Copy a buffer and recycle it."""
    try:
        return bytes(buffer._readable())
    finally:
        buffer.recycle()
