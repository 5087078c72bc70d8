"""RestartStrategies: how a failed job restarts, in PyFlink 1's form."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.options import restart_strategy as options
from penstock.common.time import Duration, Time
from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from penstock.common.configuration import Configuration
    from penstock.common.options.option import Option

__all__ = [
    "RestartStrategies",
    "RestartStrategyConfiguration",
]

_OPTIONS = [value for value in vars(options).values() if type(value).__name__ == "Option"]


class RestartStrategyConfiguration(NoJavaMembers):
    """Restart strategy of a failed job, for `set_restart_strategy`."""

    def __init__(self, j_restart_strategy_configuration: object = None) -> None:
        """Create a description; use `RestartStrategies`.

        Raises:
            JvmOnlyError: A Java object was passed.
        """
        if j_restart_strategy_configuration is not None:
            requires_jvm("RestartStrategyConfiguration(java_object)", "use RestartStrategies")
        self._values: dict[Option[Any], object] = {}

    def get_description(self) -> str:
        """Return the equivalent options."""
        return ", ".join(
            f"{option.key}: {option.value_type.text(value)}"
            for option, value in self._values.items()
        )

    def write_to(self, configuration: Configuration) -> None:
        """Set the equivalent options (beyond PyFlink)."""
        for option in _OPTIONS:
            option.remove(configuration)
        for option, value in self._values.items():
            option.write(configuration, value)

    def __eq__(self, other: object) -> bool:
        """Return whether both are equivalent."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash((type(self), tuple(self._values.values())))


class RestartStrategies(NoJavaMembers):
    """Creates descriptions of how a failed job restarts."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job fails with its first failure."""

        def __init__(self, j_restart_strategy: object = None) -> None:
            """Create a description."""
            super().__init__(j_restart_strategy)
            self._values = {options.TYPE: "none"}

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job restarts a fixed number of times, after a fixed delay."""

        def __init__(
            self,
            restart_attempts: int,
            delay_between_attempts_interval: int | timedelta | Time | Duration,
            j_restart_strategy: object = None,
        ) -> None:
            """Create a description; numbers of time are ms."""
            super().__init__(j_restart_strategy)
            self._attempts = restart_attempts
            self._delay_ms = _millis(delay_between_attempts_interval, "delay_between_attempts")
            self._values = {
                options.TYPE: "fixed-delay",
                options.FIXED_ATTEMPTS: restart_attempts,
                options.FIXED_DELAY: self._delay_ms,
            }

        def get_restart_attempts(self) -> int:
            """Return the maximum number of restarts."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time before a restart."""
            return timedelta(milliseconds=self._delay_ms)

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The job restarts while no interval has more failures than a rate."""

        def __init__(
            self,
            max_failure_rate: int,
            failure_interval: int | timedelta | Time | Duration,
            delay_between_attempts_interval: int | timedelta | Time | Duration,
            j_restart_strategy: object = None,
        ) -> None:
            """Create a description; numbers of time are ms."""
            super().__init__(j_restart_strategy)
            self._rate = max_failure_rate
            self._interval_ms = _millis(failure_interval, "failure_interval")
            self._delay_ms = _millis(delay_between_attempts_interval, "delay_between_attempts")
            self._values = {
                options.TYPE: "failure-rate",
                options.RATE_FAILURES: max_failure_rate,
                options.RATE_INTERVAL: self._interval_ms,
                options.RATE_DELAY: self._delay_ms,
            }

        def get_max_failure_rate(self) -> int:
            """Return the maximum number of failures in an interval."""
            return self._rate

        def get_failure_interval(self) -> timedelta:
            """Return the interval."""
            return timedelta(milliseconds=self._interval_ms)

        def get_delay_between_attempts_interval(self) -> timedelta:
            """Return the time before a restart."""
            return timedelta(milliseconds=self._delay_ms)

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restart strategy of the cluster's configuration."""

        def __init__(self, j_restart_strategy: object = None) -> None:
            """Create a description."""
            super().__init__(j_restart_strategy)

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """Let the job fail with its first failure."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """Use the cluster's configuration."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta | Time | Duration
    ) -> FixedDelayRestartStrategyConfiguration:
        """Restart a fixed number of times, after a fixed delay; a plain number is in ms."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int,
        failure_interval: int | timedelta | Time | Duration,
        delay_interval: int | timedelta | Time | Duration,
    ) -> FailureRateRestartStrategyConfiguration:
        """Restart unless an interval has more failures than the rate; plain numbers are in ms."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )


def _millis(span: Any, what: str) -> int:
    if isinstance(span, Time | Duration):
        return span.to_millis()
    if isinstance(span, timedelta):
        return round(span.total_seconds() * 1000)
    if type(span) is not int:
        raise WrongArgumentError(
            f"{what} must be a number of ms, a timedelta, a Time or a Duration, got {span!r}"
        )
    return span
