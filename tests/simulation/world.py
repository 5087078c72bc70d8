"""One job in a seeded world that misbehaves: workers, network, storage and time.

The Scheduler, the CheckpointCoordinator, the ResourceManager and what tells causes from
consequences are those of production; what the JobMaster and the CheckpointService do with their
actions is done here, in the same order.  Workers die, refuse
tasks, report late, twice or never; slots come late or never; storage fails or is slow; users
cancel, and ask for checkpoints and savepoints.  After a while the faults stop, and the job must
end.
"""

import heapq
import random
from dataclasses import replace

from penstock.checkpoint_storage.disposal import _exclusive_streams
from penstock.checkpoint_storage.handles import FileHandle
from penstock.graph import partitioners as p
from penstock.jobmaster import actions as a
from penstock.jobmaster.checkpointing import actions as c
from penstock.jobmaster.checkpointing.coordinator import CheckpointCoordinator
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.checkpointing.state_assignment import assign_states
from penstock.jobmaster.failure import Failure
from penstock.jobmaster.failure_causes import FailureCauses, TaskReport
from penstock.jobmaster.restart_strategies import (
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    NoRestartStrategy,
)
from penstock.jobmaster.scheduler import Scheduler, SchedulerSettings
from penstock.jobmaster.states import ExecutionState, JobStatus
from penstock.jobmaster.worker_losses import EXIT_REPORT_MS
from penstock.network.events import CheckpointBarrier, SavepointFormat, SnapshotKind
from penstock.rpc.messages import FreeSlot, RestoredState
from simulation.dice import Dice
from simulation.invariants import Invariants
from simulation.simulated_cluster import SimulatedCluster
from simulation.simulated_storage import SimulatedStorage
from simulation.simulated_task import METRICS, SYNCHRONOUS, SimulatedTask, queue
from support.graphs import Program

S = ExecutionState
FAULTS_UNTIL_MS = 2_000  # of which up to half pass until workers are up and tasks run
MUST_END_BY_MS = 120_000
MAX_STEPS = 60_000
WALL_MS = 1_000_000
HOUR_MS = 3_600_000


def random_job(rng):
    batch = rng.random() < 0.15
    program = Program(parallelism=rng.randint(1, 2), batch=batch, blocking_shuffles=batch)
    spread = [p.REBALANCE, p.RESCALE, p.BROADCAST, p.GLOBAL, p.SHUFFLE]
    for component in range(rng.choice([1, 1, 1, 2, 3])):
        streams = [program.source(f"S{component}", rng.randint(1, 2))]
        for number in range(rng.choice([0, 1, 1, 2, 3])):
            upstream = program.partition(rng.choice(streams), rng.choice(spread))
            name = f"O{component}.{number}"
            if len(streams) > 1 and rng.random() < 0.3:
                other = program.partition(rng.choice(streams), rng.choice(spread))
                stream = program.co_map(upstream, other, name, rng.randint(1, 3))
            else:
                stream = program.map(upstream, name, rng.randint(1, 3))
            if rng.random() < 0.2:
                stream.slot_sharing_group = rng.choice("xy")
            streams.append(stream)
    return program.job_graph(job_id=bytes(16)), batch


def random_strategy(rng):
    return rng.choice(
        [
            NoRestartStrategy(),
            FixedDelayRestartStrategy(rng.randint(1, 20), rng.choice([0, 10, 500])),
            FailureRateRestartStrategy(rng.randint(1, 5), 1000, rng.choice([0, 50])),
            ExponentialDelayRestartStrategy(
                initial_backoff_ms=10, max_backoff_ms=500, rng=random.Random(rng.random())
            ),
            FixedDelayRestartStrategy(10_000, 10),
        ]
    )


def random_checkpoints(rng, is_batch):
    interval_ms = None if is_batch else rng.choice([20, 60, 60, 250, HOUR_MS, None])
    concurrent = rng.choice([1, 1, 1, 2, 3])
    settings = CheckpointSettings(
        interval_ms=interval_ms,
        timeout_ms=rng.choice([400, 1_000, 2_000]),
        min_pause_ms=rng.choice([0, 0, 10]),
        max_concurrent=concurrent,
        tolerable_failures=rng.choice([0, 2, None, None]),
        is_exactly_once=rng.random() < 0.75,
        num_retained=rng.choice([1, 1, 2, 3]),
        retention=rng.choice(list(Retention)),
        after_tasks_finish=rng.random() < 0.85,
    )
    may_be_unaligned = settings.is_exactly_once and concurrent == 1
    return replace(settings, is_unaligned=may_be_unaligned and rng.random() < 0.5)


