"""One job in a seeded world that misbehaves: workers, network, storage and time.

The Scheduler, the CheckpointCoordinator, the ResourceManager and what tells causes from
consequences are those of production; what the JobMaster does with their actions is done here, in
the same order, and what the CheckpointService does in `simulated_checkpoints`.  Workers die, refuse
tasks, report late, twice or never; slots come late or never; storage fails or is slow; users
cancel, and ask for checkpoints and savepoints.  After a while the faults stop, and the job must
end.
"""

import heapq
import random
from dataclasses import replace

from penstock.jobmaster import actions as a
from penstock.jobmaster.checkpointing.coordinator import CheckpointCoordinator
from penstock.jobmaster.checkpointing.state_assignment import assign_states
from penstock.jobmaster.failure_causes import FailureCauses, TaskReport
from penstock.jobmaster.scheduler_settings import SchedulerSettings
from penstock.jobmaster.states import ExecutionState, JobStatus
from penstock.jobmaster.worker_losses import EXIT_REPORT_MS
from penstock.rpc.messages import FreeSlot
from penstock.rpc.task_deployment import RestoredState
from simulation.dice import FAULTS_UNTIL_MS, Dice
from simulation.invariants import Invariants
from simulation.mishaps import Mishaps
from simulation.random_jobs import HOUR_MS, random_checkpoints, random_job, random_strategy
from simulation.simulated_checkpoints import SimulatedCheckpoints
from simulation.simulated_cluster import SimulatedCluster
from simulation.simulated_rescaling import SimulatedRescaling
from simulation.simulated_storage import SimulatedStorage
from simulation.simulated_workers import SimulatedWorkers

S = ExecutionState
MUST_END_BY_MS = 120_000
MAX_STEPS = 60_000
WALL_MS = 1_000_000


