"""Interface of both runtimes of the data plane, for the type checker and for readers.

Nothing here is instantiated: ``penstock.network`` resolves the same names to the native or the
pure classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from penstock.network.stream_element import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

ChannelSpec = tuple[bytes, int, tuple[str, int] | None]
"""Partition id, subpartition, and where its producer listens (None: in this environment)."""


class ResultPartition(Protocol):
    """Output of one subtask for all consumers of one exchange."""

    @property
    def num_subpartitions(self) -> int:
        """Number of consumers."""

    @property
    def buffers_queued(self) -> int:
        """Buffers and events that wait to be read."""

    @property
    def buffers_in_use(self) -> int:
        """Segments that the writer, the queues or the network hold."""

    @property
    def buffers_total(self) -> int:
        """Segments that the partition may have now, beyond which its writer waits."""

    def broadcast_event(self, event: bytes, data_type: int) -> None:
        """Send a serialized event to every subpartition, behind what was written.

        Raises:
            CancelTaskError: the partition was failed or released.
        """

    def overtake(self, event: bytes, data_type: int) -> list[list[bytes]]:
        """Send an event with priority to every subpartition, ahead of all that waits.

        A record writer on the partition must be asked instead: it may have a buffer open.
        Returns the contents of the data buffers that it overtakes, by subpartition and in order:
        the output that belongs to the event's checkpoint.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the event has no priority, or the partition is a blocking one.
        """

    def time_out_barrier(
        self, checkpoint_id: int, event: bytes, data_type: int
    ) -> list[list[bytes]]:
        """Put an event with priority in place of the timeoutable barrier of a checkpoint.

        That happens wherever the barrier still waits.  Returns as `overtake` does what is overtaken
        by this.  Where the barrier has left already that is nothing, and nothing is sent.

        Raises:
            IllegalStateError: the event has no priority, or the partition is a blocking one.
        """

    def wait_barrier_taken(self, checkpoint_id: int, timeout_ms: int) -> bool:
        """Wait until the timeoutable barrier of a checkpoint waits for no reader any more.

        False when the time is over.  Any thread may wait.
        """

    def recover(self, subpartition: int, buffers: Sequence[bytes]) -> None:
        """Put what was in flight to a reader in front of all that will be written to it.

        ``buffers`` are what `overtake` and `time_out_barrier` returned, in order.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the partition is a blocking one, was written to, or has no such
                subpartition.
        """

    def flush_all(self) -> None:
        """Make every byte written so far readable."""

    def finish(self) -> None:
        """Send EndOfPartition to every subpartition.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: it is finished already.
        """

    def fail(self, cause: str) -> None:
        """Readers get an error that names the cause; a blocked writer gets CancelTaskError."""

    def release(self) -> None:
        """Drop everything."""

    @property
    def hard_back_pressured_ms(self) -> int:
        """Milliseconds for which the writer has waited for buffers inside of records, up to now."""

    def take_longest_wait_ms(self) -> int:
        """Return the longest of these waits since the last call, in milliseconds."""

    @property
    def buffers_out(self) -> int:
        """Buffers and events that were added since the start."""

    def next_task_event(self, timeout_ms: int) -> bytes | None:
        """Return the next event that a consumer has sent to this task.

        None means that the time is over.

        Raises:
            CancelTaskError: the partition was released.
        """

    def is_available(self) -> bool:
        """Return whether a record can be begun without waiting for a buffer."""

    def wait_available(self, timeout_ms: int) -> bool:
        """Wait until that is so; False when the time is over."""

    def wait_consumed(self, timeout_ms: int) -> bool:
        """Wait until every reader has everything, or the partition is released."""


class InputGate(Protocol):
    """Input of one task from one exchange, or from several."""

    @property
    def num_channels(self) -> int:
        """Number of channels."""

    def request_partitions(self) -> None:
        """Ask all producers for their data."""

    def next_buffer(self, timeout_ms: int) -> tuple[int, int, bytes] | None:
        """Return channel, data type and bytes of the next buffer.

        None means that the time is over, the gate was woken, or everything has been read.
        A negative timeout waits for as long as it takes.

        Raises:
            CancelTaskError: the gate was closed.
            PartitionConnectionError: a producer's executor cannot be reached any more.
            PartitionNotFoundError: a producer does not know its partition.
            ProducerFailedError: a producer has failed.
        """

    def wakeup(self) -> None:
        """Make the present or else the next read return without a buffer."""

    def resume_consumption(self, channel: int) -> None:
        """Let a channel continue after a blocking event."""

    def resume_all(self, channels: Sequence[int]) -> None:
        """Let several channels continue after blocking events."""

    def gather_barriers(self, event: bytes | None, left: int) -> None:
        """Count the aligned barriers that equal ``event`` instead of handing them on.

        None is whichever aligned barrier comes next.
        The last one of the ``left`` that are still to come is handed on, and so is everything else;
        the channels of those that are counted stay blocked.  For the thread that reads by a
        StreamInputProcessor, which sleeps until then if there is nothing else to read.
        """

    def take_gathered(self) -> tuple[list[int], tuple[bytes, int, int] | None]:
        """End that; return the channels whose barriers were counted, and the first barrier.

        That is None unless it was whichever came next and one has come: its bytes, the nanoseconds
        since, and the bytes of elements and events that had been handed on before it.
        """

    def send_task_event(self, event: bytes) -> None:
        """Send a serialized task event to the producers of all channels that have not ended.

        A producer that is not there or lets too many events wait fails its channel.

        Raises:
            CancelTaskError: the gate was closed.
            CorruptStreamError: the bytes are no task event.
            IllegalStateError: the event is too long, or the partitions were not requested.
        """

    def recover(self, channel: int, buffers: Sequence[bytes]) -> None:
        """Put what was in flight in a channel in front of all that it will bring.

        ``buffers`` are what `StreamInputProcessor.unconsumed` and `take_persisted` returned, in
        order; an EndOfChannelState follows them.  Events that overtake data are read before.

        Raises:
            CancelTaskError: the gate was closed.
            IllegalStateError: there is no such channel, or the partitions were requested.
        """

    def start_persisting(self, checkpoint_id: int) -> None:
        """Begin to keep copies of the data that belongs to an unaligned checkpoint.

        That is what lies in each channel before the checkpoint's barrier, and what arrives until
        the barrier does; it is read as usual besides.

        Raises:
            IllegalStateError: a later checkpoint's barrier has arrived; ``stop_persisting`` then
                ends what has begun.
        """

    def stop_persisting(self, checkpoint_id: int) -> None:
        """End keeping for a checkpoint and any before it, and drop what was not taken."""

    def take_persisted(self, channel: int) -> tuple[list[bytes], bool]:
        """Return the contents of a channel's data buffers that were kept since the last call.

        The second value tells whether they are complete.

        Raises:
            IllegalStateError: there is no such channel.
        """

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let the announced barrier of a checkpoint overtake the data before it in its channel.

        It comes next, with a priority event's type; its producer stays blocked until consumption
        is resumed.  False when it is not there: not announced, or read already.

        Raises:
            IllegalStateError: there is no such channel.
        """

    def unconsumed(self, channel: int) -> bytes:
        """Return the begun record of a channel, as it came, for replay in front of the rest.

        That is what the gate's StreamInputProcessor has taken and not handed on; only the thread
        that reads may ask.  What `take_persisted` returns follows it.

        Raises:
            IllegalStateError: there is no such channel.
        """

    def debloat(self, share: float = 1.0) -> list[tuple[int, int]]:
        """Tell the producers how large their next buffers should be, by the pace since last time.

        ``share`` is the part of the target time that what is in flight here may take, up to 1.
        For each gate that is debloated: the size told last in bytes, and how long processing all
        that is in flight takes in milliseconds.
        """

    def buffer_usage(self) -> tuple[int, int, int]:
        """Return how many buffers wait to be read, and how full the gate's own memory is.

        The second number is of those that came over a connection and lie in the gate's memory,
        the third of how many of these there can be now; 0 where all producers are in this process.
        """

    def received(self) -> tuple[int, int, int, int]:
        """Return bytes and buffers read of producers in this process, and of those elsewhere.

        Events are included; what was recovered of a checkpoint is not.
        """

    def is_finished(self) -> bool:
        """Return whether every channel has delivered EndOfPartition."""

    def release_batch(self) -> None:
        """Give back the buffer that was read last, whose records nobody may use any more.

        For the reading thread alone, when an error has ended its reading: else the next read does
        so.
        """

    def close(self) -> None:
        """Give everything back; blocked and later reads raise CancelTaskError."""


