"""When an adaptive job continues with the slots it has, and when it acquires more.

State machines without a clock, one for each of Flink's states in which time matters:
`WaitingForResources` and `Executing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.common.options import adaptive
from penstock.jobmaster.adaptive.rescaling import slots_by_group, tied_vertices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.graph.job_graph import JobGraph

#: Earliest retry after a refused rescaling.
RETRY_MS: Final = 1_000


@dataclass(frozen=True)
class AdaptiveSettings:
    """Limits of the adaptive scheduler, with Flink's defaults; durations in ms.

    Attributes:
        wait_timeout_ms: `jobmanager.adaptive-scheduler.submission.resource-wait-timeout`.
        stabilization_ms: `….submission.resource-stabilization-timeout`.
        cooldown_ms: `….executing.cooldown-after-rescaling`.
        executing_stabilization_ms: `….executing.resource-stabilization-timeout`.
    """

    wait_timeout_ms: int = 300_000
    stabilization_ms: int = 10_000
    cooldown_ms: int = 30_000
    executing_stabilization_ms: int = 60_000

    @staticmethod
    def of(configuration: Mapping[str, str]) -> AdaptiveSettings:
        """Read the options."""
        return AdaptiveSettings(
            wait_timeout_ms=adaptive.RESOURCE_WAIT_TIMEOUT.read(configuration),
            stabilization_ms=adaptive.STABILIZATION_TIMEOUT.read(configuration),
            cooldown_ms=adaptive.COOLDOWN.read(configuration),
            executing_stabilization_ms=adaptive.EXECUTING_STABILIZATION_TIMEOUT.read(configuration),
        )


def parallelisms_with(job: JobGraph, most: Mapping[bytes, int], slots: int) -> dict[bytes, int]:
    """Return the greatest parallelisms that a number of slots allows.

    Slot sharing groups get equal shares, as far as they can use them; vertices that must have
    equal parallelism keep a common one.

    Args:
        job: The job.
        most: The upper bound of each vertex.
        slots: The available slots, at least one for each slot sharing group.
    """
    wanted = slots_by_group(job, most)
    given = dict.fromkeys(wanted, 0)
    left = slots
    while left and (hungry := [name for name in wanted if given[name] < wanted[name]]):
        share = max(1, left // len(hungry))
        for name in hungry:
            taken = min(share, wanted[name] - given[name], left)
            given[name] += taken
            left -= taken
    return {
        vertex.id: min(min(most[one.id], given[one.slot_sharing_group]) for one in group)
        for group in tied_vertices(job)
        for vertex in group
    }


class WaitingForResources:
    """A job without tasks that waits for slots.

    It starts once it has all slots that it can use.  With fewer it starts when it could have run
    for the stabilization timeout, or when the wait timeout has passed.
    """

    def __init__(self, settings: AdaptiveSettings, now_ms: int, enough: int | None = None) -> None:
        """Start to wait.

        Args:
            settings: The timeouts.
            now_ms: The time.
            enough: The number of slots it ran with before; with these it does not wait for more.
        """
        self.gives_up_ms = now_ms + settings.wait_timeout_ms
        self._stabilization_ms = settings.stabilization_ms
        self._enough = enough
        self._stable_ms: int | None = None

    def can_go(self, slots: int, least: int, desired: int, now_ms: int) -> bool:
        """Return whether the job starts with the available slots.

        Args:
            slots: The number of available slots.
            least: The number it needs at least.
            desired: The number it can use.
            now_ms: The time.
        """
        if slots < least:
            self._stable_ms = None
            return False
        if slots >= desired or (self._enough is not None and slots >= self._enough):
            return True
        if self._stable_ms is None:
            self._stable_ms = now_ms + self._stabilization_ms
        return now_ms >= min(self._stable_ms, self.gives_up_ms)

    def next_deadline_ms(self) -> int:
        """Return the latest time for the next call of `can_go`."""
        if self._stable_ms is None:
            return self.gives_up_ms
        return min(self._stable_ms, self.gives_up_ms)


class Executing:
    """A job with tasks that could use more slots.

    It is rescaled once it could have all slots that it can use; with fewer once it could have
    had more for the stabilization timeout.  Changes during the cooldown count from its end.
    """

    def __init__(self, settings: AdaptiveSettings, now_ms: int) -> None:
        """Start with the cooldown."""
        self._settings = settings
        self._cooled_ms = now_ms + settings.cooldown_ms
        self._since_ms: int | None = None
        self._due_ms: int | None = None
        self._is_asked = False

    def is_time(self, now_ms: int, *, has_more: bool, has_desired: bool) -> bool:
        """Return whether to rescale now; if so, the next call returns False until `refused`.

        Args:
            now_ms: The time.
            has_more: Whether any vertex could have more subtasks.
            has_desired: Whether every vertex could reach its desired parallelism.
        """
        if self._is_asked:
            return False
        if not has_more:
            self._since_ms = self._due_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = max(now_ms, self._cooled_ms)
        self._due_ms = self._cooled_ms
        if not has_desired:
            self._due_ms = self._since_ms + self._settings.executing_stabilization_ms
        self._is_asked = now_ms >= self._due_ms
        return self._is_asked

    def refused(self, now_ms: int) -> None:
        """Note that the rescaling was refused; the next one waits for another cooldown."""
        self._cooled_ms = now_ms + max(RETRY_MS, self._settings.cooldown_ms)
        self._since_ms = self._due_ms = None
        self._is_asked = False

    def next_deadline_ms(self) -> int | None:
        """Return the latest time for the next call of `is_time`, or None if nothing is pending."""
        return None if self._is_asked else self._due_ms
