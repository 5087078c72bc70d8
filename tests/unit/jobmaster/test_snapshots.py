"""Pictures of a job: times of the wall clock, and contents that never change afterwards."""

from penstock.graph.job_graph import JobGraph, JobVertex
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.checkpointing.statistics import CheckpointStatistics
from penstock.jobmaster.scheduling.exception_history import ExceptionHistory
from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.jobmaster.slots.slots import SlotOffer
from penstock.jobmaster.snapshots import job_snapshot

VERTEX = b"v" * 16
WALL_MS = 1_000_000


class Job:
    def __init__(self):
        vertex = JobVertex(VERTEX, "Map", 2, 128)
        self.graph = ExecutionGraph(JobGraph("job", {VERTEX: vertex}), 0)
        self.exceptions = ExceptionHistory()
        self.known = {}

    def picture(self, now_ms):
        return job_snapshot(
            self.graph,
            self.exceptions,
            CheckpointStatistics(),
            CheckpointSettings(),
            self.known,
            {VERTEX: 2},
            wall_offset_ms=WALL_MS,
            now_ms=now_ms,
        )

    def subtask(self, index):
        return self.graph.subtask((VERTEX, index))


def shown(job, now_ms, index=0):
    return job.picture(now_ms).vertices[0].subtasks[index]


def test_every_change_of_a_subtask_is_seen():
    """Also changes that do not change the state."""
    job = Job()
    subtask = job.subtask(0)
    first = shown(job, 1)
    assert (first.current.state, first.current.endpoint) == (
        ExecutionState.CREATED,
        "(unassigned)",
    )
    assert subtask.current.assign_slot(SlotOffer(b"s" * 16, "worker", "host", 7))
    assert shown(job, 2).current.endpoint == "host:7"
    subtask.current.schedule(3)
    subtask.current.deploy(4)
    deployed = shown(job, 9).current
    assert (deployed.start_ms, deployed.end_ms) == (WALL_MS + 4, -1)
    assert deployed.duration_ms(WALL_MS + 9) == 5
    subtask.current.fail(Failure("E", "m", payload=ValueError("kept by the caller")), 6)
    failed = shown(job, 9).current
    assert (failed.state, failed.end_ms) == (ExecutionState.FAILED, WALL_MS + 6)
    assert failed.duration_ms(WALL_MS + 99) == 2
    assert (failed.failure.message, failed.failure.payload) == ("m", None)
    job.graph.reset(subtask, 8)
    again = shown(job, 9)
    assert (again.current.attempt, again.current.state) == (1, ExecutionState.CREATED)
    assert [one.attempt for one in again.prior] == [0]
    assert first.current.state is ExecutionState.CREATED
    assert first.prior == ()


def test_unchanged_parts_are_reused():
    job = Job()
    before = job.picture(1).vertices[0].subtasks
    job.subtask(0).current.schedule(2)
    after = job.picture(3).vertices[0].subtasks
    assert after[0] is not before[0]
    assert after[1] is before[1]


def test_times_of_the_job_and_its_failures():
    job = Job()
    job.graph.move(JobStatus.CREATED, 5)
    job.exceptions.add_root(Failure("E", "first"), 6)
    job.exceptions.add_concurrent(Failure("E", "second", payload=object()), 7)
    picture = job.picture(10)
    assert (picture.taken_ms, picture.start_ms, picture.end_ms) == (WALL_MS + 10, WALL_MS, -1)
    assert picture.timestamps[JobStatus.CREATED] == WALL_MS + 5
    (entry,) = picture.exceptions
    assert (entry.timestamp_ms, entry.failure.message) == (WALL_MS + 6, "first")
    assert [(at, one.message, one.payload) for at, one in entry.concurrent] == [
        (WALL_MS + 7, "second", None)
    ]
