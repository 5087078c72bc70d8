"""Warning at a program's exit about sinks that it built and never executed."""

from __future__ import annotations

import atexit
import re
import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from penstock.graph.transformations import PhysicalTransformation

#: The number of sinks that the warning names.
_NAMED: Final = 5


class Place(NamedTuple):
    """A sink, and the line of the program that added it.

    Attributes:
        name: The name of the sink.
        location: File, number and text of the line, or None.
    """

    name: str
    location: str | None


class UnexecutedSinks:
    """The sinks of a program that were added since its last execution."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._sinks: list[PhysicalTransformation] = []
        # The program may drop the environment long before it exits.
        weakref.finalize(self, _note, self._sinks).atexit = False
        _alive.add(self)

    def add(self, sink: PhysicalTransformation) -> None:
        """Add a sink."""
        self._sinks.append(sink)

    def clear(self) -> None:
        """Remove all sinks: they were executed, or the program asked for its plan."""
        self._sinks.clear()

    @property
    def places(self) -> list[Place]:
        """The sinks with their current names."""
        return _places(self._sinks)


_alive: Final[weakref.WeakSet[UnexecutedSinks]] = weakref.WeakSet()
_lost: Final[list[Place]] = []


def _places(sinks: list[PhysicalTransformation]) -> list[Place]:
    return [Place(sink.name, sink.location) for sink in sinks]


def _note(sinks: list[PhysicalTransformation]) -> None:
    _lost.extend(_places(sinks))
    # Bounded: a process may build programs for years.
    del _lost[: -_NAMED - 1]


def warn_of(sinks: list[Place]) -> None:
    """Warn about sinks, at the line of the first one."""
    names = [repr(sink.name) for sink in sinks[:_NAMED]]
    if len(sinks) > _NAMED:
        names.append("more")
    message = (
        f"the program ends without executing the job that it built for {', '.join(names)}: call "
        "execute() after the last sink"
    )
    line = re.match(r"(.+?):(\d+)\b", sinks[0].location or "")
    file, number = ("<program>", 1) if line is None else (line[1], int(line[2]))
    warnings.warn_explicit(message, UserWarning, file, number)


@atexit.register
def _warn() -> None:
    # A program that fails reports its own error.
    has_failed = getattr(sys, "last_value", None) is not None
    sinks = [*_lost, *(place for unexecuted in list(_alive) for place in unexecuted.places)]
    if sinks and not has_failed:
        warn_of(sinks)
