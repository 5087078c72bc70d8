"""A simulated attempt of a subtask: it counts records, obeys barriers and gets notifications.

Records of a channel are numbered from 1.  A task's state is the number of records that it has read
from each channel and written to each: so a lost or duplicated record is noticed at once. The
barrier handlers are the production ones.

On edges that allow it, an unaligned barrier overtakes records that its producer has sent and its
consumer has not read: these are the producer's in-flight state.  Records that a consumer reads from
a channel after its snapshot and before the channel's barrier are the consumer's.
"""

import pickle
from collections import deque

from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    CheckpointMetrics,
    FileHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
    TaskStateSnapshot,
)
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.graph.ids import ExecutionAttemptID
from penstock.graph.wiring import DistributionPattern
from penstock.jobmaster.scheduling.states import ExecutionState as S
from penstock.network.events import Alignment, CheckpointBarrier, SnapshotKind
from penstock.taskexecutor.checkpointing.barrier_handler import SingleCheckpointBarrierHandler
from penstock.taskexecutor.checkpointing.barrier_tracker import CheckpointBarrierTracker
from support.gathering import GatheringChannels

METRICS = CheckpointMetrics()
END_OF_DATA, END_OF_PARTITION = "end of data", "end of partition"
SYNCHRONOUS = (SnapshotKind.SAVEPOINT_SUSPEND, SnapshotKind.SAVEPOINT_TERMINATE)


