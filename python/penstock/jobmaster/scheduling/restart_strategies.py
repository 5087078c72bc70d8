"""Restart strategies: whether to restart after a failure, and after which delay.

A strategy is notified of each failure and then asked; it has no clock.  Configuration keys are
Flink's: `restart-strategy.type` and `restart-strategy.<type>.*`.
"""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Protocol

from penstock.common.options import restart_strategy as options
from penstock.common.options.value_types import INFINITE
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RestartBackoffTimeStrategy(Protocol):
    """Decides on restarts; all times are monotonic ms."""

    def notify_failure(self, now_ms: int) -> bool:
        """Count a failure; return False if it belongs to the pending restart."""

    def can_restart(self) -> bool:
        """Return whether the last counted failure may lead to a restart."""

    def backoff_ms(self, now_ms: int) -> int:
        """Return how long to wait before that restart."""

    def __str__(self) -> str:
        """Return the strategy and its parameters, for the cause of a job's failure."""


class NoRestartStrategy:
    """Never restarts."""

    def notify_failure(self, now_ms: int) -> bool:
        """Return True: every failure is new."""
        del now_ms
        return True

    def can_restart(self) -> bool:
        """Return False."""
        return False

    def backoff_ms(self, now_ms: int) -> int:
        """Return 0."""
        del now_ms
        return 0

    def __str__(self) -> str:
        return "NoRestartStrategy"


