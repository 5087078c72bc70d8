"""The control plane alone, for a job of ten thousand subtasks on a thousand TaskExecutors.

    python benchmarks/control_plane.py [--vertices 10] [--parallelism 1000]

Every vertex reads from all subtasks of the previous one, and each TaskExecutor has one slot.  The
scheduler and the checkpoint coordinator get the events of such a job, and their requests are
answered at once: no process and no socket is involved.  Prints CPU times and the peak memory.
"""

import argparse
import gc
import resource
import time
from collections.abc import Callable

from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    CheckpointMetrics,
    KeyGroupsHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.graph.job_graph import (
    IntermediateDataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    OperatorIdentity,
)
from penstock.graph.wiring import DistributionPattern
from penstock.jobmaster.checkpointing.actions import StoreMetadata
from penstock.jobmaster.checkpointing.coordinator import CheckpointCoordinator
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.scheduling import actions
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.restart_strategies import FixedDelayRestartStrategy
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.slots.slots import SlotOffer
from workloads import harness

METRICS = CheckpointMetrics(checkpointed_bytes=5, full_bytes=5)


def job(vertices: int, parallelism: int) -> JobGraph:
    """Return vertices in a row, each connected with all subtasks of the next one."""
    made: dict[bytes, JobVertex] = {}
    written: IntermediateDataSet | None = None
    for number in range(vertices):
        id_ = number.to_bytes(16, "big")
        name = f"Vertex {number}"
        operator = OperatorIdentity(id_, None, None, name)
        vertex = JobVertex(id_, name, parallelism, 8192, operators=(operator,))
        if written is not None:
            pattern = DistributionPattern.ALL_TO_ALL
            vertex.inputs.append(JobEdge(written.id, id_, pattern, "HASH"))
        if number < vertices - 1:
            written = IntermediateDataSet(b"data" + id_[4:], id_)
            vertex.produced.append(written)
        made[id_] = vertex
    return JobGraph("large", made)


class Measured:
    """Rows of results; a step is measured by the CPU time of this process."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    def step(self, name: str, goal_ms: int, work: Callable[[], object]) -> None:
        gc.collect()  # garbage of earlier steps does not count for this one
        begin = time.process_time()
        work()
        self.row(name, round((time.process_time() - begin) * 1000, 1), "ms", goal_ms)

    def row(self, name: str, value: float, unit: str, goal: float) -> None:
        self.rows.append({"name": name, "value": value, "unit": unit, "goal": goal})
        print(f"{name:60} {value:>9} {unit:4} goal {goal}", flush=True)


def measure(vertices: int, parallelism: int) -> Measured:
    measured = Measured()
    graph = job(vertices, parallelism)
    subtasks = vertices * parallelism
    scheduler = Scheduler(graph, FixedDelayRestartStrategy(100, 0), 0)

    def schedule() -> None:
        scheduler.start(0)
        deployed = 0
        for number in range(parallelism):
            slot = SlotOffer(number.to_bytes(16, "big"), f"taskexecutor-{number}", "host", 1)
            todo = scheduler.slots_offered([slot], 0)
            deployed += sum(isinstance(action, actions.Deploy) for action in todo)
        assert deployed == subtasks

    def run() -> None:
        for state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING):
            for subtask in scheduler.graph.subtasks():
                scheduler.task_state_changed(subtask.current.attempt_id, state, "", 1)

    measured.step(f"{subtasks} subtasks are scheduled, slot by slot", 10_000, schedule)
    measured.step("their two reports are processed", 1_000, run)
    settings = CheckpointSettings(interval_ms=None)
    coordinator = CheckpointCoordinator(scheduler.graph, settings, 0)

    def checkpoint() -> None:
        properties = CheckpointProperties.checkpoint(
            Retention.NO_EXTERNALIZED_CHECKPOINTS, forced=True
        )
        coordinator.request(properties, 2)
        coordinator.location_created(1, "/here", 2)
        coordinator.coordinators_snapshotted(1, {}, 2)
        todo = []
        for subtask in scheduler.graph.subtasks():
            handle = KeyGroupsHandle(0, (0,), ByteStreamHandle("state", b"state"))
            kept = OperatorSubtaskState(managed_keyed=(handle,))
            state = TaskStateSnapshot({subtask.job_vertex.id: kept})
            attempt_id = subtask.current.attempt_id
            todo = coordinator.acknowledged(attempt_id, 1, state, METRICS, 3)
        assert any(isinstance(action, StoreMetadata) for action in todo)
        coordinator.metadata_stored(1, "/here", 4)
        assert coordinator.store.latest is not None

    measured.step("a checkpoint: all tasks acknowledge, and are notified", 1_000, checkpoint)
    failed = next(iter(scheduler.graph.subtasks())).current.attempt_id

    def fail() -> None:
        failure = Failure("example.Failed", "failed")
        scheduler.task_state_changed(failed, ExecutionState.FAILED, "", 5, failure)

    measured.step("a failure: regions are chosen, and all tasks are cancelled", 100, fail)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    measured.row("most memory of the process", round(peak_mib), "MiB", 1024)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vertices", type=int, default=10)
    parser.add_argument("--parallelism", type=int, default=1000)
    arguments = parser.parse_args()
    rows = measure(arguments.vertices, arguments.parallelism).rows
    harness.write_document("control_plane", rows)


if __name__ == "__main__":
    main()
