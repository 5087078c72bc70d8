"""A worker of one driver: its tasks count, and commit their counts when they are notified.

It ends after its driver, and when its host sees that another driver leads: both as late as
possible, so that tasks of several drivers run at a time.
"""

import pickle
from pathlib import Path

from penstock import __version__
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    CheckpointMetrics,
    FileHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
    TaskStateSnapshot,
)
from penstock.rpc import messages as m

METRICS = CheckpointMetrics()
PACE_MS = 10


class SimulatedWorkerProcess:
    """The process, its connection, and a Dispatcher's peer."""

    def __init__(self, driver, spec):
        self.driver = driver
        self.world = driver.world
        self.id = self.executor_id = spec.executor_id
        self.slots = [None] * spec.slots
        self.jobs = (spec.job_id,)
        self.tasks = {}
        self.is_over = False
        self.executor = None
        self.connection = self
        self._arrivals = {"up": 0, "down": 0}

    def __str__(self):
        return f"{self.id} of {self.driver}"

    # The connection -----------------------------------------------------------------------------

    @property
    def gateway(self):
        return self.executor

    def send(self, message):
        """Send a message to the worker."""
        self.world.later(self._delay("down"), self._receive, message)

    def close(self, reason):
        self.world.later(0, self.end)

    close_after_flush = close

    def report(self, message):
        """Send a message to the driver."""
        if self.is_over or self.driver.is_over:
            return
        dispatcher = self.driver.dispatcher
        for _ in range(2 if self.world.faulty("a message comes twice", 0.01) else 1):
            self.tell(lambda: dispatcher.router.handle(self, message))

    def tell(self, action):
        """Let the driver run an action after all earlier messages have arrived."""
        self.driver.process.main.later(self._delay("up"), action)

    def _delay(self, direction):
        now = self.world.now
        delay = self.world.delay(f"delay {direction}", (0, 0, 1, 1, 5, 5, 60, 250))
        at = self._arrivals[direction] = max(now + delay, self._arrivals[direction])
        return at - now

    # Its life -----------------------------------------------------------------------------------

    def comes_up(self):
        if self.driver.is_over:
            self.is_over = True
            return
        hello = m.RegisterTaskExecutor(self.id, 1, "h", self.jobs, len(self.slots), 1, __version__)
        self.report(hello)

    def end(self):
        if not self.is_over:
            self.is_over = True
            self.tasks.clear()
            self.driver.worker_ended(self)

    def _receive(self, message):
        if self.is_over:
            return
        match message:
            case m.RequestSlot():
                self.slots[message.slot] = message.allocation_id
                offer = m.SlotOffer(
                    message.slot, message.allocation_id, message.network_buffers.total
                )
                self.report(m.OfferSlots(message.job_id, "h", 1, (offer,)))
            case m.FreeSlot():
                if message.allocation_id in self.slots:
                    slot = self.slots.index(message.allocation_id)
                    self.slots[slot] = None
                    self.report(m.SlotFreed(slot, message.allocation_id))
            case m.SubmitTask():
                task = SimulatedTask(self, message.descriptor)
                self.tasks[task.attempt] = task
                self.world.later(self.world.delay("start of a task", (1, 10, 60)), task.begin)
            case m.CancelTask():
                task = self.tasks.pop(message.attempt_id, None)
                if task is not None:
                    task.report("CANCELED")
            case m.TriggerCheckpoint():
                for task in self._tasks(message):
                    task.trigger(message)
            case m.NotifyCheckpointComplete():
                for task in self._tasks(message):
                    task.complete(message.checkpoint_id)
            case m.NotifyCheckpointAborted():
                for task in self._tasks(message):
                    if message.latest_completed_id >= 0:
                        task.complete(message.latest_completed_id)
            case m.Shutdown():
                self.end()

    def _tasks(self, message):
        return [self.tasks[id_] for id_ in message.attempt_ids if id_ in self.tasks]


