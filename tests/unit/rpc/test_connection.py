"""Connection: which messages wait for others, and that waiting loses none."""

import contextlib
import queue
import socket

import pytest
from penstock.rpc import messages
from penstock.rpc.connection import MAX_HELD_MESSAGES, Connection
from penstock.rpc.frames import FrameReader
from penstock.rpc.message import encode_message
from support.patience import PATIENCE_S


@pytest.fixture
def ends():
    """Yield a connection, and the frames that its peer reads."""
    with contextlib.ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sock = socket.create_connection(listener.getsockname())
            peer, _ = listener.accept()
        stack.enter_context(peer)
        peer.settimeout(PATIENCE_S)
        connection = Connection(
            sock, messages.task_executor_decoder(), lambda received: None, lambda reason: None, "a"
        )
        stack.callback(connection.join, PATIENCE_S)
        stack.callback(connection.close, "over")
        yield connection, FrameReader(peer)


def report(number):
    return messages.AwaitFinalCheckpoint(b"job", bytes([number]))


def numbers_of(frames):
    decoder = messages.driver_decoder()
    found = []
    while (body := frames.read()) is not None:
        found.append(decoder.decode(body).attempt_id[0])
    return found


def test_messages_that_may_wait_go_before_the_next_that_may_not(ends):
    connection, frames = ends
    for number in range(3):
        assert connection.send(report(number), may_wait=True)
    assert connection.send(report(3))
    assert connection.send(report(4), may_wait=True)
    connection.start()
    connection.close_after_flush("over")
    assert numbers_of(frames) == [0, 1, 2, 3, 4]


def test_a_message_that_may_wait_is_sent_without_another_one(ends):
    connection, frames = ends
    connection.start()
    decoder = messages.driver_decoder()
    for number in range(3):
        assert connection.send(report(number), may_wait=True)
        assert decoder.decode(frames.read()).attempt_id == bytes([number])


def test_no_more_than_so_many_messages_wait(ends):
    connection, frames = ends
    for number in range(MAX_HELD_MESSAGES):
        assert connection.send(report(number % 256), may_wait=True)
    assert connection.send(report(7))
    connection.start()
    connection.close_after_flush("over")
    assert numbers_of(frames) == [*(n % 256 for n in range(MAX_HELD_MESSAGES)), 7]


def test_messages_that_arrive_together_are_delivered_together_and_in_order():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    batches: queue.Queue[list[object]] = queue.Queue()
    ended: queue.Queue[str] = queue.Queue()
    receiver = Connection(peer, messages.driver_decoder(), batches.put, ended.put, "receiver")
    sender = Connection(
        sock, messages.task_executor_decoder(), lambda received: None, lambda reason: None, "sender"
    )
    for number in range(100):
        sender.send(report(number), may_wait=True)
    sender.start()
    sender.close_after_flush("over")
    receiver.start()
    assert ended.get(timeout=PATIENCE_S)
    assert sender.join(PATIENCE_S)
    assert receiver.join(PATIENCE_S)
    received = [batches.get_nowait() for _ in range(batches.qsize())]
    assert [m.attempt_id[0] for batch in received for m in batch] == list(range(100))
    assert len(received) < 100


def test_messages_before_an_invalid_one_are_delivered():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    batches: queue.Queue[list[object]] = queue.Queue()
    ended: queue.Queue[str] = queue.Queue()
    receiver = Connection(peer, messages.driver_decoder(), batches.put, ended.put, "receiver")
    body = encode_message(report(1))
    with sock:
        sock.sendall(len(body).to_bytes(4, "big") + body + b"\0\0\0\1\xc1")
        receiver.start()
        assert "not a message" in ended.get(timeout=PATIENCE_S)
    assert receiver.join(PATIENCE_S)
    assert [m.attempt_id for m in batches.get_nowait()] == [b"\1"]
    assert batches.empty()
