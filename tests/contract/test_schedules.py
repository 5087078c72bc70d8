"""Random schedules of writing, credits, backlog and reading between all pairs of runtimes.

Method: a relay between the executors passes frames in either direction when the schedule says so;
its accounts check the identities of credits, sequence numbers and references at each frame
(internals M19).  Under any schedule, nothing is lost, duplicated or reordered, and the exchange
ends.
"""

import time

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from penstock.network.data_type import DataType
from penstock.network.events import CheckpointBarrier, parse_event

from contract.conftest import RUNTIMES
from contract.plane import (
    PATIENCE_MS,
    Plane,
    assert_all_returned,
    eventually,
    partition_id,
    raw_frames,
)
from contract.wire_relay import Relay

CHANNELS = 2
ALL = 1 << 30
SETTINGS = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    # A failure usually hangs, and other threads make it unrepeatable: nothing is shrunk.
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)


class Exchange(RuleBasedStateMachine):
    """A partition, a gate that reads it, and the relay between them."""

    def __init__(self, kinds, same_host):
        super().__init__()
        self.same_host = same_host
        self.producing, self.consuming = (Plane(kind) for kind in kinds)
        self.relay = Relay(same_host=same_host)
        self.written = [[] for _ in range(CHANNELS)]
        self.read = [[] for _ in range(CHANNELS)]
        self.pieces = [[] for _ in range(CHANNELS)]
        self.paused = []
        self.buffers_read = self.serial = self.barriers = 0

    @initialize(exclusive=st.integers(0, 2), floating=st.integers(1, 4))
    def start(self, exclusive, floating):
        settings = {
            "exclusive_buffers_per_channel": exclusive,
            "floating_buffers_per_gate": floating,
            "same_host_path": self.same_host,
        }
        self.exclusive = exclusive
        self.room = CHANNELS * exclusive + floating
        self.producer = self.producing.environment(**settings)
        self.consumer = self.consuming.environment(**settings)
        pid = partition_id()
        self.partition = self.producer.create_result_partition(pid, CHANNELS, flush_timeout_ms=-1)
        self.writing = self.producing.writing(self.partition)
        self.gate = self.consumer.create_input_gate(
            [(pid, channel, self.relay.address) for channel in range(CHANNELS)]
        )
        self.gate.request_partitions()
        self.relay.join(self.producer.address)

    # -- steps ----------------------------------------------------------------------------

    @rule(channel=st.integers(0, CHANNELS - 1), size=st.sampled_from([5, 300, 900, 2500]))
    def write(self, channel, size):
        if self.partition.is_available():
            self.serial += 1
            value = bytes([channel]) + self.serial.to_bytes(4, "big") + bytes(size)
            self.writing.write(value)
            self.written[channel].append(value)

    @rule()
    def flush(self):
        self.writing.flush()

    @rule()
    def write_barrier(self):
        self.barriers += 1
        self.writing.event(CheckpointBarrier(self.barriers, 0))
        for written in self.written:
            written.append(self.barriers)

    @rule(count=st.integers(1, 4))
    def to_producer(self, count):
        self.relay.up(count)

    @rule(count=st.integers(1, 4))
    def to_consumer(self, count):
        self.relay.down(count)

    @rule()
    def read_one(self, timeout_ms=0):
        item = self.gate.next_buffer(timeout_ms)
        if item is None:
            return
        channel, data_type, data = item
        if DataType(data_type).is_buffer:
            self.buffers_read += 1
            self.pieces[channel].append(data)
            return
        self.read[channel] += raw_frames(self.pieces[channel])
        self.pieces[channel] = []
        if data_type != DataType.END_OF_PARTITION:
            self.read[channel].append(parse_event(data).checkpoint_id)
            self.paused.append(channel)

    @rule()
    def resume(self):
        if self.paused:
            self.gate.resume_consumption(self.paused.pop())

    # -- invariants of each step ----------------------------------------------------------

    @invariant()
    def credit_is_backed_by_buffers(self):
        """C-7: granted credit minus the read buffers never exceeds the number of buffers."""
        self.relay.look()
        # Credit that a blocking event has voided is known to be void once the channel resumes.
        if self.exclusive or not self.relay.books.is_any_blocked:
            assert self.relay.books.granted - self.buffers_read <= self.room

    @invariant()
    def channels_get_what_they_have_room_for(self):
        """C-7: a consumer reads only delivered buffers."""
        delivered = sum(account.delivered for account in self.relay.books.accounts.values())
        assert self.buffers_read <= delivered

    # -- the end --------------------------------------------------------------------------

    def pump(self):
        self.relay.up(ALL)
        self.relay.down(ALL)
        return True

    def teardown(self):
        try:
            self.finish()
        finally:
            for plane in (self.producing, self.consuming):
                plane.close()
            self.relay.close()

    def finish(self):
        """Check that nothing was lost, duplicated or reordered, and every buffer is back."""
        self.partition.finish()
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.gate.is_finished():
            assert time.monotonic() < deadline, f"the exchange hangs: {self.relay.books.accounts}"
            self.pump()
            self.read_one(timeout_ms=1)
            self.resume()
        for read, written in zip(self.read, self.written, strict=True):
            assert len(read) == len(written)
            for seen, expected in zip(read, written, strict=True):
                assert seen == expected if isinstance(expected, int) else seen.endswith(expected)
        books = self.relay.books
        eventually(
            lambda: self.pump() and books.returned == books.references,
            f"{books.references - books.returned} references are not returned",
        )
        assert books.messages_on_memory == self.same_host
        self.gate.close()
        self.partition.release()
        assert_all_returned(self.producer, self.consumer)


@pytest.mark.parametrize("link", ["same-host", "tcp"])
@pytest.mark.parametrize("consumer", RUNTIMES)
@pytest.mark.parametrize("producer", RUNTIMES)
def test_schedules(producer, consumer, link, monkeypatch):
    """C-2, C-3, C-6, C-7, C-11: the identities hold at each frame of any schedule."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    run_state_machine_as_test(
        lambda: Exchange((producer, consumer), link == "same-host"), settings=SETTINGS
    )
