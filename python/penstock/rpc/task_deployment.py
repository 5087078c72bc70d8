"""Deployment of a task, as the driver sends it to a TaskExecutor."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

# msgspec looks the type up
from penstock.checkpoint_storage.handles import TaskStateSnapshot  # noqa: TC001


class PartitionDescriptor(msgspec.Struct, frozen=True):
    """One result partition that a task writes."""

    partition_id: bytes
    num_subpartitions: int
    partition_type: str
    flush_timeout_ms: int

    @property
    def outlives_its_task(self) -> bool:
        """Return whether it is read after its task has finished."""
        return self.partition_type == "BLOCKING"


class ProducerDescriptor(msgspec.Struct, frozen=True):
    """A partition that a task reads from, and the TaskExecutor where it is."""

    partition_id: bytes
    executor_id: str
    host: str
    port: int


class ChannelDescriptor(NamedTuple):
    """One channel of a gate: the subpartition to read, and its TaskExecutor."""

    partition_id: bytes
    subpartition: int
    executor_id: str
    host: str
    port: int


class GateDescriptor(msgspec.Struct, frozen=True):
    """One input gate: all channels of one job edge into the subtask.

    Attributes:
        input_number: The operator's input.
        producers: The partitions read, in the order of the channels; subtasks with the same ones
            share it.
        subpartitions: The subpartition of each, or the common one.
    """

    input_number: int
    producers: tuple[ProducerDescriptor, ...]
    subpartitions: int | tuple[int, ...]

    @property
    def channels(self) -> list[ChannelDescriptor]:
        """Return the channels, in their order."""
        own = self.subpartitions
        each = (own,) * len(self.producers) if isinstance(own, int) else own
        return [
            ChannelDescriptor(p.partition_id, subpartition, p.executor_id, p.host, p.port)
            for p, subpartition in zip(self.producers, each, strict=True)
        ]


class RestoredState(msgspec.Struct, frozen=True):
    """Initial state of a subtask: its part of a checkpoint, and the checkpoint's id."""

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
