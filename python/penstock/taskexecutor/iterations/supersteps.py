"""Markers that pass through iterations and detect when these have come to rest.

Iterations that lead into each other, as nested loops do, come to rest together: they form one group
and send the same markers.  A head sends a marker behind its records.  A task forwards it once all
of its open channels have delivered it, so the marker waits for the end of whatever flows into the
group from outside.  When it returns to the tails, every record of the superstep has reached one of
them, and each head begins the next superstep.

A marker carries the number of quiet supersteps known to its head: 0 if the head has sent records
itself, else one more than the smallest number that returned with the last marker. Thus every head
learns of a record that any other sends after as many supersteps as there are loops between them,
which is fewer than the group has iterations.  A head that receives that many quiet supersteps knows
of one in which no head sent anything: no record moves any more, none can enter, and the head ends.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.network.events import TaskEvent

if TYPE_CHECKING:
    from collections.abc import Collection

_NAME: Final = "penstock.iteration.superstep"
_QUIET_STEPS: Final = struct.Struct(">I")


def superstep_event(group: str, quiet_steps: int) -> TaskEvent:
    """Return the marker of a superstep of a group of iterations."""
    return TaskEvent(_NAME, _QUIET_STEPS.pack(quiet_steps) + group.encode())


def is_superstep_marker(event: TaskEvent) -> bool:
    """Return whether an event is the marker of a superstep."""
    return event.name == _NAME


class SuperstepAlignment:
    """Aligns the markers that the channels of a task deliver.

    A channel may be a superstep ahead of another, so its markers wait in a queue.
    """

    def __init__(self) -> None:
        """Create an alignment without markers."""
        self._waiting: dict[str, dict[int, deque[int]]] = {}

    def add(self, channel: int, event: TaskEvent) -> None:
        """Add a marker that a channel delivered."""
        (quiet_steps,) = _QUIET_STEPS.unpack_from(event.body)
        group = event.body[_QUIET_STEPS.size :].decode()
        self._waiting.setdefault(group, {}).setdefault(channel, deque()).append(quiet_steps)

    def completed(self, open_channels: Collection[int]) -> list[tuple[str, int]]:
        """Return the groups whose marker all open channels delivered, and their quiet supersteps.

        Markers of a channel that has since ended count too: its records preceded them.
        """
        found: list[tuple[str, int]] = []
        for group, waiting in self._waiting.items() if open_channels else ():
            while waiting.keys() >= set(open_channels):
                found.append((group, min(markers.popleft() for markers in waiting.values())))
                for channel in [channel for channel, markers in waiting.items() if not markers]:
                    del waiting[channel]
        return found
