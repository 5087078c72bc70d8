"""Buffer sizes for which in-flight data is processed in a target time.

internals M6: the throughput while there is input, and the sizes that follow from it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class DebloatOptions:
    """Bounds and rates of the adjustment.

    Attributes:
        target_ms: the target time for processing all in-flight data.
        min_bytes: the smallest buffer size.
        max_bytes: the largest buffer size, that of a segment.
        start_bytes: the size before anything was measured.
        threshold_percent: the change below which a new size is not announced.
        samples: how many samples the moving average spans.
    """

    target_ms: int
    min_bytes: int
    max_bytes: int
    start_bytes: int
    threshold_percent: int
    samples: int


class BufferDebloater:
    """Computes the buffer sizes that a gate announces, without side effects."""

    def __init__(self, options: DebloatOptions) -> None:
        self._options = options
        self._weight = 2 / (options.samples + 1)
        self._average = float(options.start_bytes)
        self.announced_bytes = options.max_bytes
        """The size announced last."""
        self.estimated_drain_ms = 0
        """Estimated time to process all in-flight data, in ms."""

    def recalculate(
        self, bytes_per_second: int, buffers_in_use: int, share: float = 1.0
    ) -> int | None:
        """Return the size to announce, or None if it need not change.

        ``share`` is the share of the target time for in-flight data, up to 1.
        """
        options = self._options
        buffers = max(1, buffers_in_use)
        desired = int(bytes_per_second * options.target_ms // 1000 * share)
        wanted = desired / buffers
        # A size at most doubles, so that one fast moment does not bloat the buffers.
        wanted = min(wanted, 2 * self._average)
        average = self._average + self._weight * (wanted - self._average)
        self._average = min(max(average, options.min_bytes), options.max_bytes)
        size = int(self._average + 0.5)
        self.estimated_drain_ms = size * buffers * 1000 // max(1, bytes_per_second)
        if self._skips(size):
            return None
        self.announced_bytes = size
        return size

    def _skips(self, size: int) -> bool:
        if size == self.announced_bytes:
            return True
        if size <= self._options.min_bytes or size >= self._options.max_bytes:
            return False
        threshold = self.announced_bytes * self._options.threshold_percent // 100
        return abs(size - self.announced_bytes) < threshold


class ThroughputCalculator:
    """Bytes per second while there is input."""

    def __init__(self) -> None:
        self._bytes = 0
        self._measured_ms = 0
        self._since_ms: int | None = None
        self._last = 0

    def count(self, count: int) -> None:
        """Count processed bytes."""
        self._bytes += count

    def pause(self, now_ms: int) -> None:
        """Stop the clock, since the input is empty."""
        if self._since_ms is not None:
            self._measured_ms += now_ms - self._since_ms
            self._since_ms = None

    def resume(self, now_ms: int) -> None:
        """Restart the clock, since input is available again."""
        if self._since_ms is None:
            self._since_ms = now_ms

    def calculate(self, now_ms: int) -> int:
        """Return the throughput since the last call, or the previous one if no time has passed."""
        if self._since_ms is not None:
            self._measured_ms += now_ms - self._since_ms
            self._since_ms = now_ms
        if self._measured_ms:
            self._last = self._bytes * 1000 // self._measured_ms
        self._bytes = self._measured_ms = 0
        return self._last


class GateDebloating:
    """Measures a gate and computes sizes; it has its own lock, since any thread may call it."""

    def __init__(self, options: DebloatOptions) -> None:
        self._lock = threading.Lock()
        self._throughput = ThroughputCalculator()
        self._debloater = BufferDebloater(options)

    @staticmethod
    def _now_ms() -> int:
        return time.monotonic_ns() // 1_000_000

    def on_buffer(self, count: int) -> None:
        """Count a buffer that was taken."""
        with self._lock:
            self._throughput.resume(self._now_ms())
            self._throughput.count(count)

    def on_empty(self) -> None:
        """Stop the measurement, since the gate is empty."""
        with self._lock:
            self._throughput.pause(self._now_ms())

    def recalculate(self, buffers_in_use: int, share: float) -> int | None:
        """Measure the rate since the last call; return the size to announce, if it changes."""
        with self._lock:
            pace = self._throughput.calculate(self._now_ms())
            return self._debloater.recalculate(pace, buffers_in_use, share)

    @property
    def figures(self) -> tuple[int, int]:
        """Return the announced size in bytes, and the ms that all in-flight data takes."""
        with self._lock:
            return self._debloater.announced_bytes, self._debloater.estimated_drain_ms
