"""The coordinator of a source: readers, splits, and the readers that get splits back."""

import threading

import pytest
from penstock.datastream.connectors import SplitEnumerator
from penstock.jobmaster.sources.source_coordinator import Reader, SourceCoordinator
from penstock.rpc import messages
from penstock.serialization.codec import codec_for
from support.patience import PATIENCE_S

JOB, OPERATOR = b"j" * 16, b"o" * 16


class Recorder(SplitEnumerator):
    def __init__(self, context):
        self.context = context
        self.calls = []
        self.closed = threading.Event()

    def start(self):
        self.calls.append(("start", self.context.current_parallelism()))

    def add_reader(self, subtask_id):
        self.calls.append(("add_reader", subtask_id, sorted(self.context.registered_readers())))

    def handle_split_request(self, subtask_id, requester_hostname):
        self.calls.append(("request", subtask_id, requester_hostname))
        self.context.assign_splits({subtask_id: ["a", "b"]})
        self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits, subtask_id):
        self.calls.append(("back", splits, subtask_id))

    def close(self):
        self.closed.set()


class Source:
    def create_enumerator(self, context):
        self.enumerator = Recorder(context)
        return self.enumerator


class Coordinated:
    """A coordinator; each event waits until its thread is idle."""

    def __init__(self):
        self.source = Source()
        self.failures = []
        self.sent = []
        self.coordinator = SourceCoordinator(JOB, OPERATOR, self.source, 2, self.failures.append)
        self.coordinator.start()

    def settle(self):
        self.coordinator.thread.call(lambda: None, 10)

    def reader(self, attempt):
        return Reader(attempt.encode(), "host", lambda message: self.sent.append(message))

    def receive(self, kind, subtask, attempt):
        message = kind(JOB, attempt.encode(), OPERATOR)
        self.coordinator.received(subtask, self.reader(attempt), message)
        self.settle()

    def take(self):
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def coordinated():
    made = Coordinated()
    yield made
    made.coordinator.close()
    assert made.source.enumerator.closed.wait(PATIENCE_S)


def test_splits_of_a_lost_reader_return_and_its_late_messages_are_dropped(coordinated):
    coordinated.settle()
    enumerator = coordinated.source.enumerator
    coordinated.receive(messages.RequestSplit, 1, "first")
    assert enumerator.calls == [("start", 2)]
    coordinated.receive(messages.ReaderRegistration, 1, "first")
    coordinated.receive(messages.RequestSplit, 1, "first")
    encode = codec_for(None).encode
    assert coordinated.take() == [
        messages.AddSplits(b"first", OPERATOR, (encode("a"), encode("b"))),
        messages.NoMoreSplits(b"first", OPERATOR),
    ]
    coordinated.coordinator.subtask_reset(1)
    coordinated.receive(messages.RequestSplit, 1, "first")
    coordinated.receive(messages.ReaderRegistration, 1, "second")
    coordinated.receive(messages.RequestSplit, 1, "first")
    assert enumerator.calls[1:] == [
        ("add_reader", 1, [1]),
        ("request", 1, "host"),
        ("back", ["a", "b"], 1),
        ("add_reader", 1, [1]),
    ]
    assert coordinated.take() == []
    assert coordinated.failures == []


def test_assigning_to_a_reader_that_is_not_there_fails_the_job(coordinated, caplog):
    """The program raises the error: its traceback is in the log for debugging alone."""
    caplog.set_level("DEBUG")
    coordinated.coordinator.thread.post(lambda: coordinated.coordinator.assign({0: ["a"]}))
    coordinated.settle()
    assert [str(error) for error in coordinated.failures] == [
        "subtask 0 has no registered reader; registered are []"
    ]
    assert {record.levelname for record in caplog.records if record.exc_info} == {"DEBUG"}


def test_many_splits_travel_in_several_messages(coordinated, monkeypatch):
    monkeypatch.setattr(messages, "CODE_CHUNK_BYTES", 100)
    coordinated.receive(messages.ReaderRegistration, 0, "r")
    splits = ["x" * 40, "y" * 40, "z" * 200]
    coordinated.coordinator.thread.post(lambda: coordinated.coordinator.assign({0: splits}))
    coordinated.settle()
    decode = codec_for(None).decode
    found = [[decode(split) for split in message.splits] for message in coordinated.take()]
    assert found == [splits[:2], splits[2:]]


def test_a_reset_makes_a_new_enumerator_and_forgets_the_old_one(coordinated):
    """A failed enumerator gets no more calls; its successor gets no results of its async calls."""
    coordinated.settle()
    old = coordinated.source.enumerator
    coordinated.receive(messages.ReaderRegistration, 0, "first")
    coordinated.receive(messages.RequestSplit, 0, "first")
    called, answer = threading.Event(), threading.Event()

    def call():
        called.set()
        answer.wait(PATIENCE_S)

    def fail():
        raise LookupError("no splits today")

    thread = coordinated.coordinator.thread
    thread.call(lambda: old.context.call_async(call, lambda *found: old.calls.append(found)), 10)
    assert called.wait(PATIENCE_S)
    old.context.run_in_coordinator_thread(fail)
    coordinated.settle()
    assert [str(failure) for failure in coordinated.failures] == ["no splits today"]
    calls = list(old.calls)
    coordinated.receive(messages.RequestSplit, 0, "first")
    coordinated.coordinator.subtask_reset(0)
    coordinated.coordinator.reset()
    answer.set()
    coordinated.settle()
    assert old.closed.is_set()
    assert coordinated.source.enumerator is not old
    coordinated.receive(messages.RequestSplit, 0, "first")
    coordinated.receive(messages.ReaderRegistration, 0, "second")
    assert coordinated.source.enumerator.calls == [("start", 2), ("add_reader", 0, [0])]
    assert old.calls == calls
