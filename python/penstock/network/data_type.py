"""Contents of a network buffer; the ordinal travels on the wire, so the order is fixed."""

from __future__ import annotations

import enum


class DataType(enum.IntEnum):
    """Kind of a buffer's content (internals M2)."""

    NONE = 0
    DATA_BUFFER = 1
    EVENT_BUFFER = 2
    PRIORITIZED_EVENT_BUFFER = 3
    ALIGNED_CHECKPOINT_BARRIER = 4
    TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER = 5
    RECOVERY_COMPLETION = 6
    END_OF_SEGMENT = 7
    DATA_BUFFER_WITH_CLEAR_END = 8
    END_OF_DATA = 9
    END_OF_PARTITION = 10
    RECOVERY_METADATA = 11

    @property
    def is_buffer(self) -> bool:
        """Return whether it carries records."""
        return self in _BUFFERS

    @property
    def is_event(self) -> bool:
        """Return whether it carries one serialized event."""
        return self not in _BUFFERS and self is not DataType.NONE

    @property
    def is_blocking_upstream(self) -> bool:
        """Return whether its channel is blocked after it until consumption is resumed."""
        return self in _BLOCKING_UPSTREAM

    @property
    def has_priority(self) -> bool:
        """Return whether it overtakes queued elements."""
        return self is DataType.PRIORITIZED_EVENT_BUFFER

    @property
    def requires_announcement(self) -> bool:
        """Return whether the receiver announces it ahead of its place in the queue."""
        return self is DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER

    @property
    def is_partial_record_allowed(self) -> bool:
        """Return whether a record may begin in it and end in a later one."""
        return self is DataType.DATA_BUFFER


_BUFFERS = frozenset({DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END})
_BLOCKING_UPSTREAM = frozenset(
    {
        DataType.ALIGNED_CHECKPOINT_BARRIER,
        DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
        DataType.RECOVERY_COMPLETION,
    }
)
