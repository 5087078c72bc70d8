"""Sinks that commit with checkpoints: the writer's part, and the committer's (internals M64).

Goal: a committable is committed after a checkpoint that holds it is complete and not before, at
least once, whatever fails; a committer's signals have their effect.  Method: each operator in a
harness, with a committer that stores its requests.
"""

import dataclasses
import threading

import pytest
from penstock.common import exception_deadline
from penstock.datastream.connectors import (
    CommittableSummary,
    CommittableWithLineage,
    Committer,
    CommittingSinkWriter,
    PythonSink,
    SinkWriter,
    StatefulSinkWriter,
    SupportsCommitter,
    SupportsWriterState,
)
from penstock.errors import SerializationError, SinkError
from penstock.graph import operators
from penstock.taskexecutor.state.snapshots.snapshot_contents import EncodedValues
from penstock.taskexecutor.task.blame import blamed_position
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute

CHECKPOINTS = {"execution.checkpointing.interval": "1 h"}
END = 2**63 - 1


class Keeping(Committer):
    """Stores committed values; ``react`` handles each request."""

    def __init__(self, react=None):
        self.react = react
        self.calls = []
        self.closed = 0

    def commit(self, requests):
        self.calls.append([request.get_committable() for request in requests])
        for request in requests if self.react is not None else ():
            self.react(request)

    def close(self):
        self.closed += 1


class CommitterHarness:
    """The operator of a committer."""

    def __init__(self, committer, snapshot=None, configuration=CHECKPOINTS):
        self.contexts = []
        outer = self

        class Sink(PythonSink, SupportsCommitter):
            def create_writer(self, context):
                raise NotImplementedError

            def create_committer(self, context):
                outer.contexts.append(context)
                return committer

        self.test = OneInputStreamOperatorTestHarness(
            operators.SinkCommitter(Sink()), configuration=configuration
        )
        self.test.initialize_state(snapshot)
        self.test.open()

    def take(self, checkpoint_id, *committables):
        self.test.process_element(CommittableSummary(0, 1, checkpoint_id, len(committables)))
        for committable in committables:
            self.test.process_element(CommittableWithLineage(committable, checkpoint_id, 0))


def test_commits_when_the_checkpoint_is_complete():
    committer = Keeping()
    harness = CommitterHarness(committer)
    harness.take(1, "a", "b")
    harness.test.snapshot(1)
    harness.take(2, "c")
    assert committer.calls == []
    harness.test.notify_checkpoint_complete(1)
    assert committer.calls == [["a", "b"]]
    harness.test.notify_checkpoint_complete(1)
    harness.test.snapshot(2)
    harness.test.notify_checkpoint_complete(2)
    assert committer.calls == [["a", "b"], ["c"]]
    harness.test.close()
    assert committer.closed == 1


def test_a_later_checkpoint_commits_what_earlier_ones_held():
    committer = Keeping()
    harness = CommitterHarness(committer)
    for number, committable in enumerate("abc", 1):
        harness.take(number, committable)
        harness.test.snapshot(number)
    harness.test.notify_checkpoint_aborted(1)
    harness.test.notify_checkpoint_complete(2)
    assert committer.calls == [["a", "b"]]


def test_committables_outside_of_snapshots_are_not_committed():
    """Even if its checkpoint has a smaller number than the completed one."""
    committer = Keeping()
    harness = CommitterHarness(committer)
    harness.take(1, "late")
    harness.test.notify_checkpoint_complete(1)
    assert committer.calls == []
    harness.test.snapshot(2)
    harness.test.notify_checkpoint_complete(2)
    assert committer.calls == [["late"]]


def test_committables_of_a_restored_checkpoint_are_committed_once_more():
    harness = CommitterHarness(Keeping())
    harness.take(4, "a")
    snapshot = harness.test.snapshot(4)
    committer = Keeping()
    harness = CommitterHarness(committer, snapshot)
    assert committer.calls == [["a"]]
    assert harness.contexts[0].get_restored_checkpoint_id() == 4
    harness.test.snapshot(5)
    harness.test.notify_checkpoint_complete(5)
    assert committer.calls == [["a"]]


def test_a_commit_that_fails_is_done_again_after_the_restart():
    def fail(_):
        raise OSError("no connection")

    harness = CommitterHarness(Keeping(fail))
    harness.take(1, "a")
    snapshot = harness.test.snapshot(1)
    with pytest.raises(OSError, match="no connection") as caught:
        harness.test.notify_checkpoint_complete(1)
    assert blamed_position(caught.value, [harness.test.operator]) == 0
    with pytest.raises(OSError, match="no connection"):
        CommitterHarness(Keeping(fail), snapshot)
    committer = Keeping()
    CommitterHarness(committer, snapshot)
    assert committer.calls == [["a"]]


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {**CHECKPOINTS, "execution.runtime-mode": "BATCH"},
        {**CHECKPOINTS, "execution.checkpointing.checkpoints-after-tasks-finish": "false"},
    ],
)
def test_without_a_last_checkpoint_the_end_of_input_commits(configuration):
    committer = Keeping()
    harness = CommitterHarness(committer, configuration=configuration)
    harness.take(END, "a")
    harness.test.end_input()
    assert committer.calls == [["a"]]


