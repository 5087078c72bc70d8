"""StreamExecutionEnvironment: the entry point and the execution of a program."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.names import checked_name
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.io import InputFormat as InputFormat
from penstock.common.job_client import JobClient as JobClient  # noqa: TC001 - as PyFlink's module
from penstock.common.job_execution_result import JobExecutionResult as JobExecutionResult  # noqa: TC001 - as PyFlink's module
from penstock.common.job_listener import JobListener as JobListener
from penstock.common.job_listener import JobListeners
from penstock.common.options import (
    changelog,
    checkpointing,
    cluster,
    metrics,
    pipeline,
    user_code,
)
from penstock.common.options.check import check_values, warn_of_idle_options
from penstock.common.typeinfo import TypeInformation as TypeInformation
from penstock.common.typeinfo import Types as Types
from penstock.common.watermark_strategy import WatermarkStrategy as WatermarkStrategy
from penstock.connectors.base import Source as Source
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode  # noqa: TC001 - as PyFlink's module
from penstock.datastream.data_stream.stream import DataStream as DataStream
from penstock.datastream.environment_sources import EnvironmentSources
from penstock.datastream.execution import checked_target, execute_job, execution_target
from penstock.datastream.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode  # noqa: TC001 - as PyFlink's module
from penstock.datastream.file_path import normalized_path
from penstock.datastream.functions.source_sink import SourceFunction as SourceFunction
from penstock.datastream.job_building import JobBuilder
from penstock.datastream.process_configuration import process_configuration
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.utils import ResultTypeQueryable as ResultTypeQueryable
from penstock.errors import ConfigurationError, InvalidProgramError, WrongArgumentError
from penstock.graph.settings import DEFAULT_JOB_NAME

if TYPE_CHECKING:
    from penstock.common.jobs.job_gateway import OperatorTotals
    from penstock.datastream.output_tag import OutputTag
    from penstock.datastream.state_backend import StateBackend
    from penstock.graph.stream_graph import StreamGraph
    from penstock.graph.transformations import PhysicalTransformation

__all__ = ["StreamExecutionEnvironment"]

T = TypeVar("T")

_default_local_parallelism: int | None = None


@checks_arguments
class StreamExecutionEnvironment(EnvironmentSources):
    """Entry point of a program: creates sources, holds settings, and executes the pipeline."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Create an environment with a copy of a configuration; see `get_execution_environment`."""
        self._configuration = Configuration(configuration)
        check_values(self._configuration.to_dict())
        self._config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._job = JobBuilder(self._configuration)
        self._listeners = JobListeners()

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None,
    ) -> StreamExecutionEnvironment:
        """Create an environment.

        Args:
            configuration: Settings of the job. They override the settings of the process, which
                come from, the strongest first: the JSON object in the environment variable
                PENSTOCK_CONFIGURATION; ``config.yaml`` in the folder PENSTOCK_CONF_DIR;
                ``pyproject.toml`` (table ``tool.penstock``) and ``penstock.yaml`` in the working
                directory; and, with ``--as-pyflink``, ``config.yaml`` in FLINK_CONF_DIR.

        Raises:
            ConfigurationError: The variable is not a JSON object, a file is missing or malformed,
                or an option has an invalid value.
        """
        settings = process_configuration()
        if configuration is not None:
            settings.add_all(configuration)
        return StreamExecutionEnvironment(settings)

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Configuration | None = None
    ) -> StreamExecutionEnvironment:
        """Create an environment whose jobs run on this machine (beyond PyFlink).

        Args:
            parallelism: The parallelism of its operators; by default that of the configuration.
            configuration: See `get_execution_environment`.

        Raises:
            ConfigurationError: As in `get_execution_environment`, or the parallelism is not
                positive.
        """
        environment = StreamExecutionEnvironment.get_execution_environment(configuration)
        cluster.TARGET.write(environment.get_configuration(), "local")
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    @staticmethod
    def create_remote_environment(
        host: str,
        port: int,
        parallelism: int | None = None,
        configuration: Configuration | None = None,
        *,
        token: str | None = None,
    ) -> StreamExecutionEnvironment:
        """Create an environment whose jobs run in the session at an address (beyond PyFlink).

        Args:
            host: The host of the session's jobmanager.
            port: Its port.
            parallelism: The parallelism of its operators; by default that of the configuration.
            configuration: See `get_execution_environment`.
            token: The session's token; see `RemoteStreamEnvironment`.

        Raises:
            ConfigurationError: The address, the token or the parallelism is invalid.
        """
        from penstock.datastream.remote_configuration import remote_configuration

        settings = remote_configuration(host, port, configuration, token)
        environment = StreamExecutionEnvironment(settings)
        return environment if parallelism is None else environment.set_parallelism(parallelism)

    # Settings ---------------------------------------------------------------------------------

    def get_config(self) -> ExecutionConfig:
        """Return the execution settings."""
        return self._config

    def get_configuration(self) -> Configuration:
        """Return the configuration behind all settings; changes take effect (beyond PyFlink)."""
        return self._configuration

    def configure(self, configuration: Configuration) -> None:
        """Apply all values of a configuration.

        Raises:
            ConfigurationError: An option has an invalid value.
        """
        check_values(configuration.to_dict())
        self._configuration.add_all(configuration)

    def configure_option(self, key: str, value: object) -> StreamExecutionEnvironment:
        """Set one option (beyond PyFlink).

        Raises:
            ConfigurationError: The value is invalid.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        check_values({key: text})
        self._configuration.set_string(key, text)
        return self

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the parallelism of operators that are added from now on.

        Raises:
            ConfigurationError: The parallelism is not positive.
        """
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that set none themselves."""
        if not pipeline.PARALLELISM.is_set(self._configuration) and _default_local_parallelism:
            return _default_local_parallelism
        return self._config.get_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, 1 to 32768.

        Raises:
            ConfigurationError: The number is out of that range.
        """
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups; -1 if it is derived from the parallelism."""
        return self._config.get_max_parallelism()

    def get_default_local_parallelism(self) -> int:
        """Return the default parallelism of environments."""
        return _default_local_parallelism or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Set the default parallelism of environments.

        Raises:
            ConfigurationError: The parallelism is not positive.
        """
        global _default_local_parallelism
        if parallelism < 1:
            raise ConfigurationError(f"a parallelism must be at least 1, got {parallelism}")
        _default_local_parallelism = parallelism

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set whether jobs run in STREAMING or BATCH mode."""
        pipeline.RUNTIME_MODE.write(self._configuration, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """Set the buffer timeout in ms: 0 flushes after each record, -1 only full buffers.

        Raises:
            ConfigurationError: The timeout is less than -1.
        """
        if timeout_millis < -1:
            raise ConfigurationError(
                f"a buffer timeout must be -1, 0 or positive, got {timeout_millis} ms"
            )
        pipeline.BUFFER_TIMEOUT_ENABLED.write(self._configuration, timeout_millis >= 0)
        pipeline.BUFFER_TIMEOUT.write(self._configuration, max(timeout_millis, 0))
        return self

    def get_buffer_timeout(self) -> int:
        """Return the buffer timeout in ms: 0 flushes after each record, -1 only full buffers."""
        if not pipeline.BUFFER_TIMEOUT_ENABLED.read(self._configuration):
            return -1
        return pipeline.BUFFER_TIMEOUT.read(self._configuration)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Run every operator in its own task."""
        pipeline.CHAINING.write(self._configuration, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators may share a task."""
        return pipeline.CHAINING.read(self._configuration)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return whether operators with different numbers of key groups may share a task."""
        return pipeline.CHAIN_DIFFERENT_MAX_PARALLELISM.read(self._configuration)

    def register_slot_sharing_group(
        self, slot_sharing_group: SlotSharingGroup
    ) -> StreamExecutionEnvironment:
        """Register a slot sharing group, which must not request resources.

        Raises:
            InvalidProgramError: The group requests resources.
        """
        slot_sharing_group.check_without_resources()
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Ship a file or folder to the workers, where functions find it by a name.

        A function calls ``context.get_distributed_cache().get_file(name)``, where ``context`` is
        the RuntimeContext of its ``open``.

        Args:
            file_path: A path on this machine, or a ``file:`` URI; it is read when the job starts.
            name: The name.
            executable: Whether it may be executed on the workers.

        Raises:
            InvalidProgramError: The file does not exist, or another file has the name.
        """
        self._job.register_cached_file(file_path, name, executable=executable)

    def add_python_file(self, file_path: str) -> None:
        """Ship Python code to the workers, and put it first on their module search path.

        Args:
            file_path: A module (``.py``), a packed package (``.zip``, ``.whl``, ``.egg``), which
                is unpacked, or a folder. The modules in a folder can be imported, and the folder
                itself if it has an ``__init__.py``. Any other file is put into a folder on the
                search path.

        Raises:
            InvalidProgramError: The file does not exist.
        """
        self._job.add_python_file(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Ship an archive to the workers, and unpack it below their working directory.

        The job then has its own working directory, so that ``open("target_dir/file")`` reads from
        the archive.

        Args:
            archive_path: A zip (``.zip``, ``.jar``, ``.whl``, ``.egg``) or tar (``.tar``,
                ``.tar.gz``, ``.tgz``, ``.tar.bz2``, ``.tar.xz``).
            target_dir: The folder; by default the archive's name.

        Raises:
            InvalidProgramError: The file does not exist or is not an archive, or another archive
                has the folder.
        """
        self._job.add_python_archive(archive_path, target_dir)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Install the packages of a requirements file for the workers, by pip.

        They are installed into a folder of the job, which comes before the interpreter's packages.

        Args:
            requirements_file_path: The requirements file.
            requirements_cache_dir: A folder with the packages. It is shipped as well, and pip uses
                no index.

        Raises:
            InvalidProgramError: The file or the folder does not exist.
        """
        self._job.set_python_requirements(requirements_file_path, requirements_cache_dir)

    def set_python_executable(self, python_exec: str) -> None:
        """Set the interpreter of the workers; it needs the same versions of penstock and Python.

        Args:
            python_exec: An absolute path on the workers, a name on their PATH, or a path inside
                an archive of `add_python_archive`, such as ``env.zip/bin/python``.

        Raises:
            InvalidProgramError: The argument is not a string, or is empty.
        """
        self._job.set_python_executable(python_exec)

    def add_jars(self, *jars_path: str) -> None:
        """Accept jars, which have no effect: workers do not need them.

        Connectors, formats, file systems and drivers are built in; one line in the log names the
        jars.  A program that uses a Java class fails at that call.
        """
        jars = (*user_code.JARS.read(self._configuration), *_texts("add_jars", jars_path))
        user_code.JARS.write(self._configuration, jars)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accept URLs of jars, which have no effect; see `add_jars`."""
        urls = (
            *user_code.CLASSPATHS.read(self._configuration),
            *_texts("add_classpaths", classpaths),
        )
        user_code.CLASSPATHS.write(self._configuration, urls)

    # Checkpoints and state --------------------------------------------------------------------

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the settings of checkpoints."""
        return self._checkpoint_config

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Enable checkpoints.

        Args:
            interval: The time between checkpoints in ms, at least 10.
            mode: Their guarantee; by default as configured, or exactly once.
        """
        self._checkpoint_config.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoint_config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints in ms; -1 if checkpoints are disabled."""
        return self._checkpoint_config.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the guarantee of checkpoints."""
        return self._checkpoint_config.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the guarantee of checkpoints."""
        return self._checkpoint_config.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints overtake data that waits in buffers."""
        return self._checkpoint_config.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether unaligned checkpoints are allowed where they are not known to be safe."""
        return self._checkpoint_config.is_force_unaligned_checkpoints()

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Set the state backend, as in PyFlink 1; PyFlink 2 only has the options."""
        state_backend.write_to(self._configuration)
        return self

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Set whether checkpoints write a log of changes."""
        changelog.ENABLED.write(self._configuration, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return whether checkpoints write a log of changes; None if it was not set."""
        if not changelog.ENABLED.is_set(self._configuration):
            return None
        return changelog.ENABLED.read(self._configuration)

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set the default directory of savepoints."""
        checkpointing.SAVEPOINT_FOLDER.write(self._configuration, normalized_path(directory))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the default directory of savepoints; None if it is not set."""
        return checkpointing.SAVEPOINT_FOLDER.read(self._configuration)

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


def _texts(where: str, given: tuple[Any, ...]) -> tuple[str, ...]:
    for text in given:
        if not isinstance(text, str):
            raise WrongArgumentError(f"{where} takes strings, one for each jar, got {text!r}")
    return given
