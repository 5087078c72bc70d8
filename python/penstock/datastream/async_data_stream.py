"""AsyncDataStream: operators whose asynchronous calls overlap."""

from __future__ import annotations

import inspect
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.common.calls.missing_methods import SnakeCaseHints
from penstock.common.time import Duration, Time
from penstock.common.typeinfo import TypeInformation as TypeInformation
from penstock.datastream import async_retry_strategies as async_retry_strategies
from penstock.datastream.async_retry_strategies import NO_RETRY_STRATEGY, AsyncRetryStrategy
from penstock.datastream.data_stream.stream import DataStream
from penstock.datastream.data_stream.type_arguments import TypeArgument, Undeclared, type_argument
from penstock.datastream.functions.asynchronous import (
    AsyncFunction,
    AsyncFunctionDescriptor,
)
from penstock.datastream.shipping import shipped
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.graph import operators
from penstock.graph.transformations import OneInputTransformation

if TYPE_CHECKING:
    from penstock.datastream.data_stream.type_arguments import RESULT, Declared
    from penstock.datastream.data_stream.typed_functions import AsyncInvokes
    from penstock.datastream.functions.asynchronous import AsyncFunctionDescriptor as _Descriptor

T = TypeVar("T")
OUT = TypeVar("OUT")

_NO_RETRY = NO_RETRY_STRATEGY
_ORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED
_UNORDERED = AsyncFunctionDescriptor.OutputMode.UNORDERED


class AsyncDataStream(metaclass=SnakeCaseHints):
    """Constructors of asynchronous operators."""

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, OUT],
        timeout: Duration | Time,
        capacity: int = 100,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, object],
        timeout: Duration | Time,
        capacity: int = 100,
        output_type: Declared[RESULT] = None,
    ) -> DataStream[RESULT]: ...

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, Any],
        timeout: Duration | Time,
        capacity: int = 100,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Call a function for each record and emit results as they arrive.

        Results never cross a watermark.

        Args:
            data_stream: The stream of records.
            async_function: The function; its calls overlap.
            timeout: Time after which the function's `timeout` is called instead.
            capacity: The most records and watermarks in the operator: those whose call is in
                progress, and results that wait for earlier ones.
                A full operator accepts no further record.
            output_type: The type of the results.

        Raises:
            InvalidProgramError: An argument has the wrong type.
        """
        return _wait(
            data_stream, async_function, timeout, _NO_RETRY, capacity, output_type, _UNORDERED
        )

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, OUT],
        timeout: Duration | Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, object],
        timeout: Duration | Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Declared[RESULT] = None,
    ) -> DataStream[RESULT]: ...

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, Any],
        timeout: Duration | Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Do the same as `unordered_wait` with retries; the timeout includes all of them."""
        _check_retry(timeout, async_retry_strategy)
        return _wait(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            _UNORDERED,
        )

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, OUT],
        timeout: Duration | Time,
        capacity: int = 100,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, object],
        timeout: Duration | Time,
        capacity: int = 100,
        output_type: Declared[RESULT] = None,
    ) -> DataStream[RESULT]: ...

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, Any],
        timeout: Duration | Time,
        capacity: int = 100,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Emit results in the order of their records; see `unordered_wait`."""
        return _wait(
            data_stream, async_function, timeout, _NO_RETRY, capacity, output_type, _ORDERED
        )

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, OUT],
        timeout: Duration | Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Undeclared = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, object],
        timeout: Duration | Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Declared[RESULT] = None,
    ) -> DataStream[RESULT]: ...

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncInvokes[T, Any],
        timeout: Duration | Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeArgument = None,
    ) -> DataStream[Any]:
        """Do the same as `ordered_wait` with retries; the timeout includes all of them."""
        _check_retry(timeout, async_retry_strategy)
        return _wait(
            data_stream,
            async_function,
            timeout,
            async_retry_strategy,
            capacity,
            output_type,
            _ORDERED,
        )


def _check_retry(timeout: Any, async_retry_strategy: Any) -> None:
    if not isinstance(async_retry_strategy, AsyncRetryStrategy):
        raise WrongArgumentError(f"an AsyncRetryStrategy is needed, got {async_retry_strategy!r}")
    if isinstance(timeout, Time | Duration) and timeout.to_milliseconds() <= 0:
        raise InvalidProgramError(
            f"retries need a positive timeout, got {timeout.to_milliseconds()} ms"
        )


def _wait(
    data_stream: Any,
    async_function: Any,
    timeout: Any,
    retry_strategy: AsyncRetryStrategy[Any],
    capacity: Any,
    output_type: TypeArgument,
    output_mode: _Descriptor.OutputMode,
) -> DataStream[Any]:
    if not isinstance(data_stream, DataStream):
        raise WrongArgumentError(f"a DataStream is needed, got {data_stream!r}")
    if not isinstance(async_function, AsyncFunction):
        raise WrongArgumentError(f"an AsyncFunction is needed, got {async_function!r}")
    if not inspect.iscoroutinefunction(async_function.async_invoke):
        raise WrongArgumentError(
            f"{type(async_function).__name__}.async_invoke must be a coroutine: write async def"
        )
    if not isinstance(timeout, Time | Duration):
        raise WrongArgumentError(f"timeout must be a Time or a Duration, got {timeout!r}")
    if timeout.to_milliseconds() < 0:
        raise WrongArgumentError(
            f"timeout must not be negative, got {timeout.to_milliseconds()} ms"
        )
    if isinstance(capacity, bool) or not hasattr(capacity, "__index__"):
        raise WrongArgumentError(f"capacity must be a whole number, got {capacity!r}")
    capacity = index(capacity)
    if capacity <= 0:
        raise InvalidProgramError(f"capacity must be positive, got {capacity}")
    environment = data_stream.get_execution_environment()
    key_selector, key_type = data_stream._keys()
    descriptor = operators.AsyncWait(
        shipped(async_function, "AsyncDataStream"),
        timeout_ms=timeout.to_milliseconds(),
        capacity=capacity,
        retry_strategy=shipped(retry_strategy, "async_retry_strategy"),
        ordered=output_mode is _ORDERED,
    )
    return data_stream._add(
        OneInputTransformation(
            data_stream.transformation,
            "async wait operator",
            descriptor,
            type_argument(output_type, "AsyncDataStream"),
            environment.get_parallelism(),
            key_selector=key_selector,
            key_type=key_type,
        )
    )
