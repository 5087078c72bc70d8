"""The short wait of batches for others, because most of the cost of a small batch is fixed."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.time.processing_time import OperatorProcessingTime

#: The wait in ms, if the last batch took little time.
_WAIT_MS: Final = 10

#: The longest wait in ms, on a busy machine.
_LONGEST_WAIT_MS: Final = 100

#: A batch waits at least this many times as long as the last one took.
_WAITS: Final = 10


class BatchWait:
    """Flushes gathered batches some time after the first of them."""

    def __init__(self, processing_time: OperatorProcessingTime, flush: Callable[[], None]) -> None:
        """Create a wait that has not begun.

        Args:
            processing_time: The operator's clock and timers.
            flush: Processes the waiting batches.
        """
        self._processing_time = processing_time
        self._flush = flush
        self._is_timed = False
        self._wait_ms = _WAIT_MS

    def begin(self) -> None:
        """Flush after the wait, unless a wait has begun."""
        if not self._is_timed:
            self._is_timed = True
            time = self._processing_time
            time.register(time.now() + self._wait_ms, self._on_time)

    def _on_time(self, timestamp: int) -> None:
        del timestamp
        self._is_timed = False
        began_ns = monotonic_ns()
        self._flush()
        taken_ms = (monotonic_ns() - began_ns) // 1_000_000
        self._wait_ms = min(max(_WAIT_MS, _WAITS * taken_ms), _LONGEST_WAIT_MS)
