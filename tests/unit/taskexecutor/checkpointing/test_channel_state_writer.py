"""F6, F-11, F-13: the channel data that a checkpoint stores, between its start and its end.

Method: a real data plane in front of a `ChannelStateWriter`.
"""

import pytest
from penstock.checkpoint_storage.streams import DriverStateStream
from penstock.errors import IllegalStateError
from penstock.network.events import Alignment, CheckpointBarrier, data_type_of, serialize_event
from penstock.network.pure.environment import NetworkEnvironment
from penstock.taskexecutor.checkpointing.channel_state import (
    ChannelStateWriter,
    InFlight,
    write_in_flight,
)

PATIENCE_MS = 60_000


class Channels:
    """Two producers, a gate, and the writer that captures its data."""

    def __init__(self, network):
        self.producers = [network.create_result_partition(bytes([n]) * 60, 1) for n in range(2)]
        self.gate = network.create_input_gate([(bytes([n]) * 60, 0, None) for n in range(2)])
        self.gate.request_partitions()
        self.begun = [b"", b""]
        self.capture = ChannelStateWriter([self.gate], lambda channel: self.begun[channel])

    def send(self, channel, data):
        self.producers[channel]._append_framed(0, data)
        self.producers[channel].flush_all()

    def overtake(self, channel, number):
        barrier = CheckpointBarrier(number, 0, alignment=Alignment.UNALIGNED)
        event, data_type = serialize_event(barrier), int(data_type_of(barrier, priority=True))
        self.producers[channel].overtake(event, data_type)
        self.producers[channel].flush_all()

    def read_all(self):
        while self.gate.next_buffer(0) is not None:
            pass

    def taken(self):
        """Return the bytes of each channel."""
        return [[b"".join(buffers) for buffers in gate] for gate in self.capture.take()]


@pytest.fixture
def channels():
    network = NetworkEnvironment(
        token=b"t" * 32, executor_id="here", num_segments=128, segment_size=1024
    )
    yield Channels(network)
    network.close()


def test_data_between_start_and_barrier_is_kept(channels):
    """The rest of a record comes first; data behind the barrier is not stored (F-11)."""
    channels.begun[1] = b"begun "
    channels.send(0, b"before ")
    assert channels.gate.next_buffer(PATIENCE_MS)[2] == b"before "
    channels.capture.start(1)
    channels.send(0, b"one ")
    channels.send(1, b"two")
    channels.read_all()
    for channel in range(2):
        channels.overtake(channel, 1)
        channels.send(channel, b"behind")
    channels.read_all()
    assert channels.taken() == [[b"one ", b"begun two"]]


def test_events_are_not_kept(channels):
    """F-13: a barrier of another kind is not part of the data."""
    channels.capture.start(1)
    channels.overtake(0, 1)
    channels.overtake(1, 1)
    channels.read_all()
    assert channels.taken() == [[b"", b""]]


def test_nothing_is_kept_that_was_not_begun(channels):
    channels.send(0, b"data")
    channels.read_all()
    assert channels.capture.take() == []
    channels.capture.stop(7)
    assert channels.capture.take() == []


def test_the_end_of_an_older_checkpoint_leaves_a_later_one_alone(channels):
    channels.capture.start(2)
    channels.capture.stop(1)
    channels.send(0, b"kept")
    channels.read_all()
    assert channels.taken() == [[b"kept", b""]]
    channels.capture.stop(2)
    assert channels.capture.take() == []


def test_a_later_one_starts_again(channels):
    """F-14: data stored for the checkpoint that it ends is not part of the new one."""
    channels.capture.start(1)
    channels.send(0, b"of the first")
    channels.read_all()
    channels.capture.stop(1)
    channels.capture.start(2)
    channels.send(0, b"of the second")
    channels.read_all()
    assert channels.taken() == [[b"of the second", b""]]


def test_a_checkpoint_cannot_start_after_the_barrier_of_a_later_one(channels):
    channels.overtake(0, 5)
    channels.read_all()
    with pytest.raises(IllegalStateError):
        channels.capture.start(4)
    channels.capture.stop(4)
    assert channels.capture.take() == []


def test_a_task_without_inputs_is_complete_at_once():
    capture = ChannelStateWriter([], lambda channel: b"")
    assert capture.is_complete
    capture.start(1)
    assert capture.take() == []


@pytest.mark.parametrize("where", ["write", "handle"])
def test_a_stream_that_fails_is_closed(where):
    """The writer deletes its unfinished file; the failure is the checkpoint's."""
    closed = []

    class Full(DriverStateStream):
        def close(self):
            closed.append(self)
            super().close()

    def fail(*arguments):
        raise OSError("no space left")

    stream = Full()
    setattr(stream, where, fail)
    in_flight = InFlight([[[b"data"]]], {})
    with pytest.raises(OSError, match="no space"):
        write_in_flight(in_flight, lambda: stream, b"h" * 16, [])
    assert closed == [stream]
