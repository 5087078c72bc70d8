"""A seeded simulation of one job with faults: the state machines of the control plane, and a world.

Goal: E-4 to E-6, F-1 to F-16, M58 and M65 of docs/internals hold at every step, no record is lost
or counted twice in a channel, and the job ends once the faults stop. Method: see `world`; each seed
is one schedule.  A seed that fails is run again with fewer and fewer of its faults and delays, and
the remaining ones are printed.  `PENSTOCK_SIMULATION_SEEDS=7` or `=0-999` runs other seeds.
"""

import pytest
from penstock.jobmaster.adaptive import adaptive_scheduler
from penstock.jobmaster.checkpointing import actions as c
from penstock.jobmaster.checkpointing import coordinator as coordinator_module
from penstock.jobmaster.checkpointing import state_assignment
from penstock.jobmaster.checkpointing.pending_checkpoint import Acknowledgement
from penstock.jobmaster.checkpointing.service import CheckpointService
from penstock.jobmaster.failure_causes import FailureCauses
from penstock.jobmaster.scheduling.execution import Execution
from penstock.jobmaster.scheduling.partition_tracker import PartitionTracker
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.jobmaster.workers.resource_manager import ResourceManager
from penstock.jobmaster.workers.task_executor_commands import TaskExecutorCommands
from simulation.parts import ALL_PARTS, check_part
from simulation.schedules import explanation, outcome


@pytest.mark.parametrize("part", ALL_PARTS)
def test_a_job_with_faults_ends_properly(part):
    """Each seed is one schedule; a failure prints the smallest run that shows it."""
    check_part(part, "job")


def test_the_same_seed_is_the_same_run():
    def history(seed):
        trace = []
        outcome(seed, None, trace)
        return trace

    assert history(3) == history(3)
    assert history(3) != history(4)


def test_the_seeds_reach_every_end():
    """The simulation is worth little unless its runs differ."""
    ends = set()
    restarts = restored = complete = savepoints = rescaled = spread = 0
    aborts = set()
    for seed in range(200):
        trace = []
        world, error = outcome(seed, None, trace)
        assert error is None
        ends.add(world.scheduler.status)
        restarts += world.scheduler.graph.num_restarts
        restored += sum("restored from" in line for line in trace)
        rescaled += sum("the job is rescaled" in line for line in trace)
        spread += world.num_spread
        aborts |= {line.split("fails: ")[1].split()[0] for line in trace if " fails: " in line}
        checkpoints = world.invariants.complete.values()
        complete += len(checkpoints)
        savepoints += sum(x.properties.is_savepoint for x in checkpoints)
    assert ends >= {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}
    assert restarts > 100
    assert restored > 20
    assert rescaled > 5
    assert spread > 5
    assert complete > 100
    assert savepoints > 10
    assert aborts >= {"EXPIRED", "JOB_FAILOVER_REGION", "IO_EXCEPTION", "COORDINATOR_SHUTDOWN"}


def forgets_failovers(monkeypatch):
    """Continue pending checkpoints when tasks restart."""
    coordinator = coordinator_module.CheckpointCoordinator
    monkeypatch.setattr(coordinator, "job_failing", lambda self, detail, now_ms: [])


def tells_too_early(monkeypatch):
    """Notify tasks of a checkpoint when all have reported."""
    coordinator = coordinator_module.CheckpointCoordinator
    complete = coordinator._complete_if_acknowledged

    def too_early(self, pending, now_ms):
        complete(self, pending, now_ms)
        if pending.stage is coordinator_module.Stage.METADATA:
            self._out.append(c.NotifyComplete(pending.checkpoint_id, pending.plan.wait_for))

    monkeypatch.setattr(coordinator, "_complete_if_acknowledged", too_early)


def takes_anyone(monkeypatch):
    """Count a report whoever made it."""
    pending = coordinator_module.PendingCheckpoint
    acknowledge = pending.acknowledge

    def anyone(self, attempt_id, state, metrics):
        if self._waiting:
            acknowledge(self, next(iter(self._waiting)), state, metrics)
        return Acknowledgement.SUCCESS

    monkeypatch.setattr(pending, "acknowledge", anyone)


def leaves_directories(monkeypatch):
    """Leave the files of an aborted checkpoint."""
    coordinator = coordinator_module.CheckpointCoordinator
    settle = coordinator._settle

    def leaving(self, now_ms):
        return [x for x in settle(self, now_ms) if not isinstance(x, c.DiscardPending)]

    monkeypatch.setattr(coordinator, "_settle", leaving)


def takes_consequences_for_causes(monkeypatch):
    """Count the first report of a failure, whatever it says."""
    monkeypatch.setattr(
        FailureCauses, "reported", lambda self, report, now_ms, is_canceling: (report,)
    )


def forgets_waiting_jobs(monkeypatch):
    """Drop the requests for a worker's slots when it dies."""

    def lost(self, executor_id):
        executor = self.executors.pop(executor_id)
        for allocation_id in executor.allocations:
            self._requested.pop(allocation_id, None)

    monkeypatch.setattr(ResourceManager, "executor_lost", lost)


def forgets_what_lay_at_the_dead(monkeypatch):
    """Count partitions of a lost worker as available."""
    monkeypatch.setattr(PartitionTracker, "executor_lost", lambda self, executor_id: [])


def takes_slots_that_are_not_there(monkeypatch):
    """Start an adaptive job with its whole parallelism."""
    monkeypatch.setattr(adaptive_scheduler, "parallelisms_with", lambda job, most, slots: most)


def forgets_state_of_former_subtasks(monkeypatch):
    """Let a subtask take over from one former subtask at most."""

    def one_each(count, parallelism, start):
        return [range(i, min(i + 1, count)) for i in range(parallelism)], start

    monkeypatch.setattr(state_assignment, "list_blocks", one_each)


def starts_new_attempts_empty(monkeypatch):
    """Lose state between its assignment and the deployment."""
    monkeypatch.setattr(Execution, "take_state", lambda self: None)


def deletes_what_others_need(monkeypatch):
    """Delete the files of a checkpoint when one of its tasks is notified."""
    notify = CheckpointService._notify_complete

    def notify_and_delete(self, action):
        notify(self, action)
        for checkpoint in self.coordinator.store.all:
            self._io.post(lambda c=checkpoint: self._storage.discard(c.pointer))

    monkeypatch.setattr(CheckpointService, "_notify_complete", notify_and_delete)


def forgets_to_tell_of_cancellation(monkeypatch):
    """Send no cancellation to a TaskExecutor."""
    monkeypatch.setattr(TaskExecutorCommands, "cancel_task", lambda self, action: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "defect",
    [
        # Defects of the JobMaster and the CheckpointService themselves.
        starts_new_attempts_empty,
        deletes_what_others_need,
        forgets_to_tell_of_cancellation,
        takes_slots_that_are_not_there,
        forgets_state_of_former_subtasks,
        forgets_what_lay_at_the_dead,
        forgets_failovers,
        tells_too_early,
        takes_anyone,
        leaves_directories,
        takes_consequences_for_causes,
        forgets_waiting_jobs,
    ],
)
def test_a_defect_is_found(monkeypatch, defect):
    """The world notices, and its printed trace is short enough to be read."""
    defect(monkeypatch)
    found = next((seed for seed in range(300) if outcome(seed)[1] is not None), None)
    assert found is not None
    text = explanation(found)
    kept = int(text.split("\n")[1].split()[0])
    assert kept <= 20
    assert f"seed {found} fails" in text
