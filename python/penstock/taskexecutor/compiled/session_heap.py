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
    """

    __slots__ = ("end", "start")

    def __init__(self, key: Any, start: int, end: int, contents: StateMap) -> None:
        """Creates a session that waits nowhere yet."""
        super().__init__(end - 1, contents, key)
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"Session(start={self.start}, end={self.end})"


class SessionHeap(TimerHeap):
    """The sessions of all keys."""

    def open(self, key: Any, start: int, end: int, contents: StateMap) -> Session:
        """Adds a session."""
        session = Session(key, start, end, contents)
        self._put(session)
        return session

    def close(self, session: Session) -> None:
        """Removes one that is there."""
        self._take_away(session.index)

    def take(self, limit: int) -> Session | None:
        """Takes the first one, if its end is one up to ``limit``."""
        if len(self) == 0 or self._timers[1].time > limit:
            return None
        session = self._take_away(1)
        assert isinstance(session, Session), "no others are added"
        return session