class NetworkEnvironment(Protocol):
    """Pool, port, partitions and gates of one TaskExecutor."""

    @property
    def address(self) -> tuple[str, int]:
        """Address at which other executors reach this one."""

    @property
    def total_segments(self) -> int:
        """Size of the network buffer pool."""

    @property
    def available_segments(self) -> int:
        """Segments that no pool and no channel holds."""

    def create_result_partition(
        self,
        partition_id: bytes,
        num_subpartitions: int,
        partition_type: str = "PIPELINED_BOUNDED",
        flush_timeout_ms: int = 100,
    ) -> ResultPartition:
        """Make and register a partition; its id has 60 bytes.

        Raises:
            InsufficientBuffersError: its buffers cannot be promised.
        """

    def create_input_gate(self, channels: Sequence[ChannelSpec]) -> InputGate:
        """Make a gate; its buffers are taken now, its partitions requested later.

        Raises:
            InsufficientBuffersError: its buffers cannot be promised.
        """

    def create_union_gate(self, gates: Sequence[InputGate]) -> InputGate:
        """Read several gates as one; a channel's index is its own plus its gate's offset."""

    def close(self) -> None:
        """Close gates, partitions, connections and threads."""


class RecordSerializer(Protocol):
    """Frames one record at a time and hands it out piece by piece."""

    @property
    def has_serialized_data(self) -> bool:
        """Return whether bytes of the present record are still to be taken."""

    def add_record(self, payload: bytes) -> None:
        """Take the next record.

        Raises:
            IllegalStateError: the record before it is pending, or this one is longer than a
                length can say.
        """

    def take(self, limit: int) -> bytes:
        """Take up to ``limit`` of the pending bytes."""


