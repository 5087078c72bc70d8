"""The reading loop of a task, in plain Python: from buffers of a gate to elements of operators."""

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import CorruptStreamError
from penstock.network.pure.arguments import truncated
from penstock.network.pure.gate.input_gate import DATA, END_OF_INPUT, EVENT
from penstock.network.stream_element import (
    IDLE,
    INTERNAL_WATERMARK,
    INTERNAL_WATERMARK_FORM,
    LATENCY_MARKER,
    LATENCY_MARKER_FORM,
    MIN_TIMESTAMP,
    RECORD,
    RECORD_ATTRIBUTES,
    RECORD_ATTRIBUTES_FORM,
    RECORD_BATCH,
    RECORD_WITH_TIMESTAMP,
    WATERMARK,
    WATERMARK_FORM,
    WATERMARK_STATUS,
    WATERMARK_STATUS_FORM,
)
from penstock.serialization.pure.codec import Codec
from penstock.serialization.pure.uncopied import Uncopied
from penstock.serialization.pure.value_bytes import I64
from penstock.taskexecutor.compiled.operator_loop import Input

if TYPE_CHECKING:
    from penstock.network.pure.gate.input_gate import InputGate

_LENGTH = struct.Struct(">i")

#: Results of :meth:`StreamInputProcessor.process_next`.
NOTHING_AVAILABLE = 0
PROCESSED = 1
END = 2


class StreamInputProcessor(Uncopied):
    """Reads one gate; used by the task's thread only.

    Args:
        gate: The gate, whose partitions were requested.
        codecs: Decoder of the values of each channel.
        inputs: Receiver of the records and watermarks of each channel.
        handler: Receiver of events, such as an `ElementHandler`.

    Attributes:
        records_in: Number of records passed to the inputs.
        bytes_in: Bytes of elements and events read, lengths included.
        batches: The batch decoder of each channel, None for channels without batches; None
            if no channel has batches.

    Raises:
        ValueError: there are not as many codecs and inputs as channels.
    """

    def __init__(
        self, gate: "InputGate", codecs: Sequence[Codec], inputs: Sequence[Input], handler: Any
    ) -> None:
        if len(codecs) != gate.num_channels or len(inputs) != gate.num_channels:
            raise ValueError(
                f"{len(codecs)} codecs and {len(inputs)} inputs for {gate.num_channels} channels"
            )
        self.gate = gate
        self.codecs = list(codecs)
        self.inputs = list(inputs)
        self.handler = handler
        self.batches: list[Any] | None = None
        self.records_in = 0
        self.bytes_in = 0
        self._rest_channel = -1
        self._rest: Sequence[bytes | memoryview] = ()

    @property
    def idle_ns(self) -> int:
        """Nanoseconds spent waiting in reads."""
        return self.gate._idle_ns

    def process_next(self, timeout_ms: int) -> int:
        """Process at most one buffer, and events that overtake it between its records.

        Returns:
            0 after a timeout or a wakeup of the gate, 1 if something was processed, 2 at
            the end of all channels.

        Raises:
            CorruptStreamError: the bytes are not those of elements.
            NetworkError: a channel failed.
            CancelTaskError: the gate was closed.
        """
        kind, channel, data_type, parts = self.gate._next_records(truncated(timeout_ms))
        if kind == DATA:
            codec, target = self.codecs[channel], self.inputs[channel]
            gate = self.gate
            for index, payload in enumerate(parts):
                if index and gate._is_urgent:
                    self._overtaken(channel, parts[index:])
                self._process(payload, channel, codec, target)
            return PROCESSED
        if kind == EVENT:
            event = bytes(parts[0])
            self.bytes_in += len(event)
            self.handler.on_event(channel, event, int(data_type))
            return PROCESSED
        return END if kind == END_OF_INPUT else NOTHING_AVAILABLE

    @property
    def is_urgent(self) -> bool:
        """Return whether `process_urgent` may have something to do."""
        return self.gate._is_urgent

    def process_urgent(self) -> bool:
        """Process arrived events that overtake data, and nothing else.

        Returns:
            Whether there were any.

        Raises:
            NetworkError: a channel failed.
            CancelTaskError: the gate was closed.
        """
        found = False
        while (taken := self.gate._next_urgent()) is not None:
            channel, data_type, event = taken
            found = True
            self.bytes_in += len(event)
            self.handler.on_event(channel, event, data_type)
        return found

    def unconsumed(self, channel: int) -> bytes:
        """Return the received bytes of a channel that were not processed.

        Raises:
            IllegalStateError: there is no such channel.
        """
        channel = truncated(channel, 32)
        begun = self.gate.unconsumed(channel)
        if channel != self._rest_channel:
            return begun
        framed = [_LENGTH.pack(len(payload)) + payload for payload in self._rest]
        return b"".join([*framed, begun])

    def _overtaken(self, channel: int, rest: Sequence[bytes | memoryview]) -> None:
        """Process the events that overtake the rest of a buffer."""
        self._rest_channel, self._rest = channel, rest
        try:
            self.process_urgent()
        finally:
            self._rest_channel, self._rest = -1, ()

    def _process(
        self, payload: bytes | memoryview, channel: int, codec: Codec, target: Input
    ) -> None:
        size = len(payload)
        self.bytes_in += size + 4
        if not size:
            raise CorruptStreamError("an element of 0 bytes")
        tag = payload[0]
        if tag == RECORD:
            value = codec.decode_at(payload, 1)
            self.records_in += 1
            target.process(value, MIN_TIMESTAMP)
        elif tag == RECORD_WITH_TIMESTAMP:
            if size < 9:
                raise CorruptStreamError(f"a record with timestamp of {size} bytes")
            timestamp = I64.unpack_from(payload, 1)[0]
            value = codec.decode_at(payload, 9)
            self.records_in += 1
            target.process(value, timestamp)
        elif tag == RECORD_BATCH and self.batches is not None:
            self._process_batch(channel, bytes(payload[1:]))
        elif tag == WATERMARK and size == WATERMARK_FORM.size:
            self.handler.on_watermark(channel, WATERMARK_FORM.unpack(payload)[1])
        elif tag == WATERMARK_STATUS and size == WATERMARK_STATUS_FORM.size:
            self.handler.on_status(channel, WATERMARK_STATUS_FORM.unpack(payload)[1] == IDLE)
        elif tag == LATENCY_MARKER and size == LATENCY_MARKER_FORM.size:
            self.handler.on_latency_marker(channel, *LATENCY_MARKER_FORM.unpack(payload)[1:])
        elif tag == RECORD_ATTRIBUTES and size == RECORD_ATTRIBUTES_FORM.size:
            self.handler.on_record_attributes(channel, RECORD_ATTRIBUTES_FORM.unpack(payload)[1])
        elif tag == INTERNAL_WATERMARK and size == INTERNAL_WATERMARK_FORM.size:
            _, subpartition, timestamp = INTERNAL_WATERMARK_FORM.unpack(payload)
            self.handler.on_internal_watermark(channel, timestamp, subpartition)
        else:
            raise CorruptStreamError(f"unknown element: tag {tag}, {size} bytes")

    def _process_batch(self, channel: int, payload: bytes) -> None:
        """Process the records of a batch with the channel's input."""
        assert self.batches is not None, "asked before"
        codec = self.batches[channel]
        if codec is None:
            raise CorruptStreamError(f"a batch of records on channel {channel}, which has none")
        batch = codec.decode(payload)
        self.records_in += len(batch)
        self.inputs[channel].process_batch(batch)
