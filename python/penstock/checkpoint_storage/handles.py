"""Handles: where a piece of a checkpoint's state is, and how to find its parts (M59, M60).

A task writes its state to streams and reports handles; the coordinator keeps them in the
checkpoint's metadata, and hands them to the tasks that restore it.  All of them are data: opening
and deleting what they name is the business of a ``CheckpointStorage``.
"""

from __future__ import annotations

from typing import Final

import msgspec


class ByteStreamHandle(msgspec.Struct, frozen=True, tag="bytes"):
    """A stream small enough to be carried by its handle.

    Attributes:
        name: Distinguishes it from others in messages.
        data: All of it.
    """

    name: str
    data: bytes

    @property
    def size(self) -> int:
        """Bytes of the stream."""
        return len(self.data)


#: How many bytes of a file have a checksum of their own.
CHECKED_BYTES: Final = 256 << 10


class FileHandle(msgspec.Struct, frozen=True, tag="file"):
    """A stream in a file of its own.

    Attributes:
        path: Absolute path or URL.  In metadata, files of the checkpoint's own directory are
            named relative to it, so that the directory can be moved.
        size: Bytes of the file.
        checksums: CRC-32 of each of its blocks of `CHECKED_BYTES`, the last of which may be
            shorter, as ``zlib.crc32`` computes it: so a part of the file can be checked alone.
    """

    path: str
    size: int
    checksums: tuple[int, ...]


StreamHandle = ByteStreamHandle | FileHandle


class KeyGroupsHandle(msgspec.Struct, frozen=True, tag="groups"):
    """The keyed state or the raw keyed state of a range of key groups.

    Attributes:
        first_group: The first key group.
        offsets: Where each group of the range begins in the stream; -1 for one without state.
        stream: The stream.
        handle_id: The same for the same content, also in later checkpoints.
    """

    first_group: int
    offsets: tuple[int, ...]
    stream: StreamHandle
    handle_id: str = ""


class IncrementalKeyGroupsHandle(msgspec.Struct, frozen=True, tag="incremental"):
    """Keyed state made of files, some of which earlier checkpoints have written.

    Attributes:
        checkpoint_id: The checkpoint that reported it.
        backend_id: Distinguishes the backend instances that wrote shared files.
        first_group: The first key group.
        num_groups: How many follow from there.
        checkpointed_bytes: What this checkpoint has written anew.
        meta: What describes the states.
        shared: Files that several checkpoints may use, by the name that the backend gave them.
        private: Files of this checkpoint alone, likewise.
    """

    checkpoint_id: int
    backend_id: str
    first_group: int
    num_groups: int
    checkpointed_bytes: int
    meta: StreamHandle
    shared: dict[str, StreamHandle]
    private: dict[str, StreamHandle]


class PartitionableState(msgspec.Struct, frozen=True):
    """One named operator state in a stream.

    Attributes:
        mode: ``split``, ``union`` or ``broadcast``: how it is spread over other subtasks.
        offsets: Where each record begins in the stream.
    """

    mode: str
    offsets: tuple[int, ...]


class OperatorStateHandle(msgspec.Struct, frozen=True):
    """The operator states of one subtask, or its raw operator state.

    Attributes:
        states: By name.
        stream: The stream that holds the records of all of them.
    """

    states: dict[str, PartitionableState]
    stream: StreamHandle


class ChannelStateHandle(msgspec.Struct, frozen=True):
    """In-flight data of one channel or subpartition at an unaligned checkpoint.

    Attributes:
        index: Of the gate of the task, or of its partition.
        channel: The channel of the gate, or the subpartition.
        of: How many channels the gate had, or subpartitions the partition.
        offsets: Where each buffer begins in the stream: i32 length and bytes, in order.
        size: Bytes of all of them.
        stream: The stream, which may hold other channels and subtasks as well.
    """

    index: int
    channel: int
    of: int
    offsets: tuple[int, ...]
    size: int
    stream: StreamHandle


class RescaledChannel(msgspec.Struct, frozen=True):
    """All that was in flight in a channel of another parallelism; never part of metadata.

    Attributes:
        gate: The gate that the records belong to now.
        pieces: What the consumer had kept, then what the producer had: together whole records.
        is_keyed: Whether other subtasks read the same channel for their own keys.
    """

    gate: int
    pieces: tuple[ChannelStateHandle, ...]
    is_keyed: bool


class OperatorSubtaskState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator in one subtask.

    A snapshot has at most one handle of a kind; what a subtask restores from may have several,
    when the parallelism has changed.

    Attributes:
        managed_keyed: Keyed state and timers.
        raw_keyed: What the function wrote by key group.
        managed_operator: Lists, union lists and broadcast state.
        raw_operator: What the function wrote in partitions.
        input_channels: What was in flight to the operator.
        result_subpartitions: What was in flight from it.
        types: The declared types of the states, by kind and name; see `state_types`.
        rescaled_channels: The same, when a subtask restores from another parallelism.
    """

    managed_keyed: tuple[KeyGroupsHandle | IncrementalKeyGroupsHandle, ...] = ()
    raw_keyed: tuple[KeyGroupsHandle, ...] = ()
    managed_operator: tuple[OperatorStateHandle, ...] = ()
    raw_operator: tuple[OperatorStateHandle, ...] = ()
    input_channels: tuple[ChannelStateHandle, ...] = ()
    result_subpartitions: tuple[ChannelStateHandle, ...] = ()
    types: dict[str, str] = {}
    rescaled_channels: tuple[RescaledChannel, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether it has no state at all."""
        return not (
            self.managed_keyed
            or self.raw_keyed
            or self.managed_operator
            or self.raw_operator
            or self.input_channels
            or self.result_subpartitions
        )


class TaskStateSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """State that one subtask reports for a checkpoint, or starts from.

    Attributes:
        operators: State by operator id, 16 bytes each; stateless operators are left out.
        is_finished: The operators had finished: nothing of them is to run again.
    """

    operators: dict[bytes, OperatorSubtaskState] = {}
    is_finished: bool = False


class CheckpointMetrics(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Figures of one subtask's part in a checkpoint; the unit stands last in each name.

    Attributes:
        sync_ms: The synchronous part, in the task's thread.
        async_ms: The asynchronous part.
        alignment_ms: From the first barrier to the last.
        start_delay_ms: From the trigger to the first barrier.
        processed_bytes: Input processed during the alignment.
        persisted_bytes: In-flight data written.
        checkpointed_bytes: State that was written anew.
        full_bytes: All the state that the snapshot refers to.
        is_unaligned: Whether the barrier overtook data.
    """

    sync_ms: float = 0.0
    async_ms: float = 0.0
    alignment_ms: float = 0.0
    start_delay_ms: float = 0.0
    processed_bytes: int = 0
    persisted_bytes: int = 0
    checkpointed_bytes: int = 0
    full_bytes: int = 0
    is_unaligned: bool = False
