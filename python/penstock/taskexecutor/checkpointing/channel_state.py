"""What is in flight at a task's inputs when an unaligned checkpoint passes (SEMANTICS F6)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import IllegalStateError

if TYPE_CHECKING:
    from penstock.network import InputGate


class ChannelStateCapture:
    """Keeps the data of all gates' channels that belongs to one checkpoint at a time."""

    def __init__(self, gates: list[InputGate]) -> None:
        """Captures from ``gates``, whose channels are numbered one after the other."""
        self._gates = gates
        self._begun: list[bytes] | None = None
        self._checkpoint_id = -1

    def start(self, checkpoint_id: int) -> None:
        """Begins: what was read in part comes first.

        Raises:
            IllegalStateError: A later checkpoint's barrier has arrived.
        """
        self._checkpoint_id = checkpoint_id
        self._begun = [
            gate.unconsumed(channel) for gate in self._gates for channel in range(gate.num_channels)
        ]
        for gate in self._gates:
            gate.start_persisting(checkpoint_id)

    @property
    def is_complete(self) -> bool:
        """Whether there is no channel that could bring anything."""
        return not self._gates

    def take(self) -> list[list[bytes]]:
        """What was kept, by channel: in order, and as it came."""
        if self._begun is None:
            return []
        kept: list[list[bytes]] = []
        for gate in self._gates:
            for channel in range(gate.num_channels):
                buffers, _ = gate.take_persisted(channel)
                kept.append([self._begun[len(kept)], *buffers])
        return kept

    def stop(self, checkpoint_id: int) -> None:
        """Ends for a checkpoint and those before it; nothing is kept any more."""
        if self._begun is not None and self._checkpoint_id <= checkpoint_id:
            self._begun = None
            for gate in self._gates:
                with suppress(IllegalStateError):
                    gate.stop_persisting(checkpoint_id)
