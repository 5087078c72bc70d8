"""Heartbeats: the rules by a manual clock, and both ends over a socket.

A silent peer only holds its connection open.
"""

import contextlib
import queue
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from penstock.jobmaster.workers import heartbeat_manager
from penstock.jobmaster.workers.heartbeat_manager import HeartbeatManager, HeartbeatMonitor
from penstock.rpc import heartbeat
from penstock.rpc.heartbeat import BEAT, HeartbeatSender
from support.patience import PATIENCE_S


def test_a_watched_peer_is_due_at_once_and_then_at_every_interval() -> None:
    monitor = HeartbeatMonitor(10, 50)
    monitor.watch("one", 100)
    assert monitor.due(100) == ["one"]
    assert monitor.due(109.9) == []
    assert monitor.due(110) == ["one"]


def test_a_peer_is_silent_after_the_timeout_and_only_once() -> None:
    monitor = HeartbeatMonitor(10, 50)
    monitor.watch("one", 0)
    monitor.heard("one", 7)
    assert monitor.silent(56.9) == []
    assert monitor.silent(57) == ["one"]
    assert monitor.silent(1000) == []
    assert monitor.next_deadline_s() is None


def test_a_late_beat_of_a_forgotten_peer_is_ignored() -> None:
    monitor = HeartbeatMonitor(10, 50)
    monitor.watch("one", 0)
    monitor.forget("one")
    monitor.heard("one", 1)
    assert monitor.next_deadline_s() is None


def test_the_next_deadline_is_the_earliest_beat_or_timeout() -> None:
    monitor = HeartbeatMonitor(10, 15)
    monitor.watch("one", 0)
    assert monitor.due(0) == ["one"]
    assert monitor.next_deadline_s() == 10
    assert monitor.due(10) == ["one"]
    assert monitor.next_deadline_s() == 15


def test_an_interval_beyond_the_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        HeartbeatMonitor(50, 50)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


@pytest.fixture(params=["pure", "native"])
def sender_class(request: pytest.FixtureRequest) -> type[HeartbeatSender]:
    if request.param == "native":
        native = pytest.importorskip("penstock.rpc.native_heartbeat")
        return native.NativeHeartbeatSender  # type: ignore[no-any-return]
    return HeartbeatSender


@pytest.fixture
def manager_and_lost() -> Iterator[tuple[HeartbeatManager, "queue.Queue[str]"]]:
    lost: queue.Queue[str] = queue.Queue()
    manager = HeartbeatManager(0.02, 0.2, lambda name, reason: lost.put(name))
    manager.start()
    yield manager, lost
    manager.close()


def test_both_sides_beat(sender_class: type[HeartbeatSender]) -> None:
    """Both sides send at every interval, and count their heartbeats."""
    (ours, our_peer), (theirs, their_peer) = tcp_pair(), tcp_pair()
    lost: queue.Queue[str] = queue.Queue()
    reasons: queue.Queue[str] = queue.Queue()
    manager = HeartbeatManager(0.01, 30, lambda name, reason: lost.put(name))
    manager.start()
    sender = sender_class(theirs, 10, 30_000, reasons.put)
    sender.start()
    with our_peer, their_peer, contextlib.closing(manager):
        manager.watch("one", ours)
        for counter in range(1, 11):
            for source, sink in ((our_peer, their_peer), (their_peer, our_peer)):
                beat = source.recv(BEAT.size, socket.MSG_WAITALL)
                assert BEAT.unpack(beat) == (counter,)
                sink.sendall(beat)
        sender.close()
        assert lost.empty()
        assert reasons.empty()


def test_heartbeats_that_never_began_are_closed(sender_class: type[HeartbeatSender]) -> None:
    ours, theirs = tcp_pair()
    with ours:
        sender_class(theirs, 10, 100, print).close()
        assert ours.recv(1) == b""
        assert theirs.fileno() == -1


