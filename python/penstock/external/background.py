"""Waits of connectors that leave their tasks free to run mails or be cancelled."""

from __future__ import annotations

import socket
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Duration of the steps of a wait, in seconds.
_STEP_S: Final = 0.1

#: On close, the longest wait for an interrupted call, in seconds.
_CLOSE_S: Final = 0.5


def _nothing() -> None:
    """Do nothing: the default final step."""


def pause(delay_s: float, closed: Event) -> None:
    """Wait for a number of seconds or an event, in steps.

    A cancelled task is interrupted only between two steps.
    """
    deadline_s = time.monotonic() + delay_s
    while (left_s := deadline_s - time.monotonic()) > 0 and not closed.wait(min(left_s, _STEP_S)):
        pass


def outcome(future: Future[T]) -> T:
    """Return the result of a call in another thread; wait in steps, as `pause` does."""
    while not wait([future], _STEP_S).done:
        pass
    return future.result()


def shut_down(connection: object) -> None:
    """Interrupt another thread that waits at a socket, with an error there.

    Args:
        connection: An object with a ``fileno``; any other, or a closed one, is ignored.
    """
    number = getattr(connection, "fileno", None)
    if number is None:
        return
    # Libraries raise different errors for a closed connection.
    with suppress(Exception), socket.socket(fileno=socket.dup(number())) as same:
        same.shutdown(socket.SHUT_RDWR)


class ServerThreads:
    """Threads whose calls wait for servers, as long as client libraries do.

    Nobody waits for them without a limit: neither a cancelled task nor the interpreter at its end,
    which waits for the threads of a `ThreadPoolExecutor`.
    """

    def __init__(self, name: str, count: int = 1, at_end: Callable[[], Any] = _nothing) -> None:
        """Create the object; threads start on demand.

        Args:
            name: The name of the threads.
            count: The greatest number of threads.
            at_end: Called by each thread at its end.
        """
        self._name, self._count, self._at_end = name, count, at_end
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._lock = Lock()
        self._working = self._calls = 0
        self._last: Callable[[], Any] = _nothing
        #: Set by `close`, for calls that would retry.
        self.closed = Event()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call for a thread; each thread runs its calls in order."""
        future: Future[T] = Future()
        with self._lock:
            is_closed = self.closed.is_set()
            if not is_closed:
                self._waiting.put((future, call))
                if len(self._threads) < self._count:
                    name = f"{self._name}_{len(self._threads)}"
                    self._threads.append(Thread(target=self._work, name=name, daemon=True))
                    self._working += 1
                    self._threads[-1].start()
        if is_closed:
            future.cancel()
        return future

    def call(self, call: Callable[[], T]) -> T:
        """Run a call in a thread, and wait for the result so that the task can be cancelled."""
        return outcome(self.submit(call))

    def close(
        self,
        last: Callable[[], Any] = _nothing,
        cut_short: Callable[[], Any] = _nothing,
    ) -> None:
        """Drop waiting calls, and end the threads; those in a call end after it.

        Args:
            last: Called after the last call has ended, in any thread.
            cut_short: Interrupts running calls, if there are any; called repeatedly, since a call
                that was about to connect cannot be interrupted yet.
        """
        with self._lock:
            self.closed.set()
            self._last = last
            is_over = self._working == 0
        if is_over:
            last()
        if self._calls:
            cut_short()
        with suppress(Empty):
            while (unbegun := self._waiting.get_nowait()) is not None:
                unbegun[0].cancel()
        for _ in self._threads:
            self._waiting.put(None)
        deadline_s = time.monotonic() + _CLOSE_S
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < deadline_s:
                thread.join(_STEP_S)
                if self._calls:
                    cut_short()

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            future, call = waiting
            self._make(future, call)
            # Drop the references before waiting for the next call.
            del waiting, future, call
        self._at_end()
        with self._lock:
            self._working -= 1
            last = self._last if self._working == 0 else _nothing
        last()

    def _make(self, future: Future[T], call: Callable[[], T]) -> None:
        """Run a call, unless it was cancelled."""
        with self._lock:
            if self.closed.is_set():
                future.cancel()
            is_wanted = future.set_running_or_notify_cancel()
            self._calls += is_wanted
        if not is_wanted:
            return
        failure: BaseException | None = None
        try:
            made = call()
        except BaseException as error:
            failure = error
        with self._lock:
            self._calls -= 1
        if failure is None:
            future.set_result(made)
        else:
            future.set_exception(failure)


class BackgroundCall(Generic[T]):
    """Runs one call at a time, after a delay that closing interrupts."""

    def __init__(self, name: str) -> None:
        """Create the object; the thread starts on demand.

        Args:
            name: The name of the thread.
        """
        self._threads = ServerThreads(name)
        self.future: Future[T | None] | None = None

    def begin(self, call: Callable[[], T], delay_s: float = 0.0) -> None:
        """Start a call in the thread, after a delay; the previous one must have ended."""
        assert self.future is None, "one call at a time"
        self.future = self._threads.submit(partial(self._called, call, delay_s))

    def is_done(self) -> bool:
        """Return whether there is an outcome that was not taken."""
        return self.future is not None and self.future.done()

    def taken(self) -> T | None:
        """Return the result, None for an interrupted call; raise the exception of the call."""
        assert self.future is not None, "begun"
        future, self.future = self.future, None
        return future.result()

    def pause(self, delay_s: float) -> bool:
        """Wait, in the thread of a call; return False if closing has interrupted the wait."""
        return not self._threads.closed.wait(delay_s)

    def close(
        self,
        last: Callable[[], Any] = _nothing,
        cut_short: Callable[[], Any] = _nothing,
    ) -> None:
        """End the thread, as `ServerThreads.close` does."""
        self._threads.close(last, cut_short)

    def _called(self, call: Callable[[], T], delay_s: float) -> T | None:
        return None if self._threads.closed.wait(delay_s) else call()
