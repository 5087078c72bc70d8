"""Separates causes of failures from consequences: a state machine without a clock.

When a task fails or its worker dies, the tasks that exchange data with it fail as well, and their
reports may arrive first.  A report that is usually a consequence waits until a cause is known; if
none is reported in time, it counts as a cause itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.workers.worker_losses import EXIT_REPORT_MS

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.scheduling.failure import Failure

GRACE_MS = EXIT_REPORT_MS + 500
"""Time that a probable consequence waits for the report of its cause.

It is longer than the wait for the explanation of a lost worker, which is a frequent cause.
"""

SECONDARY_FAILURES: Final = frozenset(
    {
        "penstock.errors.PartitionConnectionError",
        "penstock.errors.PartitionNotFoundError",
        "penstock.errors.ProducerFailedError",
    }
)
"""Errors of a task when another one failed: usually a consequence."""


@dataclass(frozen=True)
class TaskReport:
    """A TaskExecutor's report of the state of an attempt."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    executor_id: str
    failure: Failure | None = None

    @property
    def is_consequence(self) -> bool:
        """Return whether it reports a consequence: a task does not cancel itself."""
        if self.failure is None:
            return self.state is ExecutionState.CANCELED
        return self.failure.exception_name in SECONDARY_FAILURES


class _Kept(NamedTuple):
    """A report that counts as a cause at a time, unless a cause is known before."""

    due_ms: int
    report: TaskReport


class FailureCauses:
    """Orders the reports of a job's tasks: causes before consequences.

    At most one report of each attempt waits, as it is an attempt's last.
    """

    def __init__(self) -> None:
        self._kept: dict[ExecutionAttemptID, _Kept] = {}

    def reported(
        self, report: TaskReport, now_ms: int, *, is_canceling: bool
    ) -> tuple[TaskReport, ...]:
        """Add a report.

        Args:
            report: The report.
            now_ms: The time.
            is_canceling: Whether the attempt is being cancelled or has ended: then the cause is
                known, and nothing waits for its report.

        Returns:
            The reports to act on, in this order.
        """
        if report.is_consequence and not is_canceling:
            self._kept.setdefault(report.attempt_id, _Kept(now_ms + GRACE_MS, report))
            return ()
        if report.failure is None or report.is_consequence:
            return (report,)
        return (report, *self.cause_known())

    def cause_known(self) -> tuple[TaskReport, ...]:
        """Return the waiting reports, to act on after a failure that is a cause."""
        kept, self._kept = self._kept, {}
        return tuple(one.report for one in kept.values())

    def next_deadline_ms(self) -> int | None:
        """Return when to call `tick`; None if no report waits."""
        return min((one.due_ms for one in self._kept.values()), default=None)

    def tick(self, now_ms: int) -> tuple[TaskReport, ...]:
        """Return the reports that have waited long enough."""
        due = [one.report for one in self._kept.values() if one.due_ms <= now_ms]
        for report in due:
            del self._kept[report.attempt_id]
        return tuple(due)