class JumpingClock:
    """The monotonic clock, which jumps by a minute when it is read for the n-th time."""

    def __init__(self, reading: int, before: Callable[[], object]) -> None:
        self._reading = reading
        self._before = before
        self._jumped_s = 0

    def monotonic(self) -> float:
        self._reading -= 1
        if self._reading == 0:
            self._before()
            self._jumped_s = 60
        return time.monotonic() + self._jumped_s


@pytest.mark.parametrize("reading", range(2, 9))
def test_a_manager_that_stood_still_hears_what_came_meanwhile(
    monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    ours, theirs = socket.socketpair()
    clock = JumpingClock(reading, lambda: theirs.sendall(BEAT.pack(1)))
    monkeypatch.setattr(heartbeat_manager, "time", clock)
    lost: queue.Queue[str] = queue.Queue()
    manager = HeartbeatManager(0.01, 30, lambda name, reason: lost.put(name))
    with theirs, contextlib.closing(manager):
        manager.watch("one", ours)
        manager.start()
        theirs.settimeout(PATIENCE_S)
        for counter in range(1, reading + 5):
            assert BEAT.unpack(theirs.recv(BEAT.size, socket.MSG_WAITALL)) == (counter,)
        assert lost.empty()


@pytest.mark.parametrize("reading", range(2, 9))
def test_a_sender_that_stood_still_hears_what_came_meanwhile(
    monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    ours, theirs = tcp_pair()
    clock = JumpingClock(reading, lambda: ours.sendall(BEAT.pack(1)))
    monkeypatch.setattr(heartbeat, "time", clock)
    reasons: queue.Queue[str] = queue.Queue()
    sender = HeartbeatSender(theirs, 10, 30_000, reasons.put)
    with ours, contextlib.closing(sender):
        sender.start()
        ours.settimeout(PATIENCE_S)
        for counter in range(1, reading + 5):
            assert BEAT.unpack(ours.recv(BEAT.size, socket.MSG_WAITALL)) == (counter,)
        assert reasons.empty()


def test_the_manager_reports_a_silent_peer(
    manager_and_lost: tuple[HeartbeatManager, "queue.Queue[str]"],
) -> None:
    manager, lost = manager_and_lost
    ours, theirs = socket.socketpair()
    with theirs:
        manager.watch("mute", ours)
        assert lost.get(timeout=PATIENCE_S) == "mute"
        assert BEAT.unpack(theirs.recv(BEAT.size)) == (1,)


@pytest.mark.parametrize(
    ("closes", "timeout_ms", "reason"), [(True, 60_000, "closed"), (False, 100, "no heartbeat")]
)
def test_the_sender_reports_a_driver_that_is_gone(
    sender_class: type[HeartbeatSender], closes: bool, timeout_ms: int, reason: str
) -> None:
    ours, theirs = tcp_pair()
    reasons: queue.Queue[str] = queue.Queue()
    sender = sender_class(theirs, 10, timeout_ms, reasons.put)
    with ours:
        sender.start()
        if closes:
            ours.shutdown(socket.SHUT_RDWR)
        assert reason in reasons.get(timeout=PATIENCE_S)
    sender.close()


@pytest.mark.parametrize("closed_first", [False, True])
def test_closing_the_manager_closes_connections_without_an_owner(
    closed_first: bool,
) -> None:
    """The dispatcher's thread may have ended before it knew the connection's owner."""
    ours, theirs = socket.socketpair()
    manager = HeartbeatManager(0.01, 30, lambda name, reason: None)
    with theirs:
        if closed_first:
            manager.close()
        manager.admit(ours)
        manager.close()
        assert theirs.recv(1) == b""
        assert ours.fileno() < 0
        manager.watch("late", ours)


def test_a_connection_of_nobody_is_closed() -> None:
    ours, theirs = socket.socketpair()
    manager = HeartbeatManager(0.01, 30, lambda name, reason: None)
    with theirs, contextlib.closing(manager):
        manager.admit(ours)
        manager.refuse(ours)
        assert theirs.recv(1) == b""
