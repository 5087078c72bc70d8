"""The interface of both data-plane runtimes, for the type checker and for readers.

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
        """Segments held by the writer, the queues or the network."""

    @property
    def buffers_total(self) -> int:
        """The most segments that the partition may hold now; beyond it, its writer waits."""

    def broadcast_event(self, event: bytes, data_type: int) -> None:
        """Send a serialized event to every subpartition, after everything written so far.

        Raises:
            CancelTaskError: the partition was failed or released.
        """

    def overtake(self, event: bytes, data_type: int) -> list[list[bytes]]:
        """Send an event with priority to every subpartition, ahead of all queued elements.

        If the partition has a record writer, call its method instead, since it may have an open
        buffer.  Returns the contents of the overtaken data buffers, by subpartition and in order:
        the output that belongs to the event's checkpoint.

        Raises:
            CancelTaskError: the partition was failed or released.
            IllegalStateError: the event has no priority, or the partition is a blocking one.
        """

    def time_out_barrier(
        self, checkpoint_id: int, event: bytes, data_type: int
    ) -> list[list[bytes]]:
        """Replace a checkpoint's timeoutable barrier by an event with priority.

        It does so in each subpartition in which the barrier still waits, and returns the overtaken
        data as `overtake` does.  In a subpartition that the barrier has left, it sends and returns
        nothing.

        Raises:
            IllegalStateError: the event has no priority, or the partition is a blocking one.
        """

    def wait_barrier_taken(self, checkpoint_id: int, timeout_ms: int) -> bool:
        """Wait until every reader has taken the timeoutable barrier of a checkpoint.

        Return False on a timeout.  Any thread may wait.
        """

    def recover(self, subpartition: int, buffers: Sequence[bytes]) -> None:
        """Restore a reader's in-flight data in front of everything written later.

        ``buffers`` are the results of `overtake` and `time_out_barrier`, in order.

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
        """Fail the partition: readers get the cause, a blocked writer gets CancelTaskError."""

    def release(self) -> None:
        """Release everything."""

    @property
    def hard_back_pressured_ms(self) -> int:
        """Total milliseconds for which the writer waited for buffers within records."""

    def take_longest_wait_ms(self) -> int:
        """Return the longest of these waits since the last call, in milliseconds."""

    @property
    def buffers_out(self) -> int:
        """Buffers and events that were added since the start."""

    def next_task_event(self, timeout_ms: int) -> bytes | None:
        """Return the next event that a consumer sent to this task.

        None means a timeout.

        Raises:
            CancelTaskError: the partition was released.
        """

    def is_available(self) -> bool:
        """Return whether a record can be begun without waiting for a buffer."""

    def wait_available(self, timeout_ms: int) -> bool:
        """Wait until a record can begin; return False on a timeout."""

    def wait_consumed(self, timeout_ms: int) -> bool:
        """Wait until every reader has read everything, or the partition is released."""


