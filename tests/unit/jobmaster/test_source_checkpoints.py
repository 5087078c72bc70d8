"""Checkpoints of a source with splits: enumerator, readers and messages between them (M34).

Method: a coordinator with its thread and the operators of the readers in harnesses; messages are
delivered when the test says so.
"""

from collections import deque
from dataclasses import dataclass

import pytest
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    PythonSource,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.graph import operators
from penstock.jobmaster.sources.event_gateway import EventGateway
from penstock.jobmaster.sources.source_coordinator import Reader, SourceCoordinator
from penstock.jobmaster.sources.split_assignments import SplitAssignments
from penstock.taskexecutor.compiled import END_OF_DATA
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute
from support.patience import PATIENCE_S

JOB, OPERATOR = bytes(16), bytes(16)


@dataclass(frozen=True)
class Range(SourceSplit):
    start: int
    end: int

    def split_id(self):
        return f"{self.start}-{self.end}"


class Ranges(SplitEnumerator):
    def __init__(self, context, splits):
        self.context = context
        self.splits = deque(splits)
        self.notified = []

    def handle_split_request(self, subtask_id, requester_hostname):
        if self.splits:
            self.context.assign_split(self.splits.popleft(), subtask_id)
        else:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits, subtask_id):
        self.splits.extendleft(reversed(splits))

    def add_reader(self, subtask_id):
        pass

    def snapshot_state(self, checkpoint_id):
        return list(self.splits)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.notified.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.notified.append(("aborted", checkpoint_id))


class RangeReader(SourceReader):
    """Emits one number at a time; requests a split when it has none."""

    def __init__(self, context):
        self.context = context
        self.splits = []
        self.asked = self.ended = False

    def add_splits(self, splits):
        self.splits.extend(splits)
        self.asked = False

    def notify_no_more_splits(self):
        self.ended = True

    def poll_next(self, output):
        if not self.splits:
            if self.ended:
                return InputStatus.END_OF_INPUT
            if not self.asked:
                self.asked = True
                self.context.send_split_request()
            return InputStatus.NOTHING_AVAILABLE
        split = self.splits.pop(0)
        output.collect(split.start)
        if split.start < split.end:
            self.splits.insert(0, Range(split.start + 1, split.end))
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self, checkpoint_id):
        return list(self.splits)


class RangeSource(PythonSource):
    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context):
        self.enumerator = Ranges(enum_context, [Range(n, n + 3) for n in range(0, 40, 4)])
        return self.enumerator

    def restore_enumerator(self, enum_context, state):
        self.enumerator = Ranges(enum_context, state)
        return self.enumerator

    def create_reader(self, reader_context):
        return RangeReader(reader_context)


EVERYTHING = list(range(40))


class Job:
    """A coordinator and its readers; messages to these wait until they are delivered."""

    def __init__(self, parallelism):
        self.source = RangeSource()
        self.failures = []
        self.coordinator = SourceCoordinator(
            JOB, OPERATOR, self.source, parallelism, self.failures.append
        )
        self.coordinator.start()
        self.parallelism = parallelism
        self.attempts = 0
        self.readers = {}
        self.mails = {subtask: deque() for subtask in range(parallelism)}
        for subtask in range(parallelism):
            self.start(subtask)

    def start(self, subtask, snapshot=None):
        self.attempts += 1
        attempt = self.attempts.to_bytes(40, "big")
        mails = self.mails[subtask] = deque()
        reader = Reader(attempt, "host", mails.append)

        def send(message):
            self.coordinator.received(subtask, reader, message)
            self.settle()

        test = OneInputStreamOperatorTestHarness(
            operators.SplitSource(self.source),
            subtask=subtask,
            parallelism=self.parallelism,
            coordinator=lambda message: send(with_attempt(message, attempt)),
        )
        test.initialize_state(snapshot)
        test.open()
        self.readers[subtask] = test

    def settle(self):
        self.coordinator.thread.call(lambda: None, 10)

    def deliver(self, subtask):
        self.settle()
        while self.mails[subtask]:
            self.readers[subtask].operator.handle_operator_event(self.mails[subtask].popleft())

    def step(self, subtask, count=1):
        """Emit a limited number of records."""
        for _ in range(count):
            self.deliver(subtask)
            self.readers[subtask].operator.emit_next(1)
        self.settle()

    def run_to_end(self):
        for subtask, test in self.readers.items():
            while test.operator.emit_next(10) != END_OF_DATA:
                self.deliver(subtask)

    def stop(self, subtask):
        values = self.readers.pop(subtask)
        values.close()
        return values.values

    def stop_all(self):
        return [value for subtask in sorted(self.readers) for value in self.stop(subtask)]

    def close(self):
        self.stop_all()
        self.coordinator.close()
        assert self.failures == []


def with_attempt(message, attempt):
    return type(message)(
        **{
            name: attempt if name == "attempt_id" else getattr(message, name)
            for name in message.__struct_fields__
        }
    )


