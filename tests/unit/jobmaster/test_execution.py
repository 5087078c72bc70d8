"""The state machine of one attempt (internals M42)."""

import itertools

import pytest
from penstock.jobmaster.scheduling.execution import (
    MAX_PRIOR_ATTEMPTS,
    Cancellation,
    Execution,
    ExecutionVertex,
    IllegalExecutionStateError,
)
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.states import EXECUTION_TRANSITIONS, ExecutionState
from penstock.jobmaster.slots.slots import SlotOffer
from support.graphs import word_count

S = ExecutionState
SLOT = SlotOffer(b"a", "worker", "127.0.0.1", 1)
FAILURE = Failure("E", "boom")


def attempt() -> Execution:
    vertex = next(iter(word_count().job_graph().vertices.values()))
    return ExecutionVertex(vertex, 0, bytes(16), 0).current


def attempt_in(state: ExecutionState) -> Execution:
    execution = attempt()
    if state is S.CREATED:
        return execution
    if state is S.FAILED:
        execution.fail(FAILURE, 1)
        return execution
    if state is S.CANCELED:
        execution.cancel(1)
        return execution
    execution.schedule(1)
    if state is S.SCHEDULED:
        return execution
    assert execution.assign_slot(SLOT)
    execution.deploy(2)
    for report in (S.INITIALIZING, S.RUNNING):
        if execution.state is state:
            return execution
        assert execution.report(report, 3) is report
    if state is S.FINISHED:
        execution.report(S.FINISHED, 4)
    elif state is S.CANCELING:
        execution.cancel(4)
    assert execution.state is state
    return execution


ALL = [s for s in S if s is not S.RECONCILING]
TERMINAL = [S.FINISHED, S.CANCELED, S.FAILED]


def test_the_regular_way():
    execution = attempt_in(S.FINISHED)
    assert list(execution.timestamps) == [
        S.CREATED,
        S.SCHEDULED,
        S.DEPLOYING,
        S.INITIALIZING,
        S.RUNNING,
        S.FINISHED,
    ]


def test_created_may_deploy_directly_and_running_may_skip_initializing():
    execution = attempt()
    execution.assign_slot(SLOT)
    execution.deploy(1)
    assert execution.report(S.RUNNING, 2) is S.RUNNING


def test_deploying_needs_a_slot_and_only_one():
    execution = attempt()
    with pytest.raises(IllegalExecutionStateError):
        execution.deploy(1)
    assert execution.assign_slot(SLOT)
    assert not execution.assign_slot(SLOT)
    for state in (S.RUNNING, *TERMINAL):
        assert not attempt_in(state).assign_slot(SLOT)


@pytest.mark.parametrize("state", ALL)
def test_cancel(state):
    execution = attempt_in(state)
    outcome = execution.cancel(9)
    if state in (S.CREATED, S.SCHEDULED):
        assert (outcome, execution.state) == (Cancellation.IMMEDIATE, S.CANCELED)
    elif state in (S.DEPLOYING, S.INITIALIZING, S.RUNNING):
        assert (outcome, execution.state) == (Cancellation.REQUESTED, S.CANCELING)
    else:
        assert (outcome, execution.state) == (Cancellation.IGNORED, state)
    assert execution.cancel(10) is Cancellation.IGNORED


@pytest.mark.parametrize("state", ALL)
def test_fail(state):
    execution = attempt_in(state)
    entered = execution.fail(FAILURE, 9)
    if state in TERMINAL:
        assert (entered, execution.state) == (None, state)
    elif state is S.CANCELING:
        assert entered is execution.state is S.CANCELED
        assert execution.failure is None
    else:
        assert entered is execution.state is S.FAILED
        assert execution.failure is FAILURE


@pytest.mark.parametrize("report", [S.FINISHED, S.CANCELED, S.FAILED])
def test_any_end_ends_a_cancellation(report):
    execution = attempt_in(S.CANCELING)
    assert execution.report(report, 9) is S.CANCELED


@pytest.mark.parametrize("report", [S.INITIALIZING, S.RUNNING])
def test_progress_of_a_cancelled_attempt_is_late(report):
    execution = attempt_in(S.CANCELING)
    assert execution.report(report, 9) is None


def test_cancelled_without_a_request_is_a_failure():
    execution = attempt_in(S.RUNNING)
    assert execution.report(S.CANCELED, 9) is S.FAILED
    assert "without having been asked" in execution.failure.message


def test_failure_without_a_reason_gets_one():
    execution = attempt_in(S.RUNNING)
    execution.report(S.FAILED, 9)
    assert "gave no reason" in execution.failure.message


@pytest.mark.parametrize(("state", "report"), list(itertools.product(ALL, ALL)))
def test_every_report_in_every_state_keeps_to_the_table(state, report):
    """Terminal states never change, and no report causes a transition that the table lacks."""
    execution = attempt_in(state)
    entered = execution.report(report, 9, FAILURE)
    if state in TERMINAL:
        assert entered is None
    if entered is None:
        assert execution.state is state
    else:
        assert entered in EXECUTION_TRANSITIONS[state]


def test_terminal_states_have_no_way_out():
    for state in TERMINAL:
        assert not EXECUTION_TRANSITIONS[state]
        assert state.is_terminal


def test_end_cancellation():
    assert attempt_in(S.CANCELING).end_cancellation(9)
    assert not attempt_in(S.RUNNING).end_cancellation(9)


def test_attempts_are_numbered_and_history_is_bounded():
    vertex = next(iter(word_count().job_graph().vertices.values()))
    subtask = ExecutionVertex(vertex, 0, bytes(16), 0)
    assert subtask.task_name == "Source: Text (1/1)"
    with pytest.raises(IllegalExecutionStateError):
        subtask.reset(0)
    for number in range(20):
        assert subtask.current.attempt_id.attempt == number
        subtask.current.fail(FAILURE, 0)
        subtask.reset(0)
    assert len(subtask.prior) == MAX_PRIOR_ATTEMPTS
    assert subtask.prior[-1].attempt_id.attempt == 19