def test_the_last_checkpoint_commits_what_came_at_the_end():
    committer = Keeping()
    harness = CommitterHarness(committer)
    harness.take(END, "a")
    harness.test.end_input()
    harness.test.notify_checkpoint_complete(1)
    assert committer.calls == []
    harness.test.snapshot(2)
    harness.test.notify_checkpoint_complete(2)
    assert committer.calls == [["a"]]


def commit(react, configuration=CHECKPOINTS):
    committer = Keeping(react)
    harness = CommitterHarness(committer, configuration=configuration)
    harness.take(1, "a", "b")
    harness.test.snapshot(1)
    harness.test.notify_checkpoint_complete(1)
    return committer.calls


def test_commits_are_retried_on_request():
    tries = []

    def retry(request):
        tries.append(request.get_number_of_retries())
        if request.get_committable() == "a" and request.get_number_of_retries() == 0:
            request.retry_later()
        elif request.get_committable() == "a":
            request.update_and_retry_later("A")

    assert commit(retry) == [["a", "b"], ["a"], ["A"]]
    assert tries == [0, 0, 1, 2]


def test_retries_come_to_an_end():
    calls = []

    def retry(request):
        calls.append(request.get_committable())
        request.retry_later()

    with pytest.raises(SinkError, match=r"2 commits were put off 4 times.*sink\.committer\.retr"):
        commit(retry, {**CHECKPOINTS, "sink.committer.retries": "3"})
    assert calls == ["a", "b"] * 4


class Mute:
    answered = threading.Event()

    def __repr__(self):
        self.answered.wait()
        return "too late"


def test_the_text_of_a_committable_has_a_deadline(monkeypatch, caplog):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", 0.01)
    monkeypatch.setattr(Mute, "answered", threading.Event())

    def drop(request):
        if isinstance(request.get_committable(), Mute):
            request.signal_failed_with_known_reason(ValueError("why"))
        else:
            request.update_and_retry_later(Mute())

    try:
        with pytest.raises(SinkError, match="first of them <Mute: its __repr__ does not return>"):
            commit(lambda request: request.update_and_retry_later(Mute()))
        commit(drop)
    finally:
        Mute.answered.set()
    assert "commit of <Mute: its __repr__ does not return>: " in caplog.text


def test_a_known_failure_is_logged_and_an_unknown_one_fails(caplog):
    assert commit(lambda r: r.signal_failed_with_known_reason(ValueError("why"))) == [["a", "b"]]
    assert "dropped the commit of 'a': ValueError('why')" in caplog.text
    with pytest.raises(SinkError, match="cannot commit 'a'") as caught:
        commit(lambda r: r.signal_failed_with_unknown_reason(ValueError("why")))
    assert repr(caught.value.__cause__) == "ValueError('why')"
    assert commit(lambda r: r.signal_already_committed()) == [["a", "b"]]


def test_committables_are_spread_when_the_parallelism_changes():
    snapshots = []
    for committables in (["a"], ["b", "c"]):
        harness = CommitterHarness(Keeping())
        harness.take(1, *committables)
        snapshots.append(harness.test.snapshot(1))
    committed = []
    for snapshot in redistribute(snapshots, 3):
        committer = Keeping()
        CommitterHarness(committer, snapshot)
        committed += [committable for call in committer.calls for committable in call]
    assert sorted(committed) == ["a", "b", "c"]


@pytest.mark.parametrize("kept", [(1, 0, "a"), (2, 1, 0, "a", "b"), "a"])
def test_committables_of_another_form_are_refused_in_words(kept):
    harness = CommitterHarness(Keeping())
    harness.take(1, "a")
    snapshot = harness.test.snapshot(1)
    lists = {name: EncodedValues.of([kept]) for name in snapshot.lists}
    committer = Keeping()
    with pytest.raises(SerializationError, match=r"a committable .*\bversion 1\b"):
        CommitterHarness(committer, dataclasses.replace(snapshot, lists=lists))
    assert committer.calls == []


def lose_one_of_two(harness, checkpoint_id=1):
    harness.test.process_element(CommittableSummary(0, 1, checkpoint_id, 2))
    harness.test.process_element(CommittableWithLineage("a", checkpoint_id, 0))


LOST = r"announced 2 committables for checkpoint 1, and 1 arrived.*add_pre_commit_topology"


def test_nothing_is_committed_while_announced_committables_are_missing():
    committer = Keeping()
    harness = CommitterHarness(committer)
    lose_one_of_two(harness)
    snapshot = harness.test.snapshot(1)
    with pytest.raises(SinkError, match=LOST):
        harness.test.notify_checkpoint_complete(1)
    with pytest.raises(SinkError, match=LOST):
        CommitterHarness(committer, snapshot)
    assert committer.calls == []