class InputGate(Protocol):
    """Input of one task from one exchange, or from several."""

    @property
    def num_channels(self) -> int:
        """Number of channels."""

    def request_partitions(self) -> None:
        """Request the data of all producers."""

    def next_buffer(self, timeout_ms: int) -> tuple[int, int, bytes] | None:
        """Return channel, data type and bytes of the next buffer.

        None means a timeout, a wakeup of the gate, or the end of all input.
        A negative timeout waits without limit.

        Raises:
            CancelTaskError: the gate was closed.
            PartitionConnectionError: the connection to a producer's executor is lost.
            PartitionNotFoundError: a producer does not know its partition.
            ProducerFailedError: a producer has failed.
        """

    def wakeup(self) -> None:
        """Make the current or the next read return without a buffer."""

    def resume_consumption(self, channel: int) -> None:
        """Let a channel continue after a blocking event."""

    def resume_all(self, channels: Sequence[int]) -> None:
        """Let several channels continue after blocking events."""

    def gather_barriers(self, event: bytes | None, left: int) -> None:
        """Count the aligned barriers that equal ``event`` instead of delivering them.

        None matches the next aligned barrier, whichever it is.  The last of the ``left``
        outstanding barriers is delivered, and so is everything else; the channels of counted
        barriers stay blocked.  Only the thread that reads by a StreamInputProcessor may call this;
        it sleeps until then if it has nothing else to read.
        """

    def take_gathered(self) -> tuple[list[int], tuple[bytes, int, int] | None]:
        """Stop gathering; return the channels whose barriers were counted, and the first barrier.

        The first barrier is None unless gathering matched any barrier and one arrived.  Otherwise
        it consists of its bytes, the nanoseconds since its arrival, and the bytes of elements and
        events that were delivered before it.
        """

    def send_task_event(self, event: bytes) -> None:
        """Send a serialized task event to the producers of all channels that have not ended.

        If a producer is absent or has too many unread events, its channel fails.

        Raises:
            CancelTaskError: the gate was closed.
            CorruptStreamError: the bytes are not a task event.
            IllegalStateError: the event is too long, or the partitions were not requested.
        """

    def recover(self, channel: int, buffers: Sequence[bytes]) -> None:
        """Restore a channel's in-flight data in front of everything that arrives later.

        ``buffers`` are what `StreamInputProcessor.unconsumed` and `take_persisted` returned, in
        order; an EndOfChannelState follows them.  Events that overtake data are read before.

        Raises:
            CancelTaskError: the gate was closed.
            IllegalStateError: there is no such channel, or the partitions were requested.
        """

    def start_persisting(self, checkpoint_id: int) -> None:
        """Start to copy the data that belongs to an unaligned checkpoint.

        This is the data in each channel before the checkpoint's barrier, and the data that arrives
        until the barrier does.  It is also read as usual.

        Raises:
            IllegalStateError: a later checkpoint's barrier has arrived; call ``stop_persisting``
                then.
        """

    def stop_persisting(self, checkpoint_id: int) -> None:
        """Stop copying for a checkpoint and any earlier one, and drop remaining copies."""

    def take_persisted(self, channel: int) -> tuple[list[bytes], bool]:
        """Return the contents of a channel's data buffers that were copied since the last call.

        The second value tells whether they are complete.

        Raises:
            IllegalStateError: there is no such channel.
        """

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let the announced barrier of a checkpoint overtake the data before it in its channel.

        It is read next, with the type of a priority event; its producer stays blocked until
        consumption is resumed.  Returns False if the barrier was not announced, or was read
        already.

        Raises:
            IllegalStateError: there is no such channel.
        """

    def unconsumed(self, channel: int) -> bytes:
        """Return the bytes of a channel's incomplete record, for replay in front of the rest.

        The gate's StreamInputProcessor holds these bytes; only the reading thread may call this.
        The data that `take_persisted` returns follows them.

        Raises:
            IllegalStateError: there is no such channel.
        """

    def debloat(self, share: float = 1.0) -> list[tuple[int, int]]:
        """Announce the next buffer size to the producers, by the throughput since the last call.

        ``share`` is this gate's share of the target time for in-flight data, up to 1.
        For each debloated gate: the announced size in bytes, and the milliseconds that processing
        all in-flight data takes.
        """

    def buffer_usage(self) -> tuple[int, int, int]:
        """Return the number of unread buffers, and the usage of the gate's own memory.

        The second number counts the buffers that arrived over a connection and are in the gate's
        memory, the third is their current limit.  Both are 0 if all producers are in this process.
        """

    def received(self) -> tuple[int, int, int, int]:
        """Return bytes and buffers read from local producers, and from remote ones.

        Events are included; data recovered from a checkpoint is not.
        """

    def is_finished(self) -> bool:
        """Return whether every channel has delivered EndOfPartition."""

    def release_batch(self) -> None:
        """Return the buffer that was read last to its pool; its records must not be used any more.

        Only the reading thread may call this, after an error ended its reading; otherwise the next
        read returns the buffer.
        """

    def close(self) -> None:
        """Release all buffers; blocked and later reads raise CancelTaskError."""


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
        """Create and register a partition; its id has 60 bytes.

        Raises:
            InsufficientBuffersError: its buffers cannot be guaranteed.
        """

    def create_input_gate(self, channels: Sequence[ChannelSpec]) -> InputGate:
        """Create a gate; it reserves its buffers now and requests its partitions later.

        Raises:
            InsufficientBuffersError: its buffers cannot be guaranteed.
        """

    def create_union_gate(self, gates: Sequence[InputGate]) -> InputGate:
        """Read several gates as one; a channel's index is its own plus its gate's offset."""

    def close(self) -> None:
        """Close gates, partitions, connections and threads."""


class RecordSerializer(Protocol):
    """Frames one record at a time and returns it piece by piece."""

    @property
    def has_serialized_data(self) -> bool:
        """Return whether bytes of the current record remain."""

    def add_record(self, payload: bytes) -> None:
        """Take the next record.

        Raises:
            IllegalStateError: the previous record is pending, or this one exceeds the
                maximum length.
        """

    def take(self, limit: int) -> bytes:
        """Take up to ``limit`` of the pending bytes."""


class RecordDeserializer(Protocol):
    """Splits the buffers of one channel into records."""

    @property
    def has_pending_bytes(self) -> bool:
        """Return whether a record is incomplete."""

    def records_of(self, buffer: bytes) -> Sequence[bytes | memoryview]:
        """Return the payloads that end in ``buffer``; keep the bytes of one that does not.

        Raises:
            CorruptStreamError: a length is negative.
            NetworkError: a long record cannot be written to a file.
        """

    def unconsumed(self) -> bytes:
        """Return the received pending bytes, for replay to a fresh deserializer."""

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
        """Write as `collect`, by default a record without a timestamp."""

    def broadcast_emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write a record to every channel, whatever the selector; it is serialized once."""

    def random_emit(self, value: Any, timestamp: int = MIN_TIMESTAMP) -> None:
        """Write a record to a channel chosen at random."""

    def emit_watermark(self, timestamp: int) -> None:
        """Write a watermark to every channel."""

    def emit_status(self, idle: bool) -> None:
        """Write a watermark status to every channel."""

    def emit_record_attributes(self, is_backlog: bool) -> None:
        """Write to every channel whether the following records are a backlog."""

    def emit_internal_watermark(self, timestamp: int) -> None:
        """Write to every channel a watermark that names its subpartition."""

    def broadcast_event(self, event: bytes, data_type: int) -> None:
        """Send an event to every channel, after everything written so far."""

    def overtake(self, event: bytes, data_type: int) -> list[list[bytes]]:
        """Send an event with priority ahead of the queue; see `ResultPartition.overtake`."""

    def flush(self) -> None:
        """Make every byte written so far readable."""

    def flush_all(self) -> None:
        """Make every byte written so far readable; Flink's name of `flush`."""

    def is_available(self) -> bool:
        """Return whether a record can be begun without waiting for a buffer."""


class ElementHandler(Protocol):
    """Handles stream elements other than records."""

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
        """Process at most one buffer; return 0 if none arrived, 1 if one did, 2 at the end.

        Events that overtake data are processed between the buffer's records.
        """

    @property
    def is_urgent(self) -> bool:
        """Return whether `process_urgent` may have something to do."""

    def process_urgent(self) -> bool:
        """Process arrived events that overtake data; return whether there were any."""

    def unconsumed(self, channel: int) -> bytes:
        """Return the received bytes of a channel that were not processed.

        These are the rest of the current buffer, if an event is processed between its records, and
        the incomplete record.  The data that `InputGate.take_persisted` returns follows them.

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
