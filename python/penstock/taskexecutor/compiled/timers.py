# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from timers.pxd; the annotations below are for readers and mypy.
"""Event-time and processing-time timers of one operator, registered per key and namespace.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

# Relative: when compiled, these are the values of the same runtime.
from .operator_loop import MAX_TIMESTAMP, MIN_TIMESTAMP  # noqa: TID252
from .timer_queue import TimerQueue  # noqa: TID252

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.time.processing_time import (
        OperatorProcessingTime,
        ProcessingTimeTimer,
    )

logger = logging.getLogger(__name__)


class Triggerable(Protocol):
    """Callbacks of an operator with timers."""

    def on_event_time(self, timestamp: int, key: object, namespace: Any) -> None:
        """Handle an event-time timer that fired; the current key is ``key``."""

    def on_processing_time(self, timestamp: int, key: object, namespace: Any) -> None:
        """Handle a processing-time timer that fired; the current key is ``key``."""


class TimerTarget:
    """Passes firings to a ``Triggerable``; subclasses handle them, without a Python call."""

    def __init__(self, triggerable: Triggerable | None) -> None:
        """Create a target that calls ``triggerable``; None in a subclass."""
        self.triggerable = triggerable

    def on_event_time(self, timestamp: int, key: object, namespace: Any) -> None:
        """Handle an event-time timer that fired; the current key is ``key``."""
        self.triggerable.on_event_time(timestamp, key, namespace)  # type: ignore[union-attr]

    def on_processing_time(self, timestamp: int, key: object, namespace: Any) -> None:
        """Handle a processing-time timer that fired; the current key is ``key``."""
        self.triggerable.on_processing_time(timestamp, key, namespace)  # type: ignore[union-attr]


class InternalTimerService:
    """The timers of one operator.

    Only the earliest processing-time timer is registered at the task.  ``advance_watermark``
    advances event time; it sets ``current_watermark`` before any timer fires.
    """

    def __init__(
        self,
        key_context: Any,
        processing_time: OperatorProcessingTime,
        target: Triggerable,
        tables: Callable[[str], Any],
    ) -> None:
        """Create a service without timers.

        Args:
            key_context: The ``KeyContext`` that provides the key of a registration, and receives
                the key of a firing.
            processing_time: The operator's clock and timers.
            target: Receives the firings.
            tables: Returns the empty tables for ``event`` and ``processing`` timers.
        """
        self.current_watermark = MIN_TIMESTAMP
        self._key_context = key_context
        self._processing_time = processing_time
        self._target = target if isinstance(target, TimerTarget) else TimerTarget(target)
        self._event_timers = TimerQueue(tables("event"))
        self._processing_timers = TimerQueue(tables("processing"))
        self._physical: ProcessingTimeTimer | None = None
        self._is_ending = False
        self._has_dropped = False
        #: Number of timers that have fired, or of windows that need none.
        self.num_fired = 0
        self.current_processing_time = processing_time.now

    @property
    def has_event_timers(self) -> bool:
        """Return whether an event-time timer is registered."""
        return self._event_timers.earliest() is not None

    @property
    def num_event_timers(self) -> int:
        """Number of event-time timers."""
        return len(self._event_timers)

    @property
    def num_processing_timers(self) -> int:
        """Number of processing-time timers."""
        return len(self._processing_timers)

    def register_event_time_timer(self, namespace: object, timestamp: int) -> None:
        """Register a timer of the current key that fires once event time reaches ``timestamp``."""
        if self._is_ending:
            self._note_dropped("event")
            return
        self._event_timers.add(timestamp, self._key_context.current_key, namespace)

    def delete_event_time_timer(self, namespace: object, timestamp: int) -> None:
        """Delete the timer of the current key, if it exists."""
        self._event_timers.remove(timestamp, self._key_context.current_key, namespace)

    def register_processing_time_timer(self, namespace: object, timestamp: int) -> None:
        """Register a timer of the current key that fires once the clock reaches ``timestamp``."""
        if self._is_ending:
            self._note_dropped("processing")
            return
        timers = self._processing_timers
        if timers.add(timestamp, self._key_context.current_key, namespace):
            self._schedule()

    def delete_processing_time_timer(self, namespace: object, timestamp: int) -> None:
        """Delete the timer of the current key, if it exists."""
        self._processing_timers.remove(timestamp, self._key_context.current_key, namespace)

    def advance_watermark(self, timestamp: int) -> None:
        """Advance event time to ``timestamp`` and fire due timers."""
        self.current_watermark = timestamp
        self._fire(self._event_timers, timestamp, True)

    def take_event_timers(self) -> list[tuple[int, Any, Any]]:
        """Remove the event-time timers without firing; return their times, keys and namespaces."""
        timers, taken = self._event_timers, []
        while timers.take(MAX_TIMESTAMP):
            taken.append((timers.time, timers.key, timers.namespace))
        return taken

    def end_key(self) -> None:
        """Fire all timers as at the end of time, then reset event time.

        BATCH execution processes one key after the other and ends time for each.  A timer
        registered by a firing timer is dropped, as in Flink: a timer that registers the next would
        never end.
        """
        self._is_ending = True
        try:
            self.advance_watermark(MAX_TIMESTAMP)
            self._fire(self._processing_timers, MAX_TIMESTAMP, False)
        finally:
            self._is_ending = False
        self._schedule()
        self.current_watermark = MIN_TIMESTAMP

    def _note_dropped(self, domain: str) -> None:
        """Log the first timer that is dropped."""
        if not self._has_dropped:
            self._has_dropped = True
            logger.warning(
                "a timer of %s time that a firing timer registered is dropped, and so are later "
                "ones: in BATCH mode the timers of a key fire once, after its last record",
                domain,
            )

    def take_over(self) -> None:
        """Read the restored tables."""
        self._event_timers.take_over()
        self._processing_timers.take_over()
        self._schedule()

    def _fire(self, timers: TimerQueue, limit: int, is_event: bool) -> None:
        """Fire every timer up to ``limit``, in order.

        A callback may add and delete timers; those up to ``limit`` fire in the same pass.
        """
        keys, target = self._key_context, self._target
        while timers.take(limit):
            key, namespace = timers.key, timers.namespace
            self.num_fired += 1
            keys.current_key = key
            if keys.on_key is not None:
                keys.on_key()
            if is_event:
                target.on_event_time(timers.time, key, namespace)
            else:
                target.on_processing_time(timers.time, key, namespace)

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
        self._fire(self._processing_timers, limit, False)
        self._schedule()
