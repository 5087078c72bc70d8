"""CompletableFuture: the result of a call that is still running."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

from penstock.common.missing_methods import NoJavaMembers

__all__ = [
    "CompletableFuture",
]

T = TypeVar("T")


class CompletableFuture(NoJavaMembers, Generic[T]):
    """A result that may not be there yet; wraps a `concurrent.futures.Future`."""

    def __init__(self, future: Future[T]) -> None:
        """Wrap a future."""
        self._future = future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """A future that has its result already."""
        future: Future[T] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """Try to cancel the call; False when it is too late."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Return whether the call was cancelled."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether the call ended, in whatever way."""
        return self._future.done()

    def result(self) -> T:
        """Wait for the result.

        Raises:
            BaseException: What the call raised.
        """
        return self._future.result()

    def exception(self) -> BaseException | None:
        """Wait for the end; what the call raised, or None."""
        return self._future.exception()

    def __str__(self) -> str:
        return str(self._future)
