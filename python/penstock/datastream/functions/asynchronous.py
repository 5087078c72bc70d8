"""Asynchronous functions and how their calls are repeated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.common.time import Time

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Says which outcomes of a call are tried again."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """A test of the result, or None for never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """A test of the exception, or None for never."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Says how often and when a call is tried again."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another try may follow that many."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after that many tries, in ms."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes are tried again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never tries again."""
        from penstock.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[Any]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> AsyncRetryStrategy[Any]:
        """Waits equally long before each try."""
        from penstock.datastream.async_retry_strategies import FixedDelayRetryStrategy

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
        """Waits longer before each further try."""
        from penstock.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            result_predicate,
            exception_predicate,
        )


class AsyncFunction(Function, Generic[IN, OUT]):
    """Makes any number of elements of each by a coroutine; many are under way at a time."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The elements to emit."""

    def timeout(self, value: IN) -> list[OUT]:
        """The elements to emit when the call took too long.

        Raises:
            TimeoutError: Unless it is overridden.
        """
        raise TimeoutError(f"the asynchronous call for {value!r} timed out")


class AsyncFunctionDescriptor:
    """An asynchronous operator as data."""

    class OutputMode(Enum):
        """Whether results keep the order of the elements."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        """Makes a descriptor; the timeout becomes milliseconds."""
        self.async_function = async_function
        self.timeout = timeout.to_milliseconds()
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
