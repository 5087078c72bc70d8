"""JobManagerSharedServices: the injected services that JobMasters use of their process.

Only time, threads and chance make two runs of a JobMaster differ.  A simulation provides its own of
each, and so runs the JobMaster and CheckpointService of production.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from penstock.jobmaster.main_thread import MainThread

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(Protocol):
    """The time of a process."""

    def now_ms(self) -> int:
        """Return the monotonic time of the state machines."""

    def wall_ms(self) -> int:
        """Return the time since the epoch."""


class SystemClock:
    """The time of this machine."""

    def now_ms(self) -> int:
        """Return the monotonic time of the state machines."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Return the time since the epoch."""
        return time.time_ns() // 1_000_000


def _new_thread(name: str) -> MainThread:
    # Steps of checkpoints handle their own errors.
    return MainThread(name, lambda _: None)


@dataclass(frozen=True)
class JobManagerSharedServices:
    """Time, threads and chance.

    Attributes:
        clock: The time.
        new_thread: Creates a named thread that runs posted calls; not started.
        new_random: Creates a source of random numbers.
    """

    clock: Clock = field(default_factory=SystemClock)
    new_thread: Callable[[str], MainThread] = _new_thread
    new_random: Callable[[], random.Random] = random.Random
