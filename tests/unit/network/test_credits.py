"""Credits of a remote channel (internals M19)."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from penstock.errors import CancelTaskError, CorruptStreamError
from penstock.network.data_type import DataType
from penstock.network.pure.gate.buffer_manager import BufferManager
from penstock.network.pure.gate.remote_channel import RemoteInputChannel
from penstock.network.pure.memory.network_buffer_pool import NetworkBufferPool
from penstock.network.pure.wire.messages import BufferHeader


class Gate:
    def __init__(self):
        self.notified = 0

    def notify_channel_non_empty(self, index, *, priority=False):
        self.notified += 1


class Client:
    """Counts the messages to send."""

    def __init__(self):
        self.announcements = 0
        self.cancelled = 0

    def request(self, channel):
        pass

    def notify_credit(self, channel):
        self.announcements += 1

    def resume(self, channel):
        pass

    def cancel(self, channel):
        self.cancelled += 1


def manager_of(exclusive=2, floating=14, reserved=0):
    """Return a buffer manager, the pools behind it, and a client that counts its credit."""
    network = NetworkBufferPool(exclusive + floating + reserved, 64)
    pool = network.create_buffer_pool(1, floating)
    credit = []
    manager = BufferManager(network, pool, credit.append)
    manager.request_exclusive(exclusive)
    return manager, pool, network, credit


def test_required_available_and_waiting():
    """C-8, C-10: the worked example with 2 exclusive and 14 floating buffers."""
    manager, pool, _, _ = manager_of()
    exclusive = manager.take()
    outside = [pool.request_buffer() for _ in range(2)]

    def state():
        return manager.available, manager.required, manager.is_waiting

    manager.require(14 + 2)
    assert state() == (13, 16, True)
    manager.require(16 + 2)
    assert state() == (13, 18, True)
    exclusive.recycle()
    assert state() == (14, 18, True)
    outside.pop().recycle()
    assert state() == (15, 18, True)
    manager.require(13 + 2)
    assert state() == (15, 15, True)
    outside.pop().recycle()
    assert state() == (15, 15, False)
    assert pool.available_segments == 1
    manager.require(15 + 2)
    assert state() == (16, 17, True)


def test_surplus_is_returned_one_by_one():
    """C-8: after a backlog has shrunk, each recycled exclusive buffer frees a floating one."""
    manager, pool, _, credit = manager_of(2, 4)
    taken = [manager.take() for _ in range(2)]
    manager.require(4)
    assert manager.available == 4
    manager.require(2)
    credit.clear()
    taken.pop().recycle()
    assert manager.available == 4
    assert pool.available_segments == 1
    taken.pop().recycle()
    assert (manager.available, pool.available_segments) == (4, 2)
    assert credit == [], "a buffer that replaces another is no new credit"


def test_floating_buffers_go_round():
    """C-10: waiting channels get one floating buffer each, in the order of their requests."""
    network = NetworkBufferPool(20, 64)
    pool = network.create_buffer_pool(1, 4)
    outside = [pool.request_buffer() for _ in range(4)]
    managers = [BufferManager(network, pool, lambda n: None) for _ in range(4)]
    for manager in managers:
        manager.require(3)
        assert manager.is_waiting
    for index, buffer in enumerate(outside):
        buffer.recycle()
        assert [m.available for m in managers] == [1] * (index + 1) + [0] * (3 - index)


def channel_of(exclusive=2, floating=8):
    network = NetworkBufferPool(exclusive + floating, 64)
    pool = network.create_buffer_pool(1, floating)
    client, gate = Client(), Gate()
    channel = RemoteInputChannel(gate, 0, bytes(60), 0, ("h", 1), client, exclusive)
    channel.buffers = BufferManager(network, pool, channel.notify_credit)
    channel.buffers.request_exclusive(exclusive)
    channel.request()
    return channel, client, gate, network, pool


def header(size=4, sequence=0, backlog=0, data_type=1):
    return BufferHeader(bytes(16), 0, sequence, backlog, data_type, False, size)


def receive(channel, sequence, backlog=0):
    buffer = channel.buffer_for(header(sequence=sequence))
    channel.on_buffer(buffer, sequence, backlog)


def test_credit_is_coalesced():
    """Only the first credit since the last announcement requires a message."""
    channel, client, _, _, _ = channel_of()
    channel.notify_credit(1)
    channel.notify_credit(4)
    assert client.announcements == 1
    assert channel.take_unannounced_credit() == 5
    assert channel.take_unannounced_credit() == 0
    channel.notify_credit(1)
    assert client.announcements == 2


def test_released_channel():
    """C-11: a released channel accepts, announces and holds nothing."""
    channel, client, _, network, pool = channel_of()
    receive(channel, 0, backlog=5)
    late = channel.buffer_for(header(sequence=1))
    channel.release()
    channel.release()
    assert client.cancelled == 1
    channel.on_buffer(late, 1, 3)
    channel.notify_credit(1)
    assert channel.take_unannounced_credit() == 0
    assert channel.buffer_for(header()) is None
    with pytest.raises(CancelTaskError):
        channel.next_buffer()
    pool.lazy_destroy()
    assert network.available_segments == network.total_segments


def test_sequence_overflow():
    """Numbers wrap at 2**31, for the channel as well."""
    channel, _, _, _, _ = channel_of()
    channel._expected_sequence = 2**31 - 1
    receive(channel, 2**31 - 1)
    receive(channel, -(2**31))
    assert channel.num_queued == 2


def test_wrong_sequence():
    channel, _, _, network, pool = channel_of()
    receive(channel, 1)
    with pytest.raises(CorruptStreamError, match="re-ordering"):
        channel.next_buffer()
    channel.release()
    pool.lazy_destroy()
    assert network.available_segments == network.total_segments


class CreditAccounting(RuleBasedStateMachine):
    """A producer that obeys its credit, and a channel: the identities hold at each step."""

    @initialize(exclusive=st.integers(0, 3), floating=st.integers(1, 6))
    def start(self, exclusive, floating):
        self.exclusive, self.floating = exclusive, floating
        self.channel, _, _, self.network, self.pool = channel_of(exclusive, floating)
        self.granted = exclusive
        self.sent = 0
        self.waiting = 0
        self.held = deque()
        self.outside = []
        self.blocked = False

    @rule(count=st.integers(1, 5))
    def produce(self, count):
        self.waiting += count

    @rule()
    def announce(self):
        """Let the producer without credit announce its backlog."""
        if self.granted == self.sent and self.waiting:
            self.channel.on_backlog(self.waiting)

    @precondition(lambda self: self.waiting and self.granted > self.sent)
    @rule()
    def send(self):
        self.waiting -= 1
        receive(self.channel, self.sent, self.waiting)
        self.sent += 1

    @rule()
    def grant(self):
        self.granted += self.channel.take_unannounced_credit()

    @rule()
    def read(self):
        result = self.channel.next_buffer()
        if result is not None:
            self.held.append(result.buffer)

    @precondition(lambda self: self.held)
    @rule(last=st.booleans())
    def recycle(self, last):
        (self.held.pop() if last else self.held.popleft()).recycle()

    @rule()
    def other_channel_takes(self):
        buffer = self.pool.request_buffer()
        if buffer is not None:
            self.outside.append(buffer)

    @precondition(lambda self: self.outside)
    @rule()
    def other_channel_returns(self):
        self.outside.pop().recycle()

    @invariant()
    def credit_is_what_is_available(self):
        """C-7."""
        if hasattr(self, "channel"):
            outstanding = self.granted + self.channel.unannounced_credit - self.sent
            assert outstanding == self.channel.buffers.available >= 0

    @invariant()
    def exclusive_buffers_are_constant(self):
        """C-9."""
        if hasattr(self, "channel"):
            assert self.channel.buffers.num_exclusive == self.exclusive

    @invariant()
    def whoever_lacks_buffers_waits_for_one(self):
        """C-8."""
        if hasattr(self, "channel"):
            buffers = self.channel.buffers
            assert buffers.available >= buffers.required or buffers.is_waiting

    def teardown(self):
        if hasattr(self, "channel"):
            self.channel.release()
            for buffer in [*self.held, *self.outside]:
                buffer.recycle()
            self.pool.lazy_destroy()
            assert self.network.available_segments == self.network.total_segments
            assert self.network.required_segments == 0


TestCreditAccounting = CreditAccounting.TestCase
TestCreditAccounting.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_events_take_no_buffer():
    """An event has memory of its own and costs no credit."""
    channel, _, _, _, _ = channel_of()
    before = channel.buffers.available
    buffer = channel.buffer_for(header(9, data_type=int(DataType.END_OF_DATA)))
    assert channel.buffers.available == before
    assert buffer.size == 9
