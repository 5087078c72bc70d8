"""The consumer's end of one subpartition (internals M19 and M22)."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.network.pure.gate.persister import ChannelStatePersister

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.network.pure.memory.buffer import AnyBuffer


class ChannelGate(Protocol):
    """Notifications from a channel to its gate."""

    def notify_channel_non_empty(self, index: int, *, priority: bool = False) -> None:
        """The channel has a buffer or an error.  Called from any thread, under no lock."""


@dataclass(frozen=True, slots=True)
class ChannelBuffer:
    """A buffer taken from a channel and whether another one follows."""

    buffer: AnyBuffer
    more_available: bool


class InputChannel:
    """Common part of both kinds of channels."""

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
        self._kept: list[bytes] = []
        self._requested = False
        self._released = False

    def request(self) -> None:
        """Ask the producer for the subpartition, once."""
        with self._lock:
            if self._requested or self._released:
                return
            self._requested = True
        self._request_subpartition()

    def _request_subpartition(self) -> None:
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
        """Keep copies of the data that belongs to a checkpoint; reader only."""
        with self._lock:
            self._persister.start(checkpoint_id, self._waiting())
        self._kept = []

    def stop_persisting(self, checkpoint_id: int) -> None:
        """The checkpoint, and any before it, needs no more; reader only."""
        with self._lock:
            ends = self._persister.stop(checkpoint_id)
        if ends:
            self._kept = []

    def take_persisted(self) -> tuple[list[bytes], bool]:
        """Return what was kept since the last call, and whether that was all; reader only."""
        with self._lock:
            of_interest, is_complete = self._persister.take()
            data = [buffer for buffer in self._waiting() if buffer.data_type.is_buffer]
            waiting = [buffer.retain() for buffer in data[of_interest.start : of_interest.stop]]
        kept, self._kept = self._kept, []
        for buffer in waiting:
            kept.append(bytes(buffer.view()))
            buffer.recycle()
        return kept, is_complete

    @property
    def has_priority(self) -> bool:
        """Return whether an event that overtakes data comes next."""
        raise NotImplementedError

    def prioritize_barrier(self, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it; False when it is not here.

        It never is where a channel reads its producer's own queue: there it times out.
        """
        del checkpoint_id
        return False

    def _waiting(self) -> Iterable[AnyBuffer]:
        """Return the buffers in the channel; call it under its lock."""
        raise NotImplementedError

    # -- debloating -----------------------------------------------------------------------

    def usage(self) -> tuple[int, int, int | None]:
        """Return how many buffers wait, how many of them lie in memory of the gate, and of what.

        The last one is the number of the channel's own buffers; None where it needs none.
        """
        return self.buffers_in_use, 0, None

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
