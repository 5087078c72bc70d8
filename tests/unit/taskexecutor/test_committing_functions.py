"""TwoPhaseCommitSinkFunction and GenericWriteAheadSink (internals M64).

Goal: the subsuming contract: notifications may be lost, a complete checkpoint covers all earlier
ones, commits are repeated after a failure.  Method: the functions in harnesses, with an outside
system that is a list of events.
"""

import dataclasses

import pytest
from penstock.datastream.functions import (
    CheckpointCommitter,
    GenericWriteAheadSink,
    TwoPhaseCommitSinkFunction,
)
from penstock.errors import InvalidProgramError, SerializationError, SinkError
from penstock.graph import operators
from penstock.taskexecutor.state.snapshots.snapshot_contents import EncodedValues
from penstock.testing import OneInputStreamOperatorTestHarness

CHECKPOINTS = {"execution.checkpointing.interval": "1 h"}


class Transactions(TwoPhaseCommitSinkFunction):
    """Numbers its transactions, and records their fate."""

    def __init__(self, failing=(), first=1, context=None):
        self.log = []
        self.failing = failing
        self.next = first
        self.context = context

    def begin_transaction(self):
        number, self.next = self.next, self.next + 1
        self.log.append(("begin", number))
        return f"t{number}"

    def invoke(self, transaction, value, context):
        self.log.append((transaction, value, context.timestamp()))

    def pre_commit(self, transaction):
        self.log.append(("pre_commit", transaction))

    def commit(self, transaction):
        if transaction in self.failing:
            raise OSError(f"no commit of {transaction}")
        self.log.append(("commit", transaction))

    def abort(self, transaction):
        self.log.append(("abort", transaction))

    def recover_and_abort(self, transaction):
        self.log.append(("recover_and_abort", transaction))

    def initialize_user_context(self):
        return self.context

    def finish_recovering_context(self, handled_transactions):
        self.log.append(("recovered", self.get_user_context(), list(handled_transactions)))

    def finish_processing(self, transaction):
        self.log.append(("finish", transaction))

    def took(self):
        log, self.log = self.log, []
        return log


def started(function, snapshot=None, configuration=CHECKPOINTS):
    test = OneInputStreamOperatorTestHarness(
        operators.FunctionSink(function), configuration=configuration
    )
    test.initialize_state(snapshot)
    test.open()
    return test


def test_records_between_two_checkpoints_are_one_transaction():
    sink = Transactions()
    test = started(sink)
    test.process_element("a", 5)
    test.snapshot(1)
    test.process_element("b")
    assert sink.current_transaction() == "t2"
    assert sink.pending_transactions() == [(1, "t1")]
    test.notify_checkpoint_complete(1)
    test.notify_checkpoint_complete(1)
    test.close()
    assert sink.took() == [
        ("begin", 1),
        ("t1", "a", 5),
        ("pre_commit", "t1"),
        ("begin", 2),
        ("t2", "b", None),
        ("commit", "t1"),
        ("abort", "t2"),
    ]


def test_a_checkpoint_commits_those_of_lost_notifications_too_in_their_order():
    sink = Transactions()
    test = started(sink)
    for number in (1, 2, 3):
        test.snapshot(number)
    sink.took()
    test.notify_checkpoint_complete(2)
    assert sink.took() == [("commit", "t1"), ("commit", "t2")]


def test_all_are_tried_before_the_first_error_is_raised():
    sink = Transactions(failing=("t1", "t3"))
    test = started(sink)
    for number in (1, 2, 3):
        test.snapshot(number)
    sink.took()
    with pytest.raises(SinkError, match="Transactions could not commit: no commit of t1") as caught:
        test.notify_checkpoint_complete(3)
    assert isinstance(caught.value.__cause__, OSError)
    assert sink.took() == [("commit", "t2")]


def test_a_restart_commits_what_was_durable_and_aborts_what_was_open():
    sink = Transactions(context="names")
    test = started(sink)
    test.snapshot(1)
    snapshot = test.snapshot(2)
    sink = Transactions(first=10)
    started(sink, snapshot)
    assert sink.took() == [
        ("commit", "t1"),
        ("commit", "t2"),
        ("recover_and_abort", "t3"),
        ("recovered", "names", ["t1", "t2", "t3"]),
        ("begin", 10),
    ]
    assert sink.get_user_context() == "names"


def test_the_end_of_input_begins_no_transaction():
    sink = Transactions()
    test = started(sink)
    test.process_element("a")
    test.end_input()
    test.snapshot(1)
    test.notify_checkpoint_complete(1)
    test.close()
    assert sink.took()[2:] == [("finish", "t1"), ("pre_commit", "t1"), ("commit", "t1")]


@pytest.mark.parametrize(
    "configuration",
    [{}, {**CHECKPOINTS, "execution.checkpointing.checkpoints-after-tasks-finish": "false"}],
)
def test_without_a_last_checkpoint_the_end_commits(configuration):
    sink = Transactions()
    test = started(sink, configuration=configuration)
    test.snapshot(1)
    test.end_input()
    test.close()
    assert sink.took()[3:] == [
        ("finish", "t2"),
        ("pre_commit", "t2"),
        ("commit", "t1"),
        ("commit", "t2"),
    ]


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now_ns = 0

        def time_ns(self):
            return self.now_ns

    clock = Clock()
    monkeypatch.setattr("penstock.datastream.functions.two_phase_commit.time", clock)
    return clock


