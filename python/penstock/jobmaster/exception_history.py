"""The failures a job has had, newest last, each with those that came along with it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.jobmaster.failure import Failure

DEFAULT_HISTORY_SIZE: Final = 16
#: Concurrent failures kept per entry; a job of thousands of subtasks can fail all at once.
MAX_CONCURRENT: Final = 64


@dataclass
class ExceptionHistoryEntry:
    """One failure that made the job restart or end.

    Attributes:
        failure: What happened.
        timestamp_ms: When.
        is_global: Whether it was a failure of no particular subtask.
        concurrent: Failures that belong to the same restart.
        concurrent_dropped: How many more of these there were than are kept.
    """

    failure: Failure
    timestamp_ms: int
    is_global: bool = False
    concurrent: list[tuple[int, Failure]] = field(default_factory=list)
    concurrent_dropped: int = 0


class ExceptionHistory:
    """A bounded history.

    Args:
        size: Entries kept; older ones are forgotten.
    """

    def __init__(self, size: int = DEFAULT_HISTORY_SIZE) -> None:
        self.entries: deque[ExceptionHistoryEntry] = deque(maxlen=size)
        self.truncated = False

    def add_root(self, failure: Failure, now_ms: int, *, is_global: bool = False) -> None:
        """Begins a new entry."""
        if len(self.entries) == self.entries.maxlen:
            self.truncated = True
        self.entries.append(ExceptionHistoryEntry(failure, now_ms, is_global))

    def add_concurrent(self, failure: Failure, now_ms: int) -> None:
        """Attaches a failure to the newest entry, or begins one when there is none."""
        if not self.entries:
            self.add_root(failure, now_ms)
            return
        entry = self.entries[-1]
        if len(entry.concurrent) < MAX_CONCURRENT:
            entry.concurrent.append((now_ms, failure))
        else:
            entry.concurrent_dropped += 1
