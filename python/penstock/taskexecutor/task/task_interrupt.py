"""Interrupts user code: the counterpart of interrupting a Java thread.

Python can raise an exception in another thread between two bytecodes.  That reaches endless loops,
not a call into C that never returns; the watchdog of `Task` covers those.  The section ensures that
no such exception arrives once the task has begun to clean up.

Nor does one arrive in an import, or while logging or threading acquires or releases a lock. These
are plain Python: a lock that an exception leaves between two bytecodes stays locked, and whatever
other tasks import or log next waits for it forever.  An exception arrives where the thread was
seen, since a thread yields the interpreter only where it also checks for exceptions.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Final, Self

from penstock.errors import CancelTaskError

if TYPE_CHECKING:
    from types import TracebackType

#: Globals of the import machinery.
_IMPORTING: Final = vars(sys.modules["_frozen_importlib"])
_WITH_LOCKS: Final = (vars(logging), vars(threading))
_LOCKING: Final = frozenset(
    {"acquire", "release", "__enter__", "__exit__", "_acquireLock", "_releaseLock"}
)


class InterruptibleSection:
    """A region of one thread in which `interrupt` may raise `CancelTaskError`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._raised = False

    def __enter__(self) -> Self:
        with self._lock:
            self._thread_id = threading.get_ident()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An exception raised meanwhile may arrive anywhere in here; the second round cannot be
        # interrupted any more, because the first one has left the section or never will.
        for _ in range(2):
            try:
                self._leave()
                return
            except CancelTaskError:
                continue

    def interrupt(self) -> bool:
        """Raise `CancelTaskError` in the thread, if it is in the section.

        Returns:
            Whether it was raised; not where a lock might stay locked, so try again soon.
        """
        with self._lock:
            if self._thread_id is None or _is_at_locks(self._thread_id):
                return False
            self._raised = True
            _raise_in(self._thread_id, CancelTaskError)
            return True

    def _leave(self) -> None:
        with self._lock:
            thread_id, self._thread_id = self._thread_id, None
            if self._raised and thread_id is not None:
                _raise_in(thread_id, None)


def _is_at_locks(thread_id: int) -> bool:
    frame = sys._current_frames().get(thread_id)
    if frame is None:
        return False
    if frame.f_code.co_name in _LOCKING and any(frame.f_globals is of for of in _WITH_LOCKS):
        return True
    while frame is not None:
        if frame.f_globals is _IMPORTING:
            return True
        frame = frame.f_back
    return False


def _raise_in(thread_id: int, kind: type[BaseException] | None) -> None:
    """Raise in another thread; None withdraws an exception not yet raised."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread_id), None if kind is None else ctypes.py_object(kind)
    )
