"""F2, F3, F11, F14: when checkpoints start, complete, and are aborted.

Method: a scheduler brings the tasks of a small job to their states; the test answers the
coordinator's actions and reads the next ones.
"""

from dataclasses import replace

import msgspec
import pytest
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
    TaskStateSnapshot,
)
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.jobmaster.checkpointing import actions as a
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.network.events import Alignment
from penstock.rpc.checkpoint_messages import TaskStanding
from support.checkpointed_job import CHECKPOINT, METRICS, WALL, Job, kinds, only, savepoint


def test_the_stages_of_a_checkpoint():
    """Directory, coordinators, tasks, metadata, and only then the notifications (F-3)."""
    job = Job()
    job.now = 40
    [create] = job.request()
    assert create == a.CreateLocation(1, CHECKPOINT)
    trigger = job.triggered(1)
    source = job.tasks[0]
    assert [task.attempt_id for task in trigger.tasks] == [source.current.attempt_id]
    assert trigger.timestamp_ms == WALL + 40
    assert (trigger.alignment, trigger.location) == (Alignment.ALIGNED, "/here")
    assert job.acknowledge(1, *job.tasks[:-1]) == []
    [store] = job.acknowledge(1, job.tasks[-1])
    assert isinstance(store, a.StoreMetadata)
    todo = job.store(1)
    assert kinds(todo) == [a.RequestCompleted, a.NotifyComplete]
    assert len(todo[1].tasks) == len(job.tasks)
    assert job.coordinator.store.latest.checkpoint_id == 1


def test_state_is_kept_by_operator_and_subtask():
    job = Job()
    handle = KeyGroupsHandle(0, (0,), ByteStreamHandle("n", b"state"))
    checkpoint_id = job.begin()
    for task in job.tasks:
        operator = task.job_vertex.operators[0].id
        state = TaskStateSnapshot({operator: OperatorSubtaskState(managed_keyed=(handle,))})
        todo = job.acknowledge(checkpoint_id, task, state=state)
    operators = only(todo, a.StoreMetadata).metadata.operators
    for vertex in job.job.vertices.values():
        state = operators[vertex.operators[0].id]
        assert sorted(state.subtasks) == list(range(vertex.parallelism))
        assert (state.parallelism, state.max_parallelism) == (
            vertex.parallelism,
            vertex.max_parallelism,
        )


