"""When an adaptive job goes on with the slots that there are, and when it takes more of them.

State machines without a clock, one for each of Flink's states in which time matters:
`WaitingForResources` and `Executing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.common.options import adaptive
from penstock.jobmaster.rescaling import slots_by_group, tied_vertices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.graph.job_graph import JobGraph

#: After a rescaling that could not be, the next one is not tried before.
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
    """The greatest parallelisms that a number of slots allows.

    Slot sharing groups get equal shares, as far as they can use them; what is tied keeps one
    parallelism in common.

    Args:
        job: The job.
        most: The bound of each vertex.
        slots: The slots that there are, at least one for each slot sharing group.
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
    """A job that has no tasks, and is to have some.

    It goes on once it has all slots that it can use; with fewer once it could have run for the
    stabilization timeout, or has waited for long enough altogether.
    """

    def __init__(self, settings: AdaptiveSettings, now_ms: int, enough: int | None = None) -> None:
        """Begin to wait.

        Args:
            settings: How long.
            now_ms: The time.
            enough: Slots with which it need not wait for more, as it ran with them before.
        """
        self.gives_up_ms = now_ms + settings.wait_timeout_ms
        self._stabilization_ms = settings.stabilization_ms
        self._enough = enough
        self._stable_ms: int | None = None

    def can_go(self, slots: int, least: int, desired: int, now_ms: int) -> bool:
        """Return whether the job goes on with the slots that there are.

        Args:
            slots: Their number.
            least: With how many it can run.
            desired: How many it can use.
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
        """When to ask again at the latest."""
        if self._stable_ms is None:
            return self.gives_up_ms
        return min(self._stable_ms, self.gives_up_ms)


class Executing:
    """A job with tasks, which could have more of them.

    It is rescaled once it could have all slots that it can use; with fewer once it could have
    some more for the stabilization timeout.  What comes while it cools down counts from then.
    """

    def __init__(self, settings: AdaptiveSettings, now_ms: int) -> None:
        """Begin with the cooldown."""
        self._settings = settings
        self._cooled_ms = now_ms + settings.cooldown_ms
        self._since_ms: int | None = None
        self._due_ms: int | None = None
        self._is_asked = False

    def is_time(self, now_ms: int, *, has_more: bool, has_desired: bool) -> bool:
        """Return whether it is to be rescaled now; then nothing is until `refused`.

        Args:
            now_ms: The time.
            has_more: Whether any vertex could have more subtasks.
            has_desired: Whether all could have what they are to have.
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
        """The job goes on as it is; it is asked again after another cooldown."""
        self._cooled_ms = now_ms + max(RETRY_MS, self._settings.cooldown_ms)
        self._since_ms = self._due_ms = None
        self._is_asked = False

    def next_deadline_ms(self) -> int | None:
        """When to ask again, or None while nothing is to be had."""
        return None if self._is_asked else self._due_ms