class FixedDelayRestartStrategy:
    """Restarts a fixed number of times, each after the same delay."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._attempts = attempts
        self._delay_ms = delay_ms
        self._count = 0

    def notify_failure(self, now_ms: int) -> bool:
        """Count the failure."""
        del now_ms
        self._count += 1
        return True

    def can_restart(self) -> bool:
        """Return whether there were no more failures than attempts."""
        return self._count <= self._attempts

    def backoff_ms(self, now_ms: int) -> int:
        """Return the fixed delay."""
        del now_ms
        return self._delay_ms

    def __str__(self) -> str:
        return f"FixedDelayRestartStrategy(attempts={self._attempts}, delay={self._delay_ms} ms)"


class FailureRateRestartStrategy:
    """Restarts unless there were more failures within an interval than allowed."""

    def __init__(self, max_failures_per_interval: int, interval_ms: int, delay_ms: int) -> None:
        self._max_failures = max_failures_per_interval
        self._interval_ms = interval_ms
        self._delay_ms = delay_ms
        self._failures: deque[int] = deque(maxlen=max_failures_per_interval + 1)

    def notify_failure(self, now_ms: int) -> bool:
        """Store the time of the failure, dropping the oldest beyond max + 1."""
        self._failures.append(now_ms)
        return True

    def can_restart(self) -> bool:
        """Return False if the last max + 1 failures all lie within the interval."""
        if len(self._failures) <= self._max_failures:
            return True
        return self._failures[-1] - self._failures[0] > self._interval_ms

    def backoff_ms(self, now_ms: int) -> int:
        """Return the fixed delay."""
        del now_ms
        return self._delay_ms

    def __str__(self) -> str:
        return (
            f"FailureRateRestartStrategy(max-failures-per-interval={self._max_failures}, "
            f"interval={self._interval_ms} ms, delay={self._delay_ms} ms)"
        )


class ExponentialDelayRestartStrategy:
    """Restarts after delays that grow with each failure and shrink back after a quiet time.

    Failures before a scheduled restart count as the failure that caused it.
    """

    def __init__(
        self,
        *,
        initial_backoff_ms: int = 1_000,
        max_backoff_ms: int = 60_000,
        multiplier: float = 1.5,
        reset_threshold_ms: int = 3_600_000,
        jitter_factor: float = 0.1,
        attempts_before_reset: int = INFINITE,
        rng: random.Random | None = None,
    ) -> None:
        if initial_backoff_ms < 1:
            raise ConfigurationError("the initial backoff must be at least 1 ms")
        if max_backoff_ms < initial_backoff_ms:
            raise ConfigurationError("the max backoff must not be below the initial backoff")
        if multiplier < 1:
            raise ConfigurationError("the backoff multiplier must be at least 1")
        if reset_threshold_ms < 1:
            raise ConfigurationError("the reset backoff threshold must be at least 1 ms")
        if not 0 <= jitter_factor <= 1:
            raise ConfigurationError("the jitter factor must be between 0 and 1")
        if attempts_before_reset < 1:
            raise ConfigurationError("the attempts before reset must be at least 1")
        self._initial_ms = initial_backoff_ms
        self._max_ms = max_backoff_ms
        self._multiplier = multiplier
        self._reset_ms = reset_threshold_ms
        self._jitter = jitter_factor
        self._attempts_before_reset = attempts_before_reset
        self._rng = rng or random.Random()
        self._attempt = 0
        self._next_restart_ms: int | None = None

    def notify_failure(self, now_ms: int) -> bool:
        """Count the failure, or merge it into the pending restart."""
        if self._next_restart_ms is not None:
            if now_ms <= self._next_restart_ms:
                return False
            if now_ms - self._next_restart_ms >= self._reset_ms:
                self._attempt = 0
        self._next_restart_ms = now_ms + self._delay_ms()
        self._attempt += 1
        return True

    def can_restart(self) -> bool:
        """Return whether the attempts since the last reset are within the limit."""
        return self._attempt <= self._attempts_before_reset

    def backoff_ms(self, now_ms: int) -> int:
        """Return the time until the next restart, in ms."""
        if self._next_restart_ms is None:
            return 0
        return max(0, self._next_restart_ms - now_ms)

    def _delay_ms(self) -> int:
        # A loop with an early stop, because multiplier ** attempt overflows a float after a few
        # thousand failures.
        backoff = float(self._initial_ms)
        for _ in range(self._attempt):
            backoff *= self._multiplier
            if backoff >= self._max_ms or self._multiplier == 1:
                break
        offset = int(backoff * self._jitter)
        jittered = backoff + self._rng.randint(-offset, offset) if offset else backoff
        return max(self._initial_ms, min(int(jittered), self._max_ms))

    def __str__(self) -> str:
        return (
            f"ExponentialDelayRestartStrategy(initial-backoff={self._initial_ms} ms, "
            f"max-backoff={self._max_ms} ms, backoff-multiplier={self._multiplier}, "
            f"reset-backoff-threshold={self._reset_ms} ms, jitter-factor={self._jitter}, "
            f"attempts-before-reset-backoff={self._attempts_before_reset}, "
            f"attempt={self._attempt})"
        )


def restart_strategy_from_configuration(
    configuration: Mapping[str, str],
) -> RestartBackoffTimeStrategy:
    """Return the configured strategy, or the default.

    Args:
        configuration: Flat keys and values.

    Raises:
        ConfigurationError: If the type is unknown or a value is malformed.
    """
    kind = options.effective_type(configuration)
    if kind == "fixed-delay":
        return FixedDelayRestartStrategy(
            options.FIXED_ATTEMPTS.read(configuration), options.FIXED_DELAY.read(configuration)
        )
    if kind == "failure-rate":
        return FailureRateRestartStrategy(
            options.RATE_FAILURES.read(configuration),
            options.RATE_INTERVAL.read(configuration),
            options.RATE_DELAY.read(configuration),
        )
    if kind == "exponential-delay":
        return ExponentialDelayRestartStrategy(
            initial_backoff_ms=options.INITIAL_BACKOFF.read(configuration),
            max_backoff_ms=options.MAX_BACKOFF.read(configuration),
            multiplier=options.BACKOFF_MULTIPLIER.read(configuration),
            reset_threshold_ms=options.RESET_THRESHOLD.read(configuration),
            jitter_factor=options.JITTER_FACTOR.read(configuration),
            attempts_before_reset=options.ATTEMPTS_BEFORE_RESET.read(configuration),
        )
    return NoRestartStrategy()