@pytest.mark.parametrize("state", [ExecutionState.INITIALIZING, ExecutionState.FINISHED])
def test_tasks_that_do_not_run_refuse_it(state):
    job = Job(running=False, after_tasks_finish=False)
    for task in job.tasks[1:]:
        job.bring(task, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
    job.bring(job.tasks[0], ExecutionState.INITIALIZING)
    if state is ExecutionState.FINISHED:
        job.bring(job.tasks[0], ExecutionState.RUNNING, state)
    [refused] = job.request()
    assert refused.reason is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_a_declined_checkpoint_is_undone():
    job = Job(tolerable_failures=1)
    checkpoint_id = job.begin()
    state = TaskStateSnapshot({b"o" * 16: OperatorSubtaskState()})
    job.acknowledge(checkpoint_id, job.tasks[0], state=state)
    todo = job.decline(checkpoint_id)
    assert kinds(todo) == [a.NotifyAborted, a.DiscardPending, a.RequestFailed]
    assert todo[0].latest_completed_id == -1
    assert todo[1].states == (state,)
    assert job.decline(checkpoint_id) == [], "a second one is of an unknown checkpoint"
    late = job.acknowledge(checkpoint_id, job.tasks[1], state=state)
    assert late == [a.DiscardState(checkpoint_id, state)]


def test_reports_of_strangers_are_deleted():
    """Reports of an unknown checkpoint, and of an attempt that does not participate."""
    job = Job()
    state = TaskStateSnapshot({})
    assert job.acknowledge(99, job.tasks[0], state=state) == [a.DiscardState(99, state)]
    checkpoint_id = job.begin()
    stranger = job.tasks[0].current.attempt_id._replace(attempt=9)
    todo = job.coordinator.acknowledged(stranger, checkpoint_id, state, METRICS, 0)
    assert todo == [a.DiscardState(checkpoint_id, state)]


def test_a_repeated_report_changes_nothing():
    job = Job()
    checkpoint_id = job.begin()
    for _ in range(9):
        assert job.acknowledge(checkpoint_id, job.tasks[0]) == []
    only(job.acknowledge(checkpoint_id), a.StoreMetadata)


def test_a_checkpoint_expires():
    job = Job(timeout_ms=100, tolerable_failures=3)
    checkpoint_id = job.begin()
    assert job.coordinator.next_deadline_ms() == 100
    assert job.coordinator.tick(99) == []
    todo = job.coordinator.tick(100)
    failed = only(todo, a.RequestFailed)
    assert failed.reason is Reason.EXPIRED
    assert "0 of 5 tasks" in failed.detail or "tasks reported" in failed.detail
    assert job.acknowledge(checkpoint_id) == []
    assert job.coordinator.next_deadline_ms() is None


SOURCE, *FLAT_MAPS = "Source: Text (1/1)", "Flat Map (1/2)", "Flat Map (2/2)"
COUNTS = ["Count -> Sink: Print (1/2)", "Count -> Sink: Print (2/2)"]
ALL_COUNTS = ", ".join(COUNTS)


def expired(acknowledged, standings):
    """Return why a checkpoint expired; workers report (stage, operator) by task name."""
    job = Job(timeout_ms=60_000, tolerable_failures=3)
    checkpoint_id = job.begin()
    by_name = {task.task_name: task for task in job.tasks}
    if acknowledged:
        job.acknowledge(checkpoint_id, *map(by_name.get, acknowledged))
    assert job.coordinator.next_deadline_ms() == 59_000
    asked = only(job.coordinator.tick(59_000), a.AskTasks)
    assert {job.graph.subtask(task.subtask).task_name for task in asked.tasks} == (
        by_name.keys() - set(acknowledged)
    )
    answers = [
        TaskStanding(by_name[name].current.attempt_id.to_bytes(), *standing)
        for name, standing in standings.items()
    ]
    job.coordinator.standings_reported(checkpoint_id, answers, 59_500)
    assert job.coordinator.next_deadline_ms() == 60_000
    return only(job.coordinator.tick(60_000), a.RequestFailed).detail


def test_an_expired_checkpoint_names_what_holds_up_the_barriers():
    behind = dict.fromkeys(COUNTS, ("WAITING", ""))
    held = dict.fromkeys(FLAT_MAPS, ("WAITING", "Flat Map"))
    assert expired([SOURCE], behind | held) == (
        "1 of 5 tasks reported within 60 s; barriers have not arrived at Flat Map (1/2), "
        f"Flat Map (2/2), {ALL_COUNTS}; held up in operator 'Flat Map', in 2 subtasks"
    )


def test_an_expired_checkpoint_names_the_first_tasks_where_no_user_code_runs():
    standings = dict.fromkeys([FLAT_MAPS[1], *COUNTS], ("WAITING", ""))
    assert expired([SOURCE], standings | {FLAT_MAPS[0]: ("WRITING", "")}) == (
        f"1 of 5 tasks reported within 60 s; barriers have not arrived at Flat Map (2/2), "
        f"{ALL_COUNTS}; held up in Flat Map (2/2); state is being written by Flat Map (1/2)"
    )


def test_an_expired_checkpoint_tells_snapshots_writing_and_silence_apart():
    standings = {
        SOURCE: ("WAITING", "Text"),
        FLAT_MAPS[0]: ("TAKING", "Count"),
        FLAT_MAPS[1]: ("WRITTEN", ""),
        COUNTS[0]: ("WRITING", ""),
    }
    assert expired([], standings) == (
        "0 of 5 tasks reported within 60 s; it has not begun at Source: Text (1/1); functions "
        "take their snapshots in Flat Map (1/2); held up in operator 'Text' of Source: Text, "
        f"operator 'Count' of Flat Map; state is being written by {COUNTS[0]}; acknowledgements "
        f"are on the way from Flat Map (2/2); no word from the workers of {COUNTS[1]}"
    )


def test_a_directory_that_comes_too_late_is_deleted():
    job = Job(timeout_ms=100, tolerable_failures=3)
    job.request()
    assert kinds(job.coordinator.tick(100)) == [a.NotifyAborted, a.RequestFailed]
    assert job.located(1) == [a.DiscardPending(1, "/here", ())]


@pytest.mark.parametrize("stage", ["location", "coordinators", "metadata"])
def test_a_storage_failure_aborts_the_checkpoint(stage):
    job = Job(tolerable_failures=None)
    coordinator = job.coordinator
    if stage == "location":
        job.request()
        todo = coordinator.storage_failed(1, "disk full", 0)
        reason = Reason.IO_EXCEPTION
    elif stage == "coordinators":
        job.request()
        job.located(1)
        todo = coordinator.coordinators_failed(1, "boom", 0)
        reason = Reason.TRIGGER_FAILURE
    else:
        job.acknowledge(job.begin())
        todo = coordinator.storage_failed(1, "disk full", 0)
        reason = Reason.FINALIZE_FAILURE
    assert only(todo, a.RequestFailed).reason is reason
    assert job.coordinator.store.latest is None
    assert job.complete()[0] == 2, "the next one is not disturbed"


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_only_so_many_at_a_time(limit):
    """F-1; a waiting request starts as soon as a pending checkpoint has ended."""
    job = Job(max_concurrent=limit)
    begun = [job.begin() for _ in range(limit)]
    assert job.request() == []
    job.acknowledge(begun[0])
    assert only(job.store(begun[0]), a.CreateLocation).checkpoint_id == limit + 1


def test_a_savepoint_does_not_wait_its_turn():
    job = Job()
    job.begin()
    assert only(job.request(savepoint()), a.CreateLocation).checkpoint_id == 2


def test_one_is_triggered_at_a_time():
    job = Job(max_concurrent=5)
    job.request()
    assert job.request() == []
    job.located(1)
    todo = job.coordinator.coordinators_snapshotted(1, {}, 0)
    assert only(todo, a.CreateLocation).checkpoint_id == 2


def test_success_subsumes_what_is_older():
    """Only checkpoints: a savepoint belongs to the user."""
    job = Job(max_concurrent=3)
    oldest = job.begin()
    kept = job.begin(savepoint())
    newest = job.begin()
    job.acknowledge(newest)
    todo = job.store(newest)
    aborted = only(todo, a.NotifyAborted)
    assert (aborted.checkpoint_id, aborted.latest_completed_id) == (oldest, newest)
    assert [pending.checkpoint_id for pending in job.coordinator.pending] == [kept]
    job.acknowledge(kept)
    assert kinds(job.store(kept)) == [a.RequestCompleted], "nobody is told of a plain savepoint"
    assert job.coordinator.store.latest.checkpoint_id == newest


def test_completed_ones_are_kept_as_many_as_asked():
    job = Job(num_retained=2)
    discarded = []
    for _ in range(4):
        _, todo = job.complete()
        discarded += [
            x.checkpoint.checkpoint_id for x in todo if isinstance(x, a.DiscardCheckpoint)
        ]
        for _ in [x for x in todo if isinstance(x, a.DiscardCheckpoint)]:
            job.coordinator.discarded(job.now)
    assert discarded == [1, 2]
    assert [c.checkpoint_id for c in job.coordinator.store.all] == [3, 4]


def test_no_checkpoint_starts_while_too_many_are_being_deleted():
    job = Job()
    for _ in range(3):
        job.complete()
    assert job.request() == []
    assert only(job.coordinator.discarded(0), a.CreateLocation).checkpoint_id == 4


def test_periodic_checkpoints():
    """The first one at a random time within the interval, then one each interval."""
    job = Job(interval_ms=100)
    assert job.coordinator.next_deadline_ms() is None
    assert job.coordinator.tasks_changed(1000) == []
    first = job.coordinator.next_deadline_ms()
    assert 1000 <= first <= 1100
    job.now = first
    assert kinds(job.coordinator.tick(first)) == [a.CreateLocation]
    job.triggered(1)
    job.acknowledge(1)
    job.store(1)
    assert job.coordinator.next_deadline_ms() == first + 100


def test_periodic_ones_do_not_pile_up():
    job = Job(interval_ms=10, timeout_ms=10_000)
    job.coordinator.tasks_changed(0)
    job.now = 20
    job.coordinator.tick(20)
    job.triggered(1)
    for now in range(30, 500, 10):
        assert job.coordinator.tick(now) == []
    job.now = 500
    job.acknowledge(1)
    only(job.store(1), a.CreateLocation)
    job.triggered(2)
    job.acknowledge(2)
    assert not [x for x in job.store(2) if isinstance(x, a.CreateLocation)]


def test_the_pause_after_one():
    """The pause starts when a checkpoint completes, and only applies to periodic ones."""
    job = Job(interval_ms=100, min_pause_ms=70)
    job.coordinator.tasks_changed(0)
    first = job.coordinator.next_deadline_ms()
    job.now = first
    job.coordinator.tick(first)
    job.triggered(1)
    job.now = first + 60
    job.acknowledge(1)
    job.store(1)
    assert job.coordinator.next_deadline_ms() == first + 100
    [refused] = job.coordinator.tick(first + 100)
    assert refused.reason is Reason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
    assert job.coordinator.next_deadline_ms() == first + 130
    only(job.request(), a.CreateLocation)


def test_a_task_at_its_end_hurries_the_next_one():
    job = Job(interval_ms=600_000)
    job.coordinator.tasks_changed(0)
    job.coordinator.hurry(job.tasks[0].current.attempt_id, 5)
    assert job.coordinator.next_deadline_ms() == 15


def test_a_task_that_waits_for_its_last_checkpoint_gets_one():
    """Neither before all tasks run, nor when the requested checkpoint fails."""
    job = Job(interval_ms=600_000, tolerable_failures=9)
    job.coordinator.hurry(job.tasks[0].current.attempt_id, 5)
    job.coordinator.tasks_changed(6)
    assert job.coordinator.next_deadline_ms() == 16
    job.now = 16
    only(job.coordinator.tick(16), a.CreateLocation)
    job.triggered(1)
    job.decline(1)
    assert job.coordinator.next_deadline_ms() == 26
    job.now = 26
    only(job.coordinator.tick(26), a.CreateLocation)
    job.triggered(2)
    job.acknowledge(2)
    job.store(2)
    assert job.coordinator.next_deadline_ms() == 26 + 600_000


def test_a_task_that_has_finished_reports_nothing_more():
    """The task ended while a checkpoint that was planned with it was pending.

    A requested checkpoint is taken without the task.
    """
    job = Job(tolerable_failures=0)
    checkpoint_id = job.begin()
    job.finish(job.tasks[0])
    todo = job.coordinator.tasks_changed(0)
    assert only(todo, a.NotifyAborted).checkpoint_id == checkpoint_id
    assert a.RequestFailed not in kinds(todo)
    again = only(todo, a.CreateLocation).checkpoint_id
    job.triggered(again)
    job.acknowledge(again, *job.tasks[1:])
    assert only(job.store(again), a.RequestCompleted).number == checkpoint_id
    assert job.coordinator.pending == ()


def test_a_periodic_checkpoint_that_meets_the_end_of_a_task_is_replaced():
    job = Job(interval_ms=100, tolerable_failures=0)
    job.coordinator.tasks_changed(0)
    job.now = job.coordinator.next_deadline_ms()
    only(job.coordinator.tick(job.now), a.CreateLocation)
    job.triggered(1)
    job.finish(job.tasks[0])
    todo = job.coordinator.tasks_changed(job.now)
    assert only(todo, a.RequestFailed).reason is Reason.DECLINED_TASK_CLOSING
    assert a.CreateLocation not in kinds(todo)


def test_periodic_ones_stop_with_the_tasks():
    job = Job(interval_ms=100)
    job.coordinator.tasks_changed(0)
    job.coordinator.job_failing("a task failed", 1)
    assert job.coordinator.next_deadline_ms() is None
    job.finish(*job.tasks)
    job.coordinator.tasks_changed(2)
    assert job.coordinator.next_deadline_ms() is None


def test_failures_in_a_row_fail_the_job():
    """F3: each checkpoint counts once, a success resets the count, some reasons do not count."""
    job = Job(tolerable_failures=1)
    for _ in range(3):
        assert a.FailJob not in kinds(job.decline(job.begin(), Reason.DECLINED_TASK_NOT_READY))
    assert a.FailJob not in kinds(job.decline(job.begin()))
    job.complete()
    assert a.FailJob not in kinds(job.decline(job.begin()))
    failed = only(job.decline(job.begin()), a.FailJob)
    assert failed.message.startswith("Exceeded checkpoint tolerable failure threshold")
    assert a.FailJob not in kinds(job.decline(job.begin())), "it counts from zero again"


def test_a_restart_gives_up_what_is_under_way():
    job = Job(max_concurrent=2)
    job.complete()
    job.begin()
    job.begin()
    job.request()
    todo = job.coordinator.job_failing("a task failed", 0)
    reasons = [x.reason for x in todo if isinstance(x, a.RequestFailed)]
    assert reasons == [Reason.JOB_FAILOVER_REGION] * 3
    assert a.FailJob not in kinds(todo)
    assert [c.checkpoint_id for c in job.coordinator.store.all] == [1]


@pytest.mark.parametrize(
    ("retention", "kept_at"),
    [
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, set()),
        (Retention.DELETE_ON_CANCELLATION, {JobStatus.FAILED}),
        (
            Retention.RETAIN_ON_CANCELLATION,
            {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED},
        ),
    ],
)
def test_checkpoints_that_outlive_the_job(retention, kept_at):
    """F11's table of flags."""
    ends = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)
    for status in ends:
        job = Job(retention=retention)
        job.complete(CheckpointProperties.checkpoint(retention))
        todo = job.coordinator.job_ended(status, 0)
        assert (a.DiscardCheckpoint not in kinds(todo)) == (status in kept_at), status
        [refused] = job.request()
        assert refused.reason is Reason.COORDINATOR_SHUTDOWN


