"""Waiting of connectors that leaves their tasks free to run mails or be cancelled."""

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

#: How long the steps of a wait are, in seconds.
_STEP_S: Final = 0.1

#: How long closing waits for a call that was cut short, in seconds.
_CLOSE_S: Final = 0.5


def _nothing() -> None:
    """Do nothing: the last step of a wait that needs none."""


def pause(delay_s: float, closed: Event) -> None:
    """Wait for so many seconds or an event, in steps.

    Between two of them the task is interrupted that is cancelled, and nowhere else.
    """
    deadline_s = time.monotonic() + delay_s
    while (left_s := deadline_s - time.monotonic()) > 0 and not closed.wait(min(left_s, _STEP_S)):
        pass


def outcome(future: Future[T]) -> T:
    """The result of a call in another thread; waits in steps, as `pause` does."""
    while not wait([future], _STEP_S).done:
        pass
    return future.result()


def shut_down(connection: object) -> None:
    """End what another thread waits for at a socket, with an error there.

    Args:
        connection: What has a ``fileno``; anything else, and what is closed, is left alone.
    """
    number = getattr(connection, "fileno", None)
    if number is None:
        return
    # What a library raises for a connection that is closed is its own affair.
    with suppress(Exception), socket.socket(fileno=socket.dup(number())) as same:
        same.shutdown(socket.SHUT_RDWR)


class ServerThreads:
    """Threads whose calls wait for servers: for as long as client libraries do.

    Nobody waits for them without end, neither a task that is cancelled nor the interpreter when it
    ends, as it does for those of a `ThreadPoolExecutor`.
    """

    def __init__(self, name: str, count: int = 1, at_end: Callable[[], Any] = _nothing) -> None:
        """Start no thread yet.

        Args:
            name: What the threads are called.
            count: How many there are at most.
            at_end: What each of them does at its end.
        """
        self._name, self._count, self._at_end = name, count, at_end
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._lock = Lock()
        self._working = self._calls = 0
        self._last: Callable[[], Any] = _nothing
        #: Set by `close`, for calls that would try again.
        self.closed = Event()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Has a thread call; those of one thread are called in their order."""
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
        """Has a thread call, and waits for the result so that the task can be cancelled."""
        return outcome(self.submit(call))

    def close(
        self,
        last: Callable[[], Any] = _nothing,
        cut_short: Callable[[], Any] = _nothing,
    ) -> None:
        """Call nothing of what waits, and end the threads; those in a call in their own time.

        Args:
            last: What to do when no call is under way any more, in whatever thread.
            cut_short: Ends what calls wait for, if some are under way; again and again, since one
                that was about to connect has nothing yet that could be ended.
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
            # What was called is not kept until there is more to call.
            del waiting, future, call
        self._at_end()
        with self._lock:
            self._working -= 1
            last = self._last if self._working == 0 else _nothing
        last()

    def _make(self, future: Future[T], call: Callable[[], T]) -> None:
        """Create a call, unless nobody wants it any more."""
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
    """One call at a time, after a while that closing cuts short."""

    def __init__(self, name: str) -> None:
        """Start no thread yet.

        Args:
            name: What the thread is called.
        """
        self._threads = ServerThreads(name)
        self.future: Future[T | None] | None = None

    def begin(self, call: Callable[[], T], delay_s: float = 0.0) -> None:
        """Has the thread call, after so many seconds; the one before must be over."""
        assert self.future is None, "one call at a time"
        self.future = self._threads.submit(partial(self._called, call, delay_s))

    def is_done(self) -> bool:
        """Return whether there is an outcome that was not taken."""
        return self.future is not None and self.future.done()

    def taken(self) -> T | None:
        """The outcome, None of a call that closing has cut short; raises what the call raised."""
        assert self.future is not None, "begun"
        future, self.future = self.future, None
        return future.result()

    def pause(self, delay_s: float) -> bool:
        """Wait, in the thread of a call; False when closing has cut it short."""
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
