"""What connectors wait for, so that their tasks can do other things, or be cancelled meanwhile."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: How long the steps of a pause are, in seconds.
_STEP_S: Final = 0.1


def pause(delay_s: float, closed: Event) -> None:
    """Waits for so many seconds or an event, in steps.

    Between two of them the task is interrupted that is cancelled, and nowhere else.
    """
    deadline_s = time.monotonic() + delay_s
    while (left_s := deadline_s - time.monotonic()) > 0 and not closed.wait(min(left_s, _STEP_S)):
        pass


class BackgroundCall(Generic[T]):
    """One call at a time, after a while that closing cuts short."""

    def __init__(self, name: str) -> None:
        """Starts no thread yet.

        Args:
            name: What the thread is called.
        """
        self._name = name
        self._thread: ThreadPoolExecutor | None = None
        self._closed = Event()
        self.future: Future[T | None] | None = None

    def begin(self, call: Callable[[], T], delay_s: float = 0.0) -> None:
        """Has the thread call, after so many seconds; the one before must be over."""
        assert self.future is None, "one call at a time"
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        self.future = self._thread.submit(self._called, call, delay_s)

    def is_done(self) -> bool:
        """Whether there is an outcome that was not taken."""
        return self.future is not None and self.future.done()

    def taken(self) -> T | None:
        """The outcome, None of a call that closing has cut short; raises what the call raised."""
        assert self.future is not None, "begun"
        future, self.future = self.future, None
        return future.result()

    def pause(self, delay_s: float) -> bool:
        """Waits, in the thread of a call; False when closing has cut it short."""
        return not self._closed.wait(delay_s)

    def close(self) -> None:
        """Waits for the call that is under way, and begins none that is waited for."""
        self._closed.set()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)

    def _called(self, call: Callable[[], T], delay_s: float) -> T | None:
        return None if self._closed.wait(delay_s) else call()