class SimulatedTask:
    """A source and a committing sink: it writes the numbers up to some end, once each.

    Attributes:
        pending: Ranges that were written before a snapshot and are not committed: (checkpoint,
        from,
            to).
    """

    def __init__(self, worker, descriptor):
        self.worker = worker
        self.world = worker.world
        self.attempt = descriptor.attempt_id
        self.job_id = descriptor.job_id
        self.id = (descriptor.vertex_id, descriptor.subtask)
        self.restored = descriptor.restored
        self.position = self.snapshot_at = 0
        self.pending = []
        self.has_ended = False
        self.final_id = None
        self.is_running = False

    @property
    def is_over(self):
        return self.worker.is_over or self.worker.tasks.get(self.attempt) is not self

    def report(self, state, failure=None):
        self.worker.report(m.UpdateTaskState(self.job_id, self.attempt, state, failure))

    def begin(self):
        if self.is_over:
            return
        self.report("INITIALIZING")
        is_finished = False
        if self.restored is not None:
            is_finished = self.restored.state.is_finished
            if is_finished:
                self.position = self.snapshot_at = self.world.records
            else:
                self._restore()
        self.is_running = True
        self.report("RUNNING")
        self.world.later(1, self.work)

    def _restore(self):
        state = self.restored.state.operators[self.world.operator]
        [handle] = state.managed_operator
        stream = handle.stream
        if isinstance(stream, ByteStreamHandle):
            data = stream.data
        else:
            assert Path(stream.path).exists(), f"F-15: {stream.path}, to be restored, is gone"
            data = Path(stream.path).read_bytes()
        owner, self.position, self.pending = pickle.loads(data)
        assert owner == self.id, "the state of another subtask"
        self.snapshot_at = self.position
        self._commit(self.restored.checkpoint_id)

    def work(self):
        if self.is_over:
            return
        if self.world.faulty("a task fails", 0.002):
            del self.worker.tasks[self.attempt]
            failure = m.TaskFailure("app", "Boom", "boom", "", "", -1)
            self.report("FAILED", failure)
        elif self.position < self.world.records:
            self.position += 1
            self.world.later(PACE_MS, self.work)
        else:
            self.has_ended = True
            self.worker.report(m.AwaitFinalCheckpoint(self.job_id, self.attempt))

    def trigger(self, message):
        checkpoint_id = message.checkpoint_id
        if not self.is_running:
            self.worker.report(
                m.DeclineCheckpoint(self.job_id, self.attempt, checkpoint_id, "DECLINED")
            )
            return
        if self.has_ended and self.final_id is None:
            self.final_id = checkpoint_id
        if self.position > self.snapshot_at:
            self.pending.append((checkpoint_id, self.snapshot_at, self.position))
            self.snapshot_at = self.position
        data = pickle.dumps((self.id, self.position, list(self.pending)))
        delay = self.world.delay("writing", (1, 5, 40))
        self.world.later(delay, self._write, message, data)

    def _write(self, message, data):
        """Write in a separate thread, which may outlive the task for a while."""
        if self.worker.is_over:
            return
        checkpoint_id = message.checkpoint_id
        stream = ByteStreamHandle("state", data)
        if self.world.dice.choice("file", (False, True)):
            path = Path(message.location.decode(), f"{self.attempt.hex()}-{checkpoint_id}")
            try:
                path.write_bytes(data)
            except FileNotFoundError:
                self.worker.report(
                    m.DeclineCheckpoint(self.job_id, self.attempt, checkpoint_id, "IO_EXCEPTION")
                )
                return
            stream = FileHandle(str(path), len(data), ())
        handle = OperatorStateHandle({"counts": PartitionableState("split", (0,))}, stream)
        states = {self.world.operator: OperatorSubtaskState(managed_operator=(handle,))}
        self.worker.report(
            m.AcknowledgeCheckpoint(
                self.job_id, self.attempt, checkpoint_id, METRICS, TaskStateSnapshot(states, False)
            )
        )

    def complete(self, checkpoint_id):
        self._commit(checkpoint_id)
        if self.final_id is not None and checkpoint_id >= self.final_id:
            del self.worker.tasks[self.attempt]
            self.report("FINISHED")

    def _commit(self, checkpoint_id):
        due = [entry for entry in self.pending if entry[0] <= checkpoint_id]
        self.pending = [entry for entry in self.pending if entry[0] > checkpoint_id]
        self.world.invariants.told(self, checkpoint_id)
        for written_in, start, end in due:
            self.world.invariants.committed(self, written_in, start, end)
