"""The fate of a job if an action on its behalf fails."""

import threading
from types import SimpleNamespace

import pytest
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    ChannelStateHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
)
from penstock.checkpoint_storage.recovery import RecoverySource
from penstock.errors import InvalidProgramError
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.jobmaster.job_master import JobMaster
from penstock.jobmaster.local_job_gateway import LocalJobGateway
from penstock.jobmaster.main_thread import MainThread
from penstock.rpc import messages
from support.graphs import word_count
from support.patience import PATIENCE_S

ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 ms",
}


class Executors:
    """A ResourceManager of one TaskExecutor, which records the messages sent to it."""

    def __init__(self, broken=None):
        self.sent = []
        self.changed = threading.Condition()
        self.broken = broken
        self.executor = SimpleNamespace(
            executor_id="e", address=("127.0.0.1", 1), connection=self, code_sent=set()
        )
        self.executors = {"e": self.executor}

    def send(self, message):
        if isinstance(message, self.broken or ()):
            raise ArithmeticError("not sent")
        with self.changed:
            self.sent.append(message)
            self.changed.notify_all()

    def waited(self, kind, number):
        """Wait for a number of messages, and return them."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.of(kind)) >= number, PATIENCE_S)
            return self.of(kind)

    def of(self, kind):
        return [message for message in self.sent if isinstance(message, kind)]

    def slot_offered(self, *_): ...
    def declare(self, *_, **__): ...
    def forget_job(self, *_): ...


class Running:
    """A job master in its main thread."""

    def __init__(self, job, recovery=(), broken=None):
        self.errors, self.ended = [], threading.Event()
        self.resources = Executors(broken)
        self.thread = MainThread("the main thread of a test", self.errors.append)
        self.thread.start()
        self.user = self.thread.user(
            "calls of a job", 100, on_error=lambda error: self.master.broken(error)
        )
        self.gateway = LocalJobGateway(job.job_id, job.name, self.user, None, None, None)
        self.master = JobMaster(
            job,
            ClusterSettings.from_configuration({}),
            self.user,
            self.resources,
            self.gateway,
            lambda _: self.ended.set(),
            lambda: None,
            lambda _: None,
            recovery,
        )
        self.do(self.master.start)

    def do(self, action):
        self.user.call(action, PATIENCE_S)

    def offer(self, slots):
        offers = tuple(messages.SlotOffer(slot, bytes([slot]) * 16, 8) for slot in range(slots))
        message = messages.OfferSlots(self.master.job_id, "127.0.0.1", 1, offers)
        self.do(lambda: self.master.slots_offered(self.resources.executor, message))

    def fails(self, kind, words):
        """Wait for the job to fail with this exception."""
        assert self.ended.wait(PATIENCE_S)
        self.gateway.complete()
        with pytest.raises(kind, match=words):
            self.gateway.result()

    def close(self):
        self.thread.close()
        assert self.errors == []


def in_flight_where_nobody_can_spread_it():
    """A checkpointing job that starts from in-flight data at a custom partitioner."""
    job = word_count(parallelism=2).job_graph(job_id=bytes(16))
    job.configuration.update(ADAPTIVE)
    vertex = next(v for v in job.vertices.values() if v.inputs)
    vertex.inputs[0].ship_strategy = "CUSTOM"
    [producer] = [v for v in job.vertices.values() if v.produced and v is not vertex][:1]
    found = ChannelStateHandle(0, 0, producer.parallelism, (0,), 5, ByteStreamHandle("b", b"b"))
    state = OperatorState(
        vertex.operators[0].id,
        vertex.parallelism,
        vertex.max_parallelism,
        vertex.name,
        subtasks={0: OperatorSubtaskState(input_channels=(found,))},
    )
    metadata = CheckpointMetadata(1, 0, {state.operator_id: state})
    return job, RecoverySource(metadata, "/nowhere", False, False)


def test_a_job_that_cannot_be_restored_fails_and_none_of_its_tasks_begins():
    """Method: an adaptive job is to start with fewer slots than its checkpoint requires."""
    job, source = in_flight_where_nobody_can_spread_it()
    running = Running(job, [source])
    try:
        running.offer(1)
        running.fails(InvalidProgramError, "does not say where it belongs")
        assert running.resources.of(messages.SubmitTask) == []
    finally:
        running.close()


@pytest.mark.parametrize("kind", [messages.SubmitTask, messages.AcceptSlots, messages.CodeChunk])
def test_a_job_for_which_something_cannot_be_done_fails_with_that(kind):
    running = Running(word_count(parallelism=2).job_graph(), broken=kind)
    try:
        running.offer(2)
        running.fails(ArithmeticError, "not sent")
        assert running.resources.of(messages.SubmitTask) == []
    finally:
        running.close()


def test_a_job_that_is_broken_fails_when_its_tasks_have_ended():
    running = Running(word_count(parallelism=2).job_graph())
    try:
        running.offer(2)
        running.user.post(lambda: [][0])
        running.do(lambda: None)
        cancelled = running.resources.of(messages.CancelTask)
        assert len(cancelled) == len(running.resources.of(messages.SubmitTask)) > 0
        for task in cancelled:
            update = messages.UpdateTaskState(running.master.job_id, task.attempt_id, "CANCELED")
            running.do(
                lambda update=update: running.master.task_state_reported(
                    running.resources.executor, update
                )
            )
        running.fails(IndexError, "out of range")
    finally:
        running.close()


def test_state_travels_in_the_deployment_and_is_kept_by_nobody_else():
    """Method: a job starts from a checkpoint, fails once, and starts from it again."""
    job = word_count(parallelism=2).job_graph(job_id=bytes(16))
    job.configuration["restart-strategy.type"] = "fixed-delay"
    job.configuration["restart-strategy.fixed-delay.delay"] = "0 ms"
    vertex = next(v for v in job.vertices.values() if v.inputs)
    operator = vertex.operators[0].id
    parts = {
        subtask: OperatorSubtaskState(managed_operator=(operator_state(bytes([subtask])),))
        for subtask in range(2)
    }
    state = OperatorState(
        operator, vertex.parallelism, vertex.max_parallelism, vertex.name, subtasks=parts
    )
    source = RecoverySource(CheckpointMetadata(3, 0, {operator: state}), "/nowhere", False, False)
    running = Running(job, [source])
    graph = running.master._scheduler.graph
    count = len(list(graph.subtasks()))
    try:
        running.offer(2)
        for first in (0, count):
            tasks = [
                message.descriptor
                for message in running.resources.waited(messages.SubmitTask, first + count)
            ][first:]
            assert len(tasks) == count
            for task in tasks:
                if task.vertex_id == vertex.id:
                    assert task.restored.checkpoint_id == 3
                    assert task.restored.state.operators[operator] == parts[task.subtask]
            kept = [subtask.current.restored for subtask in graph.subtasks()]
            assert kept == [None] * count
            assert graph.subtask((vertex.id, 0)).current.restored_from == 3
            if first == 0:
                fail_all(running, tasks)
    finally:
        running.close()


def operator_state(data):
    return OperatorStateHandle(
        {"state": PartitionableState("split", (0,))}, ByteStreamHandle("s", data)
    )


def fail_all(running, tasks):
    """Let one task fail; the others end as they are told."""
    failure = messages.TaskFailure("app", "Boom", "boom", "", "", -1)
    for number, task in enumerate(tasks):
        end = ("CANCELED", None) if number else ("FAILED", failure)
        update = messages.UpdateTaskState(running.master.job_id, task.attempt_id, *end)
        running.do(
            lambda update=update: running.master.task_state_reported(
                running.resources.executor, update
            )
        )
