"""The way back: from the tail of an iteration to the head in the same slot.

The tail must never wait for the head: everything between them may be full of records that only
move when the tail takes them, and the two would wait for each other.  So memory is bounded, and
what exceeds the bound goes to a file until the head catches up.

What is on its way back belongs to a checkpoint: what the head has not emitted when its barrier
leaves, and what the tail puts in until the barrier has come round.
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

#: Records that are kept in memory; further ones wait in a file.
MAX_ELEMENTS_IN_MEMORY: Final = 16_384


class SuperstepEnd(NamedTuple):
    """The marker of a superstep came back.

    Attributes:
        quiet_steps: For how many supersteps, that one included, no head is known to have sent an
            record.
    """

    quiet_steps: int


class FeedbackChannel:
    """A queue of records and superstep ends that takes everything at once."""

    def __init__(self, limit: int = MAX_ELEMENTS_IN_MEMORY) -> None:
        """Creates an empty channel.

        Args:
            limit: The number of records to keep in memory.
        """
        self._limit = limit
        self._arrived = threading.Condition()
        self._items: deque[tuple[Any, int] | SuperstepEnd] = deque()
        #: The queue of entries: None for a record, which is in the file.
        self._spilled: deque[SuperstepEnd | None] = deque()
        self._file: SpillFile | None = None
        self._serializer: Any = None
        self._directory: Callable[[], str] | None = None
        self._snapshots: dict[int, list[FedBack]] = {}
        self._woken = False
        self._closed = False

    def spill_with(self, serializer: TypeSerializer[Any], directory: Callable[[], str]) -> None:
        """Says how records beyond the limit are written, and where; called by the tail."""
        self._serializer, self._directory = serializer, directory

    def put(self, value: Any, timestamp: int) -> None:
        """Takes a record; never waits.  Dropped when the iteration has ended.

        Raises:
            TemporaryFileError: Memory holds no more, and neither does the disk.
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
        """Takes the end of a superstep, in order with the records."""
        with self._arrived:
            if not self._closed:
                (self._spilled if self._spilled else self._items).append(end)
                self._arrived.notify()

    def take(self) -> tuple[Any, int] | SuperstepEnd | None:
        """The next record with its timestamp, or the end of a superstep; None without any."""
        with self._arrived:
            if not self._items and self._spilled:
                self._load()
            return self._items.popleft() if self._items else None

    def begin_snapshot(self, checkpoint_id: int) -> None:
        """The head's barrier leaves: keeps what is here, and from now on what comes."""
        with self._arrived:
            self._snapshots[checkpoint_id] = self._content()

    def end_snapshot(self, checkpoint_id: int) -> list[FedBack]:
        """The barrier has come round to the tail: what was on its way back.

        Nothing when the head has ended, or was told that the checkpoint is aborted.
        """
        with self._arrived:
            found = self._snapshots.get(checkpoint_id, [])
            self._forget_snapshots(checkpoint_id)
            return found

    def abort_snapshot(self, checkpoint_id: int) -> None:
        """The checkpoint will not be completed, nor will those before it."""
        with self._arrived:
            self._forget_snapshots(checkpoint_id)

    def wait(self, timeout_s: float) -> None:
        """Waits until there is something to take, ``wakeup`` was called, or the time is over."""
        deadline_s = time.monotonic() + timeout_s
        with self._arrived:
            while not (self._items or self._spilled or self._woken):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    break
                self._arrived.wait(left_s)
            self._woken = False

    def wakeup(self) -> None:
        """Ends a wait, or the next one, from any thread."""
        with self._arrived:
            self._woken = True
            self._arrived.notify()

    def close(self) -> None:
        """Drops what is left and takes nothing any more."""
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
        """Return whether there is somebody to put records in."""
        return self._serializer is not None

    @property
    def num_spilled(self) -> int:
        """Number of records in the file."""
        return len(self._spilled)

    def _content(self) -> list[FedBack]:
        """Everything that is here, encoded: values may change once the head has emitted them."""
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
        """Brings as much as memory may hold back from the file."""
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
    """The channel that the head and the tail with the same key share; whoever comes first makes it.

    Both call `close_channel` when they end.
    """
    with _lock:
        entry = _entries.setdefault(key, _Entry())
        entry.users += 1
        return entry.channel


def close_channel(key: Hashable) -> None:
    """Closes the channel, and forgets it when its other end has closed it as well."""
    with _lock:
        entry = _entries[key]
        entry.users -= 1
        if entry.users == 0:
            del _entries[key]
    entry.channel.close()
