"""The path of events from a coordinator to one subtask, which checkpoints close temporarily."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E")


class EventGateway(Generic[E]):
    """Holds events back from a coordinator's snapshot until the subtask's barrier has left.

    So an event is in the state of both or of neither.  Checkpoints may overlap: events held back
    for a later one also wait for the earlier ones.
    """

    def __init__(self, send: Callable[[E], object]) -> None:
        """Create an open gateway that passes events to ``send``."""
        self._send = send
        self._held: dict[int, list[E]] = {}

    def send(self, event: E) -> None:
        """Send an event, or hold it back."""
        if self._held:
            self._held[max(self._held)].append(event)
        else:
            self._send(event)

    def close(self, checkpoint_id: int) -> None:
        """Hold events back: the coordinator's snapshot is taken.  Ids must increase."""
        self._held[checkpoint_id] = []

    def open(self, checkpoint_id: int) -> None:
        """Release events: the subtask's barrier has left, or the checkpoint is aborted."""
        events = self._held.pop(checkpoint_id, [])
        earlier = [number for number in self._held if number < checkpoint_id]
        if earlier:
            self._held[max(earlier)].extend(events)
            return
        for event in events:
            self._send(event)
