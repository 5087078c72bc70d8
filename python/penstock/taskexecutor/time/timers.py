"""Event-time and processing-time timers of one operator, registered per key and namespace."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Protocol

from penstock.network import key_of
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.taskexecutor.state.snapshot import TimersOfGroup
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


class TimerQueue:
    """Timers in the order of their time; one per (time, identity of the key, namespace).

    Timers of one time share a bucket, because operators register many keys for few times: a heap
    holds the distinct times, a dictionary the bucket of each.
    """

    def __init__(self) -> None:
        """Creates an empty queue."""
        self._times: list[int] = []
        self._buckets: dict[int, dict[tuple[Any, Any], None]] = {}

    def add(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Registers a timer; False when it is registered already."""
        bucket = self._buckets.get(timestamp)
        if bucket is None:
            self._buckets[timestamp] = {(key, namespace): None}
            heapq.heappush(self._times, timestamp)
            return True
        identity = (key, namespace)
        if identity in bucket:
            return False
        bucket[identity] = None
        return True

    def remove(self, timestamp: int, key: Any, namespace: Any) -> bool:
        """Deletes a timer; False when there is none."""
        bucket = self._buckets.get(timestamp)
        if bucket is None or (key, namespace) not in bucket:
            return False
        del bucket[key, namespace]
        return True

    def earliest(self) -> int | None:
        """The time of the first timer."""
        while self._times:
            timestamp = self._times[0]
            if self._buckets[timestamp]:
                return timestamp
            heapq.heappop(self._times)
            del self._buckets[timestamp]
        return None

    def fire_until(self, limit: int, fire: Callable[[int, Any, Any], None]) -> None:
        """Calls ``fire(time, key, namespace)`` for every timer up to ``limit``, in order.

        A callback may add and delete timers; those up to ``limit`` fire in the same pass.
        """
        times = self._times
        while (timestamp := self.earliest()) is not None and timestamp <= limit:
            bucket = self._buckets[timestamp]
            for identity in list(bucket):
                if identity in bucket:
                    del bucket[identity]
                    fire(timestamp, *identity)
                    if times[0] != timestamp:
                        break

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Every timer as (time, key, namespace), in the order of time."""
        for timestamp in sorted(self._buckets):
            for key, namespace in self._buckets[timestamp]:
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
    ) -> None:
        """Creates a service without timers.

        Args:
            key_context: Gives the key of a registration, and gets the key of a firing.
            processing_time: The operator's clock and timers.
            target: Gets the firings.
        """
        self.current_watermark = MIN_TIMESTAMP
        self._key_context = key_context
        self._processing_time = processing_time
        self._target = target
        self._event_timers = TimerQueue()
        self._processing_timers = TimerQueue()
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

    def snapshot(self, key_group_of: Callable[[Any], int]) -> dict[int, TimersOfGroup]:
        """All timers by key group, each as (time, key, namespace)."""
        groups: dict[int, TimersOfGroup] = {}
        for domain, timers in self._domains:
            for timer in timers:
                timestamp, identity, namespace = timer
                key = key_of(identity)
                group = groups.setdefault(key_group_of(key), {"event": [], "processing": []})
                group[domain].append((timestamp, key, namespace))
        return groups

    def restore(
        self,
        groups: dict[int, TimersOfGroup],
        key_groups: range,
        identity_of: Callable[[Any], Any],
    ) -> None:
        """Adds the timers of those key groups that this subtask owns.

        Args:
            groups: From ``snapshot``.
            key_groups: The groups that are here.
            identity_of: Gives what stands for a key in state.
        """
        for group in key_groups:
            if group in groups:
                for domain, timers in self._domains:
                    for timestamp, key, namespace in groups[group][domain]:
                        timers.add(timestamp, identity_of(key), namespace)
        self._schedule()

    @property
    def _domains(self) -> tuple[tuple[str, TimerQueue], tuple[str, TimerQueue]]:
        return ("event", self._event_timers), ("processing", self._processing_timers)

    def _fire_event(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._key_context.current_key = key
        self._target.on_event_time(timestamp, key, namespace)

    def _fire_processing(self, timestamp: int, key: Any, namespace: Any) -> None:
        self._key_context.current_key = key
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
