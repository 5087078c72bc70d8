"""Invariants of every step of a simulated run (E-4 to E-6, F-1 to F-16, M58, M65).

- F-1, F-2, F-3, F-4: by the coordinator's actions and notifications, here.
- F-5: by the storage at the end.
- F-6, F-11, F-12, F-13: by the cut of each complete checkpoint; records between the state of a
  reader and that of its writer must be in flight, once and in order, without events.
- F-7, F-8, F-9, F-10: by the requests of barrier handlers to tasks, and by stopped channels.
- F-14: by the tasks, which store in-flight data for one checkpoint at a time.
- F-15, F-16: by missing files when a task reads them.
"""

import pickle

from penstock.checkpoint_storage.handles import ByteStreamHandle
from penstock.graph.ids import ResultPartitionID
from penstock.jobmaster.adaptive.rescaling import slots_by_group
from penstock.jobmaster.checkpointing import actions as c
from penstock.jobmaster.failure_causes import GRACE_MS
from penstock.jobmaster.scheduling.slot_sharing import LocalInputPreferredSlotSharingStrategy
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.network.events import Alignment
from simulation.simulated_task import SYNCHRONOUS

S = ExecutionState


class Invariants:
    """Tracks the events of a world, and raises on violations."""

    def __init__(self, world):
        self.world = world
        self.scheduler = world.scheduler
        self.graph = world.scheduler.graph
        self.sharing = LocalInputPreferredSlotSharingStrategy(self.graph)
        self.status_changes = []
        self.moves = {}
        self.deployed = set()
        self.released = set()  # ids of blocking partitions
        self.last_id = 0
        self.requests = {}  # number -> properties, until answered
        self.under_way = {}  # checkpoint id -> request's number
        self.ended = {}  # checkpoint id -> how
        self.complete = {}  # checkpoint id -> CompletedCheckpoint
        self.discarded = set()
        self.commits = {}  # subtask -> the latest checkpoint that it was notified of
        self.told = {}  # attempt -> the same
        self.failures = set()  # the causes of failures that were reported, or observed
        self.cause_at = -1  # when the last one was
        self.consequences = {}  # attempt -> when its failure was reported, as a consequence
        self.unread = self.overtaken = 0  # records in flight, in complete checkpoints
        self.begun = {}  # attempt -> the latest checkpoint that its handler started, or aborted

    # The scheduler ----------------------------------------------------------------------------

    def job_moved(self, change):
        """E-4 and E-6: in order, each once, and never out of a terminal status."""
        last = self.status_changes[-1].new if self.status_changes else JobStatus.INITIALIZING
        assert change.old is last
        assert not last.is_terminal
        self.status_changes.append(change)
        if change.new is JobStatus.FINISHED:
            assert self.graph.all_in(S.FINISHED), "E-5"

    def task_moved(self, change):
        last = self.moves.get(change.attempt_id, S.CREATED)
        assert change.old is last
        assert not last.is_terminal
        self.moves[change.attempt_id] = change.new

    def check_deployment(self, action):
        deployment = action.deployment
        assert action.attempt_id not in self.deployed
        self.deployed.add(action.attempt_id)
        assert self.world.accepted[deployment.allocation_id] == action.executor_id
        for gate in deployment.gates:
            for channel in gate.channels:
                producer = ResultPartitionID.from_bytes(channel.partition_id).producer
                subtask = self.graph.find_attempt(producer)
                assert subtask is not None, "a channel names an attempt that is no more"
                assert subtask.current.slot.executor_id == channel.executor_id
                if self.world.is_batch:
                    self._check_blocking_channel(subtask, channel)

    def _check_blocking_channel(self, producer, channel):
        """Check that a file is read when it is complete, and from the executor that wrote it."""
        assert producer.state is S.FINISHED, "read before it is written"
        assert channel.partition_id not in self.released, "read when it is gone"
        assert channel.executor_id in self.world.cluster.resources.executors, "read of the dead"

    def partitions_released(self, action):
        """Check that partitions are released once, and that no task reads them."""
        released = set(action.partition_ids)
        assert not released & self.released, "released twice"
        self.released |= released
        if self.scheduler.status.is_terminal:
            return
        for subtask in self.graph.subtasks():
            if subtask.state in (S.DEPLOYING, S.INITIALIZING, S.RUNNING):
                vertex = self.graph.vertices[subtask.job_vertex.id]
                for gate, (_, result) in enumerate(vertex.inputs):
                    for partition, _ in vertex.consumed(gate, subtask.subtask):
                        assert result.partition_id(partition) not in released, "it is being read"

    def check(self):
        """Check the sharing rule, and that no subtask works in a slot that the job lacks."""
        places = set()
        active = []
        for subtask in self.graph.subtasks():
            state = subtask.state
            if state.is_terminal:
                continue
            active.append(subtask)
            slot = subtask.current.slot
            if slot is None:
                continue
            assert slot.allocation_id in self.world.accepted, "at work in a slot that is gone"
            place = (slot.allocation_id, subtask.job_vertex.id)
            assert place not in places, "two subtasks of one vertex in one slot"
            places.add(place)
        pool = self.scheduler.pool
        assert len(pool) == len(self.world.accepted)
        assert pool.num_free == len(pool.free_slots())
        assert self.graph.active == len(active)
        if self.scheduler.status is JobStatus.RUNNING:
            needed = {self.sharing.group_of(s.id) for s in active if s.state is not S.CREATED}
            if not self.world.is_adaptive:
                assert pool.required == len(needed)
                return
            wanted = self.scheduler.wanted_parallelisms
            assert pool.required == sum(slots_by_group(self.world.job, wanted).values())
            assert all(v.parallelism <= wanted[v.id] for v in self.graph.vertices.values()), (
                "more than is wanted"
            )
            assert all(s.state is not S.SCHEDULED for s in active), "it has no slot"

    def shape_changed(self):
        self.sharing = LocalInputPreferredSlotSharingStrategy(self.graph)

    # Causes and consequences ------------------------------------------------------------------

    def failed(self, failure):
        self.failures.add(failure.message)
        self.cause_at = self.world.now

    def reported(self, report, *, is_canceling):
        if report.failure is not None and not report.is_consequence:
            self.failed(report.failure)
        if report.is_consequence and not is_canceling:
            self.consequences.setdefault(report.attempt_id, self.world.now)

    def taken(self, report):
        """Check that a consequence of a failure fails nothing once its cause is known."""
        if not report.is_consequence or self.scheduler.is_canceling(report.attempt_id):
            return
        now, since = self.world.now, self.consequences[report.attempt_id]
        assert self.cause_at == now or now - since >= GRACE_MS, "a consequence did not wait"
        cause = report.failure and report.failure.message
        assert cause not in self.failures, f"{cause} was known, and not taken for the cause"

    # The checkpoint coordinator ---------------------------------------------------------------

    def requested(self, number, properties):
        assert number not in self.requests
        self.requests[number] = properties

    def checkpoint_action(self, action):
        match action:
            case c.CreateLocation():
                self._begun(action)
            case c.TriggerTasks():
                self._triggered(action)
            case c.StoreMetadata():
                assert action.metadata.checkpoint_id not in self.ended
            case c.NotifyComplete():
                checkpoint = self.complete.get(action.checkpoint_id)
                assert checkpoint is not None, "F-3: told before it is complete"
                assert checkpoint.pointer in self.world.storage.published, "F-3: not durable"
                kind = checkpoint.properties.kind
                assert not kind.is_savepoint or kind in SYNCHRONOUS, "F2: a plain savepoint"
            case c.NotifyAborted():
                self._ended(action.checkpoint_id, "aborted")
            case c.RequestCompleted():
                self._completed(action)
            case c.RequestFailed():
                self.requests.pop(action.number, None)
            case c.DiscardCheckpoint():
                checkpoint_id = action.checkpoint.checkpoint_id
                assert checkpoint_id not in self.discarded, "deleted twice"
                self.discarded.add(checkpoint_id)
                kept = [x.checkpoint_id for x in self.world.coordinator.store.all]
                assert checkpoint_id not in kept

    def _begun(self, action):
        assert action.checkpoint_id > self.last_id, "ids increase"
        self.last_id = action.checkpoint_id
        pending = {x.checkpoint_id: x for x in self.world.coordinator.pending}
        if action.checkpoint_id in pending:
            request = pending[action.checkpoint_id].request
            self.under_way[action.checkpoint_id] = request.number
        self.world.note(f"checkpoint {action.checkpoint_id} begins: {action.properties.kind.name}")

    def _triggered(self, action):
        assert action.location in self.world.storage.directories
        for pending in self.world.coordinator.pending:
            if pending.checkpoint_id != action.checkpoint_id:
                continue
            for task in pending.plan.wait_for:
                current = self.graph.subtask(task.subtask).current
                assert current.attempt_id == task.attempt_id, "an attempt that is no more"
                assert current.state in (S.RUNNING, S.FINISHED), "a task that does not run"

    def _ended(self, checkpoint_id, how):
        assert checkpoint_id not in self.ended, "F-2: a checkpoint ended twice"
        self.ended[checkpoint_id] = how
        self.world.note(f"checkpoint {checkpoint_id} {how}")

    def _completed(self, action):
        checkpoint = action.checkpoint
        self._ended(checkpoint.checkpoint_id, "complete")
        self.requests.pop(action.number, None)
        self.complete[checkpoint.checkpoint_id] = checkpoint
        assert checkpoint.pointer in self.world.storage.published, "F-3: not durable"
        kind = checkpoint.properties.kind
        if not kind.is_savepoint:
            assert self.world.coordinator.store.latest is checkpoint, "F-3: not in the store"
        elif kind in SYNCHRONOUS:
            self.world.is_stopped_by_savepoint = True
        self._check_cut(checkpoint.metadata)

    def check_checkpoints(self):
        """F-1: pending checkpoints are within the limit, except for forced ones."""
        plain = [x for x in self.world.coordinator.pending if not x.request.properties.forced]
        assert len(plain) <= self.world.settings.max_concurrent, "F-1"

    def _check_cut(self, metadata):
        """F1: read and written records agree at both ends of every channel."""
        states, finished = {}, set()
        for vertex in self.graph.vertices.values():
            operator = metadata.operators.get(vertex.job_vertex.operators[0].id)
            for index in range(vertex.parallelism):
                if operator is not None and index in operator.finished_subtasks:
                    finished.add((vertex.id, index))
                    read, written = self.world.final[(self.world.shape, (vertex.id, index))]
                    nothing = [[] for _ in read], [[] for _ in written]
                    states[(vertex.id, index)] = (read, written, *nothing)
                    continue
                assert operator is not None, "an operator's state is missing"
                assert index in operator.subtasks, "F2: a subtask's state is missing"
                states[(vertex.id, index)] = self._counts(operator.subtasks[index], vertex, index)
        for vertex in self.graph.vertices.values():
            for index in range(vertex.parallelism):
                self._check_inputs(vertex, index, states)

    def _counts(self, state, vertex, index):
        stream = state.managed_operator[0].stream
        if isinstance(stream, ByteStreamHandle):
            data = stream.data
        else:
            assert stream.path in self.world.storage.files_by_path, f"F-15: {stream.path} is gone"
            data = self.world.storage.files_by_path[stream.path]
        owner, _, *counts = pickle.loads(data)
        assert owner == (vertex.id, index)
        return counts

    def _check_inputs(self, vertex, index, states):
        read, _, unread, _ = states[(vertex.id, index)]
        position = 0
        for gate, (_, result) in enumerate(vertex.inputs):
            for partition, subpartition in vertex.consumed(gate, index):
                producer = result.producer
                offset = 0
                for earlier in producer.results:
                    if earlier is result:
                        break
                    offset += len(earlier.consumers_of_partition(partition))
                _, written, _, overtaken = states[(producer.id, partition)]
                overtaken = overtaken[offset + subpartition]
                in_flight = unread[position] + overtaken
                self.unread += len(unread[position])
                self.overtaken += len(overtaken)
                written = written[offset + subpartition]
                if self.world.settings.is_exactly_once:
                    wanted = list(range(read[position] + 1, written + 1))
                    assert in_flight == wanted, "F-6, F-11, F-12: no consistent cut"
                else:
                    assert not in_flight
                    assert read[position] >= written, "a record would be lost"
                position += 1

    # Tasks --------------------------------------------------------------------------------------

    def committed(self, task, checkpoint_id):
        """F-4: notifications are in order; F-3: only for durable checkpoints."""
        assert checkpoint_id in self.complete, "F-3"
        assert self.told.get(task.attempt, -1) < checkpoint_id, "F-4"
        self.told[task.attempt] = checkpoint_id
        self.commits[task.id] = max(self.commits.get(task.id, -1), checkpoint_id)

    def restoring(self, action, latest):
        """Check that no task starts from before a checkpoint that was reported complete."""
        latest_id = -1 if latest is None else latest.checkpoint_id
        if latest is not None:
            assert latest.pointer in self.world.storage.published, "it was deleted"
        for subtask in action.subtasks:
            committed = self.commits.get(subtask, -1)
            if self.complete and self.world.is_stopped_by_savepoint:
                continue
            assert committed <= latest_id, f"restored from {latest_id}, committed {committed}"

    def snapshot_begins(self, task, barrier):
        """F-7, F-9 and F-10: once, in order, not after its abort, and not too early."""
        checkpoint_id = barrier.checkpoint_id
        if self.world.settings.is_exactly_once:
            assert self.begun.get(task.attempt, -1) < checkpoint_id, "F-7 or F-9"
            self.begun[task.attempt] = checkpoint_id
        if barrier.alignment is not Alignment.UNALIGNED:
            arrived = task.barriers.get(checkpoint_id, set()) | task.closed
            assert len(arrived) == len(task.inputs), "F-10: a channel's barrier has not come"

    def given_up(self, task, checkpoint_id):
        self.begun[task.attempt] = max(self.begun.get(task.attempt, -1), checkpoint_id)

    def channels_moved(self, task):
        """F-8 and F-9: channels stop only for a checkpoint whose snapshot is still to be taken."""
        begun = self.begun.get(task.attempt, -1)
        assert all(checkpoint_id > begun for checkpoint_id in task.blocked.values()), "F-8 or F-9"

    # The end ------------------------------------------------------------------------------------

    def check_end(self):
        assert not self.world.coordinator.pending
        for checkpoint_id in self.under_way:
            assert checkpoint_id in self.ended, "F-2: a checkpoint without an end"
        assert not self.requests, "a request without an answer"
        self.check_files()

    def check_files(self):
        """F-5 and F11: aborted and unretained checkpoints have left no file."""
        status = self.scheduler.status
        kept = set()
        for checkpoint_id, checkpoint in self.complete.items():
            if checkpoint_id not in self.discarded:
                kept.add(checkpoint.pointer)
                discard = checkpoint.is_discarded_at(status)
                assert not discard or checkpoint.properties.is_savepoint, "F11: not deleted"
        storage = self.world.storage
        assert set(storage.published) == kept
        assert storage.directories == kept, f"F-5: {storage.directories - kept} were left"
