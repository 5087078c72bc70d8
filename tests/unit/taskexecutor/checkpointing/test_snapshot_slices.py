"""F7: snapshots are serialised in slices between the records of a task.

Method: a mailbox that the test runs by hand, and snapshots that need a given number of slices.
"""

from collections import deque

import pytest
from penstock.taskexecutor.checkpointing.snapshot_slices import SlicedSnapshot, SnapshotSlices
from penstock.taskexecutor.task.mailbox import MailboxClosedError


class Running:
    """Needs ``slices`` slices, then fails if it has a failure."""

    def __init__(self, slices, failure=None):
        self.slices = slices
        self.failure = failure
        self.closed = False

    def advance(self, deadline_ns):
        self.slices -= 1
        if self.slices > 0:
            return False
        if self.failure is not None:
            raise self.failure
        return True

    def close(self):
        self.closed = True


class World:
    def __init__(self):
        self.mails = deque()
        self.log = []
        self.open = True
        self.slices = SnapshotSlices(self.execute)

    def execute(self, mail):
        if not self.open:
            raise MailboxClosedError("closed")
        self.mails.append(mail)

    def start(self, name, *running):
        def then(failure):
            self.log.append((name, failure and str(failure)))

        snapshot = SlicedSnapshot(running, then)
        self.slices.start(snapshot)
        return snapshot

    def run_a_mail(self):
        assert len(self.mails) == 1, "one slice at a time"
        self.mails.popleft()()


@pytest.fixture
def world():
    return World()


def test_little_state_is_serialised_at_once(world):
    world.start("a", Running(1), Running(1))
    assert world.log == [("a", None)]
    assert not world.mails


def test_a_slice_is_a_mail(world):
    world.start("a", Running(2), Running(2))
    for _ in range(2):
        assert not world.log
        world.run_a_mail()
    assert world.log == [("a", None)]
    assert not world.mails


def test_the_oldest_checkpoint_comes_first(world):
    world.start("a", Running(3))
    world.start("b", Running(2))
    world.start("c", Running(1))
    while world.mails:
        world.run_a_mail()
    assert world.log == [("a", None), ("b", None), ("c", None)]


def test_one_that_was_given_up_is_not_continued(world):
    running = Running(5)
    first = world.start("a", running)
    world.start("b", Running(2))
    world.slices.stop(first)
    assert running.closed
    while world.mails:
        world.run_a_mail()
    assert world.log == [("b", None)]
    world.slices.stop(first)


def test_a_failure_is_reported_and_the_next_snapshot_continues(world):
    rest = Running(1)
    world.start("a", rest, Running(2, ValueError("no")))
    world.start("b", Running(2))
    while world.mails:
        world.run_a_mail()
    assert world.log == [("a", "no"), ("b", None)]
    assert rest.closed


def test_snapshots_pending_at_the_end_of_the_task_are_closed(world):
    running, later = Running(9), Running(9)
    world.start("a", running)
    world.start("b", later)
    world.open = False
    world.run_a_mail()
    assert running.closed
    assert later.closed
    assert not world.log
