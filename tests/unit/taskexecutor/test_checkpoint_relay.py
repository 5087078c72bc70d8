"""The order in which a worker notifies its tasks of checkpoints and sends their reports."""

import queue
import threading

from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    CheckpointMetrics,
    OperatorStateHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.rpc.messages import (
    AcknowledgeCheckpoint,
    AcknowledgeCheckpointEvent,
    AcknowledgeCheckpoints,
    DeclineCheckpoint,
    NotifyCheckpointComplete,
    driver_decoder,
)
from penstock.taskexecutor.worker.checkpoint_relay import AT_A_TIME, relay
from penstock.taskexecutor.worker.checkpoint_reports import CheckpointReports, encode_held
from support.patience import PATIENCE_S

MESSAGE = NotifyCheckpointComplete((), 1)
TASKS = 20


class Tasks:
    """Tasks whose threads handle one message after the other; counts how many are awake."""

    def __init__(self):
        self.told = queue.SimpleQueue()
        self.now = self.most = 0

    def handle_checkpoint_message(self, message, handled):
        assert message is MESSAGE
        self.now += 1
        self.most = max(self.most, self.now)
        self.told.put(handled)
        return True

    def run(self):
        for _ in range(TASKS):
            handled = self.told.get()
            self.now -= 1
            handled()


class Busy:
    """Tasks in the middle of a long operation, or not running."""

    def __init__(self, *, takes):
        self.told = 0
        self.takes = takes

    def handle_checkpoint_message(self, message, handled):
        del message, handled
        self.told += 1
        return self.takes


def test_all_tasks_are_notified_and_few_are_awake_at_a_time():
    tasks = Tasks()
    thread = threading.Thread(target=tasks.run)
    thread.start()
    relay(MESSAGE, [tasks] * TASKS, patience_s=60)
    thread.join()
    assert tasks.told.empty()
    assert tasks.now == 0
    assert tasks.most <= AT_A_TIME


def test_tasks_that_are_busy_or_do_not_run_hold_up_nobody():
    for takes in (True, False):
        busy = Busy(takes=takes)
        relay(MESSAGE, [busy] * TASKS)
        assert busy.told == TASKS


def test_tasks_that_come_on_slowly_do_not_hold_up_the_others():
    """Each is busy for about as long as the notifying thread waits for a few of them."""

    class Slow:
        def __init__(self):
            self.told = 0
            self.first = threading.Event()

        def handle_checkpoint_message(self, message, handled):
            del message
            self.told += 1
            if self.told == 1:
                threading.Thread(target=self.come_on, args=[handled]).start()
            return True

        def come_on(self, handled):
            self.first.wait(PATIENCE_S)
            handled()

    slow = Slow()
    relay(MESSAGE, [slow] * TASKS)
    assert slow.told == TASKS
    slow.first.set()


def test_a_task_that_has_handled_it_tells_the_next_one():
    told = []
    threads = []
    first_are_told = threading.Event()

    class Told:
        def handle_checkpoint_message(self, message, handled):
            del message
            told.append((self, threading.current_thread()))
            if len(told) > AT_A_TIME:
                return False
            threads.append(thread := threading.Thread(target=handle, args=[handled]))
            thread.start()
            if len(told) == AT_A_TIME:
                first_are_told.set()
            return True

    def handle(handled):
        first_are_told.wait()
        handled()

    relay(MESSAGE, [Told() for _ in range(TASKS)], patience_s=60)
    for thread in threads:
        thread.join()
    assert len({task for task, _ in told}) == len(told) == TASKS
    assert threading.current_thread() not in [thread for _, thread in told[AT_A_TIME:]]


def acknowledged(checkpoint_id, job=b"job"):
    return AcknowledgeCheckpoint(job, b"attempt", checkpoint_id, CheckpointMetrics())


def test_reports_wait_for_that_of_the_last_task():
    reports = CheckpointReports()
    for _ in range(3):
        reports.task_begins(b"job")
    reports.task_begins(b"other")
    assert [reports.may_wait(acknowledged(1)) for _ in range(3)] == [True, True, False]
    assert not reports.may_wait(acknowledged(1, b"other"))
    assert [reports.may_wait(acknowledged(2)) for _ in range(2)] == [True, True]
    reports.task_ended(b"job")
    assert not reports.may_wait(acknowledged(2)), "there are two tasks, which have reported"
    assert not reports.may_wait(acknowledged(1)), "nobody counts for an older checkpoint"


def test_only_reports_of_checkpoints_wait():
    reports = CheckpointReports()
    for _ in range(3):
        reports.task_begins(b"job")
    assert reports.may_wait(AcknowledgeCheckpointEvent(b"job", b"attempt", b"operator", 1))
    assert not reports.may_wait(DeclineCheckpoint(b"job", b"attempt", 1, "EXPIRED"))
    for _ in range(3):
        reports.task_ended(b"job")
    assert not reports.may_wait(acknowledged(1))


def decoded(held):
    decoder = driver_decoder()
    return [decoder.decode(body) for body in encode_held(held)]


def report(number, checkpoint_id=1, state=None):
    return AcknowledgeCheckpoint(
        b"job", bytes([number]), checkpoint_id, CheckpointMetrics(sync_ms=number), state
    )


def test_reports_of_a_checkpoint_that_wait_are_one_message():
    state = TaskStateSnapshot(is_finished=True)
    held = [report(0), report(1, state=state), report(2), report(3, checkpoint_id=2)]
    assert decoded(held) == [
        AcknowledgeCheckpoints(
            b"job",
            1,
            (
                (b"\0", CheckpointMetrics(sync_ms=0), None),
                (b"\1", CheckpointMetrics(sync_ms=1), state),
                (b"\2", CheckpointMetrics(sync_ms=2), None),
            ),
        ),
        held[3],
    ]


def test_other_messages_keep_their_place_among_reports_except_barriers():
    left = AcknowledgeCheckpointEvent(b"job", b"attempt", b"operator", 1)
    declined = DeclineCheckpoint(b"job", b"attempt", 2, "EXPIRED")
    assert decoded([report(0), left, report(1), declined, report(2)]) == [
        left,
        AcknowledgeCheckpoints(
            b"job",
            1,
            (
                (b"\0", CheckpointMetrics(sync_ms=0), None),
                (b"\1", CheckpointMetrics(sync_ms=1), None),
            ),
        ),
        declined,
        report(2),
    ]


def test_reports_that_are_too_long_for_a_frame_are_several():
    handle = OperatorStateHandle({}, ByteStreamHandle("", bytes(4_000_000)))
    state = TaskStateSnapshot({b"operator": OperatorSubtaskState(raw_operator=(handle,))})
    found = decoded([report(number, state=state) for number in range(5)])
    attempts = [
        attempt
        for message in found
        for attempt in (
            [of for of, _, _ in message.reports]
            if isinstance(message, AcknowledgeCheckpoints)
            else [message.attempt_id]
        )
    ]
    assert attempts == [bytes([number]) for number in range(5)]
    assert 1 < len(found) < 5
