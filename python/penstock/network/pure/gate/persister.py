"""In-flight data of a channel that belongs to an unaligned checkpoint (internals M57).

This is the data between the task's state and the checkpoint's barrier.  A barrier overtakes data,
so data may precede the barrier's place when persisting starts.  If the barrier has not arrived, the
data that arrives until then belongs to the checkpoint, too.

The persister counts buffers and does not hold them: data of the checkpoint stays in the channel
until its reader takes and copies it.  So no buffer is held longer than without a checkpoint.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.network.pure.memory.buffer import AnyBuffer

_BARRIER_HEAD = struct.Struct(">iq")


class ChannelStatePersister:
    """Counts for one channel, under the channel's lock."""

    def __init__(self) -> None:
        self._seen: int | None = None
        self._before_barrier = 0
        self._expected: int | None = None
        self._copied = 0
        self._waiting = 0

    def start(self, checkpoint_id: int, queued: Iterable[AnyBuffer]) -> None:
        """Start with a checkpoint; ``queued`` are the elements in the channel.

        Raises:
            IllegalStateError: a later checkpoint's barrier has arrived.
        """
        if self._seen is not None and self._seen > checkpoint_id:
            raise IllegalStateError(f"checkpoint {checkpoint_id} is subsumed by {self._seen}")
        self._copied = 0
        self._waiting = _count_data(queued)
        if self._seen == checkpoint_id:
            self._expected = None
            self._waiting = min(self._waiting, self._before_barrier)
        else:
            self._expected = checkpoint_id

    def stop(self, checkpoint_id: int) -> bool:
        """Stop for a checkpoint and all earlier ones; return True if it was the current one."""
        ends = self._expected is None or self._expected <= checkpoint_id
        if ends:
            self._expected = None
            self._copied = self._waiting = 0
        return ends

    def take(self) -> tuple[range, bool]:
        """Return the data buffers to copy now, and whether they are the last ones."""
        start = self._copied
        self._copied += self._waiting
        self._waiting = 0
        return range(start, self._copied), self._expected is None

    def on_arrival(self, buffer: AnyBuffer, queued: Iterable[AnyBuffer]) -> None:
        """Count an arriving element while ``queued`` elements are in the channel."""
        if buffer.data_type.is_buffer:
            self._waiting += self._expected is not None
        elif buffer.data_type is DataType.END_OF_PARTITION:
            self._expected = None
        elif (checkpoint_id := barrier_id(buffer)) is not None:
            self._seen = checkpoint_id
            self._before_barrier = _count_data(queued)
            if self._expected is not None and self._expected <= checkpoint_id:
                self._expected = None

    def on_taken(self, buffer: AnyBuffer) -> bool:
        """Count an element that the reader takes; return True if the reader must copy it."""
        if not buffer.data_type.is_buffer:
            return False
        if self._before_barrier:
            self._before_barrier -= 1
        if self._copied:
            self._copied -= 1
            return False
        if self._waiting:
            self._waiting -= 1
            return True
        return False


def _count_data(buffers: Iterable[AnyBuffer]) -> int:
    return sum(buffer.data_type.is_buffer for buffer in buffers)


def barrier_id(event: AnyBuffer) -> int | None:
    """Return the checkpoint of a serialized barrier; None for another event."""
    view = event._readable()
    if len(view) < _BARRIER_HEAD.size:
        return None
    kind, checkpoint_id = _BARRIER_HEAD.unpack_from(view)
    return checkpoint_id if kind == CheckpointBarrier.TYPE_ID else None
