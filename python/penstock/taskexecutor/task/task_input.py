"""The network input of a task: gates, their watermarks, and the end of each input."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from penstock import network
from penstock.columns.exchange import ReceivedBatches, has_batches
from penstock.common.options import checkpointing
from penstock.errors import CorruptStreamError
from penstock.network.events import (
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfChannelState,
    EndOfData,
    EndOfPartition,
    EventAnnouncement,
    StopMode,
    TaskEvent,
    parse_event,
    serialize_event,
)
from penstock.serialization.codec import codec_for
from penstock.taskexecutor.checkpointing.barrier_buffer import BarrierBuffer
from penstock.taskexecutor.checkpointing.barrier_handler import FirstBarrier
from penstock.taskexecutor.checkpointing.buffer_blocker import BufferSpiller, CachedBufferBlocker
from penstock.taskexecutor.checkpointing.buffered_records import BufferedRecords
from penstock.taskexecutor.iterations.supersteps import SuperstepAlignment, is_superstep_marker
from penstock.taskexecutor.task.record_sample import SampledInput
from penstock.taskexecutor.time.watermark_valve import StatusWatermarkValve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.job_graph import ChainConfig
    from penstock.network import InputGate
    from penstock.taskexecutor.checkpointing.task_checkpoints import TaskCheckpoints
    from penstock.taskexecutor.compiled import Input
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.record_sample import RecordSample
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

_END_OF_INPUT = 2


class TaskInput:
    """Reads all gates of a task as one, and calls the inputs of the head operator.

    Several gates may feed one input: their channels share one watermark valve.
    """

    def __init__(
        self,
        chain: ChainConfig,
        environment: TaskEnvironment,
        operators: OperatorChain,
        *,
        is_finished: bool = False,
    ) -> None:
        """Create the union of a task's gates.

        Args:
            chain: Provides the type of each gate's records.
            environment: Provides the gates.
            operators: Process the records.
            is_finished: Whether the operators had ended before the restored checkpoint: then they
                are not called.
        """
        self._head = operators.head
        self._is_finished = is_finished
        self._operators = operators
        self.checkpoints: TaskCheckpoints | None = None
        self._supersteps = SuperstepAlignment()
        self._ended = False
        self._gathered_event = b""
        self._gathered_bytes = 0
        self.debloated: list[tuple[int, int]] = []
        """Last results of `debloat`, by gate: buffer size in bytes, and drain time in ms."""
        self._gates = [gate for _, gate in environment.gates]
        self._inputs: dict[int, Input] = {}
        self._input_of_channel: list[int] = []
        self._index_in_input: list[int] = []
        self._open_channels: dict[int, set[int]] = {}
        codecs: list[Any] = []
        inputs: list[Input] = []
        batches: list[ReceivedBatches | None] = []
        for index, (input_number, gate) in enumerate(environment.gates):
            declared = cast("Any", chain.gates[index].type)
            codec = codec_for(declared)
            received = None
            if has_batches(declared):
                combined = operators.combined_type(chain.gates[index])
                received = ReceivedBatches(declared, combined)
            if input_number not in self._inputs:
                self._inputs[input_number] = operators.get_input(input_number)
                self._open_channels[input_number] = set()
            for _ in range(gate.num_channels):
                channel = len(self._input_of_channel)
                self._index_in_input.append(len(self._open_channels[input_number]))
                self._open_channels[input_number].add(channel)
                self._input_of_channel.append(input_number)
                codecs.append(codec)
                batches.append(received)
                inputs.append(self._inputs[input_number])
        self._valves = {
            number: StatusWatermarkValve(
                len(channels),
                self._inputs[number].process_watermark,
                self._inputs[number].process_status,
            )
            for number, channels in self._open_channels.items()
        }
        # A single gate is read directly: a union of one would only add a call per buffer.
        self._gate = (
            self._gates[0]
            if len(self._gates) == 1
            else environment.network.create_union_gate(self._gates)
        )
        self.barrier_buffer = _barrier_buffer(self._gate, environment)
        if self.barrier_buffer is None:
            self._processor = network.StreamInputProcessor(self._gate, codecs, inputs, self)
        else:
            records = BufferedRecords(self._gate, self.barrier_buffer, environment.temp_directory())
            loop = network.load("StreamInputProcessor", "pure")
            self._processor = loop(records, codecs, inputs, self)
        if any(batches):
            self._processor.batches = batches

    # As barriers see it ---------------------------------------------------------------------

    @property
    def num_channels(self) -> int:
        """Number of channels of all gates, numbered consecutively."""
        return self._gate.num_channels

    @property
    def processed_bytes(self) -> int:
        """Bytes processed so far."""
        return self.bytes_in

    def resume_consumption(self, channel: int) -> None:
        """Resume a channel that has delivered an aligned barrier."""
        self._gate.resume_consumption(channel)

    def resume_all(self, channels: Sequence[int]) -> None:
        """Resume several channels that have delivered aligned barriers."""
        self._gate.resume_all(channels)

    def gather_barriers(self, barrier: CheckpointBarrier | None, left: int) -> None:
        """Report only the last of ``left`` more aligned barriers that equal this one."""
        event = None if barrier is None else serialize_event(barrier)
        self._gathered_event = event or b""
        self._gate.gather_barriers(event, left)

    def take_gathered(self) -> tuple[list[int], FirstBarrier | None]:
        """Stop gathering and return the channels whose barrier was not reported."""
        channels, first = self._gate.take_gathered()
        event = self._gathered_event if first is None else first[0]
        told = None
        if first is not None:
            barrier = cast("CheckpointBarrier", parse_event(event))
            processed = first[2] + self._gathered_bytes + len(event)
            told = FirstBarrier(barrier, first[1] / 1e6, processed)
        self._gathered_bytes += len(channels) * len(event)
        return channels, told

    def prioritize_barrier(self, channel: int, checkpoint_id: int) -> bool:
        """Let an announced barrier overtake the data before it; return False if it is not here."""
        return self._gate.prioritize_barrier(channel, checkpoint_id)

    def unconsumed(self, channel: int) -> bytes:
        """Return the bytes of a channel that were read and not processed."""
        return self._processor.unconsumed(channel)

    # As the task sees it --------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Return whether every channel has ended."""
        return self._ended

    def request_partitions(self) -> None:
        """Request the producers' data."""
        for gate in self._gates:
            gate.request_partitions()

    @property
    def records_in(self) -> int:
        """Records read so far."""
        return self._processor.records_in

    @property
    def bytes_in(self) -> int:
        """Bytes of records and events read so far."""
        # Barriers counted at the gate did not pass through the processor.
        return self._processor.bytes_in + self._gathered_bytes

    @property
    def received(self) -> tuple[int, int, int, int]:
        """Bytes and buffers read from producers in this process, and from those elsewhere."""
        return self._gate.received()

    @property
    def input_numbers(self) -> list[int]:
        """Numbers of the head operator's inputs, from 0."""
        return sorted(self._valves)

    def buffers(self) -> tuple[int, int, int]:
        """Return the number of waiting buffers, of those in the gates' own memory, and of all."""
        return self._gate.buffer_usage()

    def watermark(self, input_number: int | None) -> int:
        """Return the watermark of an input, or of the slowest one."""
        if input_number is not None:
            return self._valves[input_number].last_watermark
        return min(valve.last_watermark for valve in self._valves.values())

    def holding_channels(self) -> dict[int, tuple[int, list[int], int]]:
        """Return the channels that hold event time back.

        Returns:
            By gate: the watermark of its channels that are behind, their numbers within the gate,
            and the gate's number of channels.
        """
        watermark = self.watermark(None)
        found: dict[int, tuple[int, list[int], int]] = {}
        first = 0
        for index, gate in enumerate(self._gates):
            number = self._input_of_channel[first]
            valve = self._valves[number]
            if valve.last_watermark == watermark and not valve.is_idle:
                behind = set(valve.holding_channels())
                channels = [
                    channel
                    for channel in range(gate.num_channels)
                    if self._index_in_input[first + channel] in behind
                ]
                if channels:
                    found[index] = watermark, channels, gate.num_channels
            first += gate.num_channels
        return found

    @property
    def idle_ns(self) -> int:
        """Nanoseconds spent waiting for input."""
        return self._processor.idle_ns

    def sample(self, edge: int, sample: RecordSample | None) -> None:
        """Describe the records of an edge to ``sample`` from the next buffer on; None ends that.

        Args:
            edge: The number of the gate.
            sample: Receives the descriptions.
        """
        first = sum(gate.num_channels for gate in self._gates[:edge])
        for channel in range(first, first + self._gates[edge].num_channels):
            target = self._inputs[self._input_of_channel[channel]]
            self._processor.inputs[channel] = (
                target if sample is None else SampledInput(target, sample)
            )

    def debloat(self, share: float) -> bool:
        """Announce buffer sizes to the producers; return False if debloating is disabled.

        Args:
            share: Share of the target time that data in flight to this task may take.
        """
        self.debloated = self._gate.debloat(share)
        return bool(self.debloated)

    def process_next(self, timeout_ms: int) -> bool:
        """Process at most one buffer; return False when every input has ended.

        Raises:
            CorruptStreamError: A channel ended without an end-of-data event.
        """
        if not any(self._open_channels.values()):
            return False
        result = self._processor.process_next(timeout_ms)
        self._ended = result == _END_OF_INPUT
        if self._ended and any(self._open_channels.values()):
            missing = sorted(c for channels in self._open_channels.values() for c in channels)
            msg = f"channels {missing} ended before their end of data"
            raise CorruptStreamError(msg)
        return True

    def process_urgent(self) -> None:
        """Process events that overtake data, and no data: the outputs have no buffer."""
        self._processor.process_urgent()

    def read_to_end(self, timeout_ms: int) -> bool:
        """Read one buffer after the end of data; return whether every channel has ended."""
        self._ended = self._ended or self._processor.process_next(timeout_ms) == _END_OF_INPUT
        return self._ended

    def close(self) -> None:
        """Release the buffer being read when an error ended the task."""
        self._gate.release_batch()

    def wakeup(self) -> None:
        """End a wait in ``process_next``; any thread."""
        self._gate.wakeup()

    def on_watermark(self, channel: int, timestamp: int) -> None:
        """Handle a watermark; called by the input processor."""
        if self._is_finished:
            return
        valve = self._valves[self._input_of_channel[channel]]
        valve.watermark(self._index_in_input[channel], timestamp)

    def on_status(self, channel: int, idle: bool) -> None:
        """Handle a channel that became idle or active; called by the input processor."""
        valve = self._valves[self._input_of_channel[channel]]
        valve.status(self._index_in_input[channel], idle)

    def on_latency_marker(
        self, channel: int, marked_time: int, lower: int, upper: int, subtask: int
    ) -> None:
        """Handle a latency marker; called by the input processor."""
        latency = self._operators.latency
        if latency is not None:
            latency.record(marked_time, lower, upper, subtask, self._operators.now())
        target = self._inputs[self._input_of_channel[channel]]
        target.process_latency_marker(marked_time, lower, upper, subtask)

    def on_record_attributes(self, channel: int, is_backlog: bool) -> None:
        """Ignore record attributes, which no operator here uses; called by the input processor."""

    def on_internal_watermark(
        self,
        channel: int,
        timestamp: int,
        subpartition: int,  # noqa: ARG002
    ) -> None:
        """Handle the watermark of a channel's only subpartition; called by the input processor."""
        self.on_watermark(channel, timestamp)

    def on_event(self, channel: int, event_bytes: bytes, data_type: int) -> None:  # noqa: ARG002
        """Handle an event; called by the input processor.

        Raises:
            CorruptStreamError: The event is not valid here.
        """
        event = parse_event(event_bytes)
        if isinstance(event, EndOfData):
            input_number = self._input_of_channel[channel]
            open_channels = self._open_channels[input_number]
            open_channels.discard(channel)
            if self.checkpoints is not None:
                self.checkpoints.inputs_stopped(event.mode)
            if not open_channels and event.mode is StopMode.DRAIN and not self._is_finished:
                self._head.end_input(input_number)
            self._end_supersteps()
        elif isinstance(
            event, (CheckpointBarrier, CancelCheckpointMarker, EventAnnouncement, EndOfPartition)
        ):
            self._handle_barrier(channel, event)
        elif isinstance(event, EndOfChannelState):
            # The in-flight data has been read; from now on the channel delivers new data.
            return
        elif isinstance(event, TaskEvent) and is_superstep_marker(event):
            self._supersteps.add(channel, event)
            self._end_supersteps()
        else:
            msg = f"unexpected event {event!r}"
            raise CorruptStreamError(msg)

    def _handle_barrier(
        self,
        channel: int,
        event: CheckpointBarrier | CancelCheckpointMarker | EventAnnouncement | EndOfPartition,
    ) -> None:
        handler = None if self.checkpoints is None else self.checkpoints.handler
        if handler is None:
            # A source has none; a `BarrierBuffer` has handled the event.
            return
        match event:
            case CheckpointBarrier():
                handler.on_barrier(channel, event)
            case CancelCheckpointMarker():
                handler.on_cancellation(channel, event.checkpoint_id)
            case EventAnnouncement():
                if isinstance(event.event, CheckpointBarrier):
                    handler.on_announcement(channel, event.event)
            case EndOfPartition():
                handler.on_end_of_partition(channel)

    def _end_supersteps(self) -> None:
        still_open = [c for channels in self._open_channels.values() for c in channels]
        for group, quiet_steps in self._supersteps.completed(still_open):
            self._operators.end_superstep(group, quiet_steps)


def _barrier_buffer(gate: InputGate, environment: TaskEnvironment) -> BarrierBuffer | None:
    """Return the buffer that stores data behind barriers, if the job configures one."""
    where = checkpointing.BARRIER_BUFFER.read(environment.configuration)
    if where == "NONE":
        return None
    blocker = (
        CachedBufferBlocker() if where == "MEMORY" else BufferSpiller(environment.temp_directory())
    )
    limit_bytes = checkpointing.BARRIER_BUFFER_LIMIT.read(environment.configuration)
    return BarrierBuffer(gate, blocker, lambda: time.time_ns() // 1_000_000, limit_bytes)
