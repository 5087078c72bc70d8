"""F11: savepoints that end the job, and other checkpoints meanwhile.

Method: as in `test_coordinator`.
"""

import pytest
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.jobmaster.checkpointing import actions as a
from penstock.jobmaster.checkpointing.properties import CheckpointProperties
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.network.events import SavepointFormat, SnapshotKind
from support.checkpointed_job import CHECKPOINT, Job, kinds, only, savepoint


@pytest.mark.parametrize("kind", [SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE])
def test_a_job_that_cannot_be_stopped_with_a_savepoint_fails(kind):
    job = Job(tolerable_failures=9)
    checkpoint_id = job.begin(savepoint(kind))
    assert "cannot be stopped" in only(job.decline(checkpoint_id), a.FailJob).message
    job.coordinator.job_failing("it fails", 0)
    _, todo = job.complete(savepoint(kind))
    assert kinds(todo) == [a.RequestCompleted, a.NotifyComplete]


@pytest.mark.parametrize("kind", [SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE])
def test_a_source_that_ends_before_it_hears_of_a_stop_is_part_of_it_as_finished(kind):
    """Other tasks have stopped for the savepoint, and would have to be restarted."""
    job = Job(tolerable_failures=0)
    checkpoint_id = job.begin(savepoint(kind))
    [source] = [task for task in job.tasks if task.job_vertex.is_source]
    job.finish(source)
    assert job.coordinator.tasks_changed(0) == []
    [store] = job.acknowledge(checkpoint_id)
    finished = {
        operator.id: store.metadata.operators[operator.id].is_fully_finished
        for task in job.tasks
        for operator in task.job_vertex.operators
    }
    own = {operator.id for operator in source.job_vertex.operators}
    assert finished == {operator_id: operator_id in own for operator_id in finished}
    todo = job.store(checkpoint_id)
    assert a.RequestCompleted in kinds(todo)


def test_the_last_task_to_report_on_a_stop_may_have_ended():
    job = Job(tolerable_failures=0)
    checkpoint_id = job.begin(savepoint(SnapshotKind.SAVEPOINT_SUSPEND))
    [source] = [task for task in job.tasks if task.job_vertex.is_source]
    job.acknowledge(checkpoint_id, *[task for task in job.tasks if task is not source])
    job.finish(source)
    only(job.coordinator.tasks_changed(0), a.StoreMetadata)


@pytest.mark.parametrize("stage", ["refused", "location", "coordinators"])
def test_a_stop_that_reaches_no_task_leaves_the_job_alone(stage):
    """No task has stopped for it, so the job continues, and so do its periodic checkpoints."""
    job = Job(interval_ms=1000, tolerable_failures=0)
    job.coordinator.tasks_changed(0)
    if stage == "refused":
        job.bring(job.tasks[0], ExecutionState.FAILED)
        todo = job.request(savepoint(SnapshotKind.SAVEPOINT_SUSPEND))
    else:
        job.request(savepoint(SnapshotKind.SAVEPOINT_SUSPEND))
        assert job.coordinator.next_deadline_ms() == 600_000, "no periodic one meanwhile"
        if stage == "location":
            todo = job.coordinator.storage_failed(1, "no such directory", 0)
        else:
            job.located(1)
            todo = job.coordinator.coordinators_failed(1, "boom", 0)
        assert job.coordinator.next_deadline_ms() <= 1000
    assert a.FailJob not in kinds(todo)
    only(todo, a.RequestFailed)


ENDING = [
    CheckpointProperties.savepoint(
        SnapshotKind.SAVEPOINT, SavepointFormat.CANONICAL, "/savepoints", cancels_job=True
    ),
    savepoint(SnapshotKind.SAVEPOINT_SUSPEND),
    savepoint(SnapshotKind.SAVEPOINT_TERMINATE),
]


@pytest.mark.parametrize("ending", ENDING)
@pytest.mark.parametrize("other", [CHECKPOINT, savepoint(), *ENDING])
def test_nothing_else_is_taken_of_a_job_that_is_being_stopped(ending, other):
    """Pending and waiting checkpoints are aborted, and later requests are rejected."""
    job = Job()
    job.begin()
    job.request()
    todo = job.request(ending)
    assert [x.reason for x in todo if isinstance(x, a.RequestFailed)] == [Reason.JOB_IS_ENDING] * 2
    assert only(todo, a.CreateLocation).checkpoint_id == 2
    [refused] = job.request(other)
    assert refused.reason is Reason.JOB_IS_ENDING
    job.triggered(2)
    job.acknowledge(2)
    assert a.RequestCompleted in kinds(job.store(2))
    assert only(job.request(other), a.RequestFailed).reason is Reason.JOB_IS_ENDING
    job.coordinator.job_failing("it did not end", 0)
    only(job.request(other), a.CreateLocation)


def test_a_savepoint_that_fails_is_no_failure_of_the_jobs_checkpoints():
    """The caller gets the error; an invalid directory must not fail the job."""
    job = Job(tolerable_failures=0)
    job.request(savepoint())
    assert a.FailJob not in kinds(job.coordinator.storage_failed(1, "no such directory", 0))
    assert a.FailJob not in kinds(job.decline(job.begin(savepoint())))
    only(job.decline(job.begin()), a.FailJob)
