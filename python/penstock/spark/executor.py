"""SparkExecutor: a job's cluster on the process's Spark."""

import atexit
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from penstock.common.options.cluster import BIND_HOST
from penstock.common.options.security import TLS_ENABLED
from penstock.jobmaster.per_job_cluster import PerJobCluster
from penstock.spark.driver import SparkDriver
from penstock.spark.session import (
    control_address,
    encrypts_its_network,
    is_local,
    refuse_copies,
    spark_context,
)

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.job_handle import JobHandle


class SparkExecutor:
    """Executes jobs on clusters of TaskExecutors that Spark hosts.

    A Spark that the process has already is used as it is and left as it is.  One that is started
    here serves the process's further jobs too and is stopped when the process ends.
    """

    def execute(
        self,
        job_graph: "JobGraph",
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> "JobHandle":
        """Starts a cluster on Spark, and the job on it; returns at once.

        Raises:
            ConfigurationError: pyspark is not installed, or an option is malformed.
        """
        context, started_here = spark_context(configuration)
        if started_here:
            atexit.register(context.stop)
        refuse_copies(context)
        defaults = {BIND_HOST.key: control_address(context)}
        if encrypts_its_network(context):
            # Who has Spark encrypt does not expect a job's records beside it in the clear.
            defaults[TLS_ENABLED.key] = "true"
        cluster = PerJobCluster(
            defaults | dict(configuration),
            lambda on_exit: SparkDriver(context, on_exit),
            ship_program=not is_local(context.getConf().get("spark.master")),
        )
        return cluster.execute(job_graph, collect_ids)