class World:
    """The job master, its workers, and time."""

    def __init__(self, seed, allowed=None, trace=None):
        rng = random.Random(seed)
        self.dice = Dice(seed, allowed)
        self.trace = trace
        self.now = 0
        self.events = []
        self.sequence = 0
        self.job, self.is_batch = random_job(rng)
        self.scheduler = Scheduler(
            self.job,
            random_strategy(rng),
            0,
            SchedulerSettings(
                slot_request_timeout_ms=rng.choice([500, 20_000]),
                slot_idle_timeout_ms=rng.choice([50, 5_000]),
                failover_strategy=rng.choice(["region", "region", "full"]),
            ),
        )
        self.settings = random_checkpoints(rng, self.is_batch)
        self.coordinator = CheckpointCoordinator(
            self.scheduler.graph, self.settings, WALL_MS, random.Random(seed)
        )
        self.awaits_final = (
            not self.is_batch
            and self.settings.interval_ms is not None
            and self.settings.after_tasks_finish
        )
        self.records = rng.choice([4, 15, 40, 60])
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
                self.cluster.resources.declare(self.job.job_id, action.missing, self.cluster)
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
                self.send((action.executor_id, "down"), self.task_arrives, action, restored)
            case a.CancelTask():
                self.send(
                    (action.executor_id, "down"),
                    self.cancel_arrives,
                    action.attempt_id,
                    action.executor_id,
                )
            case a.JobStatusChanged():
                self.note(f"the job is {action.new.name} {action.failure or ''}")
                self.invariants.job_moved(action)
                if action.new is JobStatus.CANCELLING:
                    self.run_checkpoints(self.coordinator.job_cancelling(self.now))
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
                    self.coordinator.job_failing(str(action.failure), self.now), check=False
                )
            case a.RestoreState():
                self.restore(action)

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
        for subtask in action.subtasks:
            if subtask in assigned:
                self.restored[subtask] = RestoredState(latest.checkpoint_id, assigned[subtask])

    # Checkpoints ------------------------------------------------------------------------------

    def run_checkpoints(self, todo, *, check=True):
        self.has_moved = True
        for action in todo:
            self.carry_out_checkpoint(action)
        if check:
            self.invariants.check_checkpoints()

    def carry_out_checkpoint(self, action):
        self.invariants.checkpoint_action(action)
        match action:
            case c.CreateLocation():
                self.io("directory", self.create_location, action)
            case c.SnapshotCoordinators():
                self.snapshot_coordinators(action.checkpoint_id)
            case c.TriggerTasks():
                self.trigger_tasks(action)
            case c.StoreMetadata():
                self.io("metadata", self.store_metadata, action)
            case c.NotifyComplete():
                for task in action.tasks:
                    self.down(task, "complete", "notify_complete", action.checkpoint_id)
            case c.NotifyAborted():
                for task in action.tasks:
                    self.down(
                        task,
                        "aborted",
                        "notify_aborted",
                        action.checkpoint_id,
                        action.latest_completed_id,
                    )
            case c.DiscardState():
                self.io("discard", self.discard_states, [action.state])
            case c.DiscardPending():
                self.io("discard", self.discard_pending, action)
            case c.DiscardCheckpoint():
                self.io("discard", self.discard_checkpoint, action.checkpoint)
            case c.RequestFailed():
                self.note(f"request {action.number} fails: {action.reason.name} {action.detail}")
            case c.FailJob():
                self.call("fail", Failure("penstock.Checkpoint", action.message))

    def io(self, name, work, *args):
        """The thread that works on the storage: one thing after the other, sometimes slowly."""
        if self.io_is_closed:
            return
        self.io_free_at = max(self.now, self.io_free_at) + self.delay(
            f"{name} takes", (0, 0, 0, 1, 1, 20, 20, 300)
        )
        self.later(self.io_free_at - self.now, work, *args)

    def answer(self, event, *args):
        """An answer of the storage, which the main thread takes in a moment."""
        self.send("main thread", self.answered, event, args)

    def answered(self, event, args):
        self.run_checkpoints(getattr(self.coordinator, event)(*args, self.now))

    def create_location(self, action):
        if self.faulty(f"directory of {action.checkpoint_id} cannot be made", 0.02):
            self.answer("storage_failed", action.checkpoint_id, "no directory")
            return
        location = f"/{action.properties.target or 'job'}/{action.checkpoint_id}"
        self.storage.make(location)
        self.locations[action.checkpoint_id] = location
        self.answer("location_created", action.checkpoint_id, location)

    def snapshot_coordinators(self, checkpoint_id):
        if self.faulty(f"coordinator fails in {checkpoint_id}", 0.01):
            self.answer("coordinators_failed", checkpoint_id, "no state")
        else:
            delay = self.delay(f"coordinator of {checkpoint_id}", (0, 0, 0, 10))
            self.later(delay, self.answer, "coordinators_snapshotted", checkpoint_id, {})

    def trigger_tasks(self, action):
        barrier = CheckpointBarrier(
            action.checkpoint_id,
            action.timestamp_ms,
            action.properties.kind,
            alignment=action.alignment,
        )
        for task in action.tasks:
            self.down(task, "trigger", "trigger", barrier)

    def down(self, participant, kind, event, *args):
        if self.loses_messages and self.faulty(f"{kind} to {participant.attempt_id} is lost", 0.02):
            return
        self.send(
            (participant.executor_id, "down"), self.arrives, participant.attempt_id, event, args
        )

    def arrives(self, attempt, event, args):
        task = self.tasks.get(attempt)
        if task is not None and task.executor in self.workers:
            getattr(task, event)(*args)

    def store_metadata(self, action):
        checkpoint_id = action.metadata.checkpoint_id
        if self.faulty(f"metadata of {checkpoint_id} cannot be written", 0.02):
            self.answer("storage_failed", checkpoint_id, "no metadata")
            return
        try:
            self.storage.publish(action.location, action.metadata)
        except OSError as error:
            self.answer("storage_failed", checkpoint_id, str(error))
            return
        self.answer("metadata_stored", checkpoint_id, action.location)

    def discard_states(self, states):
        for state in states:
            for operator in state.operators.values():
                for stream in _exclusive_streams(operator):
                    if isinstance(stream, FileHandle):
                        self.storage.delete(stream.path)

    def discard_pending(self, action):
        self.discard_states(action.states)
        if action.location is not None:
            self.storage.discard(action.location)

    def discard_checkpoint(self, checkpoint):
        self.storage.discard(checkpoint.pointer)
        self.answer("discarded")

    def acknowledged(self, attempt, checkpoint_id, state):
        self.run_checkpoints(
            self.coordinator.acknowledged(attempt, checkpoint_id, state, METRICS, self.now)
        )

    def declined(self, attempt, checkpoint_id, reason):
        self.run_checkpoints(
            self.coordinator.declined(attempt, checkpoint_id, reason, "so", self.now)
        )

    def final_wanted(self, attempt):
        self.run_checkpoints(self.coordinator.hurry(attempt, self.now))

    def committed(self, task, checkpoint_id):
        self.invariants.committed(task, checkpoint_id)

    # The workers' side ------------------------------------------------------------------------

    def channel(self, partition_id, subpartition):
        key = (bytes(partition_id), subpartition)
        if key not in self.channels:
            self.channels[key] = queue()
        return self.channels[key]

    def task_arrives(self, action, restored):
        attempt, executor = action.attempt_id, action.executor_id
        if executor not in self.workers:
            return
        if self.faulty("task refused", 0.01):
            failure = Failure("penstock.errors.JobExecutionError", "refused")
            self.send((executor, "up"), self.call, "deployment_failed", attempt, failure)
            return
        task = self.tasks[attempt] = SimulatedTask(self, action, restored)
        self.send((executor, "up"), self.report, attempt, S.INITIALIZING, executor)
        self.later(self.delay(f"start of {task.name}", (1, 10, 100)), self.begin, task)

    def begin(self, task):
        if task.is_over or task.executor not in self.workers or self.scheduler.status.is_terminal:
            return
        task.restore()
        if self.faulty(f"{task.name} fails at its start", 0.02):
            self.end(task.attempt, S.FAILED)
            return
        task.is_running = True
        self.send((task.executor, "up"), self.report, task.attempt, S.RUNNING, task.executor)
        self.later(1, self.work, task)

    def work(self, task):
        if task.is_over or task.executor not in self.workers or self.scheduler.status.is_terminal:
            return
        if self.faulty(f"{task.name} fails", 0.004):
            self.end(task.attempt, S.FAILED)
        elif self.is_batch:
            if self.dice.choice(f"end of {task.name}", (True, False)):
                self.end(task.attempt, S.FINISHED)
            else:
                self.later(self.pace_ms, self.work, task)
        elif task.work():
            self.later(self.pace_ms, self.work, task)

    def end(self, attempt, state, failure=None):
        task = self.tasks.pop(attempt)
        task.is_over = True
        if state is S.FAILED and failure is None:
            name = f"failure of {task.name}"
            failure = Failure("app.Boom", "boom", labels={"cause": name})
            if self.faulty("a failure without remedy", 0.02):
                failure = replace(failure, exception_name="app.Hopeless", recoverable=False)
            self.spread(task, name)
        link = (task.executor, "up")
        self.send(link, self.report, attempt, state, task.executor, failure)
        if self.faulty(f"end of {task.name} reported twice", 0.03):
            self.send(link, self.report, attempt, state, task.executor, failure)

    def spread(self, task, cause):
        """Those that exchange data with a task that is gone fail too, sooner or later."""
        if self.is_batch:
            return  # what they read is in files
        for other in self.tasks.values():
            if task.shares_data_with(other) and self.faulty(f"{other.name} notices", 0.5):
                delay = self.delay(f"{other.name} notices after", (1, 20, 500))
                self.later(delay, self.notice, other, cause)

    def notice(self, task, cause):
        if not task.is_over and task.executor in self.workers:
            name = "penstock.errors.ProducerFailedError"
            self.end(task.attempt, S.FAILED, Failure(name, cause, labels={"cause": cause}))

    def cancel_arrives(self, attempt, executor):
        if executor not in self.workers:
            # The sender gives up after its retries.
            self.later(100, self.call, "cancellation_failed", attempt)
        elif attempt in self.tasks:
            state = self.dice.choice("cancelled", (S.CANCELED, S.CANCELED, S.FAILED))
            self.end(attempt, state)

    # Faults and wishes ------------------------------------------------------------------------

    def misbehave(self):
        if self.now >= FAULTS_UNTIL_MS or self.scheduler.status.is_terminal:
            return
        self.later(self.delay("next fault", (60, 20, 150, 300)), self.misbehave)
        if self.workers and self.faulty("a worker dies", 0.2):
            self.kill(self.dice.choice("which worker", sorted(self.workers)))
        if self.accepted and self.faulty("a slot is taken back", 0.04):
            self.take_back(self.dice.choice("which slot", sorted(self.accepted)))
        if self.faulty("the job fails as a whole", 0.03):
            self.call("fail", Failure("penstock.Global", "global"))
        if self.faulty("the user cancels", 0.01):
            self.call("cancel")
        if self.faulty("leadership is lost", 0.005):
            self.call("suspend", Failure("penstock.Leadership", "lost"))

    def wish(self):
        """Users ask for checkpoints and savepoints, mostly of a job that they see running."""
        if self.now >= FAULTS_UNTIL_MS or self.scheduler.status.is_terminal or self.is_batch:
            return
        self.later(self.delay("next wish", (100, 30, 400)), self.wish)
        runs = all(s.current.state is S.RUNNING for s in self.scheduler.graph.subtasks())
        if self.faulty("a savepoint is asked for", 0.4 if runs else 0.15):
            kind = SnapshotKind.SAVEPOINT
            self.ask(CheckpointProperties.savepoint(kind, SavepointFormat.CANONICAL, "savepoints"))
        if self.faulty("a checkpoint is asked for", 0.1):
            forced = self.dice.choice("forced", (False, True))
            self.ask(CheckpointProperties.checkpoint(self.settings.retention, forced=forced))
        if self.faulty("the job is to stop with a savepoint", 0.02):
            kind = self.dice.choice("how to stop", SYNCHRONOUS)
            self.ask(CheckpointProperties.savepoint(kind, SavepointFormat.CANONICAL, "savepoints"))

    def ask(self, properties):
        number, todo = self.coordinator.request(properties, self.now)
        self.invariants.requested(number, properties)
        self.run_checkpoints(todo)

    def kill(self, executor):
        self.note(f"{executor} dies")
        self.workers.remove(executor)
        gone = [task for task in self.tasks.values() if task.executor == executor]
        for task in gone:
            self.tasks.pop(task.attempt).is_over = True
        for task in gone:
            self.spread(task, f"loss of {executor}")
        self.cluster.kill(executor)

    def lost(self, executor, reason):
        self.accepted = {s: worker for s, worker in self.accepted.items() if worker != executor}
        failure = Failure("penstock.Lost", reason, labels={"cause": f"loss of {executor}"})
        self.invariants.failed(failure)
        self.call("executor_lost", executor, failure)
        self.call("executor_lost", executor, failure)
        self.take(self.causes.cause_known())

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
        self.call("slot_failed", allocation_id, Failure("penstock.Slot", executor))
