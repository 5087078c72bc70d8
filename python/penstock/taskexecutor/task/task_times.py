"""Time shares of a task: idle, back pressured or busy (internals M25).

*Soft* back pressure: the task reads no input because an output has no buffer.  *Hard* back
pressure: it waits for a buffer in the middle of a record.  Idle: it has no input.  Otherwise the
task is busy.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from penstock.network import ResultPartition

_SECOND_MS: Final = 1000
_LEAST_WINDOW_NS: Final = 1_000_000_000


class TimeGauge:
    """Share of recent seconds spent in one state, in ms per second."""

    def __init__(self, total_ms: Callable[[], float], clock: Callable[[], int]) -> None:
        """Create a gauge.

        Args:
            total_ms: Total time in that state so far.
            clock: Current time in nanoseconds; it never goes back.
        """
        self._total_ms = total_ms
        self._clock = clock
        self._since = (clock(), total_ms())
        self._value = 0

    def __call__(self) -> int:
        """Return the ms per second since the last call that was at least a second ago."""
        now_ns, total_ms = self._clock(), self._total_ms()
        since_ns, before_ms = self._since
        elapsed_ns = now_ns - since_ns
        if elapsed_ns >= _LEAST_WINDOW_NS:
            share = (total_ms - before_ms) * 1_000_000 / elapsed_ns
            self._value = round(min(max(share, 0.0), 1.0) * _SECOND_MS)
            self._since = (now_ns, total_ms)
        return self._value


class LongestGauge:
    """Longest of some recent periods, in ms."""

    def __init__(self, take_ms: Callable[[], float], clock: Callable[[], int]) -> None:
        """Create a gauge.

        Args:
            take_ms: Returns the longest period since its last call.
            clock: Current time in nanoseconds; it never goes back.
        """
        self._take_ms = take_ms
        self._clock = clock
        self._since_ns = clock()
        self._value = 0

    def __call__(self) -> int:
        """Return the longest period since the last call that was at least a second ago."""
        now_ns = self._clock()
        if now_ns - self._since_ns >= _LEAST_WINDOW_NS:
            self._value = round(self._take_ms())
            self._since_ns = now_ns
        return self._value


class TaskTimes:
    """Sums up the waits of one task; gauges publish their share of the time."""

    def __init__(
        self,
        metrics: MutableMapping[str, object],
        partitions: Sequence[ResultPartition],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Publish the gauges.

        Args:
            metrics: Metrics by full name.
            partitions: The task's outputs.
            clock: Current time in nanoseconds.
        """
        self._clock = clock
        self._began_ns = clock()
        self._partitions = partitions
        self._idle_ns = 0
        self.input_idle_ns: Callable[[], int] = lambda: 0
        """Nanoseconds that reading the inputs has waited, if there are any."""
        self._soft_ns = 0
        self._longest_soft_ns = 0
        self.soft_since_ns: int | None = None
        """Start of the time without a buffer in some output; None while all have one."""
        idle, soft, hard = (
            TimeGauge(total_ms, clock) for total_ms in (self.idle_ms, self.soft_ms, self.hard_ms)
        )
        metrics["idleTimeMsPerSecond"] = idle
        metrics["softBackPressuredTimeMsPerSecond"] = soft
        metrics["hardBackPressuredTimeMsPerSecond"] = hard
        metrics["backPressuredTimeMsPerSecond"] = lambda: min(soft() + hard(), _SECOND_MS)
        metrics["busyTimeMsPerSecond"] = lambda: max(_SECOND_MS - idle() - soft() - hard(), 0)
        for kind, take_ms in (("Soft", self._take_longest_soft), ("Hard", self._take_longest_hard)):
            longest = LongestGauge(take_ms, clock)
            # Under the name in Flink's documents, and under the one in its code.
            metrics[f"max{kind}BackPressuredTimeMs"] = longest
            metrics[f"max{kind}BackPressureTimeMs"] = longest
        metrics["isBackPressured"] = lambda: soft() + hard() > 0
        metrics["accumulateIdleTimeMs"] = lambda: round(self.idle_ms())
        metrics["accumulateBackPressuredTimeMs"] = lambda: round(self.soft_ms() + self.hard_ms())
        metrics["accumulateBusyTimeMs"] = self._busy_ms

    def _busy_ms(self) -> int:
        elapsed_ms = (self._clock() - self._began_ns) / 1_000_000
        return round(max(0.0, elapsed_ms - self.idle_ms() - self.soft_ms() - self.hard_ms()))

    def idle_ms(self) -> float:
        """Return the milliseconds without input."""
        return (self._idle_ns + self.input_idle_ns()) / 1_000_000

    def soft_ms(self) -> float:
        """Return the milliseconds in which no input was read because an output had no buffer."""
        return self._soft_ns / 1_000_000

    def hard_ms(self) -> float:
        """Return the milliseconds in which a record waited for a buffer."""
        return float(sum(partition.hard_back_pressured_ms for partition in self._partitions))

    def unhindered_s(self) -> float:
        """Return the seconds in which every output had a buffer."""
        hindered_ms = self.soft_ms() + self.hard_ms()
        return (self._clock() - self._began_ns) / 1_000_000_000 - hindered_ms / 1000

    def share_not_back_pressured(self) -> Callable[[], float]:
        """Return a function that returns the share (0 to 1) of time since its last call.

        Time with back pressure does not count.
        """
        since = (self._clock(), self.unhindered_s())

        def share() -> float:
            nonlocal since
            before_ns, before_s = since
            now_ns, now_s = since = (self._clock(), self.unhindered_s())
            elapsed_s = max(now_ns - before_ns, 1) / 1_000_000_000
            return min(max((now_s - before_s) / elapsed_s, 0.0), 1.0)

        return share

    def idle(self, wait: Callable[[], object]) -> None:
        """Wait for a source's next records."""
        began = self._clock()
        wait()
        self._idle_ns += self._clock() - began

    def soft_back_pressured(self, wait: Callable[[], bool]) -> bool:
        """Wait for an output; return the result of ``wait``."""
        began = self._clock()
        if self.soft_since_ns is None:
            self.soft_since_ns = began
        available = wait()
        self._soft_ns += self._clock() - began
        return available

    def end_soft_back_pressure(self) -> None:
        """Note that all outputs have buffers again."""
        self._longest_soft_ns = max(self._longest_soft_ns, self._present_soft_ns())
        self.soft_since_ns = None

    def _present_soft_ns(self) -> int:
        since_ns = self.soft_since_ns
        return 0 if since_ns is None else self._clock() - since_ns

    def _take_longest_soft(self) -> float:
        longest_ns = max(self._longest_soft_ns, self._present_soft_ns())
        self._longest_soft_ns = 0
        return longest_ns / 1_000_000

    def _take_longest_hard(self) -> float:
        return max((one.take_longest_wait_ms() for one in self._partitions), default=0)
