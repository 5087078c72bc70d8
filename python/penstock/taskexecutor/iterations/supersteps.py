"""Markers that travel through iterations and tell when these have come to rest.

Iterations of which each leads into the other, as loops within loops do, come to rest together: they
are one group and send the same markers.  A head sends a marker behind its records.  A task passes
it on when all of its open channels brought it, so the marker waits for the end of whatever flows
into the group from outside.  When it comes back to the tails, every record of the superstep has
been to one of them, and each head begins the next superstep.

A marker says for how many supersteps there was quiet, as far as its head knows: 0 when the head has
sent records itself, else one more than the smallest number that came back with the last marker.
What any head sends is thus known to every other after as many supersteps as the loops between them,
which are fewer than the group has iterations.  A head that hears of that many quiet supersteps
knows of one in which no head had sent anything: nothing moves any more, nothing can enter, it ends.
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
    """The marker of a superstep of a group of iterations."""
    return TaskEvent(_NAME, _QUIET_STEPS.pack(quiet_steps) + group.encode())


def is_superstep_marker(event: TaskEvent) -> bool:
    """Return whether an event is the marker of a superstep."""
    return event.name == _NAME


class SuperstepAlignment:
    """Joins the markers that the channels of a task bring.

    A channel may be a superstep ahead of another, so its markers wait in a queue.
    """

    def __init__(self) -> None:
        """No channel has brought any."""
        self._waiting: dict[str, dict[int, deque[int]]] = {}

    def add(self, channel: int, event: TaskEvent) -> None:
        """A channel brought a marker."""
        (quiet_steps,) = _QUIET_STEPS.unpack_from(event.body)
        group = event.body[_QUIET_STEPS.size :].decode()
        self._waiting.setdefault(group, {}).setdefault(channel, deque()).append(quiet_steps)

    def completed(self, open_channels: Collection[int]) -> list[tuple[str, int]]:
        """The groups whose marker all open channels have brought, and their quiet supersteps.

        The marker of a channel that has ended since counts too: its records were before it.
        """
        found: list[tuple[str, int]] = []
        for group, waiting in self._waiting.items() if open_channels else ():
            while waiting.keys() >= set(open_channels):
                found.append((group, min(markers.popleft() for markers in waiting.values())))
                for channel in [channel for channel, markers in waiting.items() if not markers]:
                    del waiting[channel]
        return found
