"""Writes an operator's elements to the subpartitions of an exchange, in plain Python (M10, M13)."""

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.errors import SerializationError
from penstock.network.pure import arguments
from penstock.network.pure.channel_selector import ALL_CHANNELS, ChannelSelector
from penstock.network.stream_element import (
    MIN_TIMESTAMP,
    RECORD,
    RECORD_WITH_TIMESTAMP,
    encode_internal_watermark,
    encode_latency_marker,
    encode_record_attributes,
    encode_status,
    encode_watermark,
)
from penstock.serialization.pure.codec import Codec
from penstock.serialization.pure.uncopied import Uncopied
from penstock.serialization.pure.value_bytes import I32, I64, MAX_RECORD_BYTES, JobBytes
from penstock.taskexecutor.compiled.operator_loop import Output

if TYPE_CHECKING:
    from penstock.network.pure.partition.result_partition import ResultPartition

_NO_LENGTH = bytes(4)


class RecordWriter(Uncopied, Output):
    """Writes to one partition; used by the task's thread only.

    Args:
        partition: The partition, which has no other writer.
        selector: Chooses the subpartition of each record; see `make_selector`.
        codec: Encodes the values; see `codec_for`.

    Attributes:
        batches: Always None: only the native runtime writes batches of records.
        records_out: Number of records passed to :meth:`collect`.
        records_computed: Always 0: only the native runtime writes records without creating objects.
        bytes_out: Bytes written for all elements, a broadcast one counted for each channel.

    Raises:
        IllegalStateError: the partition has a writer already.
        ValueError: the selector is one of another number of channels.
    """

    def __init__(
        self, partition: "ResultPartition", selector: ChannelSelector, codec: Codec
    ) -> None:
        if selector.num_channels != partition.num_subpartitions:
            raise ValueError(
                f"a selector of {selector.num_channels} channels for a partition of "
                f"{partition.num_subpartitions}"
            )
        self.partition = partition
        self.selector = selector
        self.codec = codec
        self.batches: None = None
        self.num_channels = partition.num_subpartitions
        self.records_out = 0
        self.records_computed = 0
        self.bytes_out = 0
        self.last_watermark = MIN_TIMESTAMP
        partition._attach(self)

    def collect(self, value: Any, timestamp: int) -> None:
        """Write a record to the channel that the selector chooses.

        Raises:
            SerializationError: the value is not of the declared type.
            CancelTaskError: the partition was released.
        """
        timestamp = arguments.truncated(timestamp)
        self._write(self.selector.select(value), value, timestamp)

    def collect_all(self, values: Iterable[object], timestamp: int) -> None:
        """Write records of one timestamp, each before the next is requested."""
        timestamp = arguments.truncated(timestamp)
        for value in values:
            self.collect(value, timestamp)

    def emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write as :meth:`collect`, by default a record without a timestamp."""
        timestamp = arguments.truncated(timestamp)
        self._write(self.selector.select(value), value, timestamp)

    def broadcast_emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write a record to every channel, whatever the selector; it is serialized once."""
        self._write(ALL_CHANNELS, value, arguments.truncated(timestamp))

    def random_emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write a record to a channel chosen at random."""
        channel = random.randrange(self.num_channels)
        self._write(channel, value, arguments.truncated(timestamp))

    def _write(self, channel: int | list[int], value: Any, timestamp: int) -> None:
        if isinstance(channel, list):
            for each in channel:
                self._write(each, value, timestamp)
            return
        out = JobBytes(_NO_LENGTH)
        if timestamp == MIN_TIMESTAMP:
            out.append(RECORD)
        else:
            out.append(RECORD_WITH_TIMESTAMP)
            out += I64.pack(timestamp)
        self.codec.encode_into(out, value)
        if len(out) - 4 > MAX_RECORD_BYTES:
            raise SerializationError(f"a record of more than {MAX_RECORD_BYTES} bytes")
        I32.pack_into(out, 0, len(out) - 4)
        self.partition._append_framed(channel, out)
        self.records_out += 1
        self.bytes_out += len(out) * self.num_channels if channel == ALL_CHANNELS else len(out)

    def emit_watermark(self, timestamp: int) -> None:
        """Write a watermark to every channel."""
        self.last_watermark = arguments.truncated(timestamp)
        self._broadcast(encode_watermark(self.last_watermark))

    def emit_status(self, idle: bool) -> None:
        """Write to every channel that this stream became idle or active."""
        self._broadcast(encode_status(idle))

    def emit_record_attributes(self, is_backlog: bool) -> None:
        """Write to every channel whether the following records are a backlog."""
        self._broadcast(encode_record_attributes(is_backlog))

    def emit_internal_watermark(self, timestamp: int) -> None:
        """Write to every channel a watermark that names its subpartition."""
        timestamp = arguments.truncated(timestamp)
        for channel in range(self.num_channels):
            payload = encode_internal_watermark(timestamp, channel)
            framed = I32.pack(len(payload)) + payload
            self.partition._append_framed(channel, framed)
            self.bytes_out += len(framed)

    def emit_latency_marker(
        self, marked_time: int, operator_id_lower: int, operator_id_upper: int, subtask: int
    ) -> None:
        """Write a latency marker to a channel chosen at random."""
        payload = encode_latency_marker(
            arguments.truncated(marked_time),
            arguments.truncated(operator_id_lower),
            arguments.truncated(operator_id_upper),
            arguments.truncated(subtask, 32),
        )
        framed = I32.pack(len(payload)) + payload
        self.partition._append_framed(random.randrange(self.num_channels), framed)
        self.bytes_out += len(framed)

    def broadcast_event(self, event: bytes, data_type: int) -> None:
        """Send a serialized event to every channel, after everything written so far."""
        self.partition.broadcast_event(event, arguments.truncated(data_type, 32))

    def overtake(self, event: bytes, data_type: int) -> list[list[bytes]]:
        """Send an event with priority ahead of the queue; return the data it overtakes."""
        return self.partition.overtake(event, arguments.truncated(data_type, 32))

    def flush(self) -> None:
        """Make everything that was written readable."""
        self.partition.flush_all()

    def flush_all(self) -> None:
        """Make everything that was written readable; Flink's name of :meth:`flush`."""
        self.partition.flush_all()

    def is_available(self) -> bool:
        """Return whether a record can be started without waiting for a buffer."""
        return self.partition.is_available()

    def _broadcast(self, payload: bytes) -> None:
        framed = I32.pack(len(payload)) + payload
        if self.selector.is_broadcast:
            self.partition._append_framed(ALL_CHANNELS, framed)
        else:
            # Keep the open buffers of the channels: a shared buffer would finish all of them.
            for channel in range(self.num_channels):
                self.partition._append_framed(channel, framed)
        self.bytes_out += len(framed) * self.num_channels
