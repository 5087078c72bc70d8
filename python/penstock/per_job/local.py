"""The local target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.per_job.mini_cluster import MiniCluster

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.jobs.job_gateway import JobGateway
    from penstock.graph.job_graph import JobGraph


class LocalExecutor:
    """Executes each job on a `MiniCluster` of its own."""

    def execute(
        self,
        job_graph: JobGraph,
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> JobGateway:
        """Start a cluster and the job on it; return at once.

        Raises:
            ConfigurationError: An option is malformed, or requires a worker process of its own, or
                names folders that cannot be created.
        """
        cluster = MiniCluster(configuration, job_graph.configuration)
        return cluster.execute(job_graph, collect_ids)
