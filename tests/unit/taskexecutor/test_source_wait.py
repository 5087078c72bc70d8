"""SourceWait: wake-ups are never lost, and every opened socket is closed."""

import socket
import threading

import pytest
from penstock.taskexecutor.sources.source_wait import SourceWait

LONG_MS = 3_600_000


@pytest.fixture
def wait():
    made = SourceWait()
    yield made
    made.close()


def test_nothing_is_open_before_the_first_wait_for_a_socket(monkeypatch):
    """A source that is cancelled while its task is restored was created, but never opened."""
    opened = []
    made = socket.socketpair
    monkeypatch.setattr(socket, "socketpair", lambda: opened.append(made()) or opened[-1])
    wait = SourceWait()
    wait.cancel()
    assert opened == []
    wait.wait(LONG_MS)
    assert opened == []
    one, other = made()
    with one, other:
        wait.wait(0, one)
    wait.close()
    assert [end.fileno() for end in opened[0]] == [-1, -1]


def test_a_wakeup_before_the_first_wait_ends_it(wait):
    wait.wakeup()
    wait.wait(LONG_MS)


def test_a_wakeup_between_waits_ends_the_next(wait):
    wait.wait(0)
    wait.wakeup()
    wait.wakeup()
    wait.wait(LONG_MS)


def test_another_thread_ends_a_wait(wait):
    waker = threading.Thread(target=wait.cancel)
    waker.start()
    wait.wait(LONG_MS)
    waker.join()
    assert wait.cancelled


def test_data_of_a_socket_ends_a_wait(wait):
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        wait.wait(LONG_MS, one)
        assert one.recv(1) == b"x"


def test_a_wakeup_ends_one_wait_of_either_kind(wait):
    one, other = socket.socketpair()
    with one, other:
        wait.wait(0, one)
        for _ in range(3):
            wait.wakeup()
            wait.wait(LONG_MS)
            wait.wakeup()
            wait.wait(LONG_MS, one)
        waker = threading.Thread(target=wait.wakeup)
        waker.start()
        waker.join()
        wait.wait(LONG_MS, one)


def test_nobody_waits_for_what_is_closed(wait):
    wait.close()
    wait.wakeup()
    wait.wait(LONG_MS)
    wait.wait(LONG_MS)
