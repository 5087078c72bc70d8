"""NetworkBufferNeeds: the network buffers promised to a task, as a sum by use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.common.options.network import BUFFERS_PER_CHANNEL, SEGMENTS
from penstock.errors import InsufficientBuffersError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.rpc.task_deployment import TaskDeploymentDescriptor


@dataclass(frozen=True)
class NetworkBufferNeeds:
    """The minimum that a task works with; beyond it, the task shares free buffers.

    Sorts of keyed inputs and stored outputs need none: they use managed memory.

    Attributes:
        partitions: One for each subpartition, and one more for each partition, so that a writer
            that fills one buffer can begin the next.
        channels: The exclusive buffers of channels from other TaskExecutors.
        gates: One for each gate, which its channels from other TaskExecutors share.
    """

    partitions: int = 0
    channels: int = 0
    gates: int = 0

    @staticmethod
    def of(
        descriptor: TaskDeploymentDescriptor, executor_id: str, configuration: Mapping[str, str]
    ) -> NetworkBufferNeeds:
        """Return the needs of a task.

        Args:
            descriptor: Its deployment.
            executor_id: The TaskExecutor that runs it, whose own partitions are read in place.
            configuration: The TaskExecutor's configuration.
        """
        remote = sum(
            producer.executor_id != executor_id
            for gate in descriptor.gates
            for producer in gate.producers
        )
        return NetworkBufferNeeds(
            partitions=sum(
                one.num_subpartitions + 1
                for one in descriptor.partitions
                if not one.outlives_its_task
            ),
            channels=remote * BUFFERS_PER_CHANNEL.read(configuration),
            gates=len(descriptor.gates),
        )

    @property
    def total(self) -> int:
        """Total number of buffers."""
        return self.partitions + self.channels + self.gates

    def __str__(self) -> str:
        return (
            f"{self.total} network buffers: {self.partitions} of its partitions, {self.channels} "
            f"of channels from other TaskExecutors, {self.gates} of input gates"
        )

    def check(self, task_name: str, num_segments: int) -> None:
        """Refuse a task that could not run even if it were alone.

        Raises:
            InsufficientBuffersError: The TaskExecutor has fewer buffers for a job.
        """
        if self.total > num_segments:
            raise InsufficientBuffersError(
                f"Insufficient number of network buffers: {task_name} needs {self}; its "
                f"TaskExecutor has {num_segments} for each job. Raise {SEGMENTS.key!r}, or lower "
                "the parallelism."
            )


def sum_of(needs: Collection[NetworkBufferNeeds]) -> NetworkBufferNeeds:
    """Return the buffers promised to several tasks."""
    return NetworkBufferNeeds(
        sum(one.partitions for one in needs),
        sum(one.channels for one in needs),
        sum(one.gates for one in needs),
    )