class RecordDeserializer(Protocol):
    """Cuts the buffers of one channel back into records."""

    @property
    def has_pending_bytes(self) -> bool:
        """Return whether a record was begun and not ended."""

    def records_of(self, buffer: bytes) -> Sequence[bytes | memoryview]:
        """Return the payloads that end in ``buffer``; keep the bytes of one that does not.

        Raises:
            CorruptStreamError: a length is negative.
            NetworkError: a long record cannot be written to a file.
        """

    def unconsumed(self) -> bytes:
        """Return the pending bytes as they came, to be replayed to a fresh deserializer."""

    def clear(self) -> None:
        """Drop pending bytes and the spill file."""


class RecordWriter(Protocol):
    """Writes the elements of one output, each to the channels that its selector names."""

    @property
    def records_out(self) -> int:
        """Records written."""

    @property
    def records_computed(self) -> int:
        """Records that were written by their fields, without an object of their own."""

    @property
    def bytes_out(self) -> int:
        """Bytes written, framing included."""

    @property
    def last_watermark(self) -> int:
        """The last watermark written; the least timestamp before the first one."""

    def collect(self, value: Any, timestamp: int) -> None:
        """Write a record; the least timestamp means "none"."""

    def emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """As `collect`, by default a record without a timestamp."""

    def broadcast_emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write a record to every channel, whatever the selector; it is serialized once."""

    def random_emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write a record to a channel chosen at random."""

    def emit_watermark(self, timestamp: int) -> None:
        """Write a watermark to every channel."""

    def emit_status(self, idle: bool) -> None:
        """Write a watermark status to every channel."""

    def emit_record_attributes(self, is_backlog: bool) -> None:
        """Write to every channel whether what follows is a backlog."""

    def emit_internal_watermark(self, timestamp: int) -> None:
        """Write to every channel a watermark that names its subpartition."""

    def broadcast_event(self, event: bytes, data_type: int) -> None:
        """Send an event to every channel, behind what was written."""

    def overtake(self, event: bytes, data_type: int) -> list[list[bytes]]:
        """Send an event with priority ahead of all that waits; see `ResultPartition.overtake`."""

    def flush(self) -> None:
        """Make every byte written so far readable."""

    def flush_all(self) -> None:
        """Make every byte written so far readable; Flink's name of `flush`."""

    def is_available(self) -> bool:
        """Return whether a record can be begun without waiting for a buffer."""


class ElementHandler(Protocol):
    """Takes what is not a record from the reading loop."""

    def on_watermark(self, channel: int, timestamp: int) -> None:
        """A watermark arrived."""

    def on_status(self, channel: int, idle: bool) -> None:
        """A watermark status arrived."""

    def on_latency_marker(
        self, channel: int, marked: int, op_lower: int, op_upper: int, subtask: int
    ) -> None:
        """A latency marker arrived."""

    def on_record_attributes(self, channel: int, is_backlog: bool) -> None:
        """Record attributes arrived."""

    def on_internal_watermark(self, channel: int, timestamp: int, subpartition: int) -> None:
        """The watermark of a subpartition arrived."""

    def on_event(self, channel: int, event: bytes, data_type: int) -> None:
        """An event arrived."""


class StreamInputProcessor(Protocol):
    """The reading loop of a task."""

    @property
    def records_in(self) -> int:
        """Records read."""

    @property
    def bytes_in(self) -> int:
        """Bytes read."""

    @property
    def idle_ns(self) -> int:
        """Nanoseconds for which `process_next` has waited."""

    def process_next(self, timeout_ms: int) -> int:
        """Process one buffer at most: 0 nothing came, 1 processed, 2 the input has ended.

        Events that overtake data are handed on between the buffer's records.
        """

    @property
    def is_urgent(self) -> bool:
        """Return whether `process_urgent` may have something to do."""

    def process_urgent(self) -> bool:
        """Hand on the events that overtake data and have come; whether there were any."""

    def unconsumed(self, channel: int) -> bytes:
        """Return what was taken of a channel and not handed on, as it came.

        That is the rest of the buffer that is being processed, when an event is handed on between
        its records, and the begun record.  What `InputGate.take_persisted` returns follows it.

        Raises:
            IllegalStateError: there is no such channel.
        """


class ChannelSelector(Protocol):
    """Chooses the channel of a record."""

    @property
    def is_broadcast(self) -> bool:
        """Return whether every record goes to every channel."""

    def select(self, value: Any) -> int:
        """Return the channel's index."""
