"""Serialises snapshots in the task's thread, in slices between records.

Only the task's thread uses the task's state and its snapshots: no function changes a value while it
is serialised, and no thread waits for the interpreter's lock in the middle of a record.  A thread
of its own writes the serialised bytes.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.taskexecutor.task.mailbox import MailboxClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.taskexecutor.state.snapshots.sliced_parts import SlicedPart

#: Longest delay of a record: a slice, and one step of a table beyond it.
SLICE_NS: Final = 2_000_000

#: Upper limit for tasks whose long records allow few slices: a slice may last a quarter of the time
#: since the last one, up to this.
LONGEST_SLICE_NS: Final = 8_000_000


class SlicedSnapshot:
    """The operators of one checkpoint, serialised one after the other."""

    def __init__(
        self,
        operators: Iterable[SlicedPart],
        then: Callable[[Exception | None], None],
    ) -> None:
        """Create a snapshot to be serialised.

        Args:
            operators: The parts to serialise.
            then: Called with None at the end, or with the exception that stopped it.
        """
        self._left = list(operators)
        self._then = then

    def advance(self, deadline_ns: int) -> bool:
        """Serialise until a time of the monotonic clock; return True when nothing is left."""
        try:
            while self._left:
                if not self._left[-1].advance(deadline_ns):
                    return False
                self._left.pop()
        except Exception as error:
            self.close()
            self._then(error)
            return True
        self._then(None)
        return True

    def close(self) -> None:
        """Discard the rest."""
        while self._left:
            self._left.pop().close()


class SnapshotSlices:
    """The snapshots of a task that are being serialised, the oldest first."""

    def __init__(self, execute: Callable[[Callable[[], object]], None]) -> None:
        """Create a queue; ``execute`` runs a function in the task thread between two records."""
        self._execute = execute
        self._queue: deque[SlicedSnapshot] = deque()
        self._last_ns = 0
        self._is_posted = False

    def start(self, snapshot: SlicedSnapshot) -> None:
        """Serialise the first slice, which is the only one of a small state."""
        self._queue.append(snapshot)
        if len(self._queue) == 1:
            self._advance(time.monotonic_ns() + SLICE_NS)

    def stop(self, snapshot: SlicedSnapshot) -> None:
        """Discard a snapshot, which may have completed."""
        snapshot.close()
        if snapshot in self._queue:
            self._queue.remove(snapshot)

    def _run(self) -> None:
        self._is_posted = False
        now_ns = time.monotonic_ns()
        slice_ns = min(max(SLICE_NS, (now_ns - self._last_ns) // 4), LONGEST_SLICE_NS)
        self._advance(now_ns + slice_ns)

    def _advance(self, deadline_ns: int) -> None:
        while self._queue and self._queue[0].advance(deadline_ns):
            self._queue.popleft()
        self._last_ns = time.monotonic_ns()
        if self._queue and not self._is_posted:
            try:
                self._execute(self._run)
                self._is_posted = True
            except MailboxClosedError:
                # The task has ended, and its checkpoints are aborted with it.
                while self._queue:
                    self._queue.popleft().close()
