"""Open session windows, in the order in which Flink's timers fire at their ends.

``penstock._native.operators.session_heap`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled.timer_queue import TimerHeap, Waiting

if TYPE_CHECKING:
    from penstock.taskexecutor.state.table import CopyOnWriteStateMap


class Session(Waiting):
    """An open session window of a key; when it grows, another one replaces it.

    Attributes:
        start: Start of the window, in ms.
        end: End of the window, in ms; the session waits for the last time before it.
        contents: The namespace that holds the window's contents.
        has_fired: Whether the session only waits for late records.
        expiry: The heap entry for the time from which the window accepts no late records; None if
            there is no entry.
    """

    __slots__ = ("end", "expiry", "has_fired", "start")

    def __init__(
        self, key: object, start: int, end: int, time: int, contents: CopyOnWriteStateMap
    ) -> None:
        """Create a session that is in no heap."""
        super().__init__(time, contents, key)
        self.start = start
        self.end = end
        self.has_fired = False
        self.expiry: Session | None = None

    def __repr__(self) -> str:
        return f"Session(start={self.start}, end={self.end})"


class SessionHeap(TimerHeap):
    """The sessions of all keys."""

    def open(self, key: object, start: int, end: int, contents: CopyOnWriteStateMap) -> Session:
        """Add a session."""
        session = Session(key, start, end, end - 1, contents)
        self._put(session)
        return session

    def open_late(
        self, key: object, start: int, end: int, contents: CopyOnWriteStateMap
    ) -> Session:
        """Return a session whose end has passed, without adding it."""
        session = Session(key, start, end, end - 1, contents)
        session.has_fired = True
        return session

    def expire(self, session: Session, time: int) -> None:
        """Add an entry for the expiry of a session at a time."""
        expiry = Session(session.key, session.start, session.end, time, session.contents)
        self._put(expiry)
        session.expiry = expiry

    def close(self, session: Session) -> None:
        """Remove a session and its expiry, as far as they are in the heap."""
        if not session.has_fired:
            self._take_away(session.index)
        if session.expiry is not None:
            self._take_away(session.expiry.index)

    def take(self, limit: int) -> Session | None:
        """Remove and return the first session or expiry with a time up to ``limit``, or None."""
        if len(self) == 0 or self._timers[1].time > limit:
            return None
        session = self._take_away(1)
        assert isinstance(session, Session), "no others are added"
        return session
