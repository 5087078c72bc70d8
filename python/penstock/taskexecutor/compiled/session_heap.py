"""Open session windows in the order in which Flink's timers of their ends fire.

``penstock._native.session_heap`` is the native twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled.timer_queue import TimerHeap, Waiting

if TYPE_CHECKING:
    from penstock.taskexecutor.state.table import StateMap


class Session(Waiting):
    """An open session window of a key; when it grows another one takes its place.

    Attributes:
        start: Of the window, in ms.
        end: Of the window, in ms; it waits for the last time before it.
        contents: The namespace that has what the window holds.
        has_fired: Whether it waits no more, but for late records.
        expiry: What waits in the heap for the time when the window takes none any more; None if
            nothing does.
    """

    __slots__ = ("end", "expiry", "has_fired", "start")

    def __init__(self, key: Any, start: int, end: int, time: int, contents: StateMap) -> None:
        """Creates what waits nowhere yet."""
        super().__init__(time, contents, key)
        self.start = start
        self.end = end
        self.has_fired = False
        self.expiry: Session | None = None

    def __repr__(self) -> str:
        return f"Session(start={self.start}, end={self.end})"


class SessionHeap(TimerHeap):
    """The sessions of all keys."""

    def open(self, key: Any, start: int, end: int, contents: StateMap) -> Session:
        """Adds a session."""
        session = Session(key, start, end, end - 1, contents)
        self._put(session)
        return session

    def open_late(self, key: Any, start: int, end: int, contents: StateMap) -> Session:
        """A session whose end has passed, which is not added."""
        session = Session(key, start, end, end - 1, contents)
        session.has_fired = True
        return session

    def expire(self, session: Session, time: int) -> None:
        """Adds the expiry of a session, at a time."""
        expiry = Session(session.key, session.start, session.end, time, session.contents)
        self._put(expiry)
        session.expiry = expiry

    def close(self, session: Session) -> None:
        """Removes one, and its expiry, as far as they are there."""
        if not session.has_fired:
            self._take_away(session.index)
        if session.expiry is not None:
            self._take_away(session.expiry.index)

    def take(self, limit: int) -> Session | None:
        """Takes the first session or expiry, if its time is one up to ``limit``."""
        if len(self) == 0 or self._timers[1].time > limit:
            return None
        session = self._take_away(1)
        assert isinstance(session, Session), "no others are added"
        return session
