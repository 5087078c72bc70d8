"""Timers in the order of their time, and in Flink's order among equal times.

``penstock._native.operators.timer_queue`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled.operator_loop import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.state.table import CopyOnWriteStateMap, StateTable


class Waiting:
    """An entry of a table that waits for its time, and its place in the heap."""

    __slots__ = ("contents", "index", "key", "time")

    def __init__(self, time: int, contents: CopyOnWriteStateMap, key: Any) -> None:
        self.time = time
        self.contents = contents
        self.key = key
        self.index = 0


class TimerHeap:
    """Entries of a table by their times.

    Entries of one time come in the order of Flink's ``HeapPriorityQueue``: a binary heap in an
    array from index 1 that compares only times; its last entry replaces a removed one.
    """

    def __init__(self, table: StateTable) -> None:
        """Create an empty heap of entries of a table."""
        self._table = table
        #: Index 0 is unused: the parent of i is i / 2.
        self._timers: list[Waiting] = [Waiting(0, table.map(None), None)]

    def push(self, timestamp: int, contents: CopyOnWriteStateMap, key: object) -> None:
        """Add the entry of a key, which must stay in the table as long as it is in the heap."""
        self._put(Waiting(timestamp, contents, key))

    def entries_until(self, limit: int) -> Iterator[tuple[object, object]]:
        """Remove the entries up to a time and yield their keys and values, in order."""
        while len(self) > 0 and self._timers[1].time <= limit:
            timer = self._take_away(1)
            yield timer.key, timer.contents.get(timer.key)

    def __len__(self) -> int:
        return len(self._timers) - 1

    def _put(self, timer: Waiting) -> None:
        self._timers.append(timer)
        self._sift_up(len(self), timer)

    def _place(self, index: int, timer: Waiting) -> None:
        self._timers[index] = timer
        timer.index = index

    def _sift_up(self, index: int, timer: Waiting) -> None:
        """Place a timer at a free index, or at an ancestor of it."""
        parent = index // 2
        while parent > 0 and timer.time < self._timers[parent].time:
            self._place(index, self._timers[parent])
            index, parent = parent, parent // 2
        self._place(index, timer)

    def _sift_down(self, index: int, timer: Waiting) -> None:
        """Place a timer at a free index, or at a descendant of it."""
        timers, count = self._timers, len(self)
        child = index * 2
        while child <= count:
            # Of two children of one time, the first one moves up.
            if child < count and timers[child + 1].time < timers[child].time:
                child += 1
            if timers[child].time >= timer.time:
                break
            self._place(index, timers[child])
            index, child = child, child * 2
        self._place(index, timer)

    def _take_away(self, index: int) -> Waiting:
        """Remove a timer: the last one replaces it and moves from there."""
        gone, last = self._timers[index], self._timers.pop()
        if gone is not last:
            self._sift_down(index, last)
            if last.index == index:
                self._sift_up(index, last)
        return gone


class TimerQueue(TimerHeap):
    """The timers of one clock of an operator, unique by (time, identity of the key, namespace).

    They are stored in a table for snapshots, with their time as its namespace, under pairs of key
    and namespace, or under the key alone if the namespace is None and the key is not a tuple, which
    saves an object.

    Attributes:
        time: The time of the timer removed last.
        key: Its key.
        namespace: Its namespace.
    """

    def __init__(self, table: StateTable) -> None:
        """Create a queue that stores its timers in an empty table."""
        super().__init__(table)
        self.time = MIN_TIMESTAMP
        self.key: Any = None
        self.namespace: Any = None

    def take_over(self) -> None:
        """Rebuild the heap from the restored table."""
        del self._timers[1:]
        for contents in self._table.namespaces():
            if contents.namespace is not None:
                for identity in contents.keys():  # noqa: SIM118
                    self._register(contents, identity)

    def add(self, timestamp: int, key: object, namespace: object) -> bool:
        """Register a timer; return False if it is registered already.

        Raises:
            OverflowError: The time exceeds 64 bits.
        """
        if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
            raise OverflowError(f"the time {timestamp} of a timer needs more than 64 bits")
        contents, identity = self._table.map(timestamp), _timer_of(key, namespace)
        if identity in contents:
            return False
        self._register(contents, identity)
        return True

    def remove(self, timestamp: int, key: object, namespace: object) -> bool:
        """Delete a timer; return False if there is none."""
        contents = self._table.map(timestamp)
        timer = contents.remove(_timer_of(key, namespace))
        self._table.drop_if_empty(timestamp)
        if timer is None:
            return False
        self._take_away(timer.index)
        return True

    def earliest(self) -> int | None:
        """Return the time of the first timer, or None."""
        return self._timers[1].time if len(self) > 0 else None

    def take(self, limit: int) -> bool:
        """Remove the first timer if its time is at most ``limit``; return whether that was so."""
        if len(self) == 0 or self._timers[1].time > limit:
            return False
        timer = self._take_away(1)
        timer.contents.remove(timer.key)
        self._table.drop_if_empty(timer.time)
        self.time = timer.time
        is_pair = type(timer.key) is tuple
        self.key, self.namespace = timer.key if is_pair else (timer.key, None)
        return True

    def _register(self, contents: CopyOnWriteStateMap, identity: object) -> None:
        timer = Waiting(contents.namespace, contents, identity)
        contents.put(identity, timer)
        self._put(timer)


def _timer_of(key: object, namespace: object) -> object:
    """Return the identity of a timer among those of its time."""
    return key if namespace is None and type(key) is not tuple else (key, namespace)
