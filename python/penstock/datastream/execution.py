"""The only connection between programs and the targets that run them.

A target is imported only when a job is executed: building a program needs neither a JobMaster
nor Spark.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

from penstock.common.job_client import JobClient
from penstock.common.options.check import check_options
from penstock.common.options.cluster import ATTACHED, TARGET
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.common.configuration import Configuration
    from penstock.common.jobs.job_gateway import JobGateway
    from penstock.graph.job_graph import JobGraph

TARGET_VARIABLE = "PENSTOCK_EXECUTION_TARGET"

CONFIGURATION_VARIABLE = "PENSTOCK_CONFIGURATION"
"""A JSON object of option → value: the process's default options for its programs."""


class Executor(Protocol):
    """An execution target."""

    def execute(
        self,
        job_graph: JobGraph,
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> JobGateway:
        """Start a job and return at once."""


def execute_job(
    job_graph: JobGraph,
    configuration: Configuration,
    target: str,
    collect_ids: Iterable[str] = (),
) -> JobClient:
    """Start a job.

    Args:
        job_graph: The job to run.
        configuration: The job's configuration, already checked.
        target: The execution target; see `checked_target`.
        collect_ids: The names of the job's collect sinks.
    """
    options = configuration.to_dict() | {TARGET.key: target}
    return JobClient(_executor(target).execute(job_graph, options, collect_ids))


def checked_target(configuration: Configuration) -> str:
    """Check all options of a job and return the name of its target.

    Raises:
        ConfigurationError: A key or a value is invalid; the message names it.
    """
    check_options(configuration.to_dict())
    target = execution_target(configuration)
    if target != "session" and not ATTACHED.read(configuration):
        raise ConfigurationError(
            f"{ATTACHED.key} is false, and on target {target} a job ends with its program: leave "
            "it out, or run the job in a session"
        )
    return target


def execution_target(configuration: Configuration) -> str:
    """Return the target: option, else environment variable, else Spark if active here, else local.

    Raises:
        ConfigurationError: The target is unknown.
    """
    named = os.environ.get(TARGET_VARIABLE)
    of_variable = TARGET.parse(named, TARGET_VARIABLE) if named else None
    chosen = TARGET.read(configuration) or of_variable
    return chosen or ("spark" if _spark_session_is_active() else "local")


def _spark_session_is_active() -> bool:
    # Looked up without an import: a process that never loaded pyspark cannot have a session.
    sql = sys.modules.get("pyspark.sql")
    return sql is not None and sql.SparkSession.getActiveSession() is not None


def _executor(target: str) -> Executor:
    if target in ("local", "in-process"):
        from penstock.per_job import local

        executor: Executor = local.LocalExecutor()
        return executor
    if target == "session":
        from penstock.session.executor import SessionExecutor

        session_executor: Executor = SessionExecutor()
        return session_executor
    from penstock import spark

    spark_executor: Executor = spark.SparkExecutor()
    return spark_executor
