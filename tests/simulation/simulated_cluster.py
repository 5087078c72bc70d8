"""The workers of a simulated job, which the production ResourceManager requests and loses.

Workers come up late or not at all, and refuse slots.  The end of one is noticed by its connection
and by its host, in any order, or only by its connection.
"""

import math

from penstock import __version__
from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.workers.resource_manager import ResourceManager, WorkerExit
from penstock.jobmaster.workers.worker_losses import WorkerLosses
from penstock.network.events import Alignment, CheckpointBarrier, SnapshotKind
from penstock.rpc import messages as m


class Connection:
    """The job master's connection to a worker."""

    def __init__(self, cluster, executor):
        self.cluster = cluster
        self.executor = executor

    def close(self, reason):
        """Do nothing: here workers die by themselves."""

    close_after_flush = close

    def send(self, message):
        world = self.cluster.world
        world.send((self.executor, "down"), self.cluster.received, self.executor, message)


class SimulatedCluster:
    """The host of the workers, and the part of the Dispatcher that reports their ends."""

    def __init__(self, world, rng):
        self.world = world
        self.slots = {}  # executor id -> allocation id of each slot, None for a free one
        self.limit = rng.choice([None, None, None, 2])
        self.started = 0
        #: Some start after an adaptive job has begun without them.
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

    # Requests of the ResourceManager --------------------------------------------------------------

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

    def describe(self, registered):
        return registered

    # Actions of the workers -----------------------------------------------------------------------

    def comes_up(self, spec):
        name = spec.executor_id
        world = self.world
        self.slots[name] = [None] * spec.slots
        world.workers.add(name)
        jobs = tuple(spec.launch["jobs"])
        hello = m.RegisterTaskExecutor(name, 1, "h", jobs, spec.slots, 1, __version__)
        world.send((name, "up"), self.resources.register, hello, Connection(self, name))

    def received(self, executor, message):
        """Handle a message of the job master; a dead worker ignores it."""
        world = self.world
        if executor not in world.workers:
            return
        match message:
            case m.RequestSlot():
                self.slot_requested(executor, message)
            case m.FreeSlot():
                self.free(executor, message.allocation_id)
            case m.SubmitTask():
                world.task_arrives(executor, message.descriptor)
            case m.CancelTask():
                world.cancel_arrives(ExecutionAttemptID.from_bytes(message.attempt_id))
            case m.TriggerCheckpoint():
                world.locations[message.checkpoint_id] = message.location.decode()
                barrier = CheckpointBarrier(
                    message.checkpoint_id,
                    message.timestamp_ms,
                    SnapshotKind(message.kind),
                    alignment=Alignment(message.alignment),
                )
                world.checkpoint_message("trigger", executor, message, barrier)
            case m.NotifyCheckpointComplete():
                number = message.checkpoint_id
                world.checkpoint_message("notify_complete", executor, message, number)
            case m.NotifyCheckpointAborted():
                numbers = message.checkpoint_id, message.latest_completed_id
                world.checkpoint_message("notify_aborted", executor, message, *numbers)

    def slot_requested(self, executor, message):
        world, slots, allocation = self.world, self.slots[executor], message.allocation_id
        assert slots[message.slot] is None, "a slot is given away twice"
        if world.faulty("a slot is refused", 0.03):
            world.send((executor, "up"), self.resources.slot_freed, executor, allocation)
            return
        slots[message.slot] = allocation
        offer = m.SlotOffer(message.slot, allocation, message.network_buffers.total)
        world.send((executor, "up"), self.offered, executor, offer)

    def free(self, executor, allocation):
        slots = self.slots[executor]
        if allocation in slots:
            slots[slots.index(allocation)] = None
            self.world.send((executor, "up"), self.resources.slot_freed, executor, allocation)

    def offered(self, name, offer):
        offers = m.OfferSlots(self.world.job.job_id, "h", 1, (offer,))
        for _ in range(2 if self.world.faulty("a slot is offered twice", 0.1) else 1):
            self.world.told(name, self.world.master.slots_offered, offers)

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
        else:
            self.await_other_report()

    def disconnected(self, executor):
        if executor in self.resources.executors:
            if self.losses.disconnected(executor, "the connection broke", self.world.now):
                self.lost(executor)
            else:
                self.await_other_report()

    def await_other_report(self):
        deadline_ms = self.losses.next_deadline_ms()
        if deadline_ms is not None:
            self.world.later(max(0, deadline_ms - self.world.now), self.tick)

    def tick(self):
        for executor in self.losses.tick(self.world.now):
            self.lost(executor)
        self.await_other_report()

    def lost(self, executor):
        self.losses.explained(executor)
        assert executor in self.resources.executors, "lost twice"
        self.resources.executor_lost(executor)
        self.world.lost(executor)

    def check_end(self):
        """Check that neither side holds anything for a job that has ended."""
        for name, executor in self.resources.executors.items():
            assert not executor.allocations, "the ResourceManager keeps slots of an ended job"
            assert all(slot is None for slot in self.slots[name]), "a worker keeps a slot"
        assert self.losses.next_deadline_ms() is None, "a loss that nobody was told of"
