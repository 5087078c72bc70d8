"""Timers in the order of their time, and among those of one time in Flink's.

``penstock._native.timer_queue`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled.operator_loop import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.taskexecutor.state.table import StateMap, StateTable


class Waiting:
    """An entry of a table that waits for its time, and its place in the heap."""

    __slots__ = ("contents", "index", "key", "time")

    def __init__(self, time: int, contents: StateMap, key: Any) -> None:
        self.time = time
        self.contents = contents
        self.key = key
        self.index = 0


class TimerHeap:
    """Entries of a table by their times.

    Those of one time come as they do from Flink's ``HeapPriorityQueue``: a binary heap in an array
    from 1 on that compares times alone, and whose last record takes the place of one that is
    removed.
    """

    def __init__(self, table: StateTable) -> None:
        """Creates an empty heap of entries of a table."""
        self._table = table
        #: The first one is nobody's: the parent of i is i / 2.
        self._timers: list[Waiting] = [Waiting(0, table.map(None), None)]

    def push(self, timestamp: int, contents: StateMap, key: Any) -> None:
        """Adds the entry of a key, which stays in the table for as long as it is here."""
        self._put(Waiting(timestamp, contents, key))

    def entries_until(self, limit: int) -> Iterator[tuple[Any, Any]]:
        """Takes the entries up to a time, in order: their keys and values."""
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
        """Puts a timer where a place is free, or where an ancestor of the place is."""
        parent = index // 2
        while parent > 0 and timer.time < self._timers[parent].time:
            self._place(index, self._timers[parent])
            index, parent = parent, parent // 2
        self._place(index, timer)

    def _sift_down(self, index: int, timer: Waiting) -> None:
        """Puts a timer where a place is free, or where a descendant of the place is."""
        timers, count = self._timers, len(self)
        child = index * 2
        while child <= count:
            # Of two children of one time it is the first one that moves up.
            if child < count and timers[child + 1].time < timers[child].time:
                child += 1
            if timers[child].time >= timer.time:
                break
            self._place(index, timers[child])
            index, child = child, child * 2
        self._place(index, timer)

    def _take_away(self, index: int) -> Waiting:
        """Removes a timer: the last one takes its place and moves from there."""
        gone, last = self._timers[index], self._timers.pop()
        if gone is not last:
            self._sift_down(index, last)
            if last.index == index:
                self._sift_up(index, last)
        return gone


class TimerQueue(TimerHeap):
    """The timers of one clock of an operator; one per (time, identity of the key, namespace).

    They are kept in a table, so that snapshots can be taken of it: those of one time, which is
    their namespace there, under pairs of key and namespace, or under the key alone if the namespace
    is None and the key no tuple, which costs no object.

    Attributes:
        time: That of the timer that was taken last.
        key: Its key.
        namespace: Its namespace.
    """

    def __init__(self, table: StateTable) -> None:
        """Creates a queue that keeps its timers in an empty table."""
        super().__init__(table)
        self.time = MIN_TIMESTAMP
        self.key: Any = None
        self.namespace: Any = None

    def take_over(self) -> None:
        """The table was filled by somebody else."""
        del self._timers[1:]
        for contents in self._table.namespaces():
            if contents.namespace is not None:
                for identity in contents.keys():  # noqa: SIM118
                    self._register(contents, identity)

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Registers a timer; False when it is registered already.

        Raises:
            OverflowError: The time needs more than 64 bits.
        """
        if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
            raise OverflowError(f"the time {timestamp} of a timer needs more than 64 bits")
        contents, identity = self._table.map(timestamp), _timer_of(key, namespace)
        if identity in contents:
            return False
        self._register(contents, identity)
        return True

    def remove(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Deletes a timer; False when there is none."""
        contents = self._table.map(timestamp)
        timer = contents.remove(_timer_of(key, namespace))
        self._table.drop_if_empty(timestamp)
        if timer is None:
            return False
        self._take_away(timer.index)
        return True

    def earliest(self) -> int | None:
        """The time of the first timer."""
        return self._timers[1].time if len(self) > 0 else None

    def take(self, limit: int) -> bool:
        """Takes the first timer, if it is one up to ``limit``."""
        if len(self) == 0 or self._timers[1].time > limit:
            return False
        timer = self._take_away(1)
        timer.contents.remove(timer.key)
        self._table.drop_if_empty(timer.time)
        self.time = timer.time
        is_pair = type(timer.key) is tuple
        self.key, self.namespace = timer.key if is_pair else (timer.key, None)
        return True

    def _register(self, contents: StateMap, identity: Any) -> None:
        timer = Waiting(contents.namespace, contents, identity)
        contents.put(identity, timer)
        self._put(timer)


def _timer_of(key: Any, namespace: Any) -> Any:
    """Return the identity of a timer among those of its time."""
    return key if namespace is None and type(key) is not tuple else (key, namespace)