def checkpointed(job):
    """Return a whole checkpoint: the enumerator's state, then those of the readers."""
    state = job.coordinator.checkpoint(1).result(PATIENCE_S)
    # Between the two, subtask 0 continues: it may request a split, but must not see it yet.
    job.step(0, 1)
    # Messages that were sent before precede the message that triggers a reader's snapshot.
    job.deliver(1)
    snapshots = [job.readers[subtask].snapshot(1) for subtask in range(job.parallelism)]
    emitted = [value for test in job.readers.values() for value in test.values]
    job.coordinator.notify_checkpoint_complete(1)
    return state, snapshots, emitted


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("steps", [(0, 0), (1, 1), (3, 6), (9, 2), (30, 0)])
def test_the_whole_source_continues_from_a_checkpoint(parallelism, steps):
    """Splits that are assigned, in transit, requested, or none of these, at any parallelism."""
    job = Job(2)
    for subtask, count in enumerate(steps):
        job.step(subtask, count)
    state, snapshots, emitted = checkpointed(job)
    job.step(0, 7)
    job.close()
    again = Job(parallelism)
    again.stop_all()
    again.coordinator.reset(state)
    for subtask, snapshot in enumerate(redistribute(snapshots, parallelism)):
        again.start(subtask, snapshot)
    again.run_to_end()
    rest = again.stop_all()
    again.close()
    assert sorted(emitted + rest) == EVERYTHING


def test_a_reader_alone_continues_from_a_checkpoint():
    """Only splits that it got since then return; the enumerator keeps its state."""
    job = Job(2)
    job.step(0, 3)
    job.step(1, 6)
    _, snapshots, _ = checkpointed(job)
    emitted = job.readers[0].values
    job.step(0, 9)
    job.step(1, 1)
    job.stop(0)
    assigned = 40 // 4 - len(job.source.enumerator.splits)
    job.coordinator.subtask_reset(0, 1)
    job.settle()
    assert 40 // 4 - len(job.source.enumerator.splits) < assigned
    job.start(0, snapshots[0])
    job.run_to_end()
    found = emitted + job.stop_all()
    job.close()
    assert sorted(found) == EVERYTHING


def test_nothing_is_sent_between_the_snapshots_of_both_sides():
    job = Job(1)
    job.step(0, 2)
    job.coordinator.checkpoint(7).result(PATIENCE_S)
    job.step(0, 9)
    assert job.mails[0] == deque()
    assert job.readers[0].values == [0, 1, 2, 3]
    job.readers[0].snapshot(7)
    assert len(job.mails[0]) == 1
    job.coordinator.checkpoint(8).result(PATIENCE_S)
    job.step(0, 9)
    job.coordinator.notify_checkpoint_aborted(8)
    job.step(0, 1)
    assert job.readers[0].values == list(range(9))
    job.coordinator.notify_checkpoint_complete(7)
    job.settle()
    assert job.source.enumerator.notified == [("aborted", 8), ("complete", 7)]
    job.close()


def test_a_source_without_the_methods_says_which():
    class Forgetful(Ranges):
        def snapshot_state(self, checkpoint_id):
            return SplitEnumerator.snapshot_state(self, checkpoint_id)

    class Source(RangeSource):
        def create_enumerator(self, enum_context):
            return Forgetful(enum_context, [])

        def restore_enumerator(self, enum_context, state):
            return PythonSource.restore_enumerator(self, enum_context, state)

    failures = []
    coordinator = SourceCoordinator(JOB, OPERATOR, Source(), 1, failures.append)
    coordinator.start()
    with pytest.raises(NotImplementedError, match=r"Forgetful.snapshot_state: checkpoint 3"):
        coordinator.checkpoint(3).result(PATIENCE_S)
    coordinator.reset(coordinator.serializer.serialize(["rest"]))
    coordinator.thread.call(lambda: None, 10)
    assert "Source.restore_enumerator" in str(failures[0])
    coordinator.close()


def test_an_enumerator_that_failed_takes_no_checkpoint():
    job = Job(1)

    def fail():
        raise LookupError("no splits today")

    job.coordinator.thread.post(fail)
    with pytest.raises(RuntimeError, match="the enumerator of RangeSource has ended"):
        job.coordinator.checkpoint(1).result(PATIENCE_S)
    assert [str(failure) for failure in job.failures] == ["no splits today"]
    job.failures.clear()
    job.close()


def test_only_splits_that_the_checkpoint_does_not_cover_return():
    assignments = SplitAssignments()
    assignments.assigned(0, ["a"])
    assignments.checkpoint(1)
    assignments.assigned(0, ["b"])
    assignments.assigned(1, ["c"])
    assignments.checkpoint(2)
    assignments.assigned(0, ["d"])
    assignments.completed(1)
    assert assignments.take_back(0, 1) == ["b", "d"]
    assert assignments.take_back(0, 1) == []
    assert assignments.take_back(1, 2) == []
    assignments.assigned(1, ["e"])
    assignments.checkpoint(3)
    assert assignments.take_back(1, None) == ["e"]


def test_events_wait_for_all_checkpoints_that_overlap():
    sent = []
    gateway = EventGateway(sent.append)
    gateway.close(1)
    gateway.send("a")
    gateway.close(2)
    gateway.send("b")
    gateway.open(2)
    assert sent == []
    gateway.send("c")
    gateway.open(1)
    assert sent == ["a", "b", "c"]
    gateway.open(1)
    gateway.send("d")
    assert sent == ["a", "b", "c", "d"]
