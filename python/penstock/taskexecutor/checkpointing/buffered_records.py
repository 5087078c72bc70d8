"""The records behind a `BarrierBuffer`, as the reading loop of a task takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import network
from penstock.errors import CorruptStreamError
from penstock.network.data_type import DataType
from penstock.network.pure.gate.input_gate import DATA, END_OF_INPUT, EVENT, NOTHING

if TYPE_CHECKING:
    from penstock.network import InputGate
    from penstock.network.pure.gate.input_gate import RecordBatch
    from penstock.taskexecutor.checkpointing.barrier_buffer import BarrierBuffer


class BufferedRecords:
    """Cuts what a `BarrierBuffer` lets through into records; a gate for the loop in Python.

    The loop of the native data plane reads its gate by itself, so that nothing could be kept in
    between; both runtimes read behind a `BarrierBuffer` with the other one.
    """

    #: Nothing overtakes anything here.
    _is_urgent = False

    def __init__(self, gate: InputGate, buffer: BarrierBuffer, temp_directory: str) -> None:
        """Reads from ``buffer``, which reads from ``gate``.

        Args:
            gate: Counts the channels.
            buffer: Gives the records.
            temp_directory: Where records are gathered that are too long for memory.
        """
        self.num_channels = gate.num_channels
        self._buffer = buffer
        self._deserializers: list[Any] = [
            network.RecordDeserializer([temp_directory]) for _ in range(gate.num_channels)
        ]

    @property
    def _idle_ns(self) -> int:
        """Nanoseconds for which reading has waited."""
        return self._buffer.idle_ns

    def _next_records(self, timeout_ms: int) -> RecordBatch:
        """The records that end in the next buffer, or the next event.

        Raises:
            CorruptStreamError: A record is cut off by an event.
        """
        _, element = self._buffer.step(timeout_ms)
        if element is None:
            return (END_OF_INPUT if self._buffer.is_finished else NOTHING), -1, 0, []
        channel, data_type, data = element
        deserializer = self._deserializers[channel]
        if data_type.is_buffer:
            return DATA, channel, data_type, deserializer.records_of(data)
        # Recovered data may end inside of a record, which what follows it ends.
        may_split = data_type is DataType.RECOVERY_COMPLETION
        if deserializer.has_pending_bytes and not may_split:
            raise CorruptStreamError(
                f"{data_type.name} on channel {channel} inside a record: broken serialization"
            )
        return EVENT, channel, data_type, [data]

    def _next_urgent(self) -> None:
        """Nothing overtakes anything here."""

    def unconsumed(self, channel: int) -> bytes:
        """The begun record of a channel, as it came."""
        return bytes(self._deserializers[channel].unconsumed())