def test_the_plan_when_some_tasks_have_finished():
    """F14: a task without a running producer is triggered; finished tasks are recorded."""
    job = Job()
    [source] = [t for t in job.tasks if t.job_vertex.is_source]
    middle = [t for t in job.tasks if t.job_vertex.name == "Flat Map"]
    job.finish(source)
    only(job.request(), a.CreateLocation)
    trigger = job.triggered(1)
    assert {t.attempt_id for t in trigger.tasks} == {t.current.attempt_id for t in middle}
    [store] = job.acknowledge(1)
    assert store.metadata.operators[source.job_vertex.operators[0].id].is_fully_finished


def test_union_state_of_a_partly_finished_operator_cannot_be_stored():
    job = Job(tolerable_failures=None)
    [source] = [t for t in job.tasks if t.job_vertex.is_source]
    middle = [t for t in job.tasks if t.job_vertex.name == "Flat Map"]
    job.finish(source, middle[0])
    handle = OperatorStateHandle(
        {"s": PartitionableState("union", (0,))}, ByteStreamHandle("n", b"x")
    )
    operator = middle[1].job_vertex.operators[0].id
    checkpoint_id = job.begin()
    state = TaskStateSnapshot({operator: OperatorSubtaskState(managed_operator=(handle,))})
    job.acknowledge(checkpoint_id, middle[1], state=state)
    failed = only(job.acknowledge(checkpoint_id), a.RequestFailed)
    assert failed.reason is Reason.FINALIZE_FAILURE
    assert "union list state" in failed.detail


