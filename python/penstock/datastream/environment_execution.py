"""Execution of the program that an environment holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.names import checked_name
from penstock.common.job_listener import JobListeners
from penstock.common.options import cluster, metrics, pipeline
from penstock.common.options.check import warn_of_idle_options
from penstock.datastream.environment_settings import EnvironmentSettings
from penstock.datastream.execution import checked_target, execute_job, execution_target
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph.settings import DEFAULT_JOB_NAME

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration
    from penstock.common.job_client import JobClient
    from penstock.common.job_execution_result import JobExecutionResult
    from penstock.common.job_listener import JobListener
    from penstock.common.jobs.job_gateway import OperatorTotals
    from penstock.datastream.output_tag import OutputTag
    from penstock.graph.stream_graph import StreamGraph
    from penstock.graph.transformations import PhysicalTransformation


@partial(checks_arguments, called="StreamExecutionEnvironment")
class EnvironmentExecution(EnvironmentSettings):
    """Methods of `StreamExecutionEnvironment` that execute and show its program."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Create an empty program with a copy of a configuration."""
        super().__init__(configuration)
        self._listeners = JobListeners()

    # Execution --------------------------------------------------------------------------------

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Execute the operators that were added since the last execution, and wait for the end.

        Raises:
            InvalidProgramError: No operators were added, or they are not a valid job.
            Exception: The cause of the job's failure; the exception of a user function unchanged.
        """
        client = self._start(job_name)
        try:
            attached = cluster.ATTACHED.read(self._configuration)
            result = client.wait_for_result() if attached else client.detached_result()
        except BaseException as error:
            self._listeners.notify_executed(None, error)
            raise
        self._listeners.notify_executed(result, None)
        return result

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Start a job of the operators added since the last execution, without waiting."""
        return self._start(job_name)

    def register_job_listener(self, job_listener: JobListener) -> None:
        """Call a listener when a job is submitted and when `execute` has ended (beyond PyFlink).

        Raises:
            WrongArgumentError: The argument is not a `JobListener`.
        """
        self._listeners.register(job_listener)

    def get_job_listeners(self) -> list[JobListener]:
        """Return the registered listeners (beyond PyFlink)."""
        return list(self._listeners)

    def clear_job_listeners(self) -> None:
        """Remove all listeners (beyond PyFlink)."""
        self._listeners.clear()

    def get_stream_graph(self) -> StreamGraph:
        """Return the graph built since the last execution, before chaining (beyond PyFlink)."""
        return self._job.stream_graph(
            DEFAULT_JOB_NAME, self.get_parallelism(), self.get_buffer_timeout()
        )[0]

    def get_execution_plan(self) -> str:
        """Return the plan built since the last execution, as JSON for Flink's plan viewer."""
        return self._job.execution_plan(self.get_parallelism(), self.get_buffer_timeout())

    def explain(self, *, analyze: bool = False) -> str:
        """Return the plan of the next job as readable text (beyond PyFlink).

        Args:
            analyze: Execute the job, wait for its end, and add the counts of its operators: records
                in and out, and the paths by which they were processed.

        Raises:
            InvalidProgramError: A job to analyze has an endless source, or runs in a session.
            Exception: The cause of the failure of an analyzed job.
        """
        described = self._job.explanation(self.get_parallelism(), self.get_buffer_timeout())
        return described(self._totals_of_a_run() if analyze else None)

    def _totals_of_a_run(self) -> OperatorTotals:
        """Execute the job and return the counts of its operators."""
        if unbounded := self.unbounded_sources():
            raise InvalidProgramError(
                f"explain(analyze=True) waits for the end of the job, but source {unbounded[0]!r} "
                "has no end: bound it, or read the metrics of the running job"
            )
        if execution_target(self._configuration) == "session":
            raise InvalidProgramError(
                "explain(analyze=True) does not run in a session: set execution.target to local, "
                "in-process or spark, or read the metrics from the session's REST interface"
            )
        client = self._start(None, reports_metrics=True)
        client.wait_for_result()
        return client.handle.operator_totals()

    def __repr__(self) -> str:
        return f"<StreamExecutionEnvironment of parallelism {self.get_parallelism()}>"

    def _repr_svg_(self) -> str | None:
        """Return a picture of the plan built since the last execution, for a notebook."""
        return self._job.picture(self.get_parallelism(), self.get_buffer_timeout())

    def close(self) -> None:
        """Discard the operators of the next job."""
        self._job.clear()

    def _start(
        self, job_name: str | None, *collect_ids: str, reports_metrics: bool = False
    ) -> JobClient:
        # Checked before the operators are removed, so that a program can correct an option.
        target = checked_target(self._configuration)
        never_committing = self._job.never_committing()
        job_graph, configuration = self._job.job_graph(
            job_name or pipeline.NAME.read(self._configuration),
            self.get_parallelism(),
            self.get_buffer_timeout(),
            sinks_only=bool(collect_ids),
        )
        warn_of_idle_options(configuration.to_dict(), target, never_committing)
        if reports_metrics:
            metrics.REPORTED_AT_END.write(configuration, value=True)
        try:
            client = execute_job(job_graph, configuration, target, collect_ids)
        except BaseException as error:
            self._listeners.notify_submitted(None, error)
            raise
        self._listeners.notify_submitted(client, None)
        return client

    # For streams ------------------------------------------------------------------------------

    def add_operator(self, transformation: PhysicalTransformation) -> None:
        """Register an operator of the next job."""
        self._job.add(transformation)

    def added_operators(self) -> list[PhysicalTransformation]:
        """Return the operators of the next job, without sources."""
        return self._job.operators

    def forget_operator(self, transformation: PhysicalTransformation) -> None:
        """Remove an operator of the next job, if it was added."""
        self._job.forget(transformation)

    def start_collecting(self, job_name: str | None, collect_id: str) -> JobClient:
        """Start the job whose last operator is a collect sink."""
        return self._start(job_name, collect_id)

    def unbounded_sources(self) -> list[str]:
        """Return the names of the next job's sources that may be endless."""
        return self._job.unbounded_sources()

    def register_side_output(self, operator: PhysicalTransformation, tag: OutputTag) -> None:
        """Register the tag of a side output that the program reads.

        Raises:
            InvalidProgramError: The tag was registered before with another type.
        """
        self._job.register_side_output(operator, tag)

    def assign_slot_sharing_group(
        self, transformation: PhysicalTransformation, group: str | SlotSharingGroup
    ) -> None:
        """Put an operator into a slot sharing group.

        Raises:
            InvalidProgramError: The group is neither a name nor a SlotSharingGroup, or requests
                resources.
        """
        given: object = group
        if isinstance(group, SlotSharingGroup):
            group.check_without_resources()
            transformation.slot_sharing_group = group.get_name()
        elif isinstance(given, str):
            transformation.slot_sharing_group = checked_name("a slot sharing group", given)
        else:
            raise WrongArgumentError(
                f"a slot sharing group must be a name or a SlotSharingGroup, got {group!r}"
            )
