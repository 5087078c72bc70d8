"""The feedback channel from the tail of an iteration to the head in the same slot.

The tail must never wait for the head: everything between them may be full of records that only move
if the tail accepts them, and the two would deadlock.  So memory is bounded, and records beyond the
bound go to a file until the head catches up.

A checkpoint includes the records in the feedback: those the head has not emitted when its barrier
leaves, and those the tail adds until the barrier has passed the loop.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.taskexecutor.iterations.spill_file import FedBack, SpillFile

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from penstock.serialization.type_serializer import TypeSerializer

#: Records kept in memory; further ones go to a file.
MAX_ELEMENTS_IN_MEMORY: Final = 16_384


class SuperstepEnd(NamedTuple):
    """The end of a superstep, whose marker has returned to the tail.

    Attributes:
        quiet_steps: Number of supersteps up to this one in which no head is known to have sent a
            record.
    """

    quiet_steps: int


class FeedbackChannel:
    """A queue of records and superstep ends that never blocks its writer."""

    def __init__(self, limit: int = MAX_ELEMENTS_IN_MEMORY) -> None:
        """Create an empty channel.

        Args:
            limit: The number of records to keep in memory.
        """
        self._limit = limit
        self._arrived = threading.Condition()
        self._items: deque[tuple[Any, int] | SuperstepEnd] = deque()
        #: The queue of spilled entries: None stands for a record in the file.
        self._spilled: deque[SuperstepEnd | None] = deque()
        self._file: SpillFile | None = None
        self._serializer: Any = None
        self._directory: Callable[[], str] | None = None
        self._snapshots: dict[int, list[FedBack]] = {}
        self._woken = False
        self._closed = False

    def spill_with(self, serializer: TypeSerializer[object], directory: Callable[[], str]) -> None:
        """Set how and where records beyond the limit are written; called by the tail."""
        self._serializer, self._directory = serializer, directory

    def put(self, value: object, timestamp: int) -> None:
        """Add a record without waiting; it is dropped if the iteration has ended.

        Raises:
            TemporaryFileError: Memory is full, and so is the disk.
        """
        with self._arrived:
            if self._closed:
                return
            spills = self._spilled or len(self._items) >= self._limit
            if spills or self._snapshots:
                element = FedBack(timestamp, self._serializer.serialize(value))
                for snapshot in self._snapshots.values():
                    snapshot.append(element)
            if spills:
                self._spill(element)
            else:
                self._items.append((value, timestamp))
                self._arrived.notify()

    def end_superstep(self, end: SuperstepEnd) -> None:
        """Add the end of a superstep, in order with the records."""
        with self._arrived:
            if not self._closed:
                (self._spilled if self._spilled else self._items).append(end)
                self._arrived.notify()

    def take(self) -> tuple[object, int] | SuperstepEnd | None:
        """Return the next record with its timestamp, or the end of a superstep; None if empty."""
        with self._arrived:
            if not self._items and self._spilled:
                self._load()
            return self._items.popleft() if self._items else None

    def begin_snapshot(self, checkpoint_id: int) -> None:
        """Start a snapshot as the head's barrier leaves: present records, and those added later."""
        with self._arrived:
            self._snapshots[checkpoint_id] = self._content()

    def end_snapshot(self, checkpoint_id: int) -> list[FedBack]:
        """End the snapshot as the barrier reaches the tail; return its records.

        It is empty if the head has ended, or was notified that the checkpoint is aborted.
        """
        with self._arrived:
            found = self._snapshots.get(checkpoint_id, [])
            self._forget_snapshots(checkpoint_id)
            return found

    def abort_snapshot(self, checkpoint_id: int) -> None:
        """Drop the snapshots of an aborted checkpoint and of those before it."""
        with self._arrived:
            self._forget_snapshots(checkpoint_id)

    def wait(self, timeout_s: float) -> None:
        """Wait until the channel has an entry, ``wakeup`` was called, or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        with self._arrived:
            while not (self._items or self._spilled or self._woken):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                self._arrived.wait(left_s)
            self._woken = False

    def wakeup(self) -> None:
        """End a wait, or the next one; any thread."""
        with self._arrived:
            self._woken = True
            self._arrived.notify()

    def close(self) -> None:
        """Drop all entries and accept no more."""
        with self._arrived:
            self._closed = True
            self._items.clear()
            self._spilled.clear()
            self._snapshots.clear()
            if self._file is not None:
                self._file.close()
                self._file = None

    @property
    def has_tail(self) -> bool:
        """Return whether a tail has opened the channel."""
        return self._serializer is not None

    @property
    def num_spilled(self) -> int:
        """Number of records in the file."""
        return len(self._spilled)

    def _content(self) -> list[FedBack]:
        """Return all records, encoded: values may change once the head has emitted them."""
        found = [
            FedBack(item[1], self._serializer.serialize(item[0]))
            for item in self._items
            if not isinstance(item, SuperstepEnd)
        ]
        if self._file is not None:
            found.extend(self._file.first(self._spilled.count(None)))
        return found

    def _forget_snapshots(self, up_to: int) -> None:
        self._snapshots = {n: content for n, content in self._snapshots.items() if n > up_to}

    def _spill(self, element: FedBack) -> None:
        if self._file is None:
            assert self._directory is not None, "the tail says where to spill"
            self._file = SpillFile(self._directory())
        self._file.append(element)
        self._spilled.append(None)

    def _load(self) -> None:
        """Load as many records from the file as memory may hold."""
        assert self._file is not None, "what was spilled is in the file"
        count = min(self._limit, len(self._spilled))
        order = [self._spilled.popleft() for _ in range(count)]
        elements = iter(self._file.take(order.count(None)))
        for superstep_end in order:
            if superstep_end is not None:
                self._items.append(superstep_end)
            else:
                element = next(elements)
                self._items.append((self._serializer.deserialize(element.data), element.timestamp))


class _Entry:
    def __init__(self) -> None:
        self.channel = FeedbackChannel()
        self.users = 0


_lock: Final = threading.Lock()
_entries: Final[dict[Hashable, _Entry]] = {}


def open_channel(key: Hashable) -> FeedbackChannel:
    """Return the channel shared by the head and the tail with ``key``; the first creates it.

    Both call `close_channel` when they end.
    """
    with _lock:
        entry = _entries.setdefault(key, _Entry())
        entry.users += 1
        return entry.channel


def close_channel(key: Hashable) -> None:
    """Close the channel, and forget it once its other end has closed it as well."""
    with _lock:
        entry = _entries[key]
        entry.users -= 1
        if entry.users == 0:
            del _entries[key]
    entry.channel.close()