@pytest.mark.parametrize(("age_ms", "is_warned"), [(800, False), (801, True)])
def test_old_transactions_are_warned_of(clock, caplog, age_ms, is_warned):
    sink = Transactions()
    sink.set_transaction_timeout(1000).enable_transaction_timeout_warnings(0.8)
    test = started(sink)
    test.snapshot(1)
    clock.now_ns = age_ms * 1_000_000
    test.notify_checkpoint_complete(1)
    assert ("'t1' has been open for 801 ms" in caplog.text) is is_warned


@pytest.mark.parametrize("age_ms", [1000, 1001])
def test_failures_of_recovered_transactions_are_ignored_beyond_their_timeout(clock, caplog, age_ms):
    test = started(Transactions())
    snapshot = test.snapshot(1)
    clock.now_ns = age_ms * 1_000_000
    sink = Transactions(failing=("t1",), first=10)
    sink.set_transaction_timeout(1000).ignore_failures_after_transaction_timeout()
    if age_ms > 1000:
        started(sink, snapshot)
        assert "'t1' is 1001 ms old, beyond its timeout of 1000 ms" in caplog.text
        assert sink.took() == [("recover_and_abort", "t2"), ("begin", 10)]
    else:
        with pytest.raises(OSError, match="no commit of t1"):
            started(sink, snapshot)


@pytest.mark.parametrize("sink", [Transactions, lambda: Sending(Outside())])
def test_state_of_another_form_is_refused_in_words(sink):
    test = started(sink())
    snapshot = test.snapshot(1)
    lists = {name: EncodedValues.of([(7, "of a later release")]) for name in snapshot.lists}
    with pytest.raises(SerializationError, match=r"the state of a \w+ was written in version 7"):
        started(sink(), dataclasses.replace(snapshot, lists=lists))


def test_wrong_settings_are_refused():
    sink = Transactions()
    with pytest.raises(InvalidProgramError, match="must be positive, got 0 ms"):
        sink.set_transaction_timeout(0)
    with pytest.raises(InvalidProgramError, match=r"between 0 and 1, got 1\.5"):
        sink.enable_transaction_timeout_warnings(1.5)
    sink.enable_transaction_timeout_warnings(0.5)
    with pytest.raises(InvalidProgramError, match="call set_transaction_timeout"):
        started(sink)


# ---- write ahead -------------------------------------------------------------------------------


class Outside(CheckpointCommitter):
    """The outside system: the records sent to it, and the checkpoints that it knows."""

    def __init__(self):
        self.sent = []
        self.committed = set()
        self.is_open = False

    def open(self):
        self.is_open = True

    def close(self):
        self.is_open = False

    def commit_checkpoint(self, subtask_idx, checkpoint_id):
        self.committed.add((subtask_idx, checkpoint_id))

    def is_checkpoint_committed(self, subtask_idx, checkpoint_id):
        return (subtask_idx, checkpoint_id) in self.committed


class Sending(GenericWriteAheadSink):
    def __init__(self, outside, answers=()):
        super().__init__(outside, "job")
        self.outside = outside
        self.answers = list(answers)

    def send_values(self, values, checkpoint_id, timestamp):
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        if answer:
            self.outside.sent.append((checkpoint_id, list(values)))
        return answer


def test_values_are_sent_when_their_checkpoint_is_complete():
    outside = Outside()
    test = started(Sending(outside))
    assert (outside.is_open, outside.job_id) == (True, "job")
    for number in (1, 2, 3):
        test.process_element(number)
        test.snapshot(number)
    assert outside.sent == []
    test.notify_checkpoint_complete(2)
    assert outside.sent == [(1, [1]), (2, [2])]
    assert outside.committed == {(0, 1), (0, 2)}
    test.close()
    assert not outside.is_open


@pytest.mark.parametrize("answer", [False, OSError("no connection")])
def test_unsent_transactions_wait_and_hold_up_later_ones(caplog, answer):
    outside = Outside()
    test = started(Sending(outside, [answer]))
    for number in (1, 2):
        test.process_element(number)
        test.snapshot(number)
    test.notify_checkpoint_complete(2)
    assert outside.sent == []
    assert "could not send the records of checkpoint 1" in caplog.text
    test.snapshot(3)
    test.notify_checkpoint_complete(3)
    assert outside.sent == [(1, [1]), (2, [2])]


def test_a_restart_commits_what_the_outside_system_has_not_received():
    outside = Outside()
    test = started(Sending(outside))
    for number in (1, 2):
        test.process_element(number)
        snapshot = test.snapshot(number)
    test.notify_checkpoint_complete(1)
    test = started(Sending(outside), snapshot)
    test.snapshot(3)
    test.notify_checkpoint_complete(3)
    assert outside.sent == [(1, [1]), (2, [2])]


def test_values_that_cannot_be_sent_at_the_end_fail_the_job():
    test = started(Sending(Outside(), [False]))
    test.process_element(1)
    test.end_input()
    test.snapshot(1)
    with pytest.raises(
        SinkError, match="could not send the records of checkpoint 1, and the input has ended"
    ):
        test.notify_checkpoint_complete(1)


def test_values_are_sent_at_the_end_of_a_job_without_checkpoints():
    outside = Outside()
    test = started(Sending(outside), configuration={})
    test.process_element(1)
    test.end_input()
    assert [values for _, values in outside.sent] == [[1]]
