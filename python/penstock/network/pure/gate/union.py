"""Union of several exchanges that one task reads as one (internals M23)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import IllegalStateError
from penstock.network.pure.arguments import integers, items_of, octets
from penstock.network.pure.framing.deserializer import SPILL_THRESHOLD_BYTES
from penstock.network.pure.gate.input_gate import InputGate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.network.pure.memory.buffer import AnyBuffer


class UnionInputGate(InputGate):
    """Several gates read as one; a channel's index is its own plus the offset of its gate."""

    def __init__(
        self,
        gates: Sequence[InputGate],
        temp_directories: Sequence[str] = (),
        spill_threshold_bytes: int = SPILL_THRESHOLD_BYTES,
    ) -> None:
        if not gates:
            raise IllegalStateError("a union of no gates")
        if any(isinstance(gate, UnionInputGate) for gate in gates):
            raise IllegalStateError("a union of unions")
        if any(gate._on_ready is not None for gate in gates) or len(set(gates)) < len(gates):
            raise IllegalStateError("a gate is part of a union already")
        num_channels = sum(gate.num_channels for gate in gates)
        super().__init__(num_channels, temp_directories, spill_threshold_bytes)
        self._gates = list(gates)
        self._offsets: list[int] = []
        offset = 0
        for gate in gates:
            self._offsets.append(offset)
            offset += gate.num_channels
        self._ready: deque[int] = deque()
        self._is_queued = [False] * len(gates)
        for index, gate in enumerate(gates):
            gate._on_ready = partial(self._on_gate_ready, index)
            self._on_gate_ready(index)

    def request_partitions(self) -> None:
        """Request the data of all producers of all gates."""
        for gate in self._gates:
            gate.request_partitions()

    def _on_gate_ready(self, index: int) -> None:
        with self._lock:
            if self._is_queued[index]:
                return
            self._is_queued[index] = True
            self._ready.append(index)
            self._lock.notify()
        self._notify_ready()

    def recover(self, channel: int, buffers: Sequence[bytes]) -> None:
        """Restore the in-flight data of a gate's channel, before everything that arrives later."""
        items_of(buffers)
        for data in buffers:
            octets(data)
        gate, channel = self._gate_of(channel)
        gate.recover(channel, buffers)

    @property
    def _is_urgent(self) -> bool:
        """Return whether a gate has an event that overtakes data."""
        return any(gate._is_urgent for gate in self._gates)

    def _poll_urgent(self) -> tuple[int, AnyBuffer] | None:
        for offset, gate in zip(self._offsets, self._gates, strict=True):
            taken = gate._poll_urgent()
            if taken is not None:
                return offset + taken[0], taken[1]
        return None

    def _is_ready(self) -> bool:
        return bool(self._ready)

    def _poll(self) -> tuple[int, AnyBuffer] | None:
        urgent = self._poll_urgent()
        if urgent is not None:
            return urgent
        with self._lock:
            if not self._ready:
                return None
            index = self._ready.popleft()
            self._is_queued[index] = False
        gate = self._gates[index]
        taken = gate._take(0.0, data_first=True)
        if taken is None:
            return None
        # It may have more; if not, the next turn detects that.
        self._on_gate_ready(index)
        channel, buffer = taken
        return self._offsets[index] + channel, buffer

    def resume_consumption(self, channel: int) -> None:
        """Let a channel continue after a blocking event."""
        gate, channel = self._gate_of(channel)
        gate.resume_consumption(channel)

    def send_task_event(self, event: bytes) -> None:
        """Send a task event to the producers of all gates."""
        for gate in self._gates:
            gate.send_task_event(event)

    def debloat(self, share: float = 1.0) -> list[tuple[int, int]]:
        """Announce the next buffer size to the producers of all gates."""
        return [figures for gate in self._gates for figures in gate.debloat(share)]

    def buffer_usage(self) -> tuple[int, int, int]:
        """Return the sums over all gates."""
        queued, used, total = zip(*(gate.buffer_usage() for gate in self._gates), strict=True)
        return sum(queued), sum(used), sum(total)

    def received(self) -> tuple[int, int, int, int]:
        """Return the sums over all gates."""
        a, b, c, d = zip(*(gate.received() for gate in self._gates), strict=True)
        return sum(a), sum(b), sum(c), sum(d)

    def start_persisting(self, checkpoint_id: int) -> None:
        """Start to copy in every gate."""
        for gate in self._gates:
            gate.start_persisting(checkpoint_id)

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop copying in every gate."""
        for gate in self._gates:
            gate.stop_persisting(checkpoint_id)

    def take_persisted(self, channel: int) -> tuple[list[bytes], bool]:
        """Return the copies of a gate's channel."""
        gate, channel = self._gate_of(channel)
        return gate.take_persisted(channel)

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let a barrier overtake in a channel of a gate."""
        integers(channel, checkpoint_id)
        gate, channel = self._gate_of(channel)
        return gate.prioritize_barrier(channel, checkpoint_id)

    def _gate_of(self, channel: int) -> tuple[InputGate, int]:
        """Return the gate of a channel, and the channel's index there."""
        channel = self._index(channel)
        index = bisect_right(self._offsets, channel) - 1
        return self._gates[index], channel - self._offsets[index]

    def _on_empty(self) -> None:
        for gate in self._gates:
            gate._on_empty()

    def is_finished(self) -> bool:
        """Return whether every gate has ended."""
        return all(gate.is_finished() for gate in self._gates)

    def _release(self) -> None:
        for gate in self._gates:
            gate.close()
