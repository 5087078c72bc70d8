"""Strategies that decide when asynchronous calls are retried."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """The predicate of the outcomes of a call that are retried."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return the test of a result, or None to retry no result."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return the test of an exception, or None to retry no exception."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """The strategy that decides how often and when a call is retried."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another attempt may follow `current_attempts` attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay after `current_attempts` attempts, in ms."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate of the outcomes that are retried."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Return the strategy that never retries."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Return a strategy with the same delay before each retry."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Return a strategy whose delay grows with each retry."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            result_predicate,
            exception_predicate,
        )


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """A test of results and a test of exceptions, both optional."""

    def __init__(
        self,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        """Create a predicate from two tests."""
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """Return the test of results, or None."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the test of exceptions, or None."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A strategy that never retries."""

    def can_retry(self, current_attempts: int) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:  # noqa: ARG002
        """Return -1: no attempt follows."""
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return a predicate without tests."""
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A strategy with the same delay before each retry."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        """Create a strategy.

        Args:
            max_attempts: Number of retries after the first call, as in PyFlink.
            backoff_time_millis: Delay before each retry, in ms.
            result_predicate: Test of the results that are retried.
            exception_predicate: Test of the exceptions that are retried.

        Raises:
            AssertionError: A number is not positive.
        """
        _check_positive("max_attempts", max_attempts)
        _check_positive("backoff_time_millis", backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate[OUT](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether attempts are left."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:  # noqa: ARG002
        """Return the delay, in ms."""
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate of the outcomes that are retried."""
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A strategy whose delay grows with each retry."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        """Create a strategy.

        Args:
            max_attempts: Number of retries after the first call, as in PyFlink.
            initial_delay: Delay before the first retry, in ms.
            max_retry_delay: Longest delay, in ms.
            multiplier: Factor by which the delay grows.
            result_predicate: Test of the results that are retried.
            exception_predicate: Test of the exceptions that are retried.

        Raises:
            AssertionError: A number is not positive.
        """
        _check_positive("max_attempts", max_attempts)
        _check_positive("initial_delay", initial_delay)
        _check_positive("multiplier", multiplier)
        _check_positive("max_retry_delay", max_retry_delay)
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate[OUT](result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        """Return whether attempts are left."""
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay after `current_attempts` attempts, in ms."""
        if current_attempts <= 1:
            return self._initial_delay
        try:
            delay = self._initial_delay * float(self._multiplier) ** (current_attempts - 1)
        except OverflowError:
            return int(self._max_retry_delay)
        return int(min(delay, self._max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the predicate of the outcomes that are retried."""
        return self._predicate


def _check_positive(name: str, value: float) -> None:
    if value <= 0:
        # PyFlink raises AssertionError here, and programs may expect it.
        raise AssertionError(f"{name} must be positive, got {value}")


NO_RETRY_STRATEGY: NoRetryStrategy[Any] = NoRetryStrategy()
