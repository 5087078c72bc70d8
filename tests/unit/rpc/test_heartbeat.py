"""Heartbeats: the rules by a hand-held clock, and both ends over a socket.

A silent peer is one that takes part in nothing but the connection.
"""

import queue
import socket
from collections.abc import Iterator

import pytest
from penstock.jobmaster.heartbeat_manager import HeartbeatManager, HeartbeatMonitor
from penstock.rpc.heartbeat import BEAT, HeartbeatSender


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


def test_both_sides_beat(
    manager_and_lost: tuple[HeartbeatManager, "queue.Queue[str]"],
    sender_class: type[HeartbeatSender],
) -> None:
    manager, lost = manager_and_lost
    ours, theirs = tcp_pair()
    reasons: queue.Queue[str] = queue.Queue()
    sender = sender_class(theirs, 20, 30_000, reasons.put)
    sender.start()
    manager.watch("one", ours)
    with pytest.raises(queue.Empty):  # ten times the timeout of a silent peer
        lost.get(timeout=2)
    sender.close()
    assert lost.get(timeout=10) == "one"
    assert reasons.empty()


def test_the_manager_reports_a_silent_peer(
    manager_and_lost: tuple[HeartbeatManager, "queue.Queue[str]"],
) -> None:
    manager, lost = manager_and_lost
    ours, theirs = socket.socketpair()
    with theirs:
        manager.watch("mute", ours)
        assert lost.get(timeout=10) == "mute"
        assert BEAT.unpack(theirs.recv(BEAT.size)) == (1,)


@pytest.mark.parametrize(("closes", "reason"), [(True, "closed"), (False, "no heartbeat")])
def test_the_sender_reports_a_driver_that_is_gone(
    sender_class: type[HeartbeatSender], closes: bool, reason: str
) -> None:
    ours, theirs = tcp_pair()
    reasons: queue.Queue[str] = queue.Queue()
    sender = sender_class(theirs, 10, 100, reasons.put)
    with ours:
        sender.start()
        if closes:
            ours.shutdown(socket.SHUT_RDWR)
        assert reason in reasons.get(timeout=10)
    sender.close()
