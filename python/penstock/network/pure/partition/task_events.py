"""Events that consumers send backwards, to the task that writes a partition."""

from __future__ import annotations

import struct
import threading
from collections import deque

from penstock.errors import CancelTaskError, CorruptStreamError, IllegalStateError
from penstock.network.events import RecoveryMetadata, TaskEvent
from penstock.network.pure.wire.messages import MAX_CONTROL_FRAME_BYTES

MAX_WAITING_BYTES = 1 << 20
"""Limit of the bytes of queued events, overhead included."""

MAX_TASK_EVENT_BYTES = MAX_CONTROL_FRAME_BYTES - 128
"""Longest event that fits a message: ids and lengths of its frame need the rest."""

_OVERHEAD_BYTES = 64
_TYPE_ID = struct.Struct(">i")


def check_task_event(event: bytes) -> None:
    """Check that bytes are a valid task event.

    Raises:
        CorruptStreamError: the bytes are not a task event.
        IllegalStateError: the event is too long.
    """
    if len(event) < _TYPE_ID.size:
        raise CorruptStreamError(f"incomplete event: {len(event)} of 4 bytes")
    type_id: int = _TYPE_ID.unpack_from(event)[0]
    if not 0 <= type_id <= RecoveryMetadata.TYPE_ID:
        raise CorruptStreamError(f"unknown event type {type_id}")
    if type_id != TaskEvent.TYPE_ID:
        raise CorruptStreamError(
            f"an event of type {type_id} travels against the stream; only task events do"
        )
    if len(event) > MAX_TASK_EVENT_BYTES:
        raise IllegalStateError(
            f"a task event of {len(event)} bytes; at most {MAX_TASK_EVENT_BYTES} can be sent"
        )


def nobody_listens() -> IllegalStateError:
    """Return the error for the sender of an event whose producer is absent."""
    return IllegalStateError("the task event found no task that writes its partition")


class TaskEventQueue:
    """The events that wait for a task."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._released = False

    def push(self, event: bytes) -> None:
        """Queue an event for the task.

        Raises:
            IllegalStateError: the queue is full, or the partition was released.
        """
        with self._changed:
            if self._released:
                raise nobody_listens()
            size = self._bytes + len(event) + _OVERHEAD_BYTES
            if size > MAX_WAITING_BYTES and self._waiting:
                raise IllegalStateError(
                    f"the task event was refused: {len(self._waiting)} events of "
                    f"{self._bytes} bytes wait for the producing task"
                )
            self._bytes = size
            self._waiting.append(event)
            self._changed.notify()

    def next(self, timeout_ms: int) -> bytes | None:
        """Take the next event, waiting for it up to ``timeout_ms``.

        Raises:
            CancelTaskError: the partition was released.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._released, timeout_ms / 1000)
            if self._released:
                raise CancelTaskError("the partition was released")
            if not self._waiting:
                return None
            event = self._waiting.popleft()
            self._bytes -= len(event) + _OVERHEAD_BYTES
            return event

    def release(self) -> None:
        """Drop queued events and wake waiting threads."""
        with self._changed:
            self._released = True
            self._waiting.clear()
            self._bytes = 0
            self._changed.notify_all()
