"""One job in a seeded world that misbehaves: workers, network, storage and time.

The JobMaster with its scheduler and checkpoints, the ResourceManager and the code that tells causes
from consequences are the production ones, with the world's time, threads and storage.  Workers die,
refuse tasks, report late, twice or never; slots come late or never; storage fails or is slow; users
cancel, and request checkpoints and savepoints.  After a while the faults stop, and the job must
end.
"""

import heapq
import random
from dataclasses import replace

from penstock.common.options import checkpointing as o
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.scheduling.scheduler_settings import SchedulerSettings
from penstock.jobmaster.workers.worker_losses import EXIT_REPORT_MS
from penstock.rpc import messages as m
from simulation.dice import FAULTS_UNTIL_MS, Dice
from simulation.invariants import Invariants
from simulation.mishaps import Mishaps
from simulation.random_jobs import HOUR_MS, random_checkpoints, random_job, random_strategy
from simulation.simulated_cluster import SimulatedCluster
from simulation.simulated_job_master import SimulatedJobMaster, WatchedActions
from simulation.simulated_rescaling import SimulatedRescaling
from simulation.simulated_storage import SimulatedStorage
from simulation.simulated_task import METRICS
from simulation.simulated_workers import SimulatedWorkers

MUST_END_BY_MS = 120_000
MAX_STEPS = 60_000
WALL_MS = 1_000_000


class World(WatchedActions, SimulatedRescaling, SimulatedWorkers, Mishaps):
    """The job master, its workers, and time."""

    def __init__(self, seed, allowed=None, trace=None):
        self.rng = rng = random.Random(seed)
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
        self.configure_checkpoints()
        self.awaits_final = (
            not self.is_batch
            and self.settings.interval_ms is not None
            and self.settings.after_tasks_finish
        )
        self.records = 60 if self.is_adaptive else rng.choice([4, 15, 40, 60])
        self.pace_ms = rng.choice([3, 10, 20])
        #: A message that is lost on an open connection would be a defect of TCP; with hours between
        #: checkpoints nothing would replace it.
        self.loses_messages = self.settings.interval_ms != HOUR_MS and rng.random() < 0.3
        self.storage = SimulatedStorage(self)
        self.io_free_at = 0
        self.locations = {}
        self.channels = {}
        self.final = {}
        self.workers = set()  # executor ids of live workers
        self.cluster = SimulatedCluster(self, rng)
        self.accepted = {}  # allocation id -> executor id, as the job master sees it
        self.tasks = {}  # attempt id -> SimulatedTask, as the workers see it
        self.arrivals = {}  # link -> time of the last message: FIFO links
        self.broken = None
        self.is_late = False
        self.is_stopped_by_savepoint = False
        self.rng = random.Random(seed)
        self.master = SimulatedJobMaster(self)
        self.coordinator = self.master.checkpoints.coordinator
        self.invariants = Invariants(self)

    def configure_checkpoints(self):
        """Set the job's options from the settings."""
        settings = self.settings = replace(self.settings, cleans_in_parallel=False)
        tolerable = settings.tolerable_failures
        self.job.checkpoint_interval_ms = settings.interval_ms
        self.job.configuration = dict(self.job.configuration) | {
            o.TIMEOUT.key: f"{settings.timeout_ms} ms",
            o.MIN_PAUSE.key: f"{settings.min_pause_ms} ms",
            o.MAX_CONCURRENT.key: str(settings.max_concurrent),
            o.MODE.key: "EXACTLY_ONCE" if settings.is_exactly_once else "AT_LEAST_ONCE",
            o.UNALIGNED.key: str(settings.is_unaligned).lower(),
            o.NUM_RETAINED.key: str(settings.num_retained),
            o.RETENTION.key: settings.retention.name,
            o.AFTER_TASKS_FINISH.key: str(settings.after_tasks_finish).lower(),
            o.PARALLEL_CLEANER.key: "false",
            o.TOLERABLE_FAILURES.key: str((1 << 31) - 1 if tolerable is None else tolerable),
        }
        of_options = CheckpointSettings.of(self.job.configuration, settings.interval_ms)
        expected = replace(settings, tolerable_failures=of_options.tolerable_failures)
        assert of_options == expected

    # Time and chance ------------------------------------------------------------------------

    def now_ms(self):
        return self.now

    def wall_ms(self):
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
        """Deliver in order per link, after a delay."""
        at = max(self.now + self.delay(f"delay {link}", (0, 1, 5, 40)), self.arrivals.get(link, 0))
        self.arrivals[link] = at
        self.later(at - self.now, event, *args)

    def up(self, task, kind, event, *args):
        """Send a message of a task to the job master, which may get lost."""
        if task.executor not in self.workers:
            return
        if self.loses_messages and self.faulty(f"{kind} of {task.name} is lost", 0.02):
            return
        self.send((task.executor, "up"), event, *args)

    def run(self):
        self.later(0, self.master.start)
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
        assert self.events, "the job waits for nothing"
        self.now, _, event, args = heapq.heappop(self.events)
        event(*args)
        if self.broken is not None:
            raise self.broken

    def io(self, work):
        """Run one storage operation after the other, sometimes slowly."""
        took = self.delay("storage takes", (0, 0, 0, 1, 1, 20, 20, 300))
        self.io_free_at = max(self.now, self.io_free_at) + took
        self.later(self.io_free_at - self.now, work)

    def drain(self):
        """E-4: messages that are still in transit change nothing any more."""
        status = self.scheduler.status
        changes = len(self.invariants.status_changes)
        for _ in range(2000):
            if not self.events:
                break
            self.step()
        self.now += EXIT_REPORT_MS
        self.cluster.tick()
        assert self.scheduler.status is status
        assert len(self.invariants.status_changes) == changes
        assert not self.accepted, "slots were not given back"
        self.invariants.check_end()
        self.cluster.check_end()

    # Reports of tasks ---------------------------------------------------------------------------

    def told(self, executor, handle, message):
        """Act as the Dispatcher does: reports of a worker that was declared lost are ignored."""
        known = self.cluster.resources.executors.get(executor)
        if known is not None:
            handle(known, message)

    def report(self, attempt_id, state, executor, failure=None):
        update = m.UpdateTaskState(self.job.job_id, attempt_id.to_bytes(), state.name, failure)
        self.told(executor, self.master.task_state_reported, update)

    def acknowledged(self, task, checkpoint_id, state):
        message = m.AcknowledgeCheckpoint(
            self.job.job_id, task.attempt.to_bytes(), checkpoint_id, METRICS, state
        )
        checkpoints = self.master.checkpoints
        self.told(task.executor, lambda _, x: checkpoints.acknowledged(x), message)

    def declined(self, task, checkpoint_id, reason):
        message = m.DeclineCheckpoint(
            self.job.job_id, task.attempt.to_bytes(), checkpoint_id, reason.name, "so"
        )
        checkpoints = self.master.checkpoints
        self.told(task.executor, lambda _, x: checkpoints.declined(x), message)

    def final_wanted(self, task):
        checkpoints = self.master.checkpoints
        attempt = task.attempt.to_bytes()
        self.told(task.executor, lambda _, x: checkpoints.final_checkpoint_wanted(x), attempt)

    def committed(self, task, checkpoint_id):
        self.invariants.committed(task, checkpoint_id)
