"""Lag metrics of a source, computed after each of its steps.

Nothing is measured per record: the end of a step counts as the emission time of its last record.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP, NOTHING_AVAILABLE

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

_MS: Final = 1_000_000


class SourceTimes:
    """Observes the steps of one source."""

    def __init__(
        self,
        metrics: MutableMapping[str, object],
        source: Any,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        """Publish the gauge of idle time; the others follow once they have a value.

        Args:
            metrics: The operator's metrics.
            source: The source, or the operator that adds watermarks behind it.
            clock: Current time in nanoseconds; it never goes back.
            wall: The time of day in nanoseconds.
        """
        self._metrics = metrics
        self._source = source
        self._clock = clock
        self._wall = wall
        self._idle_since_ns: int | None = None
        self._emitted_ns = 0
        self._event_ms = MIN_TIMESTAMP
        self._fetched_ms: int | None = None
        metrics["sourceIdleTime"] = self._idle_ms

    def step(self, status: int, now_ns: int) -> None:
        """Note the end of a step.

        Args:
            status: The result of ``emit_next``.
            now_ns: Current time by the clock.
        """
        has_emitted = False
        outputs = getattr(self._source, "outputs", None)
        if outputs is not None:
            last_ms = outputs.take_last()
            if last_ms is not None:
                has_emitted = True
                self._emitted(last_ms, now_ns)
        if status != NOTHING_AVAILABLE:
            self._idle_since_ns = None
        elif has_emitted or self._idle_since_ns is None:
            self._idle_since_ns = now_ns
        if "watermarkLag" not in self._metrics and self._watermark() != MIN_TIMESTAMP:
            self._metrics["watermarkLag"] = self._watermark_lag_ms

    def _emitted(self, event_ms: int, now_ns: int) -> None:
        self._emitted_ns, self._event_ms = now_ns, event_ms
        self._fetched_ms = getattr(self._source.reader, "fetched_ms", None)
        if event_ms != MIN_TIMESTAMP:
            self._metrics.setdefault("currentEmitEventTimeLag", self._emit_lag_ms)
            if self._fetched_ms is not None:
                self._metrics.setdefault("currentFetchEventTimeLag", self._fetch_lag_ms)

    def _idle_ms(self) -> int:
        since_ns = self._idle_since_ns
        return 0 if since_ns is None else (self._clock() - since_ns) // _MS

    def _emit_lag_ms(self) -> int:
        emitted_ms = (self._wall() - (self._clock() - self._emitted_ns)) // _MS
        return emitted_ms - self._event_ms

    def _fetch_lag_ms(self) -> int:
        return (self._fetched_ms or 0) - self._event_ms

    def _watermark_lag_ms(self) -> int:
        watermark = self._watermark()
        # At the end of event time there is no lag.
        return 0 if watermark == MAX_TIMESTAMP else self._wall() // _MS - watermark

    def _watermark(self) -> int:
        outputs = getattr(self._source, "outputs", None)
        if outputs is not None:
            return int(outputs.watermark)
        watermarks = getattr(self._source, "watermarks", None)
        return MIN_TIMESTAMP if watermarks is None else int(watermarks.emitter.watermark)
