"""Causes are reported before consequences, whichever arrives first."""

import pytest
from penstock.jobmaster.failure_causes import (
    GRACE_MS,
    SECONDARY_FAILURES,
    FailureCauses,
    TaskReport,
)
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.states import ExecutionState

CONSEQUENCE = Failure("penstock.errors.ProducerFailedError", "the producer has failed")
CAUSE = Failure("builtins.ValueError", "no")


def report(attempt, state, failure=None):
    return TaskReport(attempt, ExecutionState[state], "worker", failure)


@pytest.mark.parametrize(
    "consequence",
    [
        *(report("a", "FAILED", Failure(name, "so")) for name in sorted(SECONDARY_FAILURES)),
        report("a", "CANCELED"),
    ],
    ids=lambda consequence: str(consequence.failure),
)
def test_a_consequence_waits_for_its_cause(consequence):
    causes = FailureCauses()
    assert causes.reported(consequence, 5, is_canceling=False) == ()
    assert causes.next_deadline_ms() == 5 + GRACE_MS
    cause = report("b", "FAILED", CAUSE)
    assert causes.reported(cause, 6, is_canceling=False) == (cause, consequence)
    assert causes.next_deadline_ms() is None


def test_a_consequence_without_a_cause_is_one_after_a_while():
    causes = FailureCauses()
    first, second = report("a", "FAILED", CONSEQUENCE), report("b", "FAILED", CONSEQUENCE)
    causes.reported(first, 0, is_canceling=False)
    causes.reported(second, GRACE_MS - 1, is_canceling=False)
    assert causes.tick(GRACE_MS - 1) == ()
    assert causes.tick(GRACE_MS) == (first,)
    assert causes.next_deadline_ms() == 2 * GRACE_MS - 1
    assert causes.tick(2 * GRACE_MS - 1) == (second,)
    assert causes.next_deadline_ms() is None


def test_the_loss_of_a_worker_is_a_cause():
    causes = FailureCauses()
    kept = report("a", "FAILED", CONSEQUENCE)
    causes.reported(kept, 0, is_canceling=False)
    assert causes.cause_known() == (kept,)
    assert causes.cause_known() == ()


def test_nothing_waits_for_what_is_being_cancelled():
    causes = FailureCauses()
    for late in (report("a", "CANCELED"), report("a", "FAILED", CONSEQUENCE)):
        assert causes.reported(late, 0, is_canceling=True) == (late,)


def test_a_consequence_elsewhere_is_no_cause():
    """A consequence in a task that is being cancelled says nothing about other regions."""
    causes = FailureCauses()
    causes.reported(report("a", "FAILED", CONSEQUENCE), 0, is_canceling=False)
    late = report("b", "FAILED", CONSEQUENCE)
    assert causes.reported(late, 1, is_canceling=True) == (late,)
    assert causes.next_deadline_ms() == GRACE_MS


def test_other_reports_leave_a_consequence_that_is_held_back():
    causes = FailureCauses()
    causes.reported(report("a", "FAILED", CONSEQUENCE), 0, is_canceling=False)
    running = report("b", "RUNNING")
    assert causes.reported(running, 1, is_canceling=False) == (running,)
    assert causes.next_deadline_ms() == GRACE_MS


def test_an_attempt_is_kept_once():
    """A report that arrives twice does not make the job store an attempt twice."""
    causes = FailureCauses()
    for now_ms in range(3):
        causes.reported(report("a", "FAILED", CONSEQUENCE), now_ms, is_canceling=False)
    assert len(causes.cause_known()) == 1
