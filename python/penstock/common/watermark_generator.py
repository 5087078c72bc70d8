"""Watermark generators, which derive watermarks from records and time.

The operator that assigns timestamps calls a generator, in the task's own thread.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from penstock.common.constants import MIN_LONG_VALUE


class WatermarkOutput(ABC):
    """Receiver of a generator's watermarks."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark in ms; one that does not advance is ignored."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Mark this input as idle, so that downstream does not wait for it."""

    @abstractmethod
    def mark_active(self) -> None:
        """Mark this input as active again."""


class WatermarkGenerator(ABC):
    """Emits watermarks on records, periodically, or both."""

    @abstractmethod
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Handle a record with its timestamp in ms."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit a watermark at every auto-watermark interval."""


class NoWatermarksGenerator(WatermarkGenerator):
    """Emits no watermarks."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Do nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Do nothing."""


class BoundedOutOfOrdernessWatermarks(WatermarkGenerator):
    """Trails the largest timestamp by a bound and 1 ms."""

    def __init__(self, max_out_of_orderness_ms: int) -> None:
        """Create a generator with a bound in ms."""
        self._bound_ms = max_out_of_orderness_ms
        self._max_timestamp = MIN_LONG_VALUE + max_out_of_orderness_ms + 1

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:  # noqa: ARG002
        """Update the largest timestamp."""
        if event_timestamp > self._max_timestamp:
            self._max_timestamp = event_timestamp

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark of the largest timestamp so far."""
        output.emit_watermark(self._max_timestamp - self._bound_ms - 1)


class IngestionTimeWatermarks(WatermarkGenerator):
    """Trails the clock, which also provides the records' timestamps, by 1 ms."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        """Do nothing."""

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Emit the watermark of the clock."""
        output.emit_watermark(time.time_ns() // 1_000_000 - 1)
