"""Settings of an environment: parallelism, files of the program, checkpoints and state."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.options import changelog, checkpointing, pipeline, user_code
from penstock.common.options.check import check_values
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.file_path import normalized_path
from penstock.datastream.job_building import JobBuilder
from penstock.errors import ConfigurationError, WrongArgumentError

if TYPE_CHECKING:
    from typing import Self

    from penstock.datastream.checkpointing_mode import CheckpointingMode
    from penstock.datastream.execution_mode import RuntimeExecutionMode
    from penstock.datastream.slot_sharing_group import SlotSharingGroup
    from penstock.datastream.state_backend import StateBackend

_default_local_parallelism: int | None = None


@partial(checks_arguments, called="StreamExecutionEnvironment")
class EnvironmentSettings(MissingMethods):
    """Methods of `StreamExecutionEnvironment` that read and change its settings."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        """Copy a configuration."""
        self._configuration = Configuration(configuration)
        check_values(self._configuration.to_dict())
        self._config = ExecutionConfig(self._configuration)
        self._checkpoint_config = CheckpointConfig(self._configuration)
        self._job = JobBuilder(self._configuration)

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

    def configure_option(self, key: str, value: object) -> Self:
        """Set one option (beyond PyFlink).

        Raises:
            ConfigurationError: The value is invalid.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        check_values({key: text})
        self._configuration.set_string(key, text)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
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

    def set_max_parallelism(self, max_parallelism: int) -> Self:
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

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Set whether jobs run in STREAMING or BATCH mode."""
        pipeline.RUNTIME_MODE.write(self._configuration, execution_mode.name)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
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

    def disable_operator_chaining(self) -> Self:
        """Run every operator in its own task."""
        pipeline.CHAINING.write(self._configuration, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators may share a task."""
        return pipeline.CHAINING.read(self._configuration)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return whether operators with different numbers of key groups may share a task."""
        return pipeline.CHAIN_DIFFERENT_MAX_PARALLELISM.read(self._configuration)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
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

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
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

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Set the state backend, as in PyFlink 1; PyFlink 2 only has the options."""
        state_backend.write_to(self._configuration)
        return self

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Set whether checkpoints write a log of changes."""
        changelog.ENABLED.write(self._configuration, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return whether checkpoints write a log of changes; None if it was not set."""
        if not changelog.ENABLED.is_set(self._configuration):
            return None
        return changelog.ENABLED.read(self._configuration)

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set the default directory of savepoints."""
        checkpointing.SAVEPOINT_FOLDER.write(self._configuration, normalized_path(directory))
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the default directory of savepoints; None if it is not set."""
        return checkpointing.SAVEPOINT_FOLDER.read(self._configuration)


def _texts(where: str, given: tuple[Any, ...]) -> tuple[str, ...]:
    for text in given:
        if not isinstance(text, str):
            raise WrongArgumentError(f"{where} takes strings, one for each jar, got {text!r}")
    return given