class World(SimulatedCheckpoints, SimulatedRescaling, SimulatedWorkers, Mishaps):
    """The job master, its workers, and time."""

    def __init__(self, seed, allowed=None, trace=None):
        rng = random.Random(seed)
        self.dice = Dice(seed, allowed)
        self.trace = trace
        self.now = 0
        self.events = []
        self.sequence = 0
        self.job, self.is_batch = random_job(rng)
        limits = SchedulerSettings(
            slot_request_timeout_ms=rng.choice([500, 20_000]),
            slot_idle_timeout_ms=rng.choice([50, 5_000]),
            failover_strategy=rng.choice(["region", "region", "full"]),
            release_partitions=seed % 3 > 0,
        )
        self.make_scheduler(rng, random_strategy(rng), limits)
        self.settings = random_checkpoints(rng, self.is_batch)
        if self.is_adaptive:
            self.settings = replace(self.settings, is_unaligned=False)
            self.job.checkpoint_interval_ms = self.settings.interval_ms
        self.coordinator = CheckpointCoordinator(
            self.scheduler.graph, self.settings, WALL_MS, random.Random(seed)
        )
        self.awaits_final = (
            not self.is_batch
            and self.settings.interval_ms is not None
            and self.settings.after_tasks_finish
        )
        self.records = 60 if self.is_adaptive else rng.choice([4, 15, 40, 60])
        self.pace_ms = rng.choice([3, 10, 20])
        #: A message that is lost on a connection that stays would be a defect of TCP; with hours
        #: between checkpoints nothing would make up for it.
        self.loses_messages = self.settings.interval_ms != HOUR_MS and rng.random() < 0.3
        self.storage = SimulatedStorage()
        self.io_free_at = 0
        self.io_is_closed = False
        self.locations = {}
        self.restored = {}
        self.channels = {}
        self.final = {}
        self.workers = set()  # executor ids of those alive
        self.cluster = SimulatedCluster(self, rng)
        self.causes = FailureCauses()
        self.causes_told = set()
        self.accepted = {}  # allocation id -> executor id, as the job master sees it
        self.tasks = {}  # attempt id -> SimulatedTask, as the workers see it
        self.arrivals = {}  # link -> time of the last message: FIFO links
        self.tasks_changed = False
        self.has_moved = True
        self.deadline = None
        self.is_stopped_by_savepoint = False
        self.invariants = Invariants(self)

    # Time and chance ------------------------------------------------------------------------

    def wall(self):
        return self.now + WALL_MS

    def faulty(self, name, chance):
        if self.now >= FAULTS_UNTIL_MS or self.is_stopped_by_savepoint:
            return False
        happens = self.dice.chance(name, chance)
        if happens and self.trace is not None:
            self.note(name)
        return happens

    def delay(self, name, options):
        return self.dice.choice(name, options) if self.now < FAULTS_UNTIL_MS else options[0]

    def note(self, text):
        if self.trace is not None:
            self.trace.append(f"{self.now:>6} ms  {text}")

    def later(self, delay, event, *args):
        self.sequence += 1
        heapq.heappush(self.events, (self.now + delay, self.sequence, event, args))

    def send(self, link, event, *args):
        """Delivers in order per link, after a delay."""
        at = max(self.now + self.delay(f"delay {link}", (0, 1, 5, 40)), self.arrivals.get(link, 0))
        self.arrivals[link] = at
        self.later(at - self.now, event, *args)

    def up(self, task, kind, event, *args):
        """A message of a task to the job master, which may get lost."""
        if task.executor not in self.workers:
            return
        if self.loses_messages and self.faulty(f"{kind} of {task.name} is lost", 0.02):
            return
        self.send((task.executor, "up"), event, *args)

    def run(self):
        self.later(0, self.call, "start")
        self.later(1, self.misbehave)
        self.later(1, self.wish)
        steps = 0
        while not self.scheduler.status.is_terminal:
            steps += 1
            assert steps < MAX_STEPS, "the job neither ends nor waits"
            assert self.now < MUST_END_BY_MS, f"the job hangs in {self.scheduler.status.name}"
            self.step()
        self.drain()

    def step(self):
        if self.has_moved:
            self.has_moved = False
            times = (
                self.scheduler.next_deadline_ms(self.now),
                self.coordinator.next_deadline_ms(),
                self.causes.next_deadline_ms(),
                self.cluster.losses.next_deadline_ms(),
            )
            self.deadline = min((time for time in times if time is not None), default=None)
        assert self.events or self.deadline is not None, "the job waits for nothing"
        if self.deadline is not None and (not self.events or self.deadline <= self.events[0][0]):
            self.now = max(self.now, self.deadline)
            self.call("tick")
            self.run_checkpoints(self.coordinator.tick(self.now))
            self.take(self.causes.tick(self.now))
            self.cluster.tick()
            self.has_moved = True
            return
        self.now, _, event, args = heapq.heappop(self.events)
        event(*args)

    def drain(self):
        """E-4: whatever is still on its way changes nothing any more."""
        status = self.scheduler.status
        changes = len(self.invariants.status_changes)
        for _ in range(2000):
            if not self.events:
                break
            self.now, _, event, args = heapq.heappop(self.events)
            event(*args)
        self.now += EXIT_REPORT_MS
        self.cluster.tick()
        assert self.scheduler.status is status
        assert len(self.invariants.status_changes) == changes
        assert not self.accepted, "slots were not given back"
        self.invariants.check_end()
        self.cluster.check_end()

    # The job master's side --------------------------------------------------------------------

    def call(self, event, *args):
        self.run_actions(getattr(self.scheduler, event)(*args, self.now))
        self.invariants.check()

    def run_actions(self, todo):
        self.has_moved = True
        self.tasks_changed = False
        for action in todo:
            self.carry_out(action)
        if self.tasks_changed and not self.scheduler.status.is_terminal:
            self.run_checkpoints(self.coordinator.tasks_changed(self.now))
            if self.is_adaptive:
                self.rescaling.tasks_changed()

    def report(self, attempt_id, state, executor, failure=None):
        """As JobMaster.task_state_changed does: what is a consequence waits for its cause."""
        if self.scheduler.status.is_terminal:
            return
        report = TaskReport(attempt_id, state, executor, failure)
        is_canceling = self.scheduler.is_canceling(attempt_id)
        self.invariants.reported(report, is_canceling=is_canceling)
        self.take(self.causes.reported(report, self.now, is_canceling=is_canceling))

    def take(self, reports):
        self.has_moved = True
        for report in reports:
            if not self.scheduler.status.is_terminal:
                self.invariants.taken(report)
                self.act_on(report.attempt_id, report.state, report.executor_id, report.failure)

    def act_on(self, attempt_id, state, executor, failure):
        known = any(s.current.attempt_id == attempt_id for s in self.scheduler.graph.subtasks())
        actions = self.scheduler.task_state_changed(attempt_id, state, executor, self.now, failure)
        if not known:
            # A late report may coincide with a restart that is due, and must do nothing else.
            moves = [x.new for x in actions if isinstance(x, a.TaskStateChanged)]
            assert set(moves) <= {S.SCHEDULED, S.DEPLOYING}
        self.run_actions(actions)
        self.invariants.check()

    def carry_out(self, action):
        match action:
            case a.RequestSlots():
                assert action.missing == max(0, action.required - len(self.accepted))
                self.cluster.resources.declare(
                    self.job.job_id,
                    action.missing,
                    self.cluster,
                    fewer_will_do=self.scheduler.runs_with_fewer_slots,
                )
            case a.AcceptSlot():
                self.accepted[action.allocation_id] = action.executor_id
            case a.RejectSlot():
                self.free(action)
            case a.ReleaseSlot():
                assert self.accepted.pop(action.allocation_id) == action.executor_id
                self.free(action)
            case a.Deploy():
                self.invariants.check_deployment(action)
                restored = self.restored.get(
                    (action.deployment.vertex_id, action.deployment.subtask)
                )
                self.deployed(action.attempt_id, restored)
                self.send((action.executor_id, "down"), self.task_arrives, action, restored)
            case a.CancelTask():
                self.send(
                    (action.executor_id, "down"),
                    self.cancel_arrives,
                    action.attempt_id,
                    action.executor_id,
                )
            case a.ReleasePartitions():
                self.invariants.partitions_released(action)
            case a.JobStatusChanged():
                self.note(f"the job is {action.new.name} {action.failure or ''}")
                self.invariants.job_moved(action)
                if action.new is JobStatus.CANCELLING:
                    self.run_checkpoints(self.coordinator.job_cancelling(self.now))
                if action.new.is_terminal and self.is_adaptive:
                    self.rescaling.job_ended(action.new.value)
                if action.new.is_terminal:
                    self.cluster.resources.forget_job(self.job.job_id, "it has ended")
                    self.run_checkpoints(self.coordinator.job_ended(action.new, self.now))
                    # As CheckpointService.job_ended does: what the storage was doing is answered.
                    self.io("end of the job", self.send, "main thread", self.close_io)
            case a.TaskStateChanged():
                self.tasks_changed = True
                self.invariants.task_moved(action)
            case a.AbortCheckpoints():
                self.run_checkpoints(
                    self.coordinator.job_failing(action.reason, self.now), check=False
                )
            case a.RestoreState():
                self.restore(action)
            case a.ParallelismChanged():
                self.parallelism_changed()
            case a.AskForRescaling():
                self.ask_for_rescaling()

    def free(self, action):
        executor = self.cluster.resources.executors.get(action.executor_id)
        if executor is not None:
            executor.connection.send(FreeSlot(action.allocation_id, "not needed"))

    def close_io(self):
        self.io_is_closed = True

    def restore(self, action):
        latest = self.coordinator.store.latest
        self.invariants.restoring(action, latest)
        for subtask in action.subtasks:
            self.restored.pop(subtask, None)
        if latest is None:
            return
        self.note(f"restored from checkpoint {latest.checkpoint_id}")
        assigned = assign_states(self.job, latest.metadata.operators)
        self.check_all_is_given_out(latest, assigned)
        for subtask in action.subtasks:
            if subtask in assigned:
                self.restored[subtask] = RestoredState(latest.checkpoint_id, assigned[subtask])
