"""Event-time and processing-time timers of one operator, registered per key and namespace."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Protocol

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.taskexecutor.state.heap import StateTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.taskexecutor.state.table import StateMap
    from penstock.taskexecutor.time.processing_time import (
        OperatorProcessingTime,
        ProcessingTimeTimer,
    )


class Triggerable(Protocol):
    """What an operator with timers implements."""

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """An event-time timer fired; the current key is ``key``."""

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """A processing-time timer fired; the current key is ``key``."""


class KeyContext(Protocol):
    """Where the current key is kept."""

    current_key: Any

    def select_key(self, key: Any) -> None:
        """A timer of that key comes next."""


class TimerQueue:
    """Timers in the order of their time; one per (time, identity of the key, namespace).

    Timers of one time share a bucket, because operators register many keys for few times: a heap
    holds the distinct times, a table the bucket of each as a namespace, so that snapshots can be
    taken of it.  In what order timers of one time fire is not said.
    """

    def __init__(self, table: StateTable | None = None) -> None:
        """Creates a queue that keeps its timers in an empty table, its own when None."""
        self._table = StateTable("timers", "timer") if table is None else table
        self._times: list[int] = []
        self._buckets: dict[int, StateMap] = {}

    def take_over(self) -> None:
        """The table was filled by somebody else."""
        for bucket in self._table.namespaces():
            if bucket.namespace is not None and bucket.namespace not in self._buckets:
                self._buckets[bucket.namespace] = bucket
                heapq.heappush(self._times, bucket.namespace)

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Registers a timer; False when it is registered already."""
        bucket = self._buckets.get(timestamp)
        identity = (key, namespace)
        if bucket is None:
            bucket = self._buckets[timestamp] = self._table.map(timestamp)
            heapq.heappush(self._times, timestamp)
        elif identity in bucket:
            return False
        bucket.put(identity, 1)
        return True

    def remove(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Deletes a timer; False when there is none."""
        bucket = self._buckets.get(timestamp)
        return bucket is not None and bucket.remove((key, namespace)) is not None

    def earliest(self) -> int | None:
        """The time of the first timer."""
        while self._times:
            timestamp = self._times[0]
            if len(self._buckets[timestamp]) > 0:
                return timestamp
            heapq.heappop(self._times)
            del self._buckets[timestamp]
            self._table.drop_if_empty(timestamp)
        return None

    def fire_until(self, limit: int, fire: Callable[[int, Any, Any], None]) -> None:
        """Calls ``fire(time, key, namespace)`` for every timer up to ``limit``, in order.

        A callback may add and delete timers; those up to ``limit`` fire in the same pass.
        """
        times = self._times
        while (timestamp := self.earliest()) is not None and timestamp <= limit:
            bucket = self._buckets[timestamp]
            for identity in bucket.keys():  # noqa: SIM118 - a list
                if bucket.remove(identity) is not None:
                    fire(timestamp, *identity)
                    if times[0] != timestamp:
                        break

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Every timer as (time, key, namespace), in the order of time."""
        for timestamp in sorted(self._buckets):
            for key, namespace in self._buckets[timestamp].keys():  # noqa: SIM118
                yield timestamp, key, namespace


class InternalTimerService:
    """The timers of one operator.

    Only the earliest processing-time timer has a timer of the task.  Event time advances with
    ``advance_watermark``, which sets ``current_watermark`` before any timer fires.
    """

    def __init__(
        self,
        key_context: KeyContext,
        processing_time: OperatorProcessingTime,
        target: Triggerable,
        tables: Callable[[str], StateTable] | None = None,
    ) -> None:
        """Creates a service without timers.

        Args:
            key_context: Gives the key of a registration, and gets the key of a firing.
            processing_time: The operator's clock and timers.
            target: Gets the firings.
            tables: Gives the empty tables for ``event`` and ``processing`` timers; it has tables
                of its own when None.
        """
        self.current_watermark = MIN_TIMESTAMP
        self._key_context = key_context
        self._processing_time = processing_time
        self._target = target
        self._event_timers = TimerQueue(tables and tables("event"))
        self._processing_timers = TimerQueue(tables and tables("processing"))
        self._physical: ProcessingTimeTimer | None = None
        self.current_processing_time = processing_time.now

    @property
    def has_event_timers(self) -> bool:
        """Whether an event-time timer is registered."""
        return self._event_timers.earliest() is not None

    @property
    def num_event_timers(self) -> int:
        """Number of event-time timers."""
        return len(self._event_timers)

    @property
    def num_processing_timers(self) -> int:
        """Number of processing-time timers."""
        return len(self._processing_timers)

    def register_event_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Fires once event time has reached ``timestamp``, for the current key."""
        self._event_timers.add(timestamp, self._key_context.current_key, namespace)

    def delete_event_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Deletes the timer of the current key, if there is one."""
        self._event_timers.remove(timestamp, self._key_context.current_key, namespace)

    def register_processing_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Fires once the clock has reached ``timestamp``, for the current key."""
        timers = self._processing_timers
        if timers.add(timestamp, self._key_context.current_key, namespace):
            self._schedule()

    def delete_processing_time_timer(self, namespace: Any, timestamp: int) -> None:
        """Deletes the timer of the current key, if there is one."""
        self._processing_timers.remove(timestamp, self._key_context.current_key, namespace)

    def advance_watermark(self, timestamp: int) -> None:
        """Event time is ``timestamp`` from now on: fires what is due."""
        self.current_watermark = timestamp
        self._event_timers.fire_until(timestamp, self._fire_event)

    def end_key(self) -> None:
        """Fires all event-time timers as at the end of time, then forgets that it came.

        Bounded execution feeds one key after the other and ends event time for each.
        """
        self.advance_watermark(MAX_TIMESTAMP)
        self.current_watermark = MIN_TIMESTAMP

    def take_over(self) -> None:
        """The tables were restored."""
        self._event_timers.take_over()
        self._processing_timers.take_over()
        self._schedule()

    def _fire_event(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._key_context.select_key(key)
        self._target.on_event_time(timestamp, key, namespace)

    def _fire_processing(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._key_context.select_key(key)
        self._target.on_processing_time(timestamp, key, namespace)

    def _schedule(self) -> None:
        earliest = self._processing_timers.earliest()
        physical = self._physical
        if physical is not None:
            if earliest is not None and earliest >= physical.timestamp_ms:
                return
            physical.cancel()
            self._physical = None
        if earliest is not None:
            self._physical = self._processing_time.register(earliest, self._on_physical)

    def _on_physical(self, timestamp: int) -> None:
        self._physical = None
        self._processing_timers.fire_until(
            max(timestamp, self._processing_time.now()), self._fire_processing
        )
        self._schedule()
