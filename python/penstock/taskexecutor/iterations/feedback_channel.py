"""The way back: from the tail of an iteration to the head in the same slot.

The tail must never wait for the head: everything between them may be full of elements that only
move when the tail takes them, and the two would wait for each other.  So memory is bounded, and
what exceeds the bound goes to a file until the head catches up.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

#: Elements that are kept in memory; further ones wait in a file.
MAX_ELEMENTS_IN_MEMORY: Final = 16_384

_FRAME: Final = struct.Struct(">qI")


class SuperstepEnd(NamedTuple):
    """The marker of a superstep came back.

    Attributes:
        quiet_steps: For how many supersteps, that one included, no head is known to have sent an
            element.
    """

    quiet_steps: int


class FeedbackChannel:
    """A queue of elements and superstep ends that takes everything at once."""

    def __init__(self, limit: int = MAX_ELEMENTS_IN_MEMORY) -> None:
        """Creates an empty channel.

        Args:
            limit: The number of elements to keep in memory.
        """
        self._limit = limit
        self._arrived = threading.Condition()
        self._items: deque[tuple[Any, int] | SuperstepEnd] = deque()
        self._spilled: deque[int | SuperstepEnd] = deque()
        self._file: BinaryIO | None = None
        self._read_at = 0
        self._write_at = 0
        self._codec: Any = None
        self._directory: Callable[[], str] | None = None
        self._woken = False
        self._closed = False

    def spill_with(self, codec: Any, directory: Callable[[], str]) -> None:
        """Says how elements beyond the limit are written, and where; called by the tail."""
        self._codec, self._directory = codec, directory

    def put(self, value: Any, timestamp: int) -> None:
        """Takes an element; never waits.  Dropped when the iteration has ended."""
        with self._arrived:
            if self._closed:
                return
            if self._spilled or len(self._items) >= self._limit:
                self._spill(value, timestamp)
            else:
                self._items.append((value, timestamp))
                self._arrived.notify()

    def end_superstep(self, end: SuperstepEnd) -> None:
        """Takes the end of a superstep, in order with the elements."""
        with self._arrived:
            if not self._closed:
                (self._spilled if self._spilled else self._items).append(end)
                self._arrived.notify()

    def take(self) -> tuple[Any, int] | SuperstepEnd | None:
        """The next element with its timestamp, or the end of a superstep; None without any."""
        with self._arrived:
            if not self._items and self._spilled:
                self._load()
            return self._items.popleft() if self._items else None

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
            if self._file is not None:
                self._file.close()
                self._file = None

    @property
    def num_spilled(self) -> int:
        """What waits in the file."""
        return len(self._spilled)

    def _spill(self, value: Any, timestamp: int) -> None:
        if self._file is None:
            assert self._directory is not None, "the tail says where to spill"
            path = Path(self._directory()) / f"feedback-{id(self):x}"
            self._file = path.open("w+b")
        data = self._codec.encode(value)
        self._file.seek(self._write_at)
        self._file.write(_FRAME.pack(timestamp, len(data)))
        self._file.write(data)
        self._write_at = self._file.tell()
        self._spilled.append(len(data))

    def _load(self) -> None:
        """Brings as much as memory may hold back from the file."""
        file = self._file
        assert file is not None, "what was spilled is in the file"
        file.seek(self._read_at)
        while self._spilled and len(self._items) < self._limit:
            item = self._spilled.popleft()
            if isinstance(item, SuperstepEnd):
                self._items.append(item)
                continue
            timestamp, length = _FRAME.unpack(file.read(_FRAME.size))
            self._items.append((self._codec.decode(file.read(length)), timestamp))
        self._read_at = file.tell()
        if not self._spilled:
            file.truncate(0)
            self._read_at = self._write_at = 0


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