def test_figures_for_people():
    job = Job(tolerable_failures=5)
    job.complete()
    job.decline(job.begin())
    job.begin(savepoint())
    statistics = job.coordinator.statistics
    assert statistics.counts == {
        "restored": 0,
        "total": 3,
        "in_progress": 1,
        "completed": 1,
        "failed": 1,
    }
    assert [record.status for record in statistics.history] == [
        "IN_PROGRESS",
        "FAILED",
        "COMPLETED",
    ]
    completed = statistics.latest["completed"]
    assert completed.total("full_bytes") == 7 * len(job.tasks)
    assert completed.external_path == "/1"
    assert statistics.summary["checkpointed_size"].p50 == 5 * len(job.tasks)


# Found by the simulation --------------------------------------------------------------------


def test_no_checkpoint_of_a_job_that_is_cancelled():
    """Its tasks end one after the other, so only some of them would take a pending checkpoint."""
    job = Job(interval_ms=100)
    begun = only(job.request(), a.CreateLocation).checkpoint_id
    job.request()
    todo = job.coordinator.job_cancelling(0)
    reasons = [(x.number, x.reason) for x in todo if isinstance(x, a.RequestFailed)]
    assert reasons == [(1, Reason.COORDINATOR_SHUTDOWN), (2, Reason.COORDINATOR_SHUTDOWN)]
    assert [type(x) for x in job.located(begun)] == [a.DiscardPending]
    assert job.coordinator.tasks_changed(1) == []
    assert job.coordinator.next_deadline_ms() is None
    assert only(job.request(), a.RequestFailed).reason is Reason.COORDINATOR_SHUTDOWN


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_second_report_deletes_nothing(is_stored):
    """The files that it names belong to the completed checkpoint."""
    job = Job()
    checkpoint_id = job.begin()
    state = TaskStateSnapshot({bytes(16): OperatorSubtaskState()})
    job.acknowledge(checkpoint_id, state=state)
    if is_stored:
        job.store(checkpoint_id)
    assert job.acknowledge(checkpoint_id, job.tasks[0], state=state) == []


