"""Batching of rows that a sink writes into a database."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.errors import InvalidProgramError


@dataclass(frozen=True)
class JdbcExecutionOptions(NoJavaMembers):
    """Batching of rows; created by `builder`.

    Attributes:
        batch_interval_ms: Longest time that a row waits; 0 for no limit.
        batch_size: Number of rows in a batch.
        max_retries: Number of retries of a batch.
    """

    batch_interval_ms: int = 0
    batch_size: int = 5000
    max_retries: int = 3

    def get_batch_interval_ms(self) -> int:
        """Return the longest time a row waits, in ms; 0 for no limit."""
        return self.batch_interval_ms

    def get_batch_size(self) -> int:
        """Return the number of rows written at once."""
        return self.batch_size

    def get_max_retries(self) -> int:
        """Return the number of retries of a batch."""
        return self.max_retries

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the defaults: 5000 rows, no interval, three retries, as in Flink."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder with the defaults."""
        return JdbcExecutionOptions.Builder()

    @checks_arguments
    class Builder(NoJavaMembers):
        """Builder of JdbcExecutionOptions."""

        def __init__(self) -> None:
            """Create a builder with the defaults."""
            self._settings: dict[str, int] = {}

        def with_batch_size(self, size: int) -> JdbcExecutionOptions.Builder:
            """Set the number of rows written at once."""
            return self._set("batch_size", size, 1)

        def with_batch_interval_ms(self, interval_ms: int) -> JdbcExecutionOptions.Builder:
            """Set the longest time a row waits, in ms; 0 for no limit."""
            return self._set("batch_interval_ms", interval_ms, 0)

        def with_max_retries(self, max_retries: int) -> JdbcExecutionOptions.Builder:
            """Set the number of retries of a batch."""
            return self._set("max_retries", max_retries, 0)

        def build(self) -> JdbcExecutionOptions:
            """Return the options."""
            return JdbcExecutionOptions(**self._settings)

        def _set(self, name: str, value: int, least: int) -> JdbcExecutionOptions.Builder:
            if value < least:
                raise InvalidProgramError(f"{name} must be at least {least}, got {value}")
            self._settings[name] = value
            return self
