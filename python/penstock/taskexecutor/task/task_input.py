"""The network inputs of a task: gates, their watermarks, and when each input ends."""

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
        """Unites the gates.

        Args:
            chain: Gives the element type of each gate.
            environment: Gives the gates.
            operators: Get the records.
            is_finished: The operators came to their end before the checkpoint that the task
                starts from: they are told of nothing.
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
        # One gate is read as it is: a union of one would only add a call per buffer.
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
        """The channels of all gates, numbered one after the other."""
        return self._gate.num_channels

    @property
    def processed_bytes(self) -> int:
        """Bytes that were processed until now."""
        return self.bytes_in

    def resume_consumption(self, channel: int) -> None:
        """Lets a channel go on that has delivered an aligned barrier."""
        self._gate.resume_consumption(channel)

    def resume_all(self, channels: Sequence[int]) -> None:
        """Lets several channels go on that have delivered aligned barriers."""
        self._gate.resume_all(channels)

    def gather_barriers(self, barrier: CheckpointBarrier | None, left: int) -> None:
        """Tells of no more aligned barriers like this one, but of the last of ``left`` to come."""
        event = None if barrier is None else serialize_event(barrier)
        self._gathered_event = event or b""
        self._gate.gather_barriers(event, left)

    def take_gathered(self) -> tuple[list[int], FirstBarrier | None]:
        """Ends that; the channels that have delivered a barrier of which nothing was told."""
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
        """Lets an announced barrier overtake the data before it; False when it is not here."""
        return self._gate.prioritize_barrier(channel, checkpoint_id)

    def unconsumed(self, channel: int) -> bytes:
        """Return the data of a channel that was read and not processed."""
        return self._processor.unconsumed(channel)

    # As the task sees it --------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Return whether every channel has ended."""
        return self._ended

    def request_partitions(self) -> None:
        """Asks the producers for their data."""
        for gate in self._gates:
            gate.request_partitions()

    @property
    def records_in(self) -> int:
        """Records read until now."""
        return self._processor.records_in

    @property
    def bytes_in(self) -> int:
        """Bytes read until now, of records and events."""
        # Barriers that were counted at the gate have not come by the processor.
        return self._processor.bytes_in + self._gathered_bytes

    @property
    def received(self) -> tuple[int, int, int, int]:
        """Bytes and buffers read of producers in this process, and of those elsewhere."""
        return self._gate.received()

    @property
    def input_numbers(self) -> list[int]:
        """The inputs of the head operator, from 0."""
        return sorted(self._valves)

    def buffers(self) -> tuple[int, int, int]:
        """Return the numbers of waiting buffers, of those in the gates' own memory, and of all."""
        return self._gate.buffer_usage()

    def watermark(self, input_number: int | None) -> int:
        """Return the watermark of an input, or of the slowest one."""
        if input_number is not None:
            return self._valves[input_number].last_watermark
        return min(valve.last_watermark for valve in self._valves.values())

    def holding_channels(self) -> dict[int, tuple[int, list[int], int]]:
        """Return which channels hold event time back.

        Returns:
            By gate: the watermark of its channels that are behind, their numbers within the gate,
            and how many channels the gate has.
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
        """Nanoseconds for which reading has waited until now."""
        return self._processor.idle_ns

    def sample(self, edge: int, sample: RecordSample | None) -> None:
        """Has what comes over an edge described, from the next buffer on; None ends that.

        Args:
            edge: The number of the gate.
            sample: Takes the descriptions.
        """
        first = sum(gate.num_channels for gate in self._gates[:edge])
        for channel in range(first, first + self._gates[edge].num_channels):
            target = self._inputs[self._input_of_channel[channel]]
            self._processor.inputs[channel] = (
                target if sample is None else SampledInput(target, sample)
            )

    def debloat(self, share: float) -> bool:
        """Tells the producers how large their buffers should be; False when that is not wanted.

        Args:
            share: The part of the target time that what is in flight to this task may take.
        """
        self.debloated = self._gate.debloat(share)
        return bool(self.debloated)

    def process_next(self, timeout_ms: int) -> bool:
        """Processes at most one buffer; False when every input has ended.

        Raises:
            CorruptStreamError: A channel ended without saying that its data is complete.
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
        """Processes what overtakes data, and no data: the outputs have no room."""
        self._processor.process_urgent()

    def read_to_end(self, timeout_ms: int) -> bool:
        """After the end of data: takes one more buffer; whether every channel has ended."""
        self._ended = self._ended or self._processor.process_next(timeout_ms) == _END_OF_INPUT
        return self._ended

    def close(self) -> None:
        """Gives back the buffer that was read when an error ended the task."""
        self._gate.release_batch()

    def wakeup(self) -> None:
        """Ends a wait in ``process_next`` from another thread."""
        self._gate.wakeup()

    def on_watermark(self, channel: int, timestamp: int) -> None:
        """Called by the input processor: a watermark arrived."""
        if self._is_finished:
            return
        valve = self._valves[self._input_of_channel[channel]]
        valve.watermark(self._index_in_input[channel], timestamp)

    def on_status(self, channel: int, idle: bool) -> None:
        """Called by the input processor: a channel became idle or active."""
        valve = self._valves[self._input_of_channel[channel]]
        valve.status(self._index_in_input[channel], idle)

    def on_latency_marker(
        self, channel: int, marked_time: int, lower: int, upper: int, subtask: int
    ) -> None:
        """Called by the input processor: a latency marker arrived."""
        latency = self._operators.latency
        if latency is not None:
            latency.record(marked_time, lower, upper, subtask, self._operators.now())
        target = self._inputs[self._input_of_channel[channel]]
        target.process_latency_marker(marked_time, lower, upper, subtask)

    def on_record_attributes(self, channel: int, is_backlog: bool) -> None:
        """Called by the input processor: a hint that no operator here makes use of."""

    def on_internal_watermark(
        self,
        channel: int,
        timestamp: int,
        subpartition: int,  # noqa: ARG002
    ) -> None:
        """Called by the input processor: the channel reads that subpartition alone."""
        self.on_watermark(channel, timestamp)

    def on_event(self, channel: int, event_bytes: bytes, data_type: int) -> None:  # noqa: ARG002
        """Called by the input processor: an event arrived.

        Raises:
            CorruptStreamError: The event has no meaning here.
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
            # A source's, or one behind a `BarrierBuffer`, which has seen the event.
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
    """Return the buffer that keeps data behind barriers, if the job wants one."""
    where = checkpointing.BARRIER_BUFFER.read(environment.configuration)
    if where == "NONE":
        return None
    blocker = (
        CachedBufferBlocker() if where == "MEMORY" else BufferSpiller(environment.temp_directory())
    )
    limit_bytes = checkpointing.BARRIER_BUFFER_LIMIT.read(environment.configuration)
    return BarrierBuffer(gate, blocker, lambda: time.time_ns() // 1_000_000, limit_bytes)
