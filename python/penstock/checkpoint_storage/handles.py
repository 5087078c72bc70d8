"""Handles: locations of a checkpoint's state, and of its parts (M59, M60).

A task writes its state to streams and reports handles; the coordinator stores them in the
checkpoint's metadata, and passes them to the tasks that restore it.  All of them are data: a
``CheckpointStorage`` opens and deletes their files.
"""

from __future__ import annotations

from typing import Final

import msgspec


class ByteStreamHandle(msgspec.Struct, frozen=True, tag="bytes"):
    """A stream small enough to travel in its handle.

    Attributes:
        name: The name in messages.
        data: The whole content.
    """

    name: str
    data: bytes

    @property
    def size(self) -> int:
        """Bytes of the stream."""
        return len(self.data)


#: Number of bytes of a file that share a checksum.
CHECKED_BYTES: Final = 256 << 10


class FileHandle(msgspec.Struct, frozen=True, tag="file"):
    """A stream in its own file.

    Attributes:
        path: Absolute path or URL.  In metadata, files of the checkpoint's own directory are
            named relative to it, so that the directory can be moved.
        size: Bytes of the file.
        checksums: CRC-32 of each block of `CHECKED_BYTES`, the last of which may be shorter, as
            ``zlib.crc32`` computes it, so that a part of the file can be checked alone.
    """

    path: str
    size: int
    checksums: tuple[int, ...]


StreamHandle = ByteStreamHandle | FileHandle


class KeyGroupsHandle(msgspec.Struct, frozen=True, tag="groups"):
    """The keyed state or the raw keyed state of a range of key groups.

    Attributes:
        first_group: The first key group.
        offsets: Offset of each group of the range in the stream; -1 for one without state.
        stream: The stream.
        handle_id: Equal for equal content, also in later checkpoints.
    """

    first_group: int
    offsets: tuple[int, ...]
    stream: StreamHandle
    handle_id: str = ""


class IncrementalKeyGroupsHandle(msgspec.Struct, frozen=True, tag="incremental"):
    """Keyed state in files, some of which earlier checkpoints have written.

    Attributes:
        checkpoint_id: The checkpoint that reported it.
        backend_id: Distinguishes the backend instances that wrote shared files.
        first_group: The first key group.
        num_groups: The number of key groups.
        checkpointed_bytes: Bytes that this checkpoint has newly written.
        meta: The description of the states.
        shared: Files that several checkpoints may use, by the backend's name of the file.
        private: Files of this checkpoint alone, by the same names.
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
        mode: ``split``, ``union`` or ``broadcast``: its redistribution over other subtasks.
        offsets: Offset of each element in the stream.
    """

    mode: str
    offsets: tuple[int, ...]


class OperatorStateHandle(msgspec.Struct, frozen=True):
    """The operator states of one subtask, or its raw operator state.

    Attributes:
        states: The states, by name.
        stream: The stream of their elements.
    """

    states: dict[str, PartitionableState]
    stream: StreamHandle


class ChannelStateHandle(msgspec.Struct, frozen=True):
    """In-flight data of one channel or subpartition at an unaligned checkpoint.

    Attributes:
        index: The index of the task's gate, or of its partition.
        channel: The channel of the gate, or the subpartition.
        of: The number of channels of the gate, or of subpartitions of the partition.
        offsets: Offset of each buffer in the stream: i32 length and bytes, in order.
        size: Bytes of all buffers.
        stream: The stream, which may contain other channels and subtasks as well.
    """

    index: int
    channel: int
    of: int
    offsets: tuple[int, ...]
    size: int
    stream: StreamHandle


class RescaledChannel(msgspec.Struct, frozen=True):
    """In-flight data of a channel of another parallelism; never part of metadata.

    Attributes:
        gate: The gate that the records now belong to.
        pieces: The consumer's part, then the producer's: together whole records.
        is_keyed: Whether other subtasks read the same channel for their own keys.
    """

    gate: int
    pieces: tuple[ChannelStateHandle, ...]
    is_keyed: bool


class OperatorSubtaskState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one operator in one subtask.

    A snapshot has at most one handle of a kind; a subtask may restore from several if the
    parallelism has changed.

    Attributes:
        managed_keyed: Keyed state and timers.
        raw_keyed: Raw state of the function, by key group.
        managed_operator: Lists, union lists and broadcast state.
        raw_operator: Raw state of the function, by partition.
        input_channels: In-flight data to the operator.
        result_subpartitions: In-flight data from the operator.
        types: The declared types of the states, by kind and name; see `state_types`.
        rescaled_channels: In-flight data, if a subtask restores from another parallelism.
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
        """Return whether the subtask has no state."""
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
        is_finished: Whether the operators had finished and must not run again.
    """

    operators: dict[bytes, OperatorSubtaskState] = {}
    is_finished: bool = False


class CheckpointMetrics(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Metrics of one subtask's part in a checkpoint; names end with the unit.

    Attributes:
        sync_ms: The synchronous part, in the task's thread.
        async_ms: The asynchronous part.
        alignment_ms: From the first barrier to the last.
        start_delay_ms: From the trigger to the first barrier.
        processed_bytes: Input processed during the alignment.
        persisted_bytes: In-flight data written.
        checkpointed_bytes: Newly written state.
        full_bytes: All state that the snapshot refers to.
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
