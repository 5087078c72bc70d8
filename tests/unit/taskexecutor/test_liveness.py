"""Tasks that count as making no progress.

Method: tasks that answer or do not, with a clock of their own; only the checks take real time.
"""

import threading

import pytest
from penstock.taskexecutor.worker.liveness import LivenessWatch
from support.patience import PATIENCE_S

TIMEOUT_MS = 20


class Pinged:
    name = "it (1/1)"

    def __init__(self, *, answers, takes_mails=True, step_s=1.0):
        self.answers = answers
        self.takes_mails = takes_mails
        self.now_s = 0.0
        self.step_s = step_s
        self.looks = threading.Semaphore(0)

    def ping(self, answer):
        self.looks.release()
        if self.answers:
            answer()
        return self.takes_mails

    def unhindered_s(self):
        self.now_s += self.step_s
        return self.now_s

    def await_looks(self):
        for _ in range(20):
            self.looks.acquire()


@pytest.fixture
def fatal():
    return []


@pytest.fixture
def watch(fatal):
    watch = LivenessWatch(fatal.append, owns_process=False)
    yield watch
    watch.close()


def test_a_task_that_answers_lives(watch, fatal):
    task = Pinged(answers=True)
    watch.add(task, TIMEOUT_MS)
    task.await_looks()
    assert fatal == []


def test_a_task_that_does_not_answer_ends_the_worker(fatal):
    ended = threading.Event()
    watch = LivenessWatch(lambda reason: (fatal.append(reason), ended.set()), owns_process=False)
    watch.add(Pinged(answers=True), TIMEOUT_MS)
    watch.add(Pinged(answers=False), TIMEOUT_MS)
    assert ended.wait(PATIENCE_S)
    assert len(fatal) == 1
    assert "it (1/1) makes no progress" in fatal[0]


def test_a_task_that_takes_no_mails_is_not_judged(watch, fatal):
    """Such a task is being restored, cancelled, or about to end."""
    task = Pinged(answers=False, takes_mails=False)
    watch.add(task, TIMEOUT_MS)
    task.await_looks()
    assert fatal == []


def test_time_in_which_an_output_has_no_buffer_does_not_count(watch, fatal):
    task = Pinged(answers=False, step_s=0.0)
    watch.add(task, TIMEOUT_MS)
    task.await_looks()
    assert fatal == []


def test_removed_entries_and_those_without_timeout_are_ignored(watch, fatal):
    task = Pinged(answers=False)
    watch.add(task, 0)
    assert not task.looks.acquire(blocking=False)
    other = Pinged(answers=False, step_s=0.0)
    watch.add(other, TIMEOUT_MS)
    other.await_looks()
    watch.remove(other)
    third = Pinged(answers=True)
    watch.add(third, TIMEOUT_MS)
    third.await_looks()  # a look at the removed one that had begun is over
    other.step_s = 1.0
    third.await_looks()
    assert fatal == []
