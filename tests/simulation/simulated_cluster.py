"""The workers of a simulated job, which the ResourceManager of production asks for and loses.

Workers come up late or not at all, and refuse slots.  The end of one is seen by its connection and
by its host, in any order, or by its connection alone.
"""

import math

from penstock import __version__
from penstock.jobmaster.failure import Failure
from penstock.jobmaster.resource_manager import ResourceManager, WorkerExit
from penstock.jobmaster.slots import SlotOffer
from penstock.jobmaster.worker_losses import WorkerLosses
from penstock.rpc.messages import FreeSlot, RegisterTaskExecutor, RequestSlot


class Connection:
    """The job master's connection to a worker."""

    def __init__(self, cluster, executor):
        self.cluster = cluster
        self.executor = executor

    def send(self, message):
        world = self.cluster.world
        world.send((self.executor, "down"), self.cluster.received, self.executor, message)


class SimulatedCluster:
    """The host of the workers, and the part of the Dispatcher that tells of their ends."""

    def __init__(self, world, rng):
        self.world = world
        self.slots = {}  # executor id -> allocation id of each slot, None of a free one
        self.limit = rng.choice([None, None, None, 2])
        self.started = 0
        #: Some come when an adaptive job has begun without them.
        self.starts = (50, 10, 600) if world.is_adaptive else (10, 50, 200)
        self.losses = WorkerLosses()
        self.allocations = 0
        self.resources = ResourceManager(
            self,
            rng.choice([None, None, 1, 2]),
            lambda executor_id, number, slots, job: {"jobs": [job]},
            (1_000, 5_000),
            lambda delay_s, action: world.later(math.floor(delay_s * 1000) + 1, action),
            lambda: world.now / 1000,
            self.new_allocation,
        )

    def new_allocation(self):
        self.allocations += 1
        return b"slot-%d" % self.allocations

    # What the ResourceManager asks for ----------------------------------------------------------

    def start(self, requests):
        world = self.world
        for spec in requests:
            name = spec.executor_id
            self.started += 1
            if world.faulty(f"{name} does not start", 0.15):
                hopeless = world.faulty("no worker will ever start", 0.02)
                end = WorkerExit(name, None, None, "no", hopeless=hopeless)
                world.later(world.delay(f"end of {name}", (10, 50, 400)), self.exited, end)
            else:
                world.later(world.delay(f"start of {name}", self.starts), self.comes_up, spec)

    def places(self):
        return self.limit

    def granted(self):
        return self.started

    def failures(self):
        return ()

    # What the workers do ------------------------------------------------------------------------

    def comes_up(self, spec):
        name = spec.executor_id
        world = self.world
        self.slots[name] = [None] * spec.slots
        world.workers.add(name)
        jobs = tuple(spec.launch["jobs"])
        hello = RegisterTaskExecutor(name, 1, "h", jobs, spec.slots, 1, __version__)
        world.send((name, "up"), self.resources.register, hello, Connection(self, name))

    def received(self, executor, message):
        """A message of the job master; a worker that has died reads none."""
        world = self.world
        if executor not in world.workers:
            return
        slots = self.slots[executor]
        if isinstance(message, RequestSlot):
            allocation = message.allocation_id
            assert slots[message.slot] is None, "a slot is given away twice"
            if world.faulty("a slot is refused", 0.03):
                world.send((executor, "up"), self.resources.slot_freed, executor, allocation)
                return
            slots[message.slot] = allocation
            offer = SlotOffer(allocation, executor, "h", 1, message.slot)
            world.send((executor, "up"), self.offered, offer)
        elif isinstance(message, FreeSlot):
            self.free(executor, message.allocation_id)

    def free(self, executor, allocation):
        slots = self.slots[executor]
        if allocation in slots:
            slots[slots.index(allocation)] = None
            self.world.send((executor, "up"), self.resources.slot_freed, executor, allocation)

    def offered(self, offer):
        """As JobMaster.slots_offered does."""
        world = self.world
        executor = self.resources.executors.get(offer.executor_id)
        if executor is None:
            return  # it is lost; what it still says counts no more
        self.resources.slot_offered(offer.executor_id, offer.allocation_id, ("h", 1))
        if world.scheduler.status.is_terminal:
            executor.connection.send(FreeSlot(offer.allocation_id, "the job has ended"))
            return
        world.call("slots_offered", [offer])
        if world.faulty("a slot is offered twice", 0.1):
            world.call("slots_offered", [offer])

    # Their ends ---------------------------------------------------------------------------------

    def kill(self, executor):
        world = self.world
        end = WorkerExit(executor, 1, -9)
        is_known = executor in self.resources.executors
        if not is_known or not world.faulty(f"nobody tells of the exit of {executor}", 0.2):
            world.later(world.delay(f"exit of {executor}", (0, 10, 300, 3_000)), self.exited, end)
        world.send((executor, "up"), self.disconnected, executor)

    def exited(self, end):
        if end.executor_id not in self.resources.executors:
            self.resources.worker_exited(end)
        elif self.losses.exited(end, self.world.now):
            self.lost(end.executor_id)
        self.world.has_moved = True

    def disconnected(self, executor):
        if executor in self.resources.executors:
            if self.losses.disconnected(executor, "the connection broke", self.world.now):
                self.lost(executor)
            self.world.has_moved = True

    def tick(self):
        for executor in self.losses.tick(self.world.now):
            self.lost(executor)

    def lost(self, executor):
        reason = self.losses.explained(executor)
        assert executor in self.resources.executors, "lost twice"
        self.resources.executor_lost(executor)
        self.world.lost(executor, reason)

    # What a job hears ---------------------------------------------------------------------------

    def slots_not_available(self, *, recoverable):
        failure = Failure("penstock.NoSlots", "no workers", recoverable=recoverable)
        if not self.world.scheduler.status.is_terminal:
            self.world.call("slots_not_available", failure)

    def check_end(self):
        """Nothing is held for a job that has ended, by either side."""
        for name, executor in self.resources.executors.items():
            assert not executor.allocations, "the ResourceManager keeps slots of an ended job"
            assert all(slot is None for slot in self.slots[name]), "a worker keeps a slot"
        assert self.losses.next_deadline_ms() is None, "a loss that nobody was told of"