def test_tasks_do_not_end_with_a_plain_savepoint():
    """They are not notified of it, so a checkpoint follows for the tasks that wait."""
    job = Job(interval_ms=600_000)
    job.coordinator.tasks_changed(0)
    checkpoint_id = job.begin(savepoint())
    job.now = 5
    job.coordinator.hurry(job.tasks[0].current.attempt_id, 5)
    assert job.coordinator.next_deadline_ms() == 15
    later_id = only(job.request(savepoint()), a.CreateLocation).checkpoint_id
    for taken in (checkpoint_id, later_id):
        if taken is later_id:
            job.triggered(taken)
        job.acknowledge(taken)
        job.store(taken)
    assert job.coordinator.next_deadline_ms() == 15


def test_a_failover_of_another_region_keeps_the_waiting_tasks():
    """Tasks of another region keep waiting; restarted tasks request again when they end."""
    job = Job(interval_ms=600_000)
    job.coordinator.tasks_changed(0)
    waiting = job.tasks[0].current.attempt_id
    job.coordinator.hurry(waiting, 5)
    job.coordinator.hurry(waiting._replace(attempt=waiting.attempt + 1), 5)
    job.coordinator.job_failing("lost", 6)
    assert job.coordinator.next_deadline_ms() is None
    job.coordinator.tasks_changed(7)
    assert job.coordinator.next_deadline_ms() == 17
    job.now = 17
    only(job.coordinator.tick(17), a.CreateLocation)
    job.triggered(1)
    job.acknowledge(1)
    job.store(1)
    assert job.coordinator.next_deadline_ms() == 17 + 600_000


