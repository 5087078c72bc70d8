"""The availability of a resource, and the threads that wait for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.serialization.pure.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable


def report(error: Exception) -> None:
    """Pass an exception to `sys.unraisablehook`, since there is no caller to raise it to."""

    class Raiser:
        """Raises where CPython calls the hook: in a finalizer."""

        def __del__(self) -> None:
            raise error

    Raiser()


def call(callback: Callable[[], None]) -> None:
    """Call somebody's callback, and report its exception."""
    try:
        callback()
    except Exception as error:
        report(error)


class AvailabilityFuture(Uncopied):
    """Completed once, when the resource becomes available.

    Complete it outside any lock: the callbacks run in the completing thread.
    """

    __slots__ = ("_callbacks", "_event", "_lock")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def is_done(self) -> bool:
        """Return whether it was completed."""
        return self._event.is_set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the completion; return False on a timeout."""
        return self._event.wait(timeout_seconds)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` on completion, or at once if it is completed already."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        call(callback)

    def _complete(self) -> None:
        """Wake the waiters and run the callbacks; a second call does nothing."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            call(callback)


class AvailabilityHelper:
    """Holds the current future.

    The owner calls the mutating methods under its own lock, and completes the returned futures
    after it has released the lock.
    """

    __slots__ = ("future",)

    def __init__(self, *, available: bool) -> None:
        self.future = AvailabilityFuture()
        if available:
            self.future._complete()

    @property
    def is_available(self) -> bool:
        """Return whether the current future is completed."""
        return self.future.is_done

    def reset_unavailable(self) -> None:
        """Start a new, incomplete future."""
        if self.future.is_done:
            self.future = AvailabilityFuture()

    def reset_available(self) -> AvailabilityFuture | None:
        """Install a completed future; return the old one if a thread may wait for it."""
        if self.future.is_done:
            return None
        old, self.future = self.future, AvailabilityFuture()
        self.future._complete()
        return old
