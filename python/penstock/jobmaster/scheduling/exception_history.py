"""The failures of a job, newest last, each with the concurrent ones."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.jobmaster.scheduling.failure import Failure

DEFAULT_HISTORY_SIZE: Final = 16
#: Concurrent failures kept per entry; a job of thousands of subtasks can fail all at once.
MAX_CONCURRENT: Final = 64
#: Number of equal failures from which a message about the repetition is logged.
TOLD_FROM: Final = 3
#: Number of kinds of failures that are counted; the least recently seen is dropped.
_MAX_COUNTED: Final = 64

_PLACE: Final = re.compile(r'^\s*File "(.*)", line (\d+)', re.MULTILINE)
#: The address in an object's text differs between attempts.
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,}")


@dataclass
class ExceptionHistoryEntry:
    """One failure that made the job restart or end.

    Attributes:
        failure: The failure.
        timestamp_ms: Its time.
        is_global: Whether it belongs to no particular subtask.
        concurrent: Failures that belong to the same restart.
        concurrent_dropped: Number of concurrent failures that were dropped.
        occurrences: Number of failures of this kind so far, this one included.
    """

    failure: Failure
    timestamp_ms: int
    is_global: bool = False
    concurrent: list[tuple[int, Failure]] = field(default_factory=list)
    concurrent_dropped: int = 0
    occurrences: int = 1

    @property
    def repetition(self) -> str:
        """Return the message about a failure that repeats; empty for one that does not."""
        if self.occurrences < TOLD_FROM:
            return ""
        return f"failed {self.occurrences} times at the same place with the same error"


class ExceptionHistory:
    """A bounded history.

    Args:
        size: Number of entries; older ones are dropped.
    """

    def __init__(self, size: int = DEFAULT_HISTORY_SIZE) -> None:
        self.entries: deque[ExceptionHistoryEntry] = deque(maxlen=size)
        self.truncated = False
        self._counted: OrderedDict[tuple[object, ...], int] = OrderedDict()

    def add_root(self, failure: Failure, now_ms: int, *, is_global: bool = False) -> None:
        """Start a new entry."""
        if len(self.entries) == self.entries.maxlen:
            self.truncated = True
        entry = ExceptionHistoryEntry(failure, now_ms, is_global)
        entry.occurrences = self._count(failure)
        self.entries.append(entry)

    def add_concurrent(self, failure: Failure, now_ms: int) -> None:
        """Attach a failure to the newest entry, or start one if there is none."""
        if not self.entries:
            self.add_root(failure, now_ms)
            return
        entry = self.entries[-1]
        if len(entry.concurrent) < MAX_CONCURRENT:
            entry.concurrent.append((now_ms, failure))
        else:
            entry.concurrent_dropped += 1

    def _count(self, failure: Failure) -> int:
        kind = _kind(failure)
        count = self._counted[kind] = self._counted.pop(kind, 0) + 1
        if len(self._counted) > _MAX_COUNTED:
            self._counted.popitem(last=False)
        return count


def _kind(failure: Failure) -> tuple[object, ...]:
    """Return the error and the place of a failure, regardless of the subtask."""
    places = _PLACE.findall(failure.stack_trace)
    return (
        failure.exception_name,
        _ADDRESS.sub("0x…", failure.message),
        failure.labels.get("operator"),
        places[-1] if places else None,
    )