def test_nothing_begins_while_the_job_is_failed():
    """A checkpoint that starts beside the failure would be aborted before it is triggered."""
    job = Job(tolerable_failures=0)
    checkpoint_id = job.begin()
    job.request()
    todo = job.decline(checkpoint_id)
    assert only(todo, a.FailJob)
    assert not [x for x in todo if isinstance(x, a.CreateLocation)]
    refused = only(job.coordinator.job_failing("so", 0), a.RequestFailed)
    assert (refused.number, refused.reason) == (2, Reason.JOB_FAILOVER_REGION)


def test_every_attempt_has_a_number_of_its_own():
    """F2: a failed checkpoint uses up its number, and so does a savepoint."""
    job = Job(tolerable_failures=1)
    assert job.begin() == 1
    job.decline(1)
    assert job.complete()[0] == 2
    assert job.complete(savepoint())[0] == 3
    assert job.begin() == 4


@pytest.mark.parametrize(("first_id", "next_id"), [(1, 42), (100, 100)])
def test_ids_continue_after_the_initial_checkpoint(first_id, next_id):
    """They never fall behind those of a former driver of the job."""
    former = Job()
    former.complete()
    job = Job(first_id=first_id)
    latest = former.coordinator.store.latest
    metadata = msgspec.structs.replace(latest.metadata, checkpoint_id=41)
    job.coordinator.start_from(replace(latest, metadata=metadata), 0)
    assert job.begin() == next_id
