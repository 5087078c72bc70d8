"""A small job whose task states are set by a test, and the coordinator of its checkpoints."""

import random

from penstock.checkpoint_storage.handles import (
    CheckpointMetrics,
)
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.jobmaster.checkpointing import actions as a
from penstock.jobmaster.checkpointing.coordinator import CheckpointCoordinator
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.scheduling import actions as scheduling
from penstock.jobmaster.scheduling.restart_strategies import NoRestartStrategy
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.slots.slots import SlotOffer
from penstock.network.events import SavepointFormat, SnapshotKind
from support.graphs import word_count

WALL = 1_000_000
METRICS = CheckpointMetrics(checkpointed_bytes=5, full_bytes=7)
CHECKPOINT = CheckpointProperties.checkpoint(Retention.NO_EXTERNALIZED_CHECKPOINTS)


def savepoint(kind=SnapshotKind.SAVEPOINT):
    return CheckpointProperties.savepoint(kind, SavepointFormat.CANONICAL, "/savepoints")


class Job:
    """A word count whose tasks run, and its checkpoint coordinator."""

    def __init__(self, running=True, first_id=1, **settings):
        self.job = word_count().job_graph(job_id=bytes(16))
        self.scheduler = Scheduler(self.job, NoRestartStrategy(), 0)
        self.graph = self.scheduler.graph
        self.coordinator = CheckpointCoordinator(
            self.graph, CheckpointSettings(**settings), WALL, random.Random(1), first_id
        )
        self.now = 0
        todo = self.scheduler.start(0)
        [wanted] = [x for x in todo if isinstance(x, scheduling.RequestSlots)]
        offers = [SlotOffer(b"%d" % i, f"worker-{i}", "h", 1, 0) for i in range(wanted.required)]
        self.scheduler.slots_offered(offers, 0)
        if running:
            for task in self.graph.subtasks():
                self.bring(task, ExecutionState.INITIALIZING, ExecutionState.RUNNING)

    def bring(self, task, *states):
        for state in states:
            execution = task.current
            self.scheduler.task_state_changed(
                execution.attempt_id, state, execution.slot.executor_id, self.now
            )

    def finish(self, *tasks):
        for task in tasks:
            self.bring(task, ExecutionState.FINISHED)

    @property
    def tasks(self):
        return list(self.graph.subtasks())

    def request(self, properties=CHECKPOINT):
        return self.coordinator.request(properties, self.now)[1]

    def located(self, checkpoint_id, location="/here"):
        return self.coordinator.location_created(checkpoint_id, location, self.now)

    def triggered(self, checkpoint_id):
        """Continue a started checkpoint until it triggers its tasks; return the trigger."""
        assert self.located(checkpoint_id) == [a.SnapshotCoordinators(checkpoint_id)]
        todo = self.coordinator.coordinators_snapshotted(checkpoint_id, {}, self.now)
        return only(todo, a.TriggerTasks)

    def begin(self, properties=CHECKPOINT):
        """Request a checkpoint, carry it to the tasks and return its id."""
        checkpoint_id = only(self.request(properties), a.CreateLocation).checkpoint_id
        self.triggered(checkpoint_id)
        return checkpoint_id

    def acknowledge(self, checkpoint_id, *tasks, state=None):
        todo = []
        for task in tasks or self.tasks:
            if task.state is ExecutionState.RUNNING:
                todo = self.coordinator.acknowledged(
                    task.current.attempt_id, checkpoint_id, state, METRICS, self.now
                )
        return todo

    def store(self, checkpoint_id):
        return self.coordinator.metadata_stored(checkpoint_id, f"/{checkpoint_id}", self.now)

    def complete(self, properties=CHECKPOINT):
        """Complete a checkpoint; return its id and the actions that follow its completion."""
        checkpoint_id = self.begin(properties)
        only(self.acknowledge(checkpoint_id), a.StoreMetadata)
        return checkpoint_id, self.store(checkpoint_id)

    def decline(self, checkpoint_id, reason=Reason.DECLINED):
        return self.coordinator.declined(
            self.tasks[1].current.attempt_id, checkpoint_id, reason, "so", self.now
        )


def only(todo, kind):
    """Return the single action of a kind."""
    [action] = [x for x in todo if isinstance(x, kind)]
    return action


def kinds(todo):
    return [type(action) for action in todo]
