"""In-flight data of a task when an unaligned checkpoint passes (internals M57)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.checkpoint_storage.handles import ByteStreamHandle, ChannelStateHandle
from penstock.errors import IllegalStateError
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import (
        OperatorSubtaskState,
        RescaledChannel,
        TaskStateSnapshot,
    )
    from penstock.checkpoint_storage.streams import Copies, StateOutputStream
    from penstock.network import InputGate, ResultPartition

#: Buffers of every channel of a gate, or of every subpartition of a partition.
Buffers = list[list[bytes]]

_INPUT: Final = "input_channels"
_OUTPUT: Final = "result_subpartitions"


class ChannelStateWriter:
    """Captures the channel data of all gates that belongs to one checkpoint at a time."""

    def __init__(self, gates: Sequence[InputGate], unconsumed: Callable[[int], bytes]) -> None:
        """Create a writer for a task's gates.

        Args:
            gates: The task's gates.
            unconsumed: Returns the bytes that the task has read from a channel and not processed;
                the channels of all gates are numbered consecutively.
        """
        self._gates = gates
        self._unconsumed = unconsumed
        self._begun: list[bytes] | None = None
        self._checkpoint_id = -1

    def start(self, checkpoint_id: int) -> None:
        """Start capturing; records that are partly read come first.

        Raises:
            IllegalStateError: A barrier of a later checkpoint has arrived.
        """
        self._checkpoint_id = checkpoint_id
        num_channels = sum(gate.num_channels for gate in self._gates)
        self._begun = [self._unconsumed(channel) for channel in range(num_channels)]
        for gate in self._gates:
            gate.start_persisting(checkpoint_id)

    @property
    def is_complete(self) -> bool:
        """Return whether there are no channels that could deliver data."""
        return not self._gates

    def take(self) -> list[Buffers]:
        """Return the captured data, by gate and channel, in order of arrival."""
        if self._begun is None:
            return []
        begun = iter(self._begun)
        return [
            [
                [next(begun), *gate.take_persisted(channel)[0]]
                for channel in range(gate.num_channels)
            ]
            for gate in self._gates
        ]

    def stop(self, checkpoint_id: int) -> None:
        """Stop capturing for a checkpoint and earlier ones, and drop the data."""
        if self._begun is not None and self._checkpoint_id <= checkpoint_id:
            self._begun = None
            for gate in self._gates:
                with suppress(IllegalStateError):
                    gate.stop_persisting(checkpoint_id)


@dataclass(frozen=True)
class InFlight:
    """In-flight data of one task.

    Attributes:
        inputs: By gate.
        outputs: By the index of the partition.
    """

    inputs: Sequence[Buffers]
    outputs: dict[int, Buffers]

    @property
    def size(self) -> int:
        """Total size in bytes."""
        every = (*self.inputs, *self.outputs.values())
        return sum(len(b) for channels in every for buffers in channels for b in buffers)


def write_in_flight(
    in_flight: InFlight,
    open_stream: Callable[[], StateOutputStream],
    head_id: bytes,
    tail_ids: Sequence[bytes],
) -> dict[bytes, dict[str, tuple[ChannelStateHandle, ...]]]:
    """Write all in-flight data into one stream.

    Args:
        in_flight: The data to write.
        open_stream: Opens the stream; not called if there is no data.
        head_id: The operator that input belongs to.
        tail_ids: The operators that output belongs to, by partition.

    Returns:
        Handles by operator and by the field of its state that they belong to.

    Raises:
        OSError: The stream cannot be written.
    """
    if not in_flight.size:
        return {}
    stream = open_stream()
    pieces: list[tuple[bytes, str, int, int, int, tuple[int, ...], int]] = []

    def write(owner: bytes, field: str, index: int, channels: Buffers) -> None:
        for channel, buffers in enumerate(channels):
            offsets = []
            for buffer in filter(None, buffers):
                offsets.append(stream.position)
                stream.write(len(buffer).to_bytes(4, "big"))
                stream.write(buffer)
            if offsets:
                size = sum(map(len, buffers))
                pieces.append((owner, field, index, channel, len(channels), tuple(offsets), size))

    try:
        for gate, channels in enumerate(in_flight.inputs):
            write(head_id, _INPUT, gate, channels)
        for partition, channels in sorted(in_flight.outputs.items()):
            write(tail_ids[partition], _OUTPUT, partition, channels)
        handle = stream.handle()
    finally:
        stream.close()
    assert handle is not None, "something was written"
    written: dict[bytes, dict[str, tuple[ChannelStateHandle, ...]]] = {}
    for owner, field, index, channel, of, offsets, size in pieces:
        fields = written.setdefault(owner, {})
        piece = ChannelStateHandle(index, channel, of, offsets, size, handle)
        fields[field] = (*fields.get(field, ()), _own_bytes(piece))
    return written


def _own_bytes(handle: ChannelStateHandle) -> ChannelStateHandle:
    """Return the handle with only its own channel's bytes, if they are inline."""
    stream = handle.stream
    if not isinstance(stream, ByteStreamHandle):
        return handle
    first = handle.offsets[0]
    end = first + handle.size + 4 * len(handle.offsets)
    return ChannelStateHandle(
        handle.index,
        handle.channel,
        handle.of,
        tuple(offset - first for offset in handle.offsets),
        handle.size,
        ByteStreamHandle(f"{stream.name}@{first}", stream.data[first:end]),
    )


class InFlightRecovery:
    """Restores in-flight data to the channels it was in."""

    def __init__(
        self, restored: TaskStateSnapshot, files: FileSystems, copies: Copies | None = None
    ) -> None:
        """Create a recovery of a task's restored state; see ``read_stream`` for the rest."""
        self._states = restored.operators.values()
        self._reader = OperatorSnapshotReader(range(0), files, copies)

    def recover_outputs(self, partitions: Sequence[ResultPartition]) -> None:
        """Place recovered output in front of everything the task will write.

        Raises:
            CheckpointStorageError: A stream cannot be read.
            CorruptCheckpointError: A stream differs from what was written.
        """
        for piece in self._pieces(lambda state: state.result_subpartitions):
            partitions[piece.index].recover(piece.channel, self._reader.read_buffers(piece))

    def recover_inputs(self, gates: Sequence[InputGate]) -> None:
        """Place recovered input in front of everything the producers will send.

        Raises:
            CheckpointStorageError: A stream cannot be read.
            CorruptCheckpointError: A stream differs from what was written.
        """
        for piece in self._pieces(lambda state: state.input_channels):
            gates[piece.index].recover(piece.channel, self._reader.read_buffers(piece))

    def rescaled_channels(self) -> Iterable[tuple[RescaledChannel, bytes]]:
        """Yield each channel of another parallelism with its in-flight data, in whole records.

        Raises:
            CheckpointStorageError: A stream cannot be read.
            CorruptCheckpointError: A stream differs from what was written.
        """
        for state in self._states:
            for channel in state.rescaled_channels:
                pieces = (b"".join(self._reader.read_buffers(piece)) for piece in channel.pieces)
                yield channel, b"".join(pieces)

    def _pieces(
        self, of: Callable[[OperatorSubtaskState], Iterable[ChannelStateHandle]]
    ) -> Iterable[ChannelStateHandle]:
        return (piece for state in self._states for piece in of(state))
