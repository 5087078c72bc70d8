"""The main thread's queue: each user of it has a name and a bound (invariant 6)."""

import threading
from types import SimpleNamespace

import pytest
from penstock.errors import QueueFullError
from penstock.jobmaster.main_thread import FEW_TIMERS, MainThread
from support.patience import PATIENCE_S


@pytest.fixture
def thread():
    errors = []
    thread = MainThread("a thread of tests", errors.append)
    yield thread
    thread.close()
    assert errors == []


def test_a_user_may_have_so_many_calls_waiting(thread):
    """One call too many is an error that names the user and the call; other users may continue."""
    ran = []
    user, other = thread.user("calls of a test", 2), thread.user("calls of another", 1)
    user.post(lambda: ran.append(1))
    late = user.schedule(3600, lambda: ran.append("late"))
    with pytest.raises(QueueFullError, match="calls of a test: 2 wait for the thread 'a thread"):
        user.submit(lambda: ran.append("too many"))
    with pytest.raises(QueueFullError):
        user.schedule(0, lambda: ran.append("too many"))
    other.post(lambda: ran.append("other"))
    thread.start()
    other_user = thread.user("the test", 10)
    other_user.call(lambda: None, PATIENCE_S)
    late.cancel()
    late.cancel()
    user.post(lambda: ran.append(2))
    user.call(lambda: ran.append(3), PATIENCE_S)
    assert ran == [1, "other", 2, 3]


def test_a_user_that_waits_is_held_back(thread):
    """The user continues when there is room, and the thread itself never waits for itself."""
    user = thread.user("messages of a test", 2, waits=True)
    let_go, ran = threading.Event(), []
    user.post(lambda: let_go.wait(PATIENCE_S))
    thread.start()
    come = []

    def send():
        for number in range(50):
            user.post(lambda number=number: ran.append(number))
            come.append(number)

    sender = threading.Thread(target=send)
    sender.start()
    watcher = thread.user("the test", 1)
    asked = watcher.submit(lambda: len(come))
    let_go.set()
    # Once the call that blocked the thread has ended, two wait at most, and one more is coming.
    assert asked.result(PATIENCE_S) <= 4
    sender.join(PATIENCE_S)
    watcher.call(lambda: None, PATIENCE_S)
    assert ran == list(range(50))

    def from_within():
        for _ in range(2):
            user.post(lambda: None)
        with pytest.raises(QueueFullError):
            user.post(lambda: None)

    watcher.call(from_within, PATIENCE_S)


def test_waiters_wake_when_the_thread_ends(thread):
    user = thread.user("messages of a test", 1, waits=True)
    user.post(lambda: None)
    sender = threading.Thread(target=lambda: [user.post(lambda: None) for _ in range(5)])
    sender.start()
    thread.start()
    thread.close()
    sender.join(PATIENCE_S)
    assert not sender.is_alive()


def test_timers_that_were_cancelled_do_not_pile_up(thread):
    """A user that resets a timer with each event leaves none behind."""
    user = thread.user("timers of a test", 10)
    thread.start()
    for _ in range(20 * FEW_TIMERS):
        user.schedule(3600, lambda: None).cancel()
        user.call(lambda: None, PATIENCE_S)
    assert user.call(lambda: len(thread._timers), PATIENCE_S) <= FEW_TIMERS + 1


def test_timers_run_in_their_order(thread, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr("penstock.jobmaster.main_thread.time", clock)
    now_s = 0.0  # no timer is due before the thread has all timers
    user = thread.user("timers of a test", 10)
    ran, done = [], threading.Event()
    user.schedule(0.02, lambda: (ran.append("last"), done.set()))
    user.schedule(0.01, lambda: ran.append("first"))
    user.schedule(0.015, lambda: ran.append("never")).cancel()
    thread.start()
    user.call(lambda: None, PATIENCE_S)
    now_s = 1.0
    assert done.wait(PATIENCE_S)
    assert ran == ["first", "last"]


def test_a_user_with_a_handler_gets_its_own_errors():
    """The thread receives a user's exceptions only if the user has no handler."""
    errors, own = [], []

    def answer(error):
        own.append(error)
        if isinstance(error, KeyError):
            raise ArithmeticError from error

    thread = MainThread("a thread of tests", errors.append)
    user, other = thread.user("calls", 9, on_error=answer), thread.user("others", 9)
    thread.start()
    user.post(lambda: [][0])
    user.schedule(0, lambda: {}["timer"])
    other.post(lambda: 1 / 0)
    deadline = threading.Event()
    user.schedule(0.01, deadline.set)
    assert deadline.wait(PATIENCE_S)
    thread.close()
    assert sorted(type(error).__name__ for error in own) == ["IndexError", "KeyError"]
    assert sorted(type(error).__name__ for error in errors) == [
        "ArithmeticError",
        "ZeroDivisionError",
    ]
