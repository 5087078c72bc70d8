"""The JobMaster's main thread: runs everything that changes a job's state, one call at a time.

Connections, timers and callers post callables; the thread runs them in order.  State machines
therefore need no locks and never see two events at once.

Callers post as a named user of the queue with a limit of its own.  So the queue is bounded, and the
error of a full queue names the user at fault.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.errors import QueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

T = TypeVar("T")

FEW_TIMERS: Final = 64
"""The number of cancelled timers up to which they are not purged."""


class Timer:
    """A scheduled call; `cancel` keeps it from running."""

    __slots__ = ("action", "ended", "user")

    def __init__(self, action: Callable[[], object], user: QueueUser) -> None:
        self.action = action
        self.ended = False
        self.user = user

    def cancel(self) -> None:
        """Keep the call from running, if it has not run.  Any thread."""
        self.user.end(self)


class QueueUser:
    """A user that posts calls to a `MainThread`; created by `MainThread.user`."""

    def __init__(
        self,
        thread: MainThread,
        name: str,
        limit: int,
        on_error: Callable[[BaseException], None],
        *,
        waits: bool,
    ) -> None:
        self.on_error = on_error
        self._thread = thread
        self._name = name
        self._limit = limit
        self._waits = waits
        self._waiting = 0
        self._changed = threading.Condition()

    def post(self, action: Callable[[], object]) -> None:
        """Run ``action`` in the main thread, after earlier posts.  Any thread.

        Raises:
            QueueFullError: too many calls of this user wait.
        """
        self._come()
        self._thread.put(action, self)

    def call(self, action: Callable[[], T], timeout_s: float) -> T:
        """Run ``action`` in the main thread and return its result; not from that thread.

        Raises:
            QueueFullError: too many calls of this user wait.
            TimeoutError: it did not run within ``timeout_s``.
        """
        return self.submit(action).result(timeout_s)

    def submit(self, action: Callable[[], T]) -> Future[T]:
        """Run ``action`` in the main thread; the future has its result.  Any thread.

        An action whose future was cancelled before its turn is not run.

        Raises:
            QueueFullError: too many calls of this user wait.
        """
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return  # the caller has given up
            try:
                future.set_result(action())
            except BaseException as error:
                future.set_exception(error)

        self.post(run)
        return future

    def schedule(self, delay_s: float, action: Callable[[], object]) -> Timer:
        """Run ``action`` in the main thread after a delay.  Any thread.

        Raises:
            QueueFullError: too many calls of this user wait.
        """
        self._come()
        timer = Timer(action, self)
        self._thread.put_timer(delay_s, timer)
        return timer

    def gone(self) -> None:
        """Release the place of one call that no longer waits."""
        with self._changed:
            self._waiting -= 1
            if self._waits:
                self._changed.notify()

    def end(self, timer: Timer) -> bool:
        """End a timer that fires or is cancelled; return whether it had not ended before."""
        with self._changed:
            is_first, timer.ended = not timer.ended, True
        if is_first:
            self.gone()
        return is_first

    def let_through(self) -> None:
        """Lift the limit and wake waiting callers: the thread has ended."""
        with self._changed:
            self._waits = False
            self._limit += 1 << 62
            self._changed.notify_all()

    def _come(self) -> None:
        with self._changed:
            if self._waits and not self._thread.is_current:
                self._changed.wait_for(lambda: self._waiting < self._limit)
            elif self._waiting >= self._limit:
                raise QueueFullError(
                    f"{self._name}: {self._limit} wait for the thread {self._thread.name!r} "
                    "already, which is too slow or stuck"
                )
            self._waiting += 1


class MainThread:
    """Runs posted calls and timers in one thread.

    Args:
        name: its name.
        on_error: called with the exception of a posted call, unless its user has its own
            handler; the thread continues.
        log_level: level at which failed calls are logged with their traceback.
    """

    def __init__(
        self,
        name: str,
        on_error: Callable[[BaseException], None],
        *,
        log_level: int = logging.ERROR,
    ) -> None:
        self.name = name
        self._log_level = log_level
        self._queue: queue.SimpleQueue[tuple[Callable[[], object], QueueUser | None] | None]
        self._queue = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Timer]] = []
        self._tidy_at = FEW_TIMERS
        self._sequence = itertools.count()
        self._on_error = on_error
        self._waiting_users: list[QueueUser] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def user(
        self,
        name: str,
        limit: int,
        *,
        waits: bool = False,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> QueueUser:
        """Create a user of the queue.

        Args:
            name: Its calls, in the plural.
            limit: How many of its calls and timers may wait at a time.
            waits: Whether it waits for room, instead of raising an error.
            on_error: Called with the exception of one of its calls; the thread's handler if None,
                or if this raises.
        """
        made = QueueUser(self, name, limit, on_error or self._on_error, waits=waits)
        if waits:
            self._waiting_users.append(made)
        return made

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Return whether the caller is this thread, which cannot wait for itself."""
        return threading.current_thread() is self._thread

    def put(self, action: Callable[[], object], user: QueueUser) -> None:
        """Queue a call that its user has counted."""
        self._queue.put((action, user))

    def put_timer(self, delay_s: float, timer: Timer) -> None:
        """Queue a timer that its user has counted."""
        due_s = time.monotonic() + delay_s
        self._queue.put((lambda: self._keep(due_s, timer), None))

    def close(self, timeout_s: float = 5.0) -> None:
        """End the thread after earlier posts; pending timers are dropped."""
        self._queue.put(None)
        if not self.is_current and self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _keep(self, due_s: float, timer: Timer) -> None:
        heapq.heappush(self._timers, (due_s, next(self._sequence), timer))
        if len(self._timers) > self._tidy_at:
            # Cancelled timers would stay in the queue until they are due.
            self._timers = [entry for entry in self._timers if not entry[2].ended]
            heapq.heapify(self._timers)
            self._tidy_at = max(FEW_TIMERS, 2 * len(self._timers))

    def _run(self) -> None:
        while (taken := self._next()) is not None:
            action, user = taken
            try:
                action()
            except BaseException as error:
                logger.log(self._log_level, "a call in the main thread failed", exc_info=True)
                self._answer(error, user)
        for user in self._waiting_users:
            user.let_through()

    def _answer(self, error: BaseException, user: QueueUser | None) -> None:
        if user is not None and user.on_error is not self._on_error:
            try:
                user.on_error(error)
            except Exception as further:
                logger.exception("the handler of a failed call failed as well")
                error = further
            else:
                return
        self._on_error(error)

    def _next(self) -> tuple[Callable[[], object], QueueUser | None] | None:
        """Return the next due timer or posted call with its user; None at the end."""
        while True:
            wait_s: float | None = None
            if self._timers:
                due_s, _, timer = self._timers[0]
                wait_s = due_s - time.monotonic()
                if timer.ended or wait_s <= 0:
                    heapq.heappop(self._timers)
                    if timer.user.end(timer):
                        return timer.action, timer.user
                    continue
            try:
                taken = self._queue.get(timeout=wait_s)
            except queue.Empty:
                continue
            if taken is not None and taken[1] is not None:
                taken[1].gone()
            return taken
