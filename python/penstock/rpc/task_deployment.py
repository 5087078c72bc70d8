"""What a task needs in order to run, as the driver sends it to a TaskExecutor."""

from __future__ import annotations

import msgspec

# msgspec looks the type up
from penstock.checkpoint_storage.handles import TaskStateSnapshot  # noqa: TC001


class PartitionDescriptor(msgspec.Struct, frozen=True):
    """One result partition that a task writes."""

    partition_id: bytes
    num_subpartitions: int
    partition_type: str
    flush_timeout_ms: int


class ChannelDescriptor(msgspec.Struct, frozen=True):
    """One channel of a gate: which subpartition to read, and from which TaskExecutor."""

    partition_id: bytes
    subpartition: int
    executor_id: str
    host: str
    port: int


class GateDescriptor(msgspec.Struct, frozen=True):
    """One input gate: all channels of one job edge into the subtask."""

    input_number: int
    channels: tuple[ChannelDescriptor, ...]


class RestoredState(msgspec.Struct, frozen=True):
    """What a subtask starts from: its part of a checkpoint, and the checkpoint's id."""

    checkpoint_id: int
    state: TaskStateSnapshot


class TaskDeploymentDescriptor(msgspec.Struct, frozen=True):
    """Everything a TaskExecutor needs to run one subtask.

    The job code itself arrives before it, in `CodeChunk` messages; ``code_id`` names it.
    ``configuration`` has options of jobs only; those of the cluster are in the launch line.
    """

    job_id: bytes
    attempt_id: bytes
    vertex_id: bytes
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt_number: int
    allocation_id: bytes
    code_id: str
    configuration: dict[str, str]
    partitions: tuple[PartitionDescriptor, ...]
    gates: tuple[GateDescriptor, ...]
    restored: RestoredState | None = None