class SimulatedTask(GatheringChannels):
    """One attempt on one worker."""

    def __init__(self, world, executor, deployment):
        self.world = world
        self.attempt = ExecutionAttemptID.from_bytes(deployment.attempt_id)
        self.executor = executor
        self.id = (deployment.vertex_id, deployment.subtask)
        self.shape, self.former_shape = world.shapes_of[self.attempt]
        self.name = f"{deployment.task_name}[{deployment.subtask}]#{self.attempt.attempt}"
        self.operator = world.job.vertices[deployment.vertex_id].operators[0].id
        self.is_running = False
        self.is_over = False
        self.inputs = [
            world.channel(c.partition_id, c.subpartition)
            for gate in deployment.gates
            for c in gate.channels
        ]
        self.reads_from = {c.executor_id for gate in deployment.gates for c in gate.channels}
        self.outputs = [
            world.channel(partition.partition_id, index)
            for partition in deployment.partitions
            for index in range(partition.num_subpartitions)
        ]
        results = world.scheduler.graph.vertices[deployment.vertex_id].results
        #: For each output, whether barriers may overtake its records.
        self.may_be_overtaken = [
            result.edge.distribution is DistributionPattern.ALL_TO_ALL
            for result, partition in zip(results, deployment.partitions, strict=True)
            for _ in range(partition.num_subpartitions)
        ]
        self.restored = restored = deployment.restored
        self.channels = {id(channel) for channel in (*self.inputs, *self.outputs)}
        self.is_finished = restored is not None and restored.state.is_finished
        self.read = [0] * len(self.inputs)
        self.written = [0] * len(self.outputs)
        self.position = 0
        self.blocked = {}  # channel -> the checkpoint for which it is stopped
        self.barriers = {}  # checkpoint id -> the channels that have delivered its barrier
        self.snapshot_of = None  # the snapshot that still includes arriving records
        self.in_flight_read = []
        self.in_flight_written = []
        self.data_ended = set()
        self.closed = set()
        self.has_ended = False
        self.final_id = None
        self.stop_barrier = None
        self.last_id = self.complete_id = self.synchronous_id = -1
        self.aborted = set()
        self.writer_free_at = 0
        self.handler = None
        if self.inputs:
            if world.settings.is_exactly_once:
                self.handler = SingleCheckpointBarrierHandler(
                    self, self, world.wall_ms, lambda ms, call: world.later(ms, call)
                )
            else:
                self.handler = CheckpointBarrierTracker(self, self, world.wall_ms)

    def wall_ms(self):
        return self.world.wall_ms()

    # Life ---------------------------------------------------------------------------------

    def restore(self):
        """Read the initial state.

        Raises:
            OSError: A file is gone.
        """
        if self.restored is None:
            return
        if self.former_shape != self.shape:
            self._restore_reshaped()
            return
        if self.is_finished:
            return
        state = self.restored.state.operators.get(self.operator)
        assert state is not None, "a task that had state starts without"
        [handle] = state.managed_operator
        owner, self.position, self.read, self.written, unread, overtaken = self._data_of(handle)
        assert owner == self.id, "the state of another subtask"
        for output, numbers in zip(self.outputs, overtaken, strict=True):
            output.extend(numbers)
        for channel, numbers in enumerate(unread):
            for number in numbers:
                self._read_record(channel, number)

    def _restore_reshaped(self):
        """Restore from the state of subtasks of another shape, with other channels."""
        if self.is_finished:
            self.world.keep_final(self)
        state = self.restored.state.operators.get(self.operator)
        for handle in () if state is None else state.managed_operator:
            (vertex_id, _), position, _, _, unread, overtaken = self._data_of(handle)
            assert vertex_id == self.id[0], "the state of another operator"
            assert not any(unread)
            assert not any(overtaken)
            self.position += position

    def _data_of(self, handle):
        stream = handle.stream
        data = stream.data if isinstance(stream, ByteStreamHandle) else None
        if data is None:
            data = self.world.storage.files_by_path.get(stream.path)
            if data is None:
                raise AssertionError(f"F-15: {stream.path}, which is to be restored, is gone")
        return pickle.loads(data)

    def work(self):
        """Take one step; return whether there will be another."""
        if self.is_over:
            return False
        if not self.inputs and not self.has_ended:
            self._work_as_source()
        elif self.inputs:
            for _ in range(2):
                self._read_something()
        if self.has_ended and self.may_end and len(self.closed) == len(self.inputs):
            self._send_all(END_OF_PARTITION)
            if not self.is_finished:  # otherwise the attempt before the checkpoint has counted
                self.world.keep_final(self)
            self.world.end(self.attempt, S.FINISHED)
            return False
        return True

    def _work_as_source(self):
        stopped = self.stop_barrier is not None
        if self.is_finished or stopped or self.position >= self.world.records:
            self._end_data()
            return
        self.position += 1
        self._emit(self.position)

    def _emit(self, number):
        if self.outputs:
            channel = number % len(self.outputs)
            self.written[channel] += 1
            self.outputs[channel].append(self.written[channel])

    def _send_all(self, event):
        for queue in self.outputs:
            queue.append(event)

    def _read_something(self):
        ready = [
            channel
            for channel, queue in enumerate(self.inputs)
            if queue and channel not in self.blocked
        ]
        if not ready or self.is_over:
            return
        channel = self.world.dice.choice(f"channel of {self.name}", ready)
        item = self.inputs[channel].popleft()
        if isinstance(item, int):
            self._read_record(channel, item)
        elif isinstance(item, CheckpointBarrier):
            if item.needs_alignment:
                self.blocked[channel] = item.checkpoint_id
            self.barriers.setdefault(item.checkpoint_id, set()).add(channel)
            if not self.gathers(channel, item):
                self.handler.on_barrier(channel, item)
        elif item == END_OF_DATA:
            self.data_ended.add(channel)
            if len(self.data_ended) == len(self.inputs):
                self._end_data()
        elif item == END_OF_PARTITION:
            self.closed.add(channel)
            self.handler.on_end_of_partition(channel)
        else:
            self.handler.on_cancellation(channel, item[1])
        self.world.invariants.channels_moved(self)

    def _read_record(self, channel, number):
        assert not self.has_ended
        wanted = self.read[channel] + 1
        if self.world.settings.is_exactly_once:
            assert number == wanted, f"{self.name} reads record {number} instead of {wanted}"
        else:
            assert number <= wanted, f"{self.name} misses records {wanted} to {number - 1}"
        if self.snapshot_of is not None:
            checkpoint_id = self.snapshot_of[0].checkpoint_id
            if channel not in self.barriers.get(checkpoint_id, ()):
                self.in_flight_read[channel].append(number)
        if number == wanted:
            self.read[channel] = number
            self.position += 1
            self._emit(self.position)

    def _end_data(self):
        self._send_all(END_OF_DATA)
        self.has_ended = True
        self.final_id = self.last_id + 1
        if self.stop_barrier is not None:
            barrier, self.stop_barrier = self.stop_barrier, None
            self.take_snapshot(barrier, None)
        elif self.world.awaits_final:
            self.world.up(self, "await", self.world.final_wanted, self)

    @property
    def may_end(self):
        if self.complete_id < self.synchronous_id:
            return False
        # All sent records have been read: a finished subtask has no in-flight state.
        if any(END_OF_DATA in output for output in self.outputs):
            return False
        return not self.world.awaits_final or self.complete_id >= self.final_id

    # Messages of the driver -----------------------------------------------------------------

    def trigger(self, barrier):
        if self.world.settings.is_unaligned:
            # It reaches sources at different times, between which readers have some barriers.
            delay = self.world.delay(f"trigger of {self.name}", (0, 0, 20))
            self.world.later(delay, self._triggered, barrier)
        else:
            self._triggered(barrier)

    def _triggered(self, barrier):
        if self.is_over or self.executor not in self.world.workers:
            return
        # Readers get its cancellation, and barriers from others, before or after it.
        if not self.is_running or self.world.faulty(f"{self.name} is not ready", 0.03):
            self._send_all(("cancel", barrier.checkpoint_id))
            self._decline(barrier.checkpoint_id, Reason.DECLINED_TASK_NOT_READY)
        elif self.handler is not None:
            every = set(range(len(self.inputs)))
            self.barriers.setdefault(barrier.checkpoint_id, set()).update(every)
            self.handler.on_trigger(barrier)
            self.world.invariants.channels_moved(self)
        elif barrier.kind not in SYNCHRONOUS or self.has_ended:
            self.take_snapshot(barrier, None)
        elif self.stop_barrier is not None:
            self._decline(barrier.checkpoint_id, Reason.DECLINED_TASK_CLOSING)
        else:
            self.stop_barrier = barrier

    def notify_complete(self, checkpoint_id):
        if checkpoint_id > self.complete_id:
            self.complete_id = checkpoint_id
            self.world.committed(self, checkpoint_id)

    def notify_aborted(self, checkpoint_id, latest_completed_id):
        if checkpoint_id > self.last_id:
            self.aborted.add(checkpoint_id)
        self._stop_keeping(checkpoint_id)
        if latest_completed_id >= 0:
            self.notify_complete(latest_completed_id)

    # Calls of the barrier handler -------------------------------------------------------------

    @property
    def processed_bytes(self):
        return 0

    @property
    def num_channels(self):
        return len(self.inputs)

    def resume_consumption(self, channel):
        self.blocked.pop(channel, None)

    def prioritize_barrier(self, channel, checkpoint_id):
        return False

    def barriers_complete(self, checkpoint_id, figures):
        if self.snapshot_of is not None:
            barrier, counts = self.snapshot_of
            assert barrier.checkpoint_id == checkpoint_id, "F-14"
            self.snapshot_of = None
            self._write_later(barrier, counts)

    def _stop_keeping(self, checkpoint_id):
        if self.snapshot_of is not None and self.snapshot_of[0].checkpoint_id == checkpoint_id:
            self.snapshot_of = None

    def abort_snapshot(self, checkpoint_id, reason):
        self.world.invariants.given_up(self, checkpoint_id)
        self._stop_keeping(checkpoint_id)
        self.aborted.add(checkpoint_id)
        if checkpoint_id > self.last_id:
            self.last_id = checkpoint_id
            self._send_all(("cancel", checkpoint_id))
        self._decline(checkpoint_id, reason)

    def take_snapshot(self, barrier, figures):
        checkpoint_id = barrier.checkpoint_id
        if figures is not None:
            self.world.invariants.snapshot_begins(self, barrier)
        if checkpoint_id <= self.last_id:
            return
        self.last_id = checkpoint_id
        if checkpoint_id in self.aborted:
            self._send_all(("cancel", checkpoint_id))
            return
        if self.world.faulty(f"snapshot of {self.name} raises", 0.005):
            self.world.end(self.attempt, S.FAILED)
            return
        if barrier.kind in SYNCHRONOUS:
            self.synchronous_id = checkpoint_id
        self.in_flight_read = [[] for _ in self.inputs]
        self.in_flight_written = [self._send_barrier(i, barrier) for i in range(len(self.outputs))]
        counts = (self.id, self.position, list(self.read), list(self.written))
        if barrier.alignment is Alignment.UNALIGNED and self.handler is not None:
            assert self.snapshot_of is None, "F-14: two are unaligned"
            self.snapshot_of = (barrier, counts)
        else:
            self._write_later(barrier, counts)

    def _send_barrier(self, index, barrier):
        """Send the barrier; return the records that it overtakes."""
        output = self.outputs[index]
        if not self.may_be_overtaken[index]:
            barrier = barrier.as_forced_aligned
        if barrier.alignment is not Alignment.UNALIGNED:
            output.append(barrier)
            return []
        place = 0
        while place < len(output) and is_overtaking(output[place]):
            place += 1
        output.insert(place, barrier)
        return [item for item in output if isinstance(item, int)]

    def _write_later(self, barrier, counts):
        checkpoint_id = barrier.checkpoint_id
        data = pickle.dumps((*counts, self.in_flight_read, self.in_flight_written))
        location = self.world.locations[checkpoint_id]
        at = max(self.world.now, self.writer_free_at) + self.world.delay(
            f"writing of {self.name}", (1, 5, 60)
        )
        self.writer_free_at = at
        self.world.later(at - self.world.now, self._write, checkpoint_id, location, data)

    def _write(self, checkpoint_id, location, data):
        """Write in a separate thread, which may outlive the task for a while."""
        world = self.world
        if self.executor not in world.workers:
            return
        if world.faulty(f"writing of {self.name} fails", 0.02):
            self._decline(checkpoint_id, Reason.IO_EXCEPTION)
            return
        name = f"{self.name}-{checkpoint_id}"
        stream = ByteStreamHandle(name, data)
        if world.dice.choice(f"file of {self.name}", (False, True)):
            try:
                path = world.storage.write(location, name, data)
            except OSError:
                self._decline(checkpoint_id, Reason.IO_EXCEPTION)
                return
            stream = FileHandle(path, len(data), ())
        handle = OperatorStateHandle({"counts": PartitionableState("split", (0,))}, stream)
        states = {self.operator: OperatorSubtaskState(managed_operator=(handle,))}
        if self.is_finished:
            states = {}
        state = TaskStateSnapshot(states, self.is_finished)
        times = 2 if world.faulty(f"report of {self.name} doubled", 0.02) else 1
        for _ in range(times):
            world.up(self, "ack", world.acknowledged, self, checkpoint_id, state)

    def shares_data_with(self, other):
        return self is not other and not self.channels.isdisjoint(other.channels)

    def _decline(self, checkpoint_id, reason):
        self.world.up(self, "decline", self.world.declined, self, checkpoint_id, reason)


def is_overtaking(item):
    return isinstance(item, CheckpointBarrier) and item.alignment is Alignment.UNALIGNED


def queue():
    """Return a channel: the records that its consumer has not read."""
    return deque()
