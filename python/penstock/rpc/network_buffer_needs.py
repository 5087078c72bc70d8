"""NetworkBufferNeeds: numbers of network buffers, as a sum of their users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.common.options.network import BUFFERS_PER_CHANNEL, SEGMENTS
from penstock.errors import InsufficientBuffersError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.rpc.task_deployment import TaskDeploymentDescriptor


class NetworkBufferNeeds(msgspec.Struct, frozen=True):
    """Network buffers of a task, of a slot or of all running tasks.

    The buffers of a task are the minimum that it works with; beyond it, the task shares free
    buffers.  The buffers of a slot are the most that its tasks can use: see
    `penstock.jobmaster.scheduling.slot_network_buffers`.

    Sorts of keyed inputs and stored outputs need none: they use managed memory.

    Attributes:
        partitions: Buffers of the subpartitions, and more for each partition, so that a writer
            that fills one buffer can begin the next.
        channels: The exclusive buffers of channels from other TaskExecutors.
        gates: Buffers of each gate, which its channels from other TaskExecutors share.
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
            f"{self.total} network buffers: {self.partitions} of partitions, {self.channels} "
            f"of channels from other TaskExecutors, {self.gates} of input gates"
        )

    def check(
        self, task_name: str, promised: NetworkBufferNeeds, num_segments: int, computed: int
    ) -> None:
        """Refuse a task if the pool has too few buffers for it and the tasks that run.

        Args:
            task_name: The task with these needs.
            promised: The sum of the needs of the job's other tasks in its TaskExecutor.
            num_segments: The size of the pool.
            computed: The size that suffices for the job.

        Raises:
            InsufficientBuffersError: The sum exceeds the size of the pool.
        """
        if self.total + promised.total <= num_segments:
            return
        raise InsufficientBuffersError(
            f"Insufficient number of network buffers: {task_name} needs {self}; other tasks have "
            f"{promised}; its TaskExecutor has {num_segments} for the job. Remove "
            f"{SEGMENTS.key!r} from the configuration, set it to at least {computed}, or lower "
            "the parallelism."
        )


def sum_of(needs: Iterable[NetworkBufferNeeds]) -> NetworkBufferNeeds:
    """Return the sum of several needs, by user."""
    listed = list(needs)
    return NetworkBufferNeeds(
        sum(one.partitions for one in listed),
        sum(one.channels for one in listed),
        sum(one.gates for one in listed),
    )
