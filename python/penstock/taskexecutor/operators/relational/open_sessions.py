"""Session windows that have not ended, by key."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from penstock.taskexecutor.compiled import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.taskexecutor.task.operator_context import OperatorContext

#: The start and the end in ms, and the content.
_Session = tuple[Any, ...]


class OpenSessions:
    """The open sessions of all keys of an operator, in keyed state.

    Attributes:
        ends: A heap of ends in ms and texts of keys; those of merged sessions stay until they pass.
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
        self._sessions = context.keyed_state.table("sessions", "value").map(None)
        self.ends: list[tuple[int, str]] = []
        self.watermark = MIN_TIMESTAMP

    def restore(self) -> None:
        """Note the ends of the sessions in restored state."""
        self.ends = [(found[1], text) for text, each in self._sessions.items() for found in each]
        heapq.heapify(self.ends)

    def add(self, text: str, start: int, end: int, content: tuple[Any, ...]) -> bool:
        """Add a session of a key, merged with those that it meets.

        Args:
            text: The key.
            start: Its start in ms.
            end: Its end in ms, exclusive.
            content: What `merge` takes.

        Returns:
            False if it has ended already, and so is dropped.
        """
        kept, met = [], []
        for found in self._sessions.get(text) or ():
            # Adjacent sessions are merged, as in Flink.
            if found[0] <= end and start <= found[1]:
                start, end = min(start, found[0]), max(end, found[1])
                content = self._merge(found[2:], content)
                met.append(found[1])
            else:
                kept.append(found)
        if end - 1 <= self.watermark:
            return False
        self._sessions.put(text, [*kept, (start, end, *content)])
        if end not in met:
            heapq.heappush(self.ends, (end, text))
        return True

    def ended(self, timestamp: int) -> Iterator[_Session]:
        """Remove and yield the sessions whose last ms has passed, in the order of their ends."""
        while self.ends and self.ends[0][0] - 1 <= timestamp:
            end, text = heapq.heappop(self.ends)
            found = self._sessions.get(text) or []
            kept = [session for session in found if session[1] != end]
            if len(kept) == len(found):
                continue
            if kept:
                self._sessions.put(text, kept)
            else:
                self._sessions.remove(text)
            yield from (session for session in found if session[1] == end)
