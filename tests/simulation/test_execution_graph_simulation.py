"""A seeded simulation of one job with faults: the scheduler, and a world that misbehaves.

Workers die, refuse tasks, report late or after they were given up, take back slots; users cancel,
tasks fail, slots come late or never.  After a while the faults stop and the job must end.
Invariants E-4, E-5 and E-6 of SEMANTICS and the rules of slot sharing are checked at every step.
A failure prints its seed; `PENSTOCK_SIMULATION_SEEDS=7` or `=0-999` runs other seeds.
"""

import heapq
import os
import random

import pytest
from penstock.graph import partitioners as p
from penstock.graph.ids import ResultPartitionID
from penstock.jobmaster import actions as a
from penstock.jobmaster.failure import Failure
from penstock.jobmaster.restart_strategies import (
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    NoRestartStrategy,
)
from penstock.jobmaster.scheduler import Scheduler, SchedulerSettings
from penstock.jobmaster.slot_sharing import LocalInputPreferredSlotSharingStrategy
from penstock.jobmaster.slots import SlotOffer
from penstock.jobmaster.states import ExecutionState, JobStatus
from support.graphs import Program

S = ExecutionState
FAULTS_UNTIL_MS = 3_000
MUST_END_BY_MS = 120_000
MAX_STEPS = 60_000


def random_job(rng):
    batch = rng.random() < 0.3
    program = Program(parallelism=rng.randint(1, 4), batch=batch, blocking_shuffles=batch)
    spread = [p.REBALANCE, p.RESCALE, p.BROADCAST, p.GLOBAL, p.SHUFFLE]
    for component in range(rng.randint(1, 3)):
        streams = [program.source(f"S{component}", rng.randint(1, 4))]
        for number in range(rng.randint(0, 4)):
            upstream = program.partition(rng.choice(streams), rng.choice(spread))
            name = f"O{component}.{number}"
            if len(streams) > 1 and rng.random() < 0.3:
                other = program.partition(rng.choice(streams), rng.choice(spread))
                stream = program.co_map(upstream, other, name, rng.randint(1, 4))
            else:
                stream = program.map(upstream, name, rng.randint(1, 4))
            if rng.random() < 0.2:
                stream.slot_sharing_group = rng.choice("xy")
            streams.append(stream)
    return program.job_graph(job_id=bytes(16))


def random_strategy(rng):
    return rng.choice(
        [
            NoRestartStrategy(),
            FixedDelayRestartStrategy(rng.randint(1, 20), rng.choice([0, 10, 500])),
            FailureRateRestartStrategy(rng.randint(1, 5), 1000, rng.choice([0, 50])),
            ExponentialDelayRestartStrategy(
                initial_backoff_ms=10, max_backoff_ms=500, rng=random.Random(rng.random())
            ),
        ]
    )


