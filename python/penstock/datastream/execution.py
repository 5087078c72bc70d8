"""The one seam between programs and the targets that run them.

A target is imported when a job is executed and not before: a program that is only built needs
neither a JobMaster nor Spark.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from penstock.common.job_client import JobClient, JobHandle
from penstock.common.options.check import (
    check_local_folders,
    check_options,
    warn_of_idle_options,
)
from penstock.common.options.cluster import TARGET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.configuration import Configuration
    from penstock.graph.job_graph import JobGraph

TARGET_VARIABLE = "PENSTOCK_EXECUTION_TARGET"

CONFIGURATION_VARIABLE = "PENSTOCK_CONFIGURATION"
"""A JSON object of option → value: the defaults of the process's programs."""


class Executor(Protocol):
    """An execution target."""

    def execute(
        self,
        job_graph: JobGraph,
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> JobHandle:
        """Starts a job and returns at once."""


def execute_job(
    job_graph: JobGraph, configuration: Configuration, collect_ids: Iterable[str] = ()
) -> JobClient:
    """Starts a job on the target that the configuration, the process or Spark suggests.

    Args:
        job_graph: What to run.
        configuration: The job's configuration.
        collect_ids: The names of the job's collect sinks.

    Raises:
        ConfigurationError: The target is unknown.
    """
    given = configuration.to_dict()
    check_options(given)
    target = execution_target(configuration)
    if target != "spark":
        check_local_folders(given)
    warn_of_idle_options(given, target)
    options = given | {TARGET.key: target}
    return JobClient(_executor(target).execute(job_graph, options, collect_ids))


def execution_target(configuration: Configuration) -> str:
    """The target's name: option, else environment variable, else Spark if one is active here.

    Raises:
        ConfigurationError: The target is unknown.
    """
    chosen = TARGET.read(configuration)
    if chosen is None and (named := os.environ.get(TARGET_VARIABLE)):
        chosen = TARGET.parse(named, TARGET_VARIABLE)
    return chosen or ("spark" if _spark_session_is_active() else "local")


def _spark_session_is_active() -> bool:
    # Asked without importing: a process that never loaded pyspark cannot have a session.
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None


def _executor(target: str) -> Executor:
    if target in ("local", "in-process"):
        from penstock.jobmaster import local

        executor: Executor = local.LocalExecutor()
        return executor
    from penstock import spark

    spark_executor: Executor = spark.SparkExecutor()
    return spark_executor
