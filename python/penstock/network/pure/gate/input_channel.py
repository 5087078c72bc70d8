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
        """Queue a channel that has a buffer or an error.  Called from any thread, under no lock."""


@dataclass(frozen=True, slots=True)
class ChannelBuffer:
    """A buffer taken from a channel and whether another one follows."""

    buffer: AnyBuffer
    more_available: bool


class InputChannel:
    """The common part of both kinds of channels."""

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
        """Request the subpartition from the producer, once."""
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
        """Send a serialized task event to the producer; if it is absent, the channel fails."""
        raise NotImplementedError

    # -- unaligned checkpoints ------------------------------------------------------------

    def start_persisting(self, checkpoint_id: int) -> None:
        """Copy the data that belongs to a checkpoint; reader only."""
        with self._lock:
            self._persister.start(checkpoint_id, self._waiting())
        self._kept = []

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop copying for the checkpoint and any earlier one; reader only."""
        with self._lock:
            ends = self._persister.stop(checkpoint_id)
        if ends:
            self._kept = []

    def take_persisted(self) -> tuple[list[bytes], bool]:
        """Return the copies since the last call, and whether they are complete; reader only."""
        with self._lock:
            of_interest, is_complete = self._persister.take()
            data = [buffer for buffer in self._waiting() if buffer.data_type.is_buffer]
            waiting = [buffer.retain() for buffer in data[of_interest.start : of_interest.stop]]
        kept, self._kept = self._kept, []
        for buffer in waiting:
            kept.append(bytes(buffer._readable()))
            buffer.recycle()
        return kept, is_complete

    @property
    def has_priority(self) -> bool:
        """Return whether the next element is an event that overtakes data."""
        raise NotImplementedError

    def prioritize_barrier(self, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it; return False if it is absent.

        A channel that reads its producer's own queue has no announced barrier: the barrier times
        out there.
        """
        del checkpoint_id
        return False

    def _waiting(self) -> Iterable[AnyBuffer]:
        """Return the buffers in the channel; call it under its lock."""
        raise NotImplementedError

    # -- debloating -----------------------------------------------------------------------

    def usage(self) -> tuple[int, int, int | None]:
        """Return the numbers of queued buffers, of those in the gate's memory, and their limit.

        The limit is the number of the channel's own buffers; None if it needs none.
        """
        return self.buffers_in_use, 0, None

    @property
    def buffers_in_use(self) -> int:
        """The number of buffers between producer and reader that are known here."""
        raise NotImplementedError

    def announce_buffer_size(self, size: int) -> None:
        """Announce the size in bytes of the next buffers to the producer."""
        raise NotImplementedError

    def release(self) -> None:
        """Release all buffers; a second call does nothing."""
        raise NotImplementedError

    def fail(self, error: Exception) -> None:
        """Store the first error and notify the gate."""
        if self._error is None:
            self._error = error
        self._gate.notify_channel_non_empty(self.index)

    def _check_error(self) -> None:
        if self._error is not None:
            raise self._error
