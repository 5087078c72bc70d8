"""ExecutionEnvironment of the former DataSet API, as the base of a BatchTableEnvironment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.execution_config import ExecutionConfig
from penstock.datastream.process_configuration import process_configuration
from penstock.flink_1 import say_once

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration

__all__ = ["ExecutionEnvironment"]


class ExecutionEnvironment:
    """Settings of batch programs with tables; the DataSet API itself never was in PyFlink."""

    def __init__(self) -> None:
        """Start with the options of the process."""
        self.configuration: Configuration = process_configuration()
        self._config = ExecutionConfig(self.configuration)

    @staticmethod
    def get_execution_environment() -> ExecutionEnvironment:
        """Return a new environment."""
        say_once(
            "ExecutionEnvironment",
            "use TableEnvironment.create(EnvironmentSettings.in_batch_mode())",
        )
        return ExecutionEnvironment()

    def get_config(self) -> ExecutionConfig:
        """Return the settings."""
        return self._config

    def set_parallelism(self, parallelism: int) -> None:
        """Set the number of subtasks of an operator."""
        self._config.set_parallelism(parallelism)

    def get_parallelism(self) -> int:
        """Return the number of subtasks of an operator."""
        return self._config.get_parallelism()