def test_a_lost_committable_without_any_other_is_noticed():
    committer = Keeping()
    harness = CommitterHarness(committer)
    harness.test.process_element(CommittableSummary(1, 2, 1, 1))
    harness.test.snapshot(1)
    with pytest.raises(SinkError, match=r"of the writer announced 1 .* and 0 arrived"):
        harness.test.notify_checkpoint_complete(1)


def test_committables_of_the_next_checkpoint_may_be_on_their_way():
    committer = Keeping()
    harness = CommitterHarness(committer)
    harness.take(1, "a")
    harness.test.snapshot(1)
    harness.test.process_element(CommittableSummary(0, 1, 2, 1))
    harness.test.notify_checkpoint_complete(1)
    assert committer.calls == [["a"]]
    harness.test.process_element(CommittableWithLineage("b", 2, 0))
    harness.test.snapshot(2)
    harness.test.notify_checkpoint_complete(2)
    assert committer.calls == [["a"], ["b"]]


def test_the_end_of_the_input_refuses_as_well():
    committer = Keeping()
    harness = CommitterHarness(committer, configuration={})
    lose_one_of_two(harness, END)
    with pytest.raises(SinkError, match="announced 2 committables for its end"):
        harness.test.end_input()
    assert committer.calls == []


def test_anything_else_than_committables_is_refused():
    harness = CommitterHarness(Keeping())
    with pytest.raises(SinkError, match="needs committables, got 'a'"):
        harness.test.process_element("a")


# ---- writers -----------------------------------------------------------------------------------


class Writer(CommittingSinkWriter, StatefulSinkWriter):
    """Commits flushed elements; its state is the number of elements."""

    def __init__(self, count=0):
        self.count = count
        self.kept = []
        self.flushed = []

    def write(self, element, context):
        self.count += 1
        self.kept.append(element)

    def flush(self, end_of_input):
        self.flushed += self.kept
        self.kept = ["end"] if end_of_input else []

    def prepare_commit(self):
        prepared, self.flushed = self.flushed, []
        return ["".join(prepared)] if prepared else []

    def snapshot_state(self, checkpoint_id):
        return [(checkpoint_id, self.count)]


class WriterSink(PythonSink, SupportsCommitter, SupportsWriterState):
    def create_writer(self, context):
        assert context.get_restored_checkpoint_id() is None
        return Writer()

    def restore_writer(self, context, recovered_state):
        assert context.get_restored_checkpoint_id() == 2
        assert list(recovered_state) == [(2, 3)]
        return Writer(sum(count for _, count in recovered_state))

    def create_committer(self, context):
        raise NotImplementedError


def test_a_writer_emits_committables_at_barriers_and_at_the_end():
    descriptor = operators.SinkWriter(WriterSink())
    with OneInputStreamOperatorTestHarness(descriptor, subtask=1, parallelism=2) as test:
        test.process_element("a")
        test.process_element("b")
        test.snapshot(1)
        test.process_element("c")
        snapshot = test.snapshot(2)
        test.end_input()
        test.snapshot(3)
        assert test.values == [
            CommittableSummary(1, 2, 1, 1),
            CommittableWithLineage("ab", 1, 1),
            CommittableSummary(1, 2, 2, 1),
            CommittableWithLineage("c", 2, 1),
            CommittableSummary(1, 2, END, 0),
        ]
    restored = OneInputStreamOperatorTestHarness(descriptor)
    restored.initialize_state(snapshot)
    restored.open()
    assert restored.operator.writer.count == 3
    restored.close()


class PlainWriter(SinkWriter):
    def write(self, element, context):
        pass

    def flush(self, end_of_input):
        pass


@pytest.mark.parametrize(
    ("supported", "wanted"),
    [(SupportsCommitter, "CommittingSinkWriter"), (SupportsWriterState, "StatefulSinkWriter")],
)
def test_a_writer_must_do_what_its_sink_says(supported, wanted):
    class Sink(PythonSink, supported):
        def create_writer(self, context):
            return PlainWriter()

        def restore_writer(self, context, recovered_state):
            raise NotImplementedError

        def create_committer(self, context):
            raise NotImplementedError

    harness = OneInputStreamOperatorTestHarness(operators.SinkWriter(Sink()))
    with pytest.raises(SinkError, match=f"create_writer must return a {wanted}"):
        harness.open()


def test_a_committer_must_be_one():
    class Sink(PythonSink, SupportsCommitter):
        def create_writer(self, context):
            raise NotImplementedError

        def create_committer(self, context):
            return lambda requests: None

    harness = OneInputStreamOperatorTestHarness(operators.SinkCommitter(Sink()))
    with pytest.raises(SinkError, match="create_committer must return a Committer"):
        harness.open()
