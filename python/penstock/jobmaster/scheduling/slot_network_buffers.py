"""The network buffers that the tasks of one slot can use, computed from the JobGraph.

A TaskExecutor creates its pool when its first slot is requested, before it knows any task: so the
request contains the sum for a slot, and the pool has this sum for each slot.  As in Flink
(`NettyShuffleUtils.computeNetworkBuffersForAnnouncing`), the sum counts every channel as one from
another TaskExecutor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.graph.job_graph import BLOCKING
from penstock.graph.wiring import DistributionPattern
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds, sum_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.cluster_settings import ClusterSettings


def slot_network_buffers(
    job: JobGraph, parallelisms: Mapping[bytes, int], settings: ClusterSettings
) -> NetworkBufferNeeds:
    """Return the most buffers that a slot's tasks can use, one task of each vertex of its group.

    Args:
        job: The job.
        parallelisms: The highest parallelism of each vertex.
        settings: The options of the cluster.

    Returns:
        The sum for the slot sharing group that needs the most.
    """
    exclusive, floating = settings.buffers_per_channel, settings.floating_buffers_per_gate
    producers = {
        dataset.id: (vertex, dataset.type == BLOCKING)
        for vertex in job.vertices.values()
        for dataset in vertex.produced
    }
    groups: dict[str, list[NetworkBufferNeeds]] = {}
    for consumer in job.vertices.values():
        for edge in consumer.inputs:
            producer, is_blocking = producers[edge.dataset_id]
            writers, readers = parallelisms[producer.id], parallelisms[consumer.id]
            is_complete = edge.distribution is DistributionPattern.ALL_TO_ALL
            subpartitions = readers if is_complete else -(-readers // writers)
            channels = writers if is_complete else -(-writers // readers)
            if not is_blocking:
                # The bounds of the partition's pool: minimum and maximum.
                most = max(subpartitions + 1, subpartitions * exclusive + floating)
                groups.setdefault(producer.slot_sharing_group, []).append(
                    NetworkBufferNeeds(partitions=most)
                )
            groups.setdefault(consumer.slot_sharing_group, []).append(
                NetworkBufferNeeds(channels=channels * exclusive, gates=floating)
            )
    sums = (sum_of(needs) for needs in groups.values())
    return max(sums, key=lambda needs: needs.total, default=NetworkBufferNeeds())
