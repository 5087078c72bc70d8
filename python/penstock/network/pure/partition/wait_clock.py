"""The time that a writer waits for buffers: hard back pressure (internals M25)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class WaitClock:
    """Adds up waits, which are its ``with`` blocks; a current wait counts up to now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total_ns = 0
        self._longest_ns = 0
        self._since_ns: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._since_ns = time.monotonic_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            waited_ns = self._present_ns()
            self._total_ns += waited_ns
            self._longest_ns = max(self._longest_ns, waited_ns)
            self._since_ns = None

    @property
    def total_ms(self) -> int:
        """Return the total wait until now, in milliseconds."""
        with self._lock:
            return (self._total_ns + self._present_ns()) // 1_000_000

    def take_longest_ms(self) -> int:
        """Return the longest wait since the last call, including a current one."""
        with self._lock:
            longest_ns = max(self._longest_ns, self._present_ns())
            self._longest_ns = 0
            return longest_ns // 1_000_000

    def _present_ns(self) -> int:
        return 0 if self._since_ns is None else time.monotonic_ns() - self._since_ns
