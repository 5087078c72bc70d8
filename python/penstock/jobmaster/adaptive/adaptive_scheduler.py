"""The scheduler of a job that runs with the slots that are available.

It requests all slots that the job can use, and decides with which of them the job starts,
continues after a loss, and is rescaled.  As in Flink every failure restarts the whole job.  Max
parallelism stays as derived from the program's parallelism, so that state can be redistributed.

Flink's states by the job's status: CREATED and RESTARTING are WaitingForResources once no task is
left, RUNNING is Executing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.errors import NoResourceAvailableError
from penstock.jobmaster.adaptive.adaptive_waits import (
    AdaptiveSettings,
    Executing,
    WaitingForResources,
    parallelisms_with,
)
from penstock.jobmaster.adaptive.rescaling import slots_by_group
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.scheduler_settings import SchedulerSettings
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.scheduling.restart_strategies import RestartBackoffTimeStrategy

_WAITING: Final = frozenset({JobStatus.CREATED, JobStatus.RESTARTING})


class AdaptiveScheduler(Scheduler):
    """Runs one streaming job from its start to a terminal status, with changing parallelism."""

    def __init__(
        self,
        job: JobGraph,
        restart_strategy: RestartBackoffTimeStrategy,
        now_ms: int,
        settings: SchedulerSettings | None = None,
        adaptive: AdaptiveSettings | None = None,
    ) -> None:
        """Create a scheduler as `Scheduler` does, with the limits of adaptive scheduling."""
        whole = replace(settings or SchedulerSettings(), failover_strategy="full")
        super().__init__(job, restart_strategy, now_ms, whole)
        self._adaptive = adaptive or AdaptiveSettings()
        self._most = super().wanted_parallelisms
        self._wait: WaitingForResources | None = None
        self._executing: Executing | None = None
        self._ran_with = 0

    @property
    def wanted_parallelisms(self) -> Mapping[bytes, int]:
        """Return the upper bound of each vertex's parallelism."""
        return self._most

    @property
    def runs_with_fewer_slots(self) -> bool:
        """Return True."""
        return True

    # Events ---------------------------------------------------------------------------------

    def rescale(
        self, parallelisms: Mapping[bytes, int], now_ms: int, *, network_buffers: int = 0
    ) -> list[a.Action]:
        """Rescale as `Scheduler` does, unless the new bounds let the tasks continue unchanged.

        In that case more slots are requested, and the job restarts when it has them.

        Args:
            parallelisms: The new bounds, by vertex; empty to use the available slots.
            now_ms: The time.
            network_buffers: See `Scheduler.rescale`.
        """
        vertices = self.graph.job.vertices
        may_go_on = all(vertices[id_].parallelism <= n for id_, n in parallelisms.items())
        if self.status is not JobStatus.RUNNING or not parallelisms or not may_go_on:
            return super().rescale(parallelisms, now_ms, network_buffers=network_buffers)
        self._most = {**self._most, **parallelisms}
        self._needs_changed = True
        return self._settle(now_ms)

    def rescaling_refused(self, now_ms: int) -> list[a.Action]:
        """Continue unchanged: the rescaling that the scheduler requested was refused."""
        if self._executing is not None:
            self._executing.refused(now_ms)
        return self._settle(now_ms)

    def slots_not_available(self, failure: Failure, now_ms: int) -> list[a.Action]:
        """Continue without new workers, or wait for as long as the settings allow."""
        can_run = len(self.pool) >= len(slots_by_group(self.graph.job, self._most))
        if failure.recoverable or can_run:
            return self._settle(now_ms)
        return super().slots_not_available(failure, now_ms)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return the latest time for the next `tick`, or None; a past time means at once."""
        times = [super().next_deadline_ms(now_ms)]
        if self._wait is not None:
            times.append(self._wait.next_deadline_ms())
        if self._executing is not None:
            times.append(self._executing.next_deadline_ms())
        return min((time for time in times if time is not None), default=None)

    # Waiting for resources ------------------------------------------------------------------

    def _begin(self, now_ms: int) -> None:
        self._wait = WaitingForResources(self._adaptive, now_ms)
        self._needs_changed = True

    def _restart_due(self, now_ms: int) -> None:
        if self.status is not JobStatus.RUNNING:
            self._executing = None
        if self.status not in _WAITING or self._restarts:
            self._wait = None
        if any(r.at_ms <= now_ms and not r.waiting_for for r in self._restarts):
            # The whole job has ended, so there is no other restart.
            self._restarts.clear()
            enough: int | None = self._ran_with
            if self._new_parallelisms:
                self._most = {**self._most, **self._new_parallelisms}
                enough = None
            self._new_parallelisms = None
            self._release_small_slots()
            self._needs_changed = True
            self._wait = WaitingForResources(self._adaptive, now_ms, enough)
        if self._wait is not None:
            self._go_on(self._wait, now_ms)
        elif self._executing is not None:
            self._look_for_more(self._executing, now_ms)

    def _go_on(self, wait: WaitingForResources, now_ms: int) -> None:
        """Start the tasks if there are slots; fail the job if it has waited too long."""
        groups = slots_by_group(self.graph.job, self._most)
        slots, least, desired = len(self.pool), len(groups), sum(groups.values())
        if wait.can_go(slots, least, desired, now_ms):
            self._start_tasks(parallelisms_with(self.graph.job, self._most, slots), now_ms)
        elif now_ms >= wait.gives_up_ms:
            error = NoResourceAvailableError(
                f"the job needs {least} slots to run, and can use {desired}; it was given {slots} "
                f"in {self._adaptive.wait_timeout_ms / 1000:g} s"
            )
            self._wait = None
            failure = Failure.of(error)
            self.exceptions.add_root(failure, now_ms, is_global=True)
            self._fail_job(failure, now_ms)

    def _start_tasks(self, parallelisms: Mapping[bytes, int], now_ms: int) -> None:
        self._wait = None
        job = self.graph.job
        changed = {id_: n for id_, n in parallelisms.items() if n != job.vertices[id_].parallelism}
        is_first = self.status is JobStatus.CREATED
        if changed:
            self._change_parallelism(changed, now_ms)
        elif not is_first:
            for subtask in list(self.graph.subtasks()):
                self.graph.reset(subtask, now_ms)
        self._move(JobStatus.RUNNING, now_ms)
        if changed or not is_first:
            everything = frozenset(subtask.id for subtask in self.graph.subtasks())
            self._out.append(a.RestoreState(everything, is_global=True))
        self._schedule(self.regions.regions, now_ms)
        self._ran_with = sum(slots_by_group(job, parallelisms).values())
        self._executing = Executing(self._adaptive, now_ms)
        self._needs_changed = True

    # Executing ------------------------------------------------------------------------------

    def _look_for_more(self, executing: Executing, now_ms: int) -> None:
        """Request a rescaling if the job can use new slots."""
        job, slots = self.graph.job, len(self.pool)
        if job.checkpoint_interval_ms is None:
            return  # it would start over
        has_more = any(
            number > job.vertices[id_].parallelism
            for id_, number in parallelisms_with(job, self._most, slots).items()
        )
        if has_more and not self.graph.all_in(ExecutionState.RUNNING, ExecutionState.FINISHED):
            return  # checked again when they are
        desired = sum(slots_by_group(job, self._most).values())
        if executing.is_time(now_ms, has_more=has_more, has_desired=slots >= desired):
            self._out.append(a.AskForRescaling())

    def _slots_required(self) -> int:
        """Return all slots that the job can use, also while it runs with fewer."""
        desired = sum(slots_by_group(self.graph.job, self._most).values())
        self.pool.required = max(super()._slots_required(), desired)
        return self.pool.required
