"""Asynchronous functions."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from penstock.common.exception_deadline import repr_in_time
from penstock.datastream.functions.function import Function

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from penstock.common.time import Duration, Time
    from penstock.datastream.async_retry_strategies import AsyncRetryStrategy
    from penstock.datastream.functions.runtime_context import RuntimeContext

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """A function whose coroutine converts each record to any number of results; calls overlap.

    All its methods but `timeout` run in the event loop of their subtask.
    """

    #: Methods that may be plain functions or coroutines.
    __awaited__: ClassVar[frozenset[str]] = frozenset({"open", "close"})

    def open(self, runtime_context: RuntimeContext) -> Awaitable[None] | None:  # type: ignore[override]
        """Prepare the function, before the first call; a plain function or a coroutine.

        It runs in the event loop of the calls: a client that it creates belongs to that loop.
        """

    def close(self) -> Awaitable[None] | None:  # type: ignore[override]
        """Release the resources of `open` and the calls; a plain function or a coroutine.

        It runs in the event loop, after the calls have ended or were cancelled, and before other
        tasks of the loop are cancelled and the loop is closed.
        """

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Return the records to emit."""

    def timeout(self, value: IN) -> list[OUT]:
        """Return the records to emit for a call that timed out.

        It runs in the thread of the task, and cannot be a coroutine.

        Raises:
            TimeoutError: Unless it is overridden.
        """
        raise TimeoutError(f"the asynchronous call for {repr_in_time(value)} timed out")


class AsyncFunctionDescriptor:
    """An asynchronous operator as data."""

    class OutputMode(Enum):
        """Order of the results of asynchronous calls."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: Duration | Time,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: AsyncFunctionDescriptor.OutputMode,
    ) -> None:
        """Create a descriptor; the timeout becomes milliseconds."""
        self.async_function = async_function
        self.timeout = timeout.to_milliseconds()
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
