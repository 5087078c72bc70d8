# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from timers.pxd; the annotations below are for readers and mypy.
"""Event-time and processing-time timers of one operator, registered per key and namespace.

One source, two uses, as ``operator_loop``, which says how.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Protocol

from penstock.taskexecutor.state.heap import StateTable

# Relative: compiled, these are the values that belong to the same runtime.
from .operator_loop import MAX_TIMESTAMP, MIN_TIMESTAMP  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.taskexecutor.state.heap import KeyContext
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


class TimerTarget:
    """Hands firings to a ``Triggerable``; subclasses are one themselves, called without Python."""

    def __init__(self, triggerable: Triggerable | None) -> None:
        """Keeps who is called; None in a subclass."""
        self.triggerable = triggerable

    def on_event_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """An event-time timer fired; the current key is ``key``."""
        self.triggerable.on_event_time(timestamp, key, namespace)  # type: ignore[union-attr]

    def on_processing_time(self, timestamp: int, key: Any, namespace: Any) -> None:
        """A processing-time timer fired; the current key is ``key``."""
        self.triggerable.on_processing_time(timestamp, key, namespace)  # type: ignore[union-attr]


def timer_of(key: Any, namespace: Any) -> Any:
    """What stands for a timer among those of its time."""
    return key if namespace is None and type(key) is not tuple else (key, namespace)


class TimerQueue:
    """Timers in the order of their time; one per (time, identity of the key, namespace).

    Timers of one time share a bucket, because operators register many keys for few times: a heap
    holds the distinct times, a table the bucket of each as a namespace, so that snapshots can be
    taken of it.  In what order timers of one time fire is not said.

    In a bucket a timer is a pair of key and namespace, or the key alone if the namespace is None
    and the key no tuple, which costs no object.
    """

    def __init__(self, table: Any = None) -> None:
        """Creates a queue that keeps its timers in an empty table, its own when None."""
        self._table = StateTable("timers", "timer") if table is None else table
        self._times: list[int] = []
        self._buckets: dict[int, StateMap] = {}
        self._last: StateMap | None = None
        self._last_time = MIN_TIMESTAMP

    def take_over(self) -> None:
        """The table was filled by somebody else."""
        for bucket in self._table.namespaces():
            if bucket.namespace is not None and bucket.namespace not in self._buckets:
                self._buckets[bucket.namespace] = bucket
                heapq.heappush(self._times, bucket.namespace)

    def _bucket(self, timestamp: int) -> StateMap:
        """The bucket of a time, created when missing."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
                raise OverflowError(f"the time {timestamp} of a timer needs more than 64 bits")
            bucket = self._buckets[timestamp] = self._table.map(timestamp)
            heapq.heappush(self._times, timestamp)
        self._last = bucket
        self._last_time = timestamp
        return bucket

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Registers a timer; False when it is registered already."""
        bucket = self._last
        if bucket is None or timestamp != self._last_time:
            bucket = self._bucket(timestamp)
        return bucket.add(timer_of(key, namespace))

    def remove(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Deletes a timer; False when there is none."""
        bucket = self._buckets.get(timestamp)
        return bucket is not None and bucket.remove(timer_of(key, namespace)) is not None

    def earliest(self) -> int | None:
        """The time of the first timer."""
        while self._times:
            timestamp = self._times[0]
            if len(self._buckets[timestamp]) > 0:
                return timestamp
            heapq.heappop(self._times)
            del self._buckets[timestamp]
            self._last = None
            self._table.drop_if_empty(timestamp)
        return None

    def fire_until(self, limit: int, keys: KeyContext, target: TimerTarget, is_event: bool) -> None:
        """Fires every timer up to ``limit``, in order.

        A callback may add and delete timers; those up to ``limit`` fire in the same pass.

        Args:
            limit: In ms.
            keys: Gets the key of each.
            target: Is called for each.
            is_event: As what they fire: timers of event time or of processing time.
        """
        while True:
            earliest: Any = self.earliest()
            if earliest is None or earliest > limit:
                return
            self._fire(earliest, keys, target, is_event)

    def _fire(self, time: int, keys: KeyContext, target: TimerTarget, is_event: bool) -> None:
        """Fires the timers of a time, until there is an earlier one."""
        bucket = self._buckets[time]
        while len(bucket) > 0:
            key, namespace = bucket.take_next(), None
            if type(key) is tuple:
                pair: tuple[Any, ...] = key
                key = pair[0]
                namespace = pair[1]
            keys.current_key = key
            if keys.on_key is not None:
                keys.on_key()
            if is_event:
                target.on_event_time(time, key, namespace)
            else:
                target.on_processing_time(time, key, namespace)
            if not self._times or self._times[0] != time:
                return

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Every timer as (time, key, namespace), in the order of time."""
        for timestamp in sorted(self._buckets):
            for identity in self._buckets[timestamp].keys():  # noqa: SIM118
                yield timestamp, *(identity if type(identity) is tuple else (identity, None))


class InternalTimerService:
    """The timers of one operator.

    Only the earliest processing-time timer has a timer of the task.  Event time advances with
    ``advance_watermark``, which sets ``current_watermark`` before any timer fires.
    """

    def __init__(
        self,
        key_context: Any,
        processing_time: OperatorProcessingTime,
        target: Triggerable,
        tables: Callable[[str], Any] | None = None,
    ) -> None:
        """Creates a service without timers.

        Args:
            key_context: The ``KeyContext`` that gives the key of a registration, and gets the key
                of a firing.
            processing_time: The operator's clock and timers.
            target: Gets the firings.
            tables: Gives the empty tables for ``event`` and ``processing`` timers; it has tables
                of its own when None.
        """
        self.current_watermark = MIN_TIMESTAMP
        self._key_context = key_context
        self._processing_time = processing_time
        self._target = target if isinstance(target, TimerTarget) else TimerTarget(target)
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
        self._event_timers.fire_until(timestamp, self._key_context, self._target, True)

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
        limit = max(timestamp, self._processing_time.now())
        self._processing_timers.fire_until(limit, self._key_context, self._target, False)
        self._schedule()
