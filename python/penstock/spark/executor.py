"""SparkExecutor: a job's cluster on the process's Spark."""

import atexit
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.per_job.per_job_cluster import PerJobCluster
from penstock.spark.driver import SparkDriver
from penstock.spark.session import (
    control_plane_options,
    is_local,
    refuse_copies,
    spark_context,
)

if TYPE_CHECKING:
    from penstock.common.jobs.job_gateway import JobGateway
    from penstock.graph.job_graph import JobGraph


class SparkExecutor:
    """Executes jobs on clusters of TaskExecutors that Spark hosts.

    An existing Spark of the process is used and left unchanged.  A Spark that is started here also
    serves the process's later jobs and is stopped when the process ends.
    """

    def execute(
        self,
        job_graph: "JobGraph",
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> "JobGateway":
        """Start a cluster on Spark, and the job on it; return at once.

        Raises:
            ConfigurationError: pyspark is not installed, or an option is malformed.
        """
        context, started_here = spark_context(configuration)
        if started_here:
            atexit.register(context.stop)
        refuse_copies(context)
        cluster = PerJobCluster(
            control_plane_options(context, configuration) | dict(configuration),
            lambda on_exit: SparkDriver(context, on_exit),
            ship_program=not is_local(context.getConf().get("spark.master")),
            prints_here=True,
        )
        return cluster.execute(job_graph, collect_ids)
