"""Which failure is the cause and which a consequence: a state machine without a clock.

When a task fails or its worker dies, the tasks that exchange data with it fail as well, and their
reports may come first.  A report of what is a consequence, as a rule, is kept until a cause is
known, for a while; then it counts as a cause itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.jobmaster.states import ExecutionState
from penstock.jobmaster.worker_losses import EXIT_REPORT_MS

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.failure import Failure

GRACE_MS = EXIT_REPORT_MS + 500
"""Time that a probable consequence waits for the report of its cause.

Longer than the loss of a worker, which is the cause of many, waits to be explained.
"""

SECONDARY_FAILURES: Final = frozenset(
    {
        "penstock.errors.PartitionConnectionError",
        "penstock.errors.PartitionNotFoundError",
        "penstock.errors.ProducerFailedError",
    }
)
"""Errors of a task when another one failed: the consequence, seldom the cause."""


@dataclass(frozen=True)
class TaskReport:
    """A TaskExecutor's report of the state of an attempt."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    executor_id: str
    failure: Failure | None = None

    @property
    def is_consequence(self) -> bool:
        """Return whether it says that something else has failed: a task does not cancel itself."""
        if self.failure is None:
            return self.state is ExecutionState.CANCELED
        return self.failure.exception_name in SECONDARY_FAILURES


class _Kept(NamedTuple):
    """A report that counts as a cause itself at a time, unless one is known before."""

    due_ms: int
    report: TaskReport


class FailureCauses:
    """Puts the reports of a job's tasks in order: causes before consequences.

    At most one report of each attempt is kept, as it is an attempt's last.
    """

    def __init__(self) -> None:
        self._kept: dict[ExecutionAttemptID, _Kept] = {}

    def reported(
        self, report: TaskReport, now_ms: int, *, is_canceling: bool
    ) -> tuple[TaskReport, ...]:
        """A report has come.

        Args:
            report: The report.
            now_ms: The time.
            is_canceling: Whether the attempt is being cancelled, or over: then the cause is known,
                and nothing waits for its report.

        Returns:
            The reports to be acted on, in this order.
        """
        if report.is_consequence and not is_canceling:
            self._kept.setdefault(report.attempt_id, _Kept(now_ms + GRACE_MS, report))
            return ()
        if report.failure is None or report.is_consequence:
            return (report,)
        return (report, *self.cause_known())

    def cause_known(self) -> tuple[TaskReport, ...]:
        """Something has failed that is no consequence; what was kept is to be acted on after it."""
        kept, self._kept = self._kept, {}
        return tuple(one.report for one in kept.values())

    def next_deadline_ms(self) -> int | None:
        """When `tick` is to be called, None while nothing is kept."""
        return min((one.due_ms for one in self._kept.values()), default=None)

    def tick(self, now_ms: int) -> tuple[TaskReport, ...]:
        """The reports that have waited long enough."""
        due = [one.report for one in self._kept.values() if one.due_ms <= now_ms]
        for report in due:
            del self._kept[report.attempt_id]
        return tuple(due)
