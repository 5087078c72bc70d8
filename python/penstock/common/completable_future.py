"""CompletableFuture: the result of a call that is still running."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

from penstock.common.calls.missing_methods import NoJavaMembers

__all__ = [
    "CompletableFuture",
]

T = TypeVar("T")


class CompletableFuture(NoJavaMembers, Generic[T]):
    """The result of a running call; wraps a `concurrent.futures.Future`."""

    def __init__(self, future: Future[T]) -> None:
        """Wrap a future."""
        self._future = future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """Return a future that already has its result."""
        future: Future[T] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """Try to cancel the call; return False if it is too late."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether the call was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether the call ended, successfully or not."""
        return self._future.done()

    def result(self) -> T:
        """Wait for the result and return it.

        Raises:
            BaseException: The exception of the call.
        """
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Wait for the end; return the exception of the call, or None."""
        return self._future.exception()

    def __str__(self) -> str:
        return str(self._future)
