"""Session windows that have not ended, by key."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.taskexecutor.compiled.operator_context import OperatorContext

#: The start and the end in ms, and the content.
_Session = tuple[Any, ...]


class OpenSessions:
    """The open sessions of all keys of an operator, in keyed state.

    Attributes:
        table: By key, a list of sessions.
        ends: A heap of ends in ms and texts of keys: for each key one that is no later than the
            ends of its sessions.
        watermark: The time in ms up to which sessions have ended.
    """

    def __init__(
        self,
        context: OperatorContext,
        merge: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]],
    ) -> None:
        """Create the sessions.

        Args:
            context: The operator's context.
            merge: Returns the content of two sessions that become one, given the content of the
                earlier one and of the new one.
        """
        self._merge = merge
        self.table = context.keyed_state.table("sessions", "value").map(None)
        self.ends: list[tuple[int, str]] = []
        #: By key, its end in the heap; earlier ones in the heap are of no use.
        self._noted: dict[str, int] = {}
        self.watermark = MIN_TIMESTAMP

    def restore(self) -> None:
        """Note the ends of the sessions in restored state."""
        self._noted = {text: _first_end(found) for text, found in self.table.items()}
        self.ends = [(end, text) for text, end in self._noted.items()]
        heapq.heapify(self.ends)

    def add(self, text: str, start: int, end: int, content: tuple[object, ...]) -> bool:
        """Add a session of a key, merged with those that it meets.

        Args:
            text: The key.
            start: Its start in ms.
            end: Its end in ms, exclusive.
            content: What `merge` takes.

        Returns:
            False if it has ended already, and so is dropped.
        """
        kept = []
        for found in self.table.get(text) or ():
            # Adjacent sessions are merged, as in Flink.
            if found[0] <= end and start <= found[1]:
                start, end = min(start, found[0]), max(end, found[1])
                content = self._merge(found[2:], content)
            else:
                kept.append(found)
        if end - 1 <= self.watermark:
            return False
        self.table.put(text, [*kept, (start, end, *content)])
        self._note(text, end)
        return True

    def put(self, text: str, session: _Session) -> None:
        """Set the only session of a key."""
        self.table.put(text, [session])
        self._note(text, session[1])

    def _note(self, text: str, end: int) -> None:
        """Note when a session of a key may end, unless an earlier time is noted."""
        if end < self._noted.get(text, MAX_TIMESTAMP):
            self._noted[text] = end
            heapq.heappush(self.ends, (end, text))

    def ended(self, timestamp: int) -> list[_Session]:
        """Remove and return the sessions whose last ms has passed, in the order of their ends."""
        ended: list[_Session] = []
        while self.ends and self.ends[0][0] - 1 <= timestamp:
            end, text = heapq.heappop(self.ends)
            if self._noted.get(text) != end:
                continue
            del self._noted[text]
            found = self.table.get(text) or []
            kept = [session for session in found if session[1] - 1 > timestamp]
            if kept:
                self._note(text, _first_end(kept))
            if len(kept) == len(found):
                continue
            if kept:
                self.table.put(text, kept)
                found = [session for session in found if session[1] - 1 <= timestamp]
            else:
                self.table.remove(text)
            ended += found
        ended.sort(key=_end)
        return ended


def _end(session: _Session) -> int:
    end: int = session[1]
    return end


def _first_end(sessions: Sequence[_Session]) -> int:
    return min(map(_end, sessions))
