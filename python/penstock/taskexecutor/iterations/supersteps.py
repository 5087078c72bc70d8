"""Markers that travel through an iteration and tell when it has come to rest.

A head sends a marker behind its elements.  A task passes it on when all of its open channels
brought it, so the marker waits for the end of whatever flows into the loop from outside.  When it
comes back to the tails, every element of the superstep has been through the loop.  A marker says
whether its head had sent elements; joined markers say whether any had.  When none had, nothing
moves in the loop any more and nothing can enter it: the heads end, all in the same superstep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.network.events import TaskEvent

if TYPE_CHECKING:
    from collections.abc import Collection

_NAME: Final = "penstock.iteration.superstep"


def superstep_event(iteration: str, *, quiet: bool) -> TaskEvent:
    """The marker of a superstep of ``iteration``."""
    return TaskEvent(_NAME, bytes((quiet,)) + iteration.encode())


def is_superstep_marker(event: TaskEvent) -> bool:
    """Whether an event is the marker of a superstep."""
    return event.name == _NAME


class SuperstepAlignment:
    """Joins the markers that the channels of a task bring."""

    def __init__(self) -> None:
        """No channel has brought any."""
        self._waiting: dict[str, tuple[set[int], bool]] = {}

    def add(self, channel: int, event: TaskEvent) -> None:
        """A channel brought a marker."""
        iteration = event.body[1:].decode()
        channels, quiet = self._waiting.get(iteration, (set(), True))
        channels.add(channel)
        self._waiting[iteration] = (channels, quiet and event.body[0] == 1)

    def completed(self, open_channels: Collection[int]) -> list[tuple[str, bool]]:
        """The iterations whose marker all open channels have brought, and whether it is quiet."""
        if not open_channels:
            return []
        found = [
            (iteration, quiet)
            for iteration, (channels, quiet) in self._waiting.items()
            if channels.issuperset(open_channels)
        ]
        for iteration, _ in found:
            del self._waiting[iteration]
        return found
