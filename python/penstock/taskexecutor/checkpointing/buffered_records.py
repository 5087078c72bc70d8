"""Records behind a `BarrierBuffer`, for the reading loop of a task."""

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
    """Deserialises the records that a `BarrierBuffer` passes; a gate for the loop in Python.

    The native data plane's loop reads its gate itself, so nothing could be buffered in between;
    both runtimes use the Python loop behind a `BarrierBuffer`.
    """

    #: No event overtakes data here.
    _is_urgent = False

    def __init__(self, gate: InputGate, buffer: BarrierBuffer, temp_directory: str) -> None:
        """Create a reader of ``buffer``, which reads from ``gate``.

        Args:
            gate: Provides the number of channels.
            buffer: Provides buffers and events.
            temp_directory: Directory for records too long for memory.
        """
        self.num_channels = gate.num_channels
        self._buffer = buffer
        self._deserializers: list[Any] = [
            network.RecordDeserializer([temp_directory]) for _ in range(gate.num_channels)
        ]

    @property
    def _idle_ns(self) -> int:
        """Nanoseconds spent waiting for input."""
        return self._buffer.idle_ns

    def _next_records(self, timeout_ms: int) -> RecordBatch:
        """Return the records that end in the next buffer, or the next event.

        Raises:
            CorruptStreamError: An event cuts off a record.
        """
        _, element = self._buffer.step(timeout_ms)
        if element is None:
            return (END_OF_INPUT if self._buffer.is_finished else NOTHING), -1, 0, []
        channel, data_type, data = element
        deserializer = self._deserializers[channel]
        if data_type.is_buffer:
            return DATA, channel, data_type, deserializer.records_of(data)
        # Recovered data may end inside a record, which the following data completes.
        may_split = data_type is DataType.RECOVERY_COMPLETION
        if deserializer.has_pending_bytes and not may_split:
            raise CorruptStreamError(
                f"{data_type.name} on channel {channel} inside a record: broken serialization"
            )
        return EVENT, channel, data_type, [data]

    def _next_urgent(self) -> None:
        """Return None: no event overtakes data here."""

    def unconsumed(self, channel: int) -> bytes:
        """Return the bytes of a channel's incomplete record, as received."""
        return bytes(self._deserializers[channel].unconsumed())