class World:
    """Workers, network and time around one scheduler."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.now = 0
        self.events = []
        self.sequence = 0
        self.job = random_job(self.rng)
        self.scheduler = Scheduler(
            self.job,
            random_strategy(self.rng),
            0,
            SchedulerSettings(
                slot_request_timeout_ms=self.rng.choice([500, 20_000]),
                slot_idle_timeout_ms=self.rng.choice([50, 5_000]),
                failover_strategy=self.rng.choice(["region", "region", "full"]),
            ),
        )
        self.sharing = LocalInputPreferredSlotSharingStrategy(self.scheduler.graph)
        self.missing = 0
        self.workers = {}  # executor id -> allocation ids it has offered and not got back
        self.accepted = {}  # allocation id -> executor id, as the job master sees it
        self.tasks = {}  # attempt id -> executor id, as the workers see it
        self.arrivals = {}  # executor id and direction -> time of the last message: FIFO links
        self.names = 0
        self.status_changes = []
        self.moves = {}
        self.deployed = set()

    # Time ---------------------------------------------------------------------------------

    def faulty(self, chance):
        return self.now < FAULTS_UNTIL_MS and self.rng.random() < chance

    def later(self, delay, event, *args):
        self.sequence += 1
        heapq.heappush(self.events, (self.now + delay, self.sequence, event, args))

    def send(self, link, event, *args):
        """Delivers in order per link, after a random delay."""
        at = max(self.now + self.rng.choice([0, 1, 5, 40]), self.arrivals.get(link, 0))
        self.arrivals[link] = at
        self.later(at - self.now, event, *args)

    def run(self):
        self.later(0, self.call, "start")
        self.later(self.rng.randint(1, 100), self.grant_slots)
        self.later(self.rng.randint(1, 100), self.misbehave)
        steps = 0
        while not self.scheduler.status.is_terminal:
            steps += 1
            assert steps < MAX_STEPS, "the job neither ends nor waits"
            assert self.now < MUST_END_BY_MS, f"the job hangs in {self.scheduler.status.name}"
            deadline = self.scheduler.next_deadline_ms(self.now)
            if deadline is not None and deadline <= max(self.now, self.events[0][0]):
                self.now = max(self.now, deadline)
                self.call("tick")
                continue
            self.now, _, event, args = heapq.heappop(self.events)
            event(*args)
        self.drain()

    def drain(self):
        """E-4: whatever is still on its way changes nothing any more."""
        status = self.scheduler.status
        changes = len(self.status_changes)
        for _ in range(500):
            if not self.events:
                break
            self.now, _, event, args = heapq.heappop(self.events)
            event(*args)
        assert self.scheduler.status is status
        assert len(self.status_changes) == changes
        assert not self.accepted, "slots were not given back"

    # The job master's side ----------------------------------------------------------------

    def call(self, event, *args):
        for action in getattr(self.scheduler, event)(*args, self.now):
            self.carry_out(action)
        self.check()

    def report(self, attempt_id, state, executor, failure=None):
        known = any(s.current.attempt_id == attempt_id for s in self.scheduler.graph.subtasks())
        actions = self.scheduler.task_state_changed(attempt_id, state, executor, self.now, failure)
        if not known:
            # A late report may coincide with a restart that is due, and must do nothing else.
            moves = [x.new for x in actions if isinstance(x, a.TaskStateChanged)]
            assert set(moves) <= {S.SCHEDULED, S.DEPLOYING}
        for action in actions:
            self.carry_out(action)
        self.check()

    def carry_out(self, action):
        match action:
            case a.RequestSlots():
                assert action.missing == max(0, action.required - len(self.accepted))
                self.missing = action.missing
            case a.AcceptSlot():
                self.accepted[action.allocation_id] = action.executor_id
            case a.RejectSlot():
                self.send((action.executor_id, "down"), self.slot_returned, action.allocation_id)
            case a.ReleaseSlot():
                assert self.accepted.pop(action.allocation_id) == action.executor_id
                self.send((action.executor_id, "down"), self.slot_returned, action.allocation_id)
            case a.Deploy():
                self.check_deployment(action)
                self.send((action.executor_id, "down"), self.task_arrives, action)
            case a.CancelTask():
                self.send(
                    (action.executor_id, "down"),
                    self.cancel_arrives,
                    action.attempt_id,
                    action.executor_id,
                )
            case a.JobStatusChanged():
                self.job_moved(action)
            case a.TaskStateChanged():
                self.task_moved(action)

    def job_moved(self, change):
        """E-4 and E-6: in order, each once, and never out of a terminal status."""
        last = self.status_changes[-1].new if self.status_changes else JobStatus.INITIALIZING
        assert change.old is last
        assert not last.is_terminal
        self.status_changes.append(change)
        if change.new is JobStatus.FINISHED:
            assert self.scheduler.graph.all_in(S.FINISHED), "E-5"

    def task_moved(self, change):
        last = self.moves.get(change.attempt_id, S.CREATED)
        assert change.old is last
        assert not last.is_terminal
        self.moves[change.attempt_id] = change.new

    def check_deployment(self, action):
        deployment = action.deployment
        assert action.attempt_id not in self.deployed
        self.deployed.add(action.attempt_id)
        assert self.accepted[deployment.allocation_id] == action.executor_id
        for gate in deployment.gates:
            for channel in gate.channels:
                producer = ResultPartitionID.from_bytes(channel.partition_id).producer
                subtask = self.scheduler.graph.find_attempt(producer)
                assert subtask is not None, "a channel names an attempt that is no more"
                assert subtask.current.slot.executor_id == channel.executor_id

    def check(self):
        """The sharing rule, and no subtask at work in a slot that the job does not have."""
        places = set()
        for subtask in self.scheduler.graph.subtasks():
            slot = subtask.current.slot
            if slot is None or subtask.state.is_terminal:
                continue
            assert slot.allocation_id in self.accepted, "at work in a slot that is gone"
            place = (slot.allocation_id, subtask.job_vertex.id)
            assert place not in places, "two subtasks of one vertex in one slot"
            places.add(place)
        assert len(self.scheduler.pool) == len(self.accepted)
        active = [s for s in self.scheduler.graph.subtasks() if not s.state.is_terminal]
        assert self.scheduler.graph.active == len(active)
        if self.scheduler.status is JobStatus.RUNNING:
            needed = {self.sharing.group_of(s.id) for s in active if s.state is not S.CREATED}
            assert self.scheduler.pool.required == len(needed)

    # The workers' side --------------------------------------------------------------------

    def grant_slots(self):
        """The resource manager: sometimes too few, sometimes too many, sometimes late."""
        if not self.scheduler.status.is_terminal:
            self.later(self.rng.randint(10, 200), self.grant_slots)
        if self.missing == 0 or self.faulty(0.4):
            return
        count = self.missing + (1 if self.faulty(0.3) else 0)
        while count > 0:
            executor = f"worker-{self.names}"
            slots = min(count, self.rng.randint(1, 2))
            count -= slots
            offers = []
            for index in range(slots):
                self.names += 1
                offers.append(SlotOffer(b"slot-%d" % self.names, executor, "h", 1, index))
            self.workers[executor] = {offer.allocation_id for offer in offers}
            self.send((executor, "up"), self.offer, executor, offers)

    def offer(self, executor, offers):
        if executor not in self.workers:
            return
        self.call("slots_offered", offers)
        if self.faulty(0.1):
            self.call("slots_offered", offers)

    def slot_returned(self, allocation_id):
        for slots in self.workers.values():
            slots.discard(allocation_id)

    def task_arrives(self, action):
        attempt, executor = action.attempt_id, action.executor_id
        if executor not in self.workers or self.faulty(0.02):
            failure = Failure("penstock.errors.JobExecutionError", "refused")
            self.send((executor, "up"), self.call, "deployment_failed", attempt, failure)
            return
        self.tasks[attempt] = executor
        self.step(attempt, [S.INITIALIZING, S.RUNNING, None])

    def step(self, attempt, ahead):
        executor = self.tasks.get(attempt)
        if executor not in self.workers:
            return
        if self.faulty(0.05):
            return self.end(attempt, S.FAILED)
        state, *rest = ahead
        if state is None:
            return self.end(attempt, S.FINISHED)
        self.send((executor, "up"), self.report, attempt, state, executor)
        self.later(self.rng.choice([1, 10, 300, 1500]), self.step, attempt, rest)
        return None

    def end(self, attempt, state):
        executor = self.tasks.pop(attempt)
        failure = Failure("app.Boom", "boom") if state is S.FAILED else None
        if failure is not None and self.rng.random() < 0.02:
            failure = Failure("app.Hopeless", "no", recoverable=False)
        self.send((executor, "up"), self.report, attempt, state, executor, failure)
        if self.faulty(0.05):
            self.send((executor, "up"), self.report, attempt, state, executor, failure)

    def cancel_arrives(self, attempt, executor):
        if executor not in self.workers:
            # The sender gives up after its retries.
            self.later(100, self.call, "cancellation_failed", attempt)
        elif self.tasks.get(attempt) == executor:
            self.end(attempt, self.rng.choice([S.CANCELED, S.CANCELED, S.FINISHED, S.FAILED]))

    # Faults -------------------------------------------------------------------------------

    def misbehave(self):
        if self.now >= FAULTS_UNTIL_MS or self.scheduler.status.is_terminal:
            return
        self.later(self.rng.randint(20, 400), self.misbehave)
        kind = self.rng.random()
        if kind < 0.35 and self.workers:
            self.kill(self.rng.choice(sorted(self.workers)))
        elif kind < 0.45 and self.accepted:
            self.take_back(self.rng.choice(sorted(self.accepted)))
        elif kind < 0.50:
            self.call("fail", Failure("penstock.Global", "restore failed"))
        elif kind < 0.53:
            self.call("cancel")
        elif kind < 0.54:
            self.call("suspend", Failure("penstock.Leadership", "lost"))

    def kill(self, executor):
        del self.workers[executor]
        for attempt in [x for x, worker in self.tasks.items() if worker == executor]:
            del self.tasks[attempt]
        self.later(self.rng.choice([0, 10, 300]), self.lost, executor)

    def lost(self, executor):
        self.accepted = {s: worker for s, worker in self.accepted.items() if worker != executor}
        self.call("executor_lost", executor, Failure("penstock.Lost", executor))
        self.call("executor_lost", executor, Failure("penstock.Lost", executor))

    def take_back(self, allocation_id):
        executor = self.accepted.pop(allocation_id)
        for subtask in self.scheduler.graph.subtasks():
            slot = subtask.current.slot
            if slot is not None and slot.allocation_id == allocation_id:
                self.tasks.pop(subtask.current.attempt_id, None)
        self.slot_returned(allocation_id)
        self.call("slot_failed", allocation_id, Failure("penstock.Slot", executor))


def seeds():
    text = os.environ.get("PENSTOCK_SIMULATION_SEEDS", "0-99")
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_a_job_with_faults_ends_properly(seed):
    world = World(seed)
    try:
        world.run()
    except Exception:
        print(f"seed {seed}: PENSTOCK_SIMULATION_SEEDS={seed} runs it alone")
        raise
    assert world.scheduler.status.is_terminal


def test_the_same_seed_is_the_same_run():
    def history(seed):
        world = World(seed)
        world.run()
        return [(c.old, c.new, c.at_ms) for c in world.status_changes], world.now

    assert history(3) == history(3)


def test_the_seeds_reach_every_end():
    """The simulation is worth something only if its runs differ."""
    ends = set()
    restarts = 0
    for seed in range(50):
        world = World(seed)
        world.run()
        ends.add(world.scheduler.status)
        restarts += world.scheduler.graph.num_restarts
    assert ends >= {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED}
    assert restarts > 30
