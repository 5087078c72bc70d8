"""The table environment of batch programs in PyFlink 1: TableEnvironment in batch mode."""

from __future__ import annotations

from typing import Any

from penstock.datastream.process_configuration import process_configuration
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.flink_1 import say_once
from penstock.flink_1.dataset import ExecutionEnvironment
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.table_config import TableConfig
from penstock.table.table_environment.table_environment import TableEnvironment


class BatchTableEnvironment(TableEnvironment):
    """A TableEnvironment in batch mode."""

    @staticmethod
    def create(  # type: ignore[override]
        execution_environment: ExecutionEnvironment | None = None,
        table_config: TableConfig | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> BatchTableEnvironment:
        """Return an environment.

        Args:
            execution_environment: Has the parallelism; None for the default.
            table_config: Options.
            environment_settings: The settings, in batch mode.

        Raises:
            InvalidProgramError: The execution environment is of another class, or the settings are
                of streaming mode.
            WrongArgumentError: The settings or the options are of another class.
        """
        say_once(
            "BatchTableEnvironment",
            "use TableEnvironment.create(EnvironmentSettings.in_batch_mode())",
        )
        configuration = process_configuration()
        if execution_environment is not None:
            given: Any = execution_environment
            if not isinstance(given, ExecutionEnvironment):
                raise InvalidProgramError(
                    "BatchTableEnvironment.create takes an ExecutionEnvironment of pyflink.dataset;"
                    " for a stream environment write StreamTableEnvironment.create(env) with env "
                    "in BATCH mode"
                )
            configuration = given.configuration
        settings: Any = environment_settings or EnvironmentSettings.in_batch_mode()
        if not isinstance(settings, EnvironmentSettings):
            raise WrongArgumentError(f"environment_settings is EnvironmentSettings, got {settings}")
        if settings.is_streaming_mode():
            raise InvalidProgramError(
                "BatchTableEnvironment.create: the settings are of streaming mode; call "
                "in_batch_mode() on their builder, or use TableEnvironment"
            )
        made = BatchTableEnvironment(settings, configuration)
        made.get_config().add_configuration(settings.configuration)
        options: Any = table_config
        if options is not None:
            if not isinstance(options, TableConfig):
                raise WrongArgumentError(f"table_config is a TableConfig, got {options!r}")
            made.get_config().add_configuration(options.get_configuration())
        return made
