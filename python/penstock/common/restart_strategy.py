# ruff: noqa: ARG002, ARG004 - signatures of what is refused
"""RestartStrategies: still exported by PyFlink, accepted by nothing; configuration took over."""

from typing import NoReturn

from penstock.common.jvm import requires_jvm

__all__ = [
    "RestartStrategies",
    "RestartStrategyConfiguration",
]

_INSTEAD = (
    "set the configuration keys restart-strategy.type (none, fixed-delay, failure-rate or "
    "exponential-delay) and restart-strategy.<type>.*"
)


class RestartStrategyConfiguration:
    """A Java restart strategy."""

    def __init__(self, j_restart_strategy_configuration: object) -> None:
        """Refused.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm("RestartStrategyConfiguration", _INSTEAD)


class RestartStrategies:
    """Made Java restart strategies."""

    @staticmethod
    def no_restart() -> NoReturn:
        """Refused: use the configuration."""
        requires_jvm("RestartStrategies.no_restart", _INSTEAD)

    @staticmethod
    def fall_back_restart() -> NoReturn:
        """Refused: use the configuration."""
        requires_jvm("RestartStrategies.fall_back_restart", _INSTEAD)

    @staticmethod
    def fixed_delay_restart(restart_attempts: int, delay_between_attempts: int) -> NoReturn:
        """Refused: use the configuration."""
        requires_jvm("RestartStrategies.fixed_delay_restart", _INSTEAD)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int,
        failure_interval: int,
        delay_interval: int,
    ) -> NoReturn:
        """Refused: use the configuration."""
        requires_jvm("RestartStrategies.failure_rate_restart", _INSTEAD)
