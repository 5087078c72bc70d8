"""Which failure is the cause and which a consequence: a state machine without a clock.

When a task fails or its worker dies, the tasks that exchange data with it fail as well, and their
reports may come first.  A report of what is a consequence, as a rule, is kept until a cause is
known, for a while; then it counts as a cause itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.jobmaster.states import ExecutionState

if TYPE_CHECKING:
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.failure import Failure

GRACE_MS = 1000
"""How long a failure that is probably a consequence waits for its cause to be reported."""

SECONDARY_FAILURES: Final = frozenset(
    {
        "penstock.errors.PartitionConnectionError",
        "penstock.errors.PartitionNotFoundError",
        "penstock.errors.ProducerFailedError",
    }
)
"""What a task reports when another one failed: the consequence, seldom the cause."""


@dataclass(frozen=True)
class TaskReport:
    """A TaskExecutor's report of the state of an attempt."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    executor_id: str
    failure: Failure | None = None

    @property
    def is_consequence(self) -> bool:
        """Whether it says that something else has failed: a task does not cancel itself."""
        if self.failure is None:
            return self.state is ExecutionState.CANCELED
        return self.failure.exception_name in SECONDARY_FAILURES


class FailureCauses:
    """Puts the reports of a job's tasks in order: causes before consequences.

    At most one report of each attempt is kept, as it is an attempt's last.
    """

    def __init__(self) -> None:
        self._kept: dict[ExecutionAttemptID, TaskReport] = {}
        self._deadline_ms: int | None = None

    def reported(
        self, report: TaskReport, now_ms: int, *, is_canceling: bool
    ) -> tuple[TaskReport, ...]:
        """A report has come.

        Args:
            report: The report.
            now_ms: The time.
            is_canceling: Whether the attempt is being cancelled, or forgotten: then the cause is
                known, and nothing waits for its report.

        Returns:
            The reports to be acted on, in this order.
        """
        if report.is_consequence and not is_canceling:
            self._kept.setdefault(report.attempt_id, report)
            if self._deadline_ms is None:
                self._deadline_ms = now_ms + GRACE_MS
            return ()
        if report.failure is None:
            return (report,)
        return (report, *self.cause_known())

    def cause_known(self) -> tuple[TaskReport, ...]:
        """Something has failed that is no consequence; what was kept is to be acted on after it."""
        kept, self._kept = tuple(self._kept.values()), {}
        self._deadline_ms = None
        return kept

    def next_deadline_ms(self) -> int | None:
        """When `tick` is to be called, None while nothing is kept."""
        return self._deadline_ms

    def tick(self, now_ms: int) -> tuple[TaskReport, ...]:
        """The reports that have waited long enough, and those that came after them."""
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return ()
        return self.cause_known()
