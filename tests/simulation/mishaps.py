"""Faults from outside, and requests of users."""

from penstock.errors import TaskExecutorLostError
from penstock.jobmaster.checkpointing.properties import CheckpointProperties
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.network.events import SavepointFormat, SnapshotKind
from simulation.dice import FAULTS_UNTIL_MS
from simulation.simulated_task import SYNCHRONOUS

S = ExecutionState


class Mishaps:
    """The faults of the world that it is a part of."""

    def misbehave(self):
        if self.now >= FAULTS_UNTIL_MS or self.scheduler.status.is_terminal:
            return
        self.later(self.delay("next fault", (60, 20, 150, 300)), self.misbehave)
        if self.workers and self.faulty("a worker dies", 0.2):
            self.kill(self.dice.choice("which worker", sorted(self.workers)))
        if self.accepted and self.faulty("a slot is taken back", 0.04):
            self.take_back(self.dice.choice("which slot", sorted(self.accepted)))
        if self.faulty("the job fails as a whole", 0.03):
            self.master.fail(RuntimeError("global"), recoverable=True)
        if self.faulty("the user cancels", 0.01):
            self.master.cancel()
        if self.faulty("leadership is lost", 0.005):
            self.master.abandon(RuntimeError("leadership is lost"))

    def wish(self):
        """Request checkpoints and savepoints as users do, mostly of a job that they see running."""
        if self.now >= FAULTS_UNTIL_MS or self.scheduler.status.is_terminal or self.is_batch:
            return
        self.later(self.delay("next wish", (100, 30, 400)), self.wish)
        runs = all(s.current.state is S.RUNNING for s in self.scheduler.graph.subtasks())
        if self.faulty("a savepoint is asked for", 0.4 if runs else 0.15):
            kind = SnapshotKind.SAVEPOINT
            self.ask(CheckpointProperties.savepoint(kind, SavepointFormat.CANONICAL, "savepoints"))
        self.wish_for_parallelism()
        if self.faulty("a checkpoint is asked for", 0.1):
            forced = self.dice.choice("forced", (False, True))
            self.ask(CheckpointProperties.checkpoint(self.settings.retention, forced=forced))
        if self.faulty("the job is to stop with a savepoint", 0.02):
            kind = self.dice.choice("how to stop", SYNCHRONOUS)
            self.ask(CheckpointProperties.savepoint(kind, SavepointFormat.CANONICAL, "savepoints"))

    def ask(self, properties):
        self.master.checkpoints.request(properties)

    def kill(self, executor):
        self.note(f"{executor} dies")
        self.workers.remove(executor)
        gone = [task for task in self.tasks.values() if task.executor == executor]
        for task in gone:
            self.tasks.pop(task.attempt).is_over = True
        for task in gone:
            self.spread(task, f"loss of {executor}")
        self.spread_to_readers(executor)
        self.cluster.kill(executor)

    def lost(self, executor):
        self.accepted = {s: worker for s, worker in self.accepted.items() if worker != executor}
        error = TaskExecutorLostError(f"loss of {executor}")
        self.invariants.failed(Failure.of(error))
        self.master.executor_lost(executor, error)
        self.master.executor_lost(executor, error)

    def take_back(self, allocation_id):
        executor = self.accepted.pop(allocation_id)
        for subtask in self.scheduler.graph.subtasks():
            slot = subtask.current.slot
            if slot is not None and slot.allocation_id == allocation_id:
                task = self.tasks.pop(subtask.current.attempt_id, None)
                if task is not None:
                    task.is_over = True
        if executor in self.workers:
            self.cluster.free(executor, allocation_id)
        self.master.slot_failed(allocation_id, Failure("penstock.Slot", executor))
