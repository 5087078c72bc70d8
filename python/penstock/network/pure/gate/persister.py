"""What of a channel belongs to an unaligned checkpoint (SEMANTICS F6).

That is the data between the state of the task and the checkpoint's barrier: a barrier overtakes
data, so some of it may lie in front of the barrier's place when persisting starts; without a
barrier yet, what arrives until it comes belongs to the checkpoint too.
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import TYPE_CHECKING

from penstock.errors import IllegalStateError
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.network.pure.memory.buffer import AnyBuffer

_BARRIER_HEAD = struct.Struct(">iq")


class ChannelStatePersister:
    """Keeps copies for one channel, under the channel's lock."""

    def __init__(self) -> None:
        self._seen: int | None = None
        self._before_barrier = 0
        self._expected: int | None = None
        self._persisted: list[bytes] = []

    def start(self, checkpoint_id: int, queued: Iterable[AnyBuffer]) -> None:
        """Begin with a checkpoint; ``queued`` is what lies in the channel.

        Raises:
            IllegalStateError: a later checkpoint's barrier has arrived.
        """
        if self._seen is not None and self._seen > checkpoint_id:
            raise IllegalStateError(f"checkpoint {checkpoint_id} is subsumed by {self._seen}")
        data = (bytes(buffer.view()) for buffer in queued if buffer.data_type.is_buffer)
        if self._seen == checkpoint_id:
            self._expected = None
            self._persisted = list(islice(data, self._before_barrier))
        else:
            self._expected = checkpoint_id
            self._persisted = list(data)

    def stop(self, checkpoint_id: int) -> None:
        """End with a checkpoint and all before it; what was not taken is dropped."""
        if self._expected is None or self._expected <= checkpoint_id:
            self._expected = None
            self._persisted = []

    def take(self) -> tuple[list[bytes], bool]:
        """Return what was persisted since the last call, and whether that was all."""
        persisted, self._persisted = self._persisted, []
        return persisted, self._expected is None

    def on_arrival(self, buffer: AnyBuffer, queued: Iterable[AnyBuffer]) -> None:
        """Something arrives while ``queued`` lies in the channel."""
        if buffer.data_type.is_buffer:
            if self._expected is not None:
                self._persisted.append(bytes(buffer.view()))
        elif buffer.data_type is DataType.END_OF_PARTITION:
            self._expected = None
        elif (checkpoint_id := barrier_id(buffer)) is not None:
            self._seen = checkpoint_id
            self._before_barrier = sum(waiting.data_type.is_buffer for waiting in queued)
            if self._expected is not None and self._expected <= checkpoint_id:
                self._expected = None

    def on_taken(self, buffer: AnyBuffer) -> None:
        """Something leaves the channel for its reader."""
        if self._before_barrier and buffer.data_type.is_buffer:
            self._before_barrier -= 1


def barrier_id(event: AnyBuffer) -> int | None:
    """The checkpoint of a serialized barrier; None for another event."""
    view = event.view()
    if len(view) < _BARRIER_HEAD.size:
        return None
    kind, checkpoint_id = _BARRIER_HEAD.unpack_from(view)
    return checkpoint_id if kind == CheckpointBarrier.TYPE_ID else None
