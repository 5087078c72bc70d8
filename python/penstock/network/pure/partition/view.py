"""Reader's view of a subpartition of either kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from penstock.network.data_type import DataType
    from penstock.network.pure.memory.buffer import BufferSlice
    from penstock.network.pure.partition.result_partition import ResultPartition

_MAX_SEQUENCE = 2**31


def next_sequence_number(number: int) -> int:
    """Return the successor; the numbers wrap as signed 32-bit integers do."""
    number += 1
    return number - 2 * _MAX_SEQUENCE if number == _MAX_SEQUENCE else number


class AvailabilityListener(Protocol):
    """Receives a notification when a view can be polled.  Called from any thread, under no lock."""

    def notify_data_available(self) -> None:
        """Poll the view."""

    def notify_priority_event(self, sequence_number: int) -> None:
        """Poll the view: a priority event waits at its head."""


@dataclass(frozen=True, slots=True)
class BufferAndBacklog:
    """A polled buffer and the known state of the following ones."""

    buffer: BufferSlice
    backlog: int
    next_data_type: DataType
    sequence_number: int


class Subpartition:
    """One consumer's part of a result partition."""

    def __init__(self, index: int, parent: ResultPartition) -> None:
        self.index = index
        self._parent = parent
        self._released = False
        self.total_buffers = 0
        self.total_bytes = 0

    @property
    def parent(self) -> ResultPartition:
        """The partition that it is part of."""
        return self._parent

    @property
    def num_queued(self) -> int:
        """The number of queued elements in memory."""
        raise NotImplementedError

    @property
    def has_priority(self) -> bool:
        """Return whether the next element is an event that overtakes data."""
        return False

    @property
    def is_released(self) -> bool:
        """Return whether ``release`` was called."""
        return self._released

    @property
    def failure_cause(self) -> str | None:
        """The cause of the producer's failure, if it failed."""
        return self._parent._failure_cause


S = TypeVar("S", bound=Subpartition)


class SubpartitionView(Generic[S]):
    """A reader's handle on a subpartition, with the listener for new data."""

    def __init__(self, subpartition: S, listener: AvailabilityListener) -> None:
        self._subpartition = subpartition
        self._listener = listener
        self._released = False

    def notify_data_available(self) -> None:
        """Notify the reader, even if the producer is gone: the reader detects that itself."""
        self._listener.notify_data_available()

    @property
    def num_queued(self) -> int:
        """The number of queued elements in memory."""
        return self._subpartition.num_queued

    @property
    def has_priority(self) -> bool:
        """Return whether the next element is an event that overtakes data."""
        return self._subpartition.has_priority

    @property
    def is_released(self) -> bool:
        """Return whether either end has released it."""
        return self._released or self._subpartition.is_released

    @property
    def failure_cause(self) -> str | None:
        """The cause of the producer's failure, if it failed."""
        return self._subpartition.failure_cause
