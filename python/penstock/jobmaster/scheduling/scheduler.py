"""The scheduler of one job: turns events and the time into actions.

It owns the ExecutionGraph, the slots and the restart strategy, and alone changes them.  It opens no
socket, reads no clock and starts no thread, so the same code runs in production and in a seeded
simulation.  The events and actions are listed in `actions`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.errors import NoResourceAvailableError
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.deployment import SharedProducers, task_deployment
from penstock.jobmaster.scheduling.exception_history import ExceptionHistory
from penstock.jobmaster.scheduling.execution import Cancellation, ExecutionVertex
from penstock.jobmaster.scheduling.execution_graph import (
    ExecutionGraph,
    IllegalJobStateError,
    SubtaskID,
)
from penstock.jobmaster.scheduling.failover import (
    FailoverStrategy,
    RestartAllFailoverStrategy,
    RestartPipelinedRegionFailoverStrategy,
)
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.partition_tracker import PartitionTracker, Released
from penstock.jobmaster.scheduling.regions import PipelinedRegion, PipelinedRegions
from penstock.jobmaster.scheduling.scheduler_settings import SchedulerSettings
from penstock.jobmaster.scheduling.slot_allocator import SlotAllocator, SlotRequestBulk
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.jobmaster.slots.slot_pool import SlotPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.graph.ids import ExecutionAttemptID
    from penstock.graph.job_graph import JobGraph
    from penstock.jobmaster.scheduling.restart_strategies import RestartBackoffTimeStrategy
    from penstock.jobmaster.slots.slots import SlotOffer

_RESTARTABLE: Final = frozenset({JobStatus.RUNNING, JobStatus.RESTARTING})


@dataclass
class _PendingRestart:
    """Subtasks that restart together once `waiting_for` is empty and the time has come."""

    subtasks: set[SubtaskID]
    waiting_for: set[SubtaskID]
    at_ms: int
    is_global: bool


class Scheduler:
    """Runs one job from its start to a terminal status.

    Args:
        job: The job, topologically sorted.
        restart_strategy: Whether and when to restart after a failure.
        now_ms: Time of creation.
        settings: Limits.

    Raises:
        JobError: If the job cannot become an ExecutionGraph.
    """

    def __init__(
        self,
        job: JobGraph,
        restart_strategy: RestartBackoffTimeStrategy,
        now_ms: int,
        settings: SchedulerSettings | None = None,
    ) -> None:
        settings = settings or SchedulerSettings()
        self.graph = ExecutionGraph(job, now_ms)
        self.exceptions = ExceptionHistory(settings.max_exception_history)
        self.pool = SlotPool(idle_timeout_ms=settings.slot_idle_timeout_ms)
        self._slot_request_timeout_ms = settings.slot_request_timeout_ms
        self._failover_strategy = settings.failover_strategy
        self._release_early = settings.release_partitions
        self._restart_strategy = restart_strategy
        self._wire()
        self._restarts: list[_PendingRestart] = []
        self._new_parallelisms: Mapping[bytes, int] | None = None
        self._least_buffers = 0
        self._failure: Failure | None = None
        self._declared: tuple[int, int] = (0, 0)
        self._needs_changed = False
        self._out: list[a.Action] = []

    def _wire(self) -> None:
        """Create the parts that depend on the set of subtasks."""
        self.regions = PipelinedRegions(self.graph)
        self._partitions = PartitionTracker(self.graph, release_early=self._release_early)
        self._allocator = SlotAllocator(
            self.graph, self.pool, request_timeout_ms=self._slot_request_timeout_ms
        )
        self._failover: FailoverStrategy
        if self._failover_strategy == "full":
            self._failover = RestartAllFailoverStrategy(self.graph)
        else:
            self._failover = RestartPipelinedRegionFailoverStrategy(
                self.graph, self.regions, self._partitions
            )

    @property
    def status(self) -> JobStatus:
        """Status of the job."""
        return self.graph.status

    @property
    def failure(self) -> Failure | None:
        """Why the job is failing, has failed, or was suspended."""
        return self._failure

    @property
    def wanted_parallelisms(self) -> Mapping[bytes, int]:
        """Return the parallelism of each vertex if there are enough slots."""
        return {vertex.id: vertex.parallelism for vertex in self.graph.job.vertices.values()}

    @property
    def runs_with_fewer_slots(self) -> bool:
        """Return whether the job runs with fewer slots than it requests."""
        return False

    # Events ---------------------------------------------------------------------------------

    def start(self, now_ms: int) -> list[a.Action]:
        """Start to schedule the job."""
        self._move(JobStatus.CREATED, now_ms)
        self._begin(now_ms)
        return self._settle(now_ms)

    def slots_offered(self, offers: Sequence[SlotOffer], now_ms: int) -> list[a.Action]:
        """Accept the slots that the job needs and reject the others."""
        for offer in offers:
            accepted = not self.status.is_terminal and self.pool.offer(offer, now_ms)
            self._needs_changed |= accepted
            answer = a.AcceptSlot if accepted else a.RejectSlot
            self._out.append(answer(offer.executor_id, offer.allocation_id))
        return self._settle(now_ms)

    def is_canceling(self, attempt_id: ExecutionAttemptID) -> bool:
        """Return whether an attempt is being cancelled, has ended, or is unknown."""
        vertex = self.graph.find_attempt(attempt_id)
        if vertex is None:
            return True
        state = vertex.current.state
        return state is ExecutionState.CANCELING or state.is_terminal

    def executor_lost(self, executor_id: str, failure: Failure, now_ms: int) -> list[a.Action]:
        """Fail the attempts on a lost TaskExecutor and remove its slots.  Idempotent.

        Finished producers there run again if their output is still needed.
        """
        unread = self._partitions.executor_lost(executor_id)
        self._lose_slots(self.pool.remove_executor(executor_id), failure, now_ms)
        self._restart_producers(unread, failure, now_ms)
        return self._settle(now_ms)

    def slot_failed(self, allocation_id: bytes, failure: Failure, now_ms: int) -> list[a.Action]:
        """Fail the attempts in a slot that its TaskExecutor withdraws."""
        slot = self.pool.remove(allocation_id)
        if slot is not None:
            self._lose_slots([slot], failure, now_ms)
        return self._settle(now_ms)

    def task_state_changed(
        self,
        attempt_id: ExecutionAttemptID,
        state: ExecutionState,
        executor_id: str,
        now_ms: int,
        failure: Failure | None = None,
    ) -> list[a.Action]:
        """Apply a TaskExecutor's report; a late one is dropped.

        An attempt that is not current must not continue: its worker is told to cancel it.
        """
        subtask = self.graph.find_attempt(attempt_id)
        if subtask is None:
            if not state.is_terminal:
                self._out.append(a.CancelTask(attempt_id, executor_id))
            return self._settle(now_ms)
        execution = subtask.current
        old = execution.state
        entered = execution.report(state, now_ms, failure)
        if entered is not None:
            self._task_moved(subtask, old, now_ms)
            if entered is ExecutionState.FAILED:
                self._handle_failures([subtask], now_ms)
            elif entered is ExecutionState.FINISHED:
                self._release_partitions(self._partitions.finished(subtask))
                self._schedule_consumers(subtask, now_ms)
            elif state is ExecutionState.FINISHED:
                self._release_partitions(self._partitions.finished_in_vain(subtask))
        return self._settle(now_ms)

    def deployment_failed(
        self, attempt_id: ExecutionAttemptID, failure: Failure, now_ms: int
    ) -> list[a.Action]:
        """Fail an attempt whose deployment was refused or not acknowledged in time."""
        subtask = self.graph.find_attempt(attempt_id)
        if subtask is not None:
            slot = subtask.current.slot
            if slot is not None and not subtask.state.is_terminal:
                # The worker may or may not have it; one that does not have it ignores this.
                self._out.append(a.CancelTask(attempt_id, slot.executor_id))
            if self._fail_execution(subtask, failure, now_ms):
                self._handle_failures([subtask], now_ms)
        return self._settle(now_ms)

    def cancellation_failed(self, attempt_id: ExecutionAttemptID, now_ms: int) -> list[a.Action]:
        """End an attempt whose cancellation could not be delivered."""
        subtask = self.graph.find_attempt(attempt_id)
        if subtask is not None:
            old = subtask.state
            if subtask.current.end_cancellation(now_ms):
                self._task_moved(subtask, old, now_ms)
        return self._settle(now_ms)

    def cancel(self, now_ms: int) -> list[a.Action]:
        """Cancel the job; no effect once it is cancelling or has ended."""
        if self.status is JobStatus.INITIALIZING:
            self._move(JobStatus.CREATED, now_ms)
        if self.status in (
            JobStatus.CREATED,
            JobStatus.RUNNING,
            JobStatus.RESTARTING,
            JobStatus.FAILING,
        ):
            self._restarts.clear()
            self._move(JobStatus.CANCELLING, now_ms)
            self._cancel_tasks(self.graph.subtasks(), now_ms)
        return self._settle(now_ms)

    def fail(self, failure: Failure, now_ms: int) -> list[a.Action]:
        """Handle a failure of the job as a whole: it restarts entirely, or fails."""
        if self.status is JobStatus.INITIALIZING:
            self._move(JobStatus.CREATED, now_ms)
        if self.status is JobStatus.CREATED:
            self.exceptions.add_root(failure, now_ms, is_global=True)
            self._fail_job(failure, now_ms)
        elif self.status in _RESTARTABLE:
            scheduled = frozenset(
                s.id for s in self.graph.subtasks() if s.state is not ExecutionState.CREATED
            )
            self._restart_or_fail(scheduled, failure, now_ms, is_global=True)
        return self._settle(now_ms)

    def rescale(
        self, parallelisms: Mapping[bytes, int], now_ms: int, *, network_buffers: int = 0
    ) -> list[a.Action]:
        """Restart a running job entirely with other parallelisms, from its latest checkpoint.

        Args:
            parallelisms: The new ones, by vertex; the others keep theirs.
            now_ms: The time.
            network_buffers: The network buffers that a slot then needs; slots with fewer are
                released and requested again.

        Raises:
            IllegalJobStateError: The job is not RUNNING.
        """
        if self.status is not JobStatus.RUNNING:
            raise IllegalJobStateError(f"a job that is {self.status.name} cannot be rescaled")
        self._out.append(a.AbortCheckpoints("the job is rescaled"))
        subtasks = list(self.graph.subtasks())
        self._new_parallelisms = dict(parallelisms)
        self._least_buffers = network_buffers
        self._cancel_tasks(subtasks, now_ms)
        waiting_for = {s.id for s in subtasks if not s.state.is_terminal}
        self._restarts.append(
            _PendingRestart({s.id for s in subtasks}, waiting_for, now_ms, is_global=True)
        )
        self._needs_changed = True
        self._move(JobStatus.RESTARTING, now_ms)
        return self._settle(now_ms)

    def rescaling_refused(self, now_ms: int) -> list[a.Action]:
        """Continue unchanged: the rescaling that the scheduler requested was refused."""
        return self._settle(now_ms)

    def slots_not_available(self, failure: Failure, now_ms: int) -> list[a.Action]:
        """Fail the job because workers cannot be started, for now or ever (not recoverable)."""
        return self.fail(failure, now_ms)

    def suspend(self, failure: Failure, now_ms: int) -> list[a.Action]:
        """Release the job without ending it: another JobMaster may resume it."""
        if self.status.is_terminal:
            return self._settle(now_ms)
        self._restarts.clear()
        self._failure = failure
        self._release_partitions(self._partitions.job_ended())
        self._cancel_tasks(self.graph.subtasks(), now_ms)
        for subtask in self.graph.subtasks():
            old = subtask.state
            if subtask.current.end_cancellation(now_ms):
                self._task_moved(subtask, old, now_ms)
        self._move(JobStatus.SUSPENDED, now_ms, failure)
        self._release_slots("the job was suspended")
        return self._settle(now_ms)

    def tick(self, now_ms: int) -> list[a.Action]:
        """Run what is due: restarts, timeouts of slot requests, release of idle slots."""
        for bulk in self._allocator.timed_out(now_ms):
            self._needs_changed = True
            self._slots_not_available(bulk, now_ms)
        self._out.extend(
            a.ReleaseSlot(slot.executor_id, slot.allocation_id, "the slot is idle")
            for slot in self.pool.remove_idle(now_ms)
        )
        return self._settle(now_ms)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return the latest time for the next `tick`, or None; a past time means at once."""
        times = [restart.at_ms for restart in self._restarts if not restart.waiting_for]
        others = (self._allocator.next_deadline_ms(now_ms), self.pool.next_idle_ms())
        times.extend(time for time in others if time is not None)
        return min(times, default=None)

    # Scheduling -----------------------------------------------------------------------------

    def _begin(self, now_ms: int) -> None:
        self._move(JobStatus.RUNNING, now_ms)
        self._schedule(self.regions.regions, now_ms)

    def _schedule(self, regions: Iterable[PipelinedRegion], now_ms: int) -> None:
        """Request the slots of each region that is new and whose inputs can be read."""
        for region in regions:
            subtasks = [self.graph.subtask(id_) for id_ in region.subtasks]
            if any(s.state is not ExecutionState.CREATED for s in subtasks):
                continue
            if not all(self._partitions.can_start(s, region) for s in subtasks):
                continue
            for subtask in subtasks:
                old = subtask.state
                subtask.current.schedule(now_ms)
                self._task_moved(subtask, old, now_ms)
            self._allocator.request(region.subtasks, now_ms)
            self._needs_changed = True

    def _schedule_consumers(self, subtask: ExecutionVertex, now_ms: int) -> None:
        consumers = self._partitions.consumers_to_start(subtask)
        if self.status in _RESTARTABLE and consumers:
            self._schedule(self.regions.covering(consumers), now_ms)

    def _deploy_ready(self, now_ms: int) -> None:
        shared: SharedProducers = {}
        for bulk, slots in self._allocator.fulfil():
            for subtask_id, slot in slots.items():
                if not self.graph.subtask(subtask_id).current.assign_slot(slot):
                    raise RuntimeError(f"{subtask_id} was given a slot that it cannot take")
            for subtask_id, _ in bulk.subtasks:
                self._deploy(self.graph.subtask(subtask_id), shared, now_ms)

    def _deploy(self, subtask: ExecutionVertex, shared: SharedProducers, now_ms: int) -> None:
        old = subtask.state
        subtask.current.deploy(now_ms)
        self._task_moved(subtask, old, now_ms)
        deployment = task_deployment(self.graph, subtask, shared)
        slot = subtask.current.slot
        assert slot is not None, "an attempt is deployed to its slot"
        self._out.append(
            a.Deploy(
                subtask.current.attempt_id,
                slot.executor_id,
                deployment,
                subtask.job_vertex.code,
            )
        )

    def _slots_not_available(self, bulk: SlotRequestBulk, now_ms: int) -> None:
        error = NoResourceAvailableError(
            f"the job needs {self._allocator.slots_needed(bulk)} slots to continue and "
            f"{len(self.pool.free_slots())} were free after "
            f"{self._slot_request_timeout_ms / 1000:g} s: {self.pool.required} are required in "
            f"all, the TaskExecutors have given {len(self.pool)}"
        )
        failure = Failure.of(error)
        self._fail_all((id_ for id_, _ in bulk.subtasks), failure, now_ms)

    # Failures -------------------------------------------------------------------------------

    def _lose_slots(self, slots: list[SlotOffer], failure: Failure, now_ms: int) -> None:
        self._needs_changed |= bool(slots)
        self._fail_all(self._allocator.lose(slots), failure, now_ms)

    def _restart_producers(
        self, producers: Iterable[ExecutionVertex], failure: Failure, now_ms: int
    ) -> None:
        """Restart finished producers whose output is lost, unless they restart already."""
        for producer in producers:
            restarting = any(producer.id in restart.subtasks for restart in self._restarts)
            if self.status in _RESTARTABLE and not restarting:
                tasks = self._failover.tasks_to_restart(producer, failure)
                self._restart_or_fail(tasks, failure, now_ms, is_global=False)

    def _fail_all(self, subtask_ids: Iterable[SubtaskID], failure: Failure, now_ms: int) -> None:
        """Fail several attempts for one reason, before any of the failures is handled."""
        subtasks = [self.graph.subtask(id_) for id_ in subtask_ids]
        failed = [s for s in subtasks if self._fail_execution(s, failure, now_ms)]
        self._handle_failures(failed, now_ms)

    def _fail_execution(self, subtask: ExecutionVertex, failure: Failure, now_ms: int) -> bool:
        """Fail the current attempt; return whether that is a failure to handle."""
        old = subtask.state
        named = failure
        if failure.task_name is None:
            named = replace(failure, task_name=subtask.task_name)
        entered = subtask.current.fail(named, now_ms)
        if entered is None:
            return False
        self._task_moved(subtask, old, now_ms)
        return entered is ExecutionState.FAILED

    def _handle_failures(self, failed: list[ExecutionVertex], now_ms: int) -> None:
        """Handle concurrent failures; the first one covers all tasks that restart with it."""
        answered: set[SubtaskID] = set()
        for subtask in failed:
            failure = subtask.current.failure
            if failure is None:
                raise RuntimeError(f"{subtask.task_name} has failed without a failure")
            if subtask.id in answered or self.status not in _RESTARTABLE:
                self.exceptions.add_concurrent(failure, now_ms)
                continue
            tasks = self._failover.tasks_to_restart(subtask, failure)
            answered |= tasks
            self._restart_or_fail(tasks, failure, now_ms, is_global=False)

    def _restart_or_fail(
        self, tasks: frozenset[SubtaskID], failure: Failure, now_ms: int, *, is_global: bool
    ) -> None:
        self._out.append(a.AbortCheckpoints(str(failure)))
        if not failure.recoverable:
            self.exceptions.add_root(failure, now_ms, is_global=is_global)
            self._fail_job(failure, now_ms)
            return
        repetition = ""
        if self._restart_strategy.notify_failure(now_ms):
            self.exceptions.add_root(failure, now_ms, is_global=is_global)
            repetition = self.exceptions.entries[-1].repetition
        else:
            self.exceptions.add_concurrent(failure, now_ms)
        if not self._restart_strategy.can_restart():
            self._fail_job(failure, now_ms)
            return
        at_ms = now_ms + self._restart_strategy.backoff_ms(now_ms)
        subtasks = [self.graph.subtask(id_) for id_ in sorted(tasks)]
        self._cancel_tasks(subtasks, now_ms)
        self._release_partitions(self._partitions.restarting(subtasks))
        # Subtasks of this restart are removed from earlier ones.
        for restart in self._restarts:
            restart.subtasks -= tasks
            restart.waiting_for -= tasks
        self._restarts = [r for r in self._restarts if r.subtasks]
        waiting_for = {s.id for s in subtasks if not s.state.is_terminal}
        self._restarts.append(_PendingRestart(set(tasks), waiting_for, at_ms, is_global))
        self._needs_changed = True
        self.graph.num_restarts += 1
        if self.status is JobStatus.RUNNING:
            self._move(JobStatus.RESTARTING, now_ms, failure)
        self._out.append(a.ScheduleRestart(at_ms, tasks, is_global, failure, repetition))

    def _fail_job(self, failure: Failure, now_ms: int) -> None:
        self._restarts.clear()
        self._failure = failure
        self._move(JobStatus.FAILING, now_ms, failure)
        self._cancel_tasks(self.graph.subtasks(), now_ms)

    def _cancel_tasks(self, subtasks: Iterable[ExecutionVertex], now_ms: int) -> None:
        for subtask in subtasks:
            subtask.version += 1
            execution = subtask.current
            old = execution.state
            outcome = execution.cancel(now_ms)
            if outcome is Cancellation.IGNORED:
                continue
            self._task_moved(subtask, old, now_ms)
            if outcome is Cancellation.REQUESTED and execution.slot is not None:
                self._out.append(a.CancelTask(execution.attempt_id, execution.slot.executor_id))
        self._allocator.drop_stale_bulks()

    # Restarts -------------------------------------------------------------------------------

    def _restart_due(self, now_ms: int) -> None:
        due = [r for r in self._restarts if r.at_ms <= now_ms and not r.waiting_for]
        for restart in due:
            self._restarts.remove(restart)
            for subtask_id in sorted(restart.subtasks):
                subtask = self.graph.subtask(subtask_id)
                if self._new_parallelisms is None:
                    self.graph.reset(subtask, now_ms)
            if self._new_parallelisms is not None:
                # The whole job has ended, so every later restart includes all of it.
                self._change_parallelism(self._new_parallelisms, now_ms)
                self._new_parallelisms = None
                restart.subtasks = {subtask.id for subtask in self.graph.subtasks()}
            self._release_small_slots()
            if not self._restarts and self.status is JobStatus.RESTARTING:
                self._move(JobStatus.RUNNING, now_ms)
            self._out.append(a.RestoreState(frozenset(restart.subtasks), restart.is_global))
            self._needs_changed = True
            self._schedule(self.regions.covering(restart.subtasks), now_ms)

    def _change_parallelism(self, parallelisms: Mapping[bytes, int], now_ms: int) -> None:
        self.graph.rescale(parallelisms, now_ms)
        self._wire()
        self._out.append(a.ParallelismChanged(dict(parallelisms)))

    def _release_small_slots(self) -> None:
        """Release the slots with too few network buffers for a job that is rescaled."""
        for slot in self.pool.remove_smaller(self._least_buffers):
            reason = f"the job now needs {self._least_buffers} network buffers in a slot"
            self._out.append(a.ReleaseSlot(slot.executor_id, slot.allocation_id, reason))

    # Bookkeeping ----------------------------------------------------------------------------

    def _settle(self, now_ms: int) -> list[a.Action]:
        """Finish the handling of an event and return all resulting actions."""
        self._restart_due(now_ms)
        self._deploy_ready(now_ms)
        self._end_job(now_ms)
        if self._needs_changed and not self.status.is_terminal:
            self._needs_changed = False
            self._declare_slots(self._slots_required())
        out, self._out = self._out, []
        return out

    def _slots_required(self) -> int:
        return self._allocator.declare(id_ for r in self._restarts for id_ in r.subtasks)

    def _declare_slots(self, required: int) -> None:
        declared = (required, self.pool.missing)
        if declared != self._declared:
            self._declared = declared
            self._out.append(a.RequestSlots(*declared))

    def _end_job(self, now_ms: int) -> None:
        if self.status.is_terminal or self.graph.active:
            return
        if self.status is JobStatus.CANCELLING:
            self._move(JobStatus.CANCELED, now_ms)
        elif self.status is JobStatus.FAILING:
            self._move(JobStatus.FAILED, now_ms, self._failure)
        elif self.status is JobStatus.RUNNING and self.graph.all_in(ExecutionState.FINISHED):
            self._move(JobStatus.FINISHED, now_ms)
        else:
            return
        self._release_partitions(self._partitions.job_ended())
        self._release_slots("the job has ended")

    def _release_slots(self, reason: str) -> None:
        for slot in self.pool.slots():
            self.pool.remove(slot.allocation_id)
            self._out.append(a.ReleaseSlot(slot.executor_id, slot.allocation_id, reason))
        self.pool.required = 0
        self._declare_slots(0)

    def _release_partitions(self, released: Released) -> None:
        self._out.extend(a.ReleasePartitions(*each) for each in released.items())

    def _task_moved(self, subtask: ExecutionVertex, old: ExecutionState, now_ms: int) -> None:
        execution = subtask.current
        self._out.append(
            a.TaskStateChanged(
                execution.attempt_id,
                execution.task_name,
                old,
                execution.state,
                now_ms,
                execution.failure,
            )
        )
        if execution.state.is_terminal:
            self.graph.active -= 1
            self._needs_changed |= self._allocator.release(subtask.id, now_ms)
            for restart in self._restarts:
                restart.waiting_for.discard(subtask.id)

    def _move(self, new: JobStatus, now_ms: int, failure: Failure | None = None) -> None:
        old = self.graph.move(new, now_ms)
        self._out.append(a.JobStatusChanged(old, new, now_ms, failure))
