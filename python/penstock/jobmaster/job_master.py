"""JobMaster: runs one job.

The state machines behind `Scheduler` decide; this class executes their actions and passes them
events: offers, reports, losses, timers.  Everything runs in the main thread.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.common.exception_text import described
from penstock.errors import (
    InvalidProgramError,
    JobCancelledError,
    JobExecutionError,
    NoResourceAvailableError,
)
from penstock.graph.ids import ExecutionAttemptID
from penstock.high_availability.job_result_store import JobResult
from penstock.jobmaster.accumulators import JobAccumulators
from penstock.jobmaster.adaptive.rescaling import Rescaling
from penstock.jobmaster.checkpointing.in_flight_assignment import can_be_spread
from penstock.jobmaster.checkpointing.properties import CheckpointProperties
from penstock.jobmaster.checkpointing.savepoints import Savepoints
from penstock.jobmaster.checkpointing.service import CheckpointService
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.failure_causes import FailureCauses, TaskReport
from penstock.jobmaster.job_master_services import JobMasterServices
from penstock.jobmaster.scheduling import actions
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.slot_network_buffers import slot_network_buffers
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from penstock.jobmaster.slots.slots import SlotOffer
from penstock.jobmaster.snapshots import JobSnapshot, SubtaskPictures, job_snapshot
from penstock.jobmaster.sources.source_coordinators import SourceCoordinators
from penstock.jobmaster.user_failure import (
    attempt_name,
    exception_of,
    failure_of,
    without_control_flow,
)
from penstock.jobmaster.workers.task_executor_commands import TaskExecutorCommands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.checkpoint_storage.recovery import RecoverySource
    from penstock.graph.job_graph import JobGraph
    from penstock.high_availability.job_records import JobRecords
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.checkpointing.savepoints import SavepointRequest
    from penstock.jobmaster.cluster_settings import ClusterSettings
    from penstock.jobmaster.local_job_gateway import LocalJobGateway
    from penstock.jobmaster.main_thread import QueueUser, Timer
    from penstock.jobmaster.workers.resource_manager import ResourceManager, TaskExecutorGateway
    from penstock.rpc import messages

logger = logging.getLogger(__name__)

_DAMAGED: Final = "penstock.errors.CorruptCheckpointError"


class JobMaster:
    """Runs one job to its end.

    Attributes:
        checkpoints: The job's checkpoints, which receive the tasks' reports.
        next_driver_resumes: Whether the job can continue in another driver.

    Args:
        on_ended: called once, when the job has reached a terminal status.
        on_stuck: called if a cancelled job has not ended within the shutdown grace.
        on_checkpoint_request: called for each checkpoint and savepoint that is requested.
        recovery: checkpoints that the job may restart from, oldest first; it starts from the last.
        records: records for the next driver; None if the job ends with this one.
        rebuilt: creates the exception of a failure that ends the job.
        services: time, threads and chance; those of this process by default.

    Raises:
        InvalidProgramError: the job does not fit the checkpoint that it starts from.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        settings: ClusterSettings,
        main_thread: QueueUser,
        resources: ResourceManager,
        gateway: LocalJobGateway,
        on_ended: Callable[[JobMaster], None],
        on_stuck: Callable[[], None],
        on_checkpoint_request: Callable[[Future[CompletedCheckpoint]], None],
        recovery: Sequence[RecoverySource] = (),
        records: JobRecords | None = None,
        rebuilt: Callable[[Failure], BaseException] = exception_of,
        services: JobMasterServices | None = None,
    ) -> None:
        self.job_id = job_graph.job_id
        self.gateway = gateway
        self._graph = job_graph
        self._settings = settings
        self._main_thread = main_thread
        self._resources = resources
        self._on_ended = on_ended
        self._on_stuck = on_stuck
        self._rebuilt = rebuilt
        self._pictures: SubtaskPictures = {}
        self.next_driver_resumes = records is not None
        services = services or JobMasterServices()
        self._now_ms = services.clock.now_ms
        self._wall_offset_ms = services.clock.wall_ms() - self._now_ms()
        self._scheduler = services.new_scheduler(
            job_graph, settings.slot_request_timeout_ms, self._now_ms()
        )
        self._commands = TaskExecutorCommands(
            self.job_id, resources.executors, self._scheduler.graph
        )
        self._coordinators = SourceCoordinators(
            job_graph, lambda error: main_thread.post(lambda: self.fail(error, recoverable=True))
        )
        self.checkpoints = CheckpointService(
            job_graph,
            self._scheduler.graph,
            CheckpointSettings.of(job_graph.configuration, job_graph.checkpoint_interval_ms),
            services.new_storage(job_graph),
            main_thread,
            self._coordinators,
            self._commands.send,
            lambda error: self.fail(error, recoverable=True),
            on_checkpoint_request,
            records,
            services,
        )
        self._savepoints = Savepoints(job_graph.configuration, self.checkpoints, self.cancel)
        self._rescaling = Rescaling(
            self._scheduler.graph,
            self._take_checkpoint_to_spread,
            self._restart_rescaled,
            main_thread.post,
            self._room,
            lambda: self._scheduler.wanted_parallelisms,
        )
        if recovery:
            self._scheduler.graph.assign_states(self.checkpoints.start_from(recovery))
        self._tick_timer: Timer | None = None
        self._required = 0
        self._ended = False
        self._is_end_told = False
        self._tasks_changed = False
        self._accumulators = JobAccumulators()
        self._causes = FailureCauses()
        self._carry_out: dict[type, Callable[[Any], None]] = {
            actions.RequestSlots: self._request_slots,
            actions.AcceptSlot: self._commands.accept_slot,
            actions.RejectSlot: self._commands.reject_slot,
            actions.ReleaseSlot: self._commands.release_slot,
            actions.Deploy: self._commands.deploy,
            actions.CancelTask: self._commands.cancel_task,
            actions.ReleasePartitions: self._commands.release_partitions,
            actions.TaskStateChanged: self._task_state_changed,
            actions.JobStatusChanged: self._job_status_changed,
            actions.ScheduleRestart: self._log_restart,
            actions.ParallelismChanged: self._parallelism_changed,
            actions.AskForRescaling: self._ask_for_rescaling,
            actions.AbortCheckpoints: self._abort_checkpoints,
            actions.RestoreState: self._restore_state,
        }

    # ---- events ------------------------------------------------------------------------------

    def start(self, hopeless: BaseException | None = None) -> None:
        """Start: request slots, and deploy tasks once they are available.

        Args:
            hopeless: Why the job fails at once, whatever its restart strategy.
        """
        if hopeless is not None:
            self.fail(hopeless)
            return
        self._coordinators.start(self.checkpoints.coordinator_states())
        self._run(self._scheduler.start(self._now_ms()))

    def cancel(self) -> None:
        """Cancel the job for the user."""
        if self._ended:
            return
        self._main_thread.schedule(self._settings.shutdown_grace_ms / 1000, self._check_stuck)
        self._run(self._scheduler.cancel(self._now_ms()))

    def take_savepoint(self, request: SavepointRequest) -> None:
        """Take a savepoint; if the job has ended, its end has answered the request."""
        if not self._ended:
            self._savepoints.take(request)

    def take_checkpoint(self, *, full: bool) -> Future[CompletedCheckpoint]:
        """Take a checkpoint beside the periodic ones; the future fails with `CheckpointError`."""
        retention = self.checkpoints.coordinator.settings.retention
        properties = CheckpointProperties.checkpoint(retention, full=full, forced=True)
        return self.checkpoints.request(properties)

    def _take_checkpoint_to_spread(self) -> Future[CompletedCheckpoint]:
        """Take a checkpoint that can be restored with another parallelism."""
        retention = self.checkpoints.coordinator.settings.retention
        properties = CheckpointProperties.checkpoint(
            retention, forced=True, overtakes=can_be_spread(self._graph)
        )
        return self.checkpoints.request(properties)

    def rescale(self, wish: int | Mapping[bytes, int]) -> Future[None]:
        """Change the parallelism for the user; see `Rescaling.begin`.

        The future is done when the next driver would also use it.

        Raises:
            RescalingError: This rescaling is not possible, or not now.
        """
        rescaled = self._rescaling.begin(wish)
        stored: Future[None] = Future()

        def store(rescaled: Future[None]) -> None:
            if (error := rescaled.exception()) is not None:
                stored.set_exception(error)
            else:
                self.checkpoints.store_parallelisms(self._scheduler.wanted_parallelisms, stored)

        rescaled.add_done_callback(store)
        return stored

    def _restart_rescaled(self, parallelisms: Mapping[bytes, int]) -> None:
        wanted = {**self._scheduler.wanted_parallelisms, **parallelisms}
        needs = slot_network_buffers(self._graph, wanted, self._settings)
        buffers = 0 if self._settings.has_fixed_network else needs.total
        self._run(self._scheduler.rescale(parallelisms, self._now_ms(), network_buffers=buffers))

    def _room(self) -> int | None:
        fewer_will_do = self._scheduler.runs_with_fewer_slots
        return None if fewer_will_do else self._resources.room(self.job_id)

    def fail(self, error: BaseException, *, recoverable: bool = False) -> None:
        """Fail the job for a reason that belongs to no task.

        Args:
            error: The reason.
            recoverable: Whether the restart strategy decides; then the whole job restarts.
        """
        if not self._ended:
            self._run(
                self._scheduler.fail(Failure.of(error, recoverable=recoverable), self._now_ms())
            )

    def broken(self, error: BaseException) -> None:
        """Fail the job because of an unexpected exception in its control code."""
        if self._ended:
            return
        # Actions may not have been executed, so a task may never answer.
        self._main_thread.schedule(self._settings.shutdown_grace_ms / 1000, self._check_stuck)
        try:
            self.fail(without_control_flow(error))
        except Exception:
            logger.exception("job %s cannot even be failed", self._graph.name)
            self.abandon(error)

    def abandon(self, error: BaseException) -> None:
        """End the job here, whatever its tasks do: its cluster shuts down."""
        if not self._ended:
            self._run(self._scheduler.suspend(Failure.of(error), self._now_ms()))

    def slots_offered(self, executor: TaskExecutorGateway, offers: messages.OfferSlots) -> None:
        """Handle an offer of slots."""
        address = (offers.host, offers.data_port)
        for offer in offers.offers:
            self._resources.slot_offered(executor.executor_id, offer.allocation_id, address)
        if self._ended:
            for offer in offers.offers:
                self._commands.free_slot(
                    executor.executor_id, offer.allocation_id, "the job has ended"
                )
            return
        slots = [
            SlotOffer(of.allocation_id, executor.executor_id, *address, of.slot, of.network_buffers)
            for of in offers.offers
        ]
        self._run(self._scheduler.slots_offered(slots, self._now_ms()))

    def slots_not_available(self, *, recoverable: bool) -> None:
        """Handle that workers cannot be started, now or ever."""
        # The failures of workers are added to it when the job has ended.
        if self._ended:
            return
        error = NoResourceAvailableError(
            f"job {self._graph.name!r} asked for {self._required} slots and was given "
            f"{self._resources.given(self.job_id)}"
        )
        failure = Failure.of(error, recoverable=recoverable)
        self._run(self._scheduler.slots_not_available(failure, self._now_ms()))

    def executor_lost(self, executor_id: str, error: BaseException) -> None:
        """Handle the loss of a TaskExecutor."""
        if not self._ended:
            failure = Failure.of(error, executor_id=executor_id)
            self._run(self._scheduler.executor_lost(executor_id, failure, self._now_ms()))
            self._take(self._causes.cause_known())

    def task_state_reported(
        self, executor: TaskExecutorGateway, update: messages.UpdateTaskState
    ) -> None:
        """Handle a TaskExecutor's report of an attempt's state."""
        executor_id = executor.executor_id
        attempt = ExecutionAttemptID.from_bytes(update.attempt_id)
        if update.accumulators:
            self._accumulators.report(attempt, update.accumulators)
        if self._ended:
            return
        state = ExecutionState[update.state]
        failure = None
        if update.failure is not None:
            vertex = self._graph.vertices.get(attempt.vertex_id)
            name = (
                attempt.vertex_id.hex()
                if vertex is None
                else attempt_name(vertex.name, attempt, vertex.parallelism)
            )
            failure = failure_of(update.failure, name, executor_id)
            if failure.exception_name == _DAMAGED:
                failure = self._restart_before_damage(attempt, failure)

        report = TaskReport(attempt, state, executor_id, failure)
        is_canceling = self._scheduler.is_canceling(attempt)
        self._take(self._causes.reported(report, self._now_ms(), is_canceling=is_canceling))

    def _restart_before_damage(self, attempt: ExecutionAttemptID, failure: Failure) -> Failure:
        """Restart the whole job from an older checkpoint, as its source coordinators must.

        Returns:
            The failure; an unrecoverable one if there is no older checkpoint.
        """
        latest = self.checkpoints.coordinator.store.latest
        subtask = self._scheduler.graph.find_attempt(attempt)
        if latest is None or subtask is None:
            return failure
        if subtask.current.restored_from != latest.checkpoint_id:
            return failure  # it started without one, or another subtask has reported it
        if not self.checkpoints.damaged(latest.checkpoint_id, failure.message):
            return replace(failure, recoverable=False)
        # The report arrives after this, as that of a task which is being cancelled.
        self._run(self._scheduler.fail(failure, self._now_ms()))
        return failure

    def accumulators_reported(
        self, executor: TaskExecutorGateway, message: messages.ReportAccumulators
    ) -> None:
        """Store a TaskExecutor's intermediate accumulator values."""
        del executor
        attempt = ExecutionAttemptID.from_bytes(message.attempt_id)
        self._accumulators.report(attempt, message.accumulators)

    def reader_reported(
        self, executor: TaskExecutorGateway, message: messages.ToEnumerator
    ) -> None:
        """Pass a source reader's message to its enumerator."""
        if not self._ended:
            self._coordinators.received(executor, message)

    def watermark_reported(
        self, executor: TaskExecutorGateway, message: messages.ReportedWatermark
    ) -> None:
        """Pass a source reader's watermark to the alignment."""
        if not self._ended:
            self._coordinators.watermark_reported(executor, message)

    def accumulators(
        self, vertex_id: bytes | None = None, subtask: int | None = None
    ) -> dict[str, object]:
        """Return the accumulators of the latest attempts of the subtasks, merged by name.

        Args:
            vertex_id: The vertex whose subtasks are merged; all vertices if None.
            subtask: The only subtask to merge; all if None.
        """
        return self._accumulators.merged(vertex_id, subtask)

    def snapshot(self) -> JobSnapshot:
        """Return a snapshot of the job."""
        coordinator = self.checkpoints.coordinator
        return job_snapshot(
            self._scheduler.graph,
            self._scheduler.exceptions,
            coordinator.statistics,
            coordinator.settings,
            self._pictures,
            self._scheduler.wanted_parallelisms,
            wall_offset_ms=self._wall_offset_ms,
            now_ms=self._now_ms(),
        )

    # ---- actions -----------------------------------------------------------------------------

    def _take(self, reports: Iterable[TaskReport]) -> None:
        for report in reports:
            if not self._ended:
                self._run(
                    self._scheduler.task_state_changed(
                        report.attempt_id,
                        report.state,
                        report.executor_id,
                        self._now_ms(),
                        report.failure,
                    )
                )
        self._schedule_tick()

    def _run(self, todo: Iterable[actions.Action]) -> None:
        """Execute actions.  After a failed one no task is deployed, and the job fails."""
        self._tasks_changed = False
        failure: Failure | None = None
        unsent: list[ExecutionAttemptID] = []
        for action in todo:
            if failure is None or not isinstance(action, actions.Deploy):
                try:
                    self._carry_out[type(action)](action)
                    continue
                except Exception as error:
                    self._log_undone(action, error)
                    failure = failure or Failure.of(error, recoverable=False)
                    if isinstance(action, actions.JobStatusChanged) and action.new.is_terminal:
                        self._end_with(error)
            if isinstance(action, actions.Deploy):
                unsent.append(action.attempt_id)
        if failure is not None and not self._ended:
            self._run(self._scheduler.fail(failure, self._now_ms()))
            for attempt_id in unsent:  # no worker knows them, so no report of their end will arrive
                if not self._ended:
                    self._run(self._scheduler.cancellation_failed(attempt_id, self._now_ms()))
            self._tasks_changed = True
        if self._tasks_changed and not self._ended:
            self.checkpoints.tasks_changed()
            self._rescaling.tasks_changed()
        self._schedule_tick()

    def _log_undone(self, action: actions.Action, error: Exception) -> None:
        if isinstance(action, actions.RestoreState) and isinstance(error, InvalidProgramError):
            logger.error(
                "job %s cannot continue from its last checkpoint: %s", self._graph.name, error
            )
        else:
            what = type(action).__name__
            logger.error("job %s: %s failed", self._graph.name, what, exc_info=error)

    def _schedule_tick(self) -> None:
        if self._tick_timer is not None:
            self._tick_timer.cancel()
            self._tick_timer = None
        if self._ended:
            return
        deadlines = (
            self._scheduler.next_deadline_ms(self._now_ms()),
            self._causes.next_deadline_ms(),
        )
        deadline_ms = min((one for one in deadlines if one is not None), default=None)
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._now_ms()) / 1000
            self._tick_timer = self._main_thread.schedule(delay_s, self._tick)

    def _tick(self) -> None:
        self._tick_timer = None
        if not self._ended:
            self._run(self._scheduler.tick(self._now_ms()))
            self._take(self._causes.tick(self._now_ms()))

    def _request_slots(self, action: actions.RequestSlots) -> None:
        self._required = action.required
        fewer_will_do = self._scheduler.runs_with_fewer_slots
        wanted = self._scheduler.wanted_parallelisms
        needs = slot_network_buffers(self._graph, wanted, self._settings)
        self._resources.declare(
            self.job_id, action.missing, self, needs, fewer_will_do=fewer_will_do
        )

    def _abort_checkpoints(self, action: actions.AbortCheckpoints) -> None:
        self.checkpoints.job_failing(action.reason)
        reason = self._savepoints.job_failing(action.reason)
        if reason is not None:
            self._main_thread.post(lambda: self.fail(JobExecutionError(reason)))

    def _restore_state(self, action: actions.RestoreState) -> None:
        self._scheduler.graph.assign_states(
            self.checkpoints.restored(action.subtasks, is_global=action.is_global)
        )

    def _task_state_changed(self, action: actions.TaskStateChanged) -> None:
        self._tasks_changed = True
        logger.debug("%s: %s → %s", action.task_name, action.old.value, action.new.value)

    def _log_restart(self, action: actions.ScheduleRestart) -> None:
        logger.warning(
            "job %s: %d subtasks restart in %d ms after %s",
            self._graph.name,
            len(action.subtasks),
            max(0, action.at_ms - self._now_ms()),
            action.failure,
        )
        if action.repetition:
            logger.warning(
                "job %s %s, in %s; if it is always the same record, each restart reads it again: "
                "handle it in the function, or let the source skip it",
                self._graph.name,
                action.repetition,
                action.failure.labels.get("operator") or action.failure.task_name or "no task",
            )

    def _parallelism_changed(self, action: actions.ParallelismChanged) -> None:
        logger.info(
            "job %s continues with another parallelism: %s",
            self._graph.name,
            {self._graph.vertices[id_].name: n for id_, n in action.parallelisms.items()},
        )
        # The counts of subtasks that no longer exist are dropped, as after a failure.
        self._accumulators.forget(action.parallelisms)

    def _ask_for_rescaling(self, action: actions.AskForRescaling) -> None:
        # The previous rescaling ends only after this action.
        del action
        self._main_thread.post(self._use_slots)

    def _use_slots(self) -> None:
        def ended(done: Future[None]) -> None:
            if done.exception() is not None:
                logger.info("job %s keeps its parallelism: %s", self._graph.name, done.exception())
                self._main_thread.post(self._rescaling_refused)

        if not self._ended:
            self._rescaling.use_slots().add_done_callback(ended)

    def _rescaling_refused(self) -> None:
        if not self._ended:
            self._run(self._scheduler.rescaling_refused(self._now_ms()))

    def _job_status_changed(self, action: actions.JobStatusChanged) -> None:
        logger.info("job %s: %s → %s", self._graph.name, action.old.value, action.new.value)
        if not action.new.is_terminal:
            if action.new is JobStatus.CANCELLING:
                self.checkpoints.job_cancelling()
            self.gateway.set_status(action.new)
            return
        error: BaseException | None = None
        if action.new is JobStatus.FAILED:
            assert action.failure is not None
            error = self._rebuilt(action.failure)
            if isinstance(error, NoResourceAvailableError):
                error.args = (f"{error}; {self._resources.describe()}",)
        elif action.new is JobStatus.CANCELED:
            error = JobCancelledError(f"job {self._graph.name!r} was cancelled")
        elif action.new is JobStatus.SUSPENDED:
            failure = self._scheduler.failure
            reason = "the cluster is going away" if failure is None else failure.message
            error = JobExecutionError(f"job {self._graph.name!r} was suspended: {reason}")
            if failure is not None and isinstance(failure.payload, BaseException):
                error.__cause__ = failure.payload
        self._ended = True
        self._rescaling.job_ended(action.new.value)
        self._coordinators.close()
        self._resources.forget_job(self.job_id, f"the job is {action.new.value}")
        self._commands.release_code()
        try:
            accumulators = self.accumulators()
        except BaseException as failure:  # merging a user's accumulator may raise anything
            accumulators = {}
            error = error or without_control_flow(failure)
        self.gateway.set_result(action.new, error, accumulators)
        result = JobResult(
            self._graph.name,
            action.new.value,
            self.gateway.runtime_ms(),
            accumulators,
            "" if error is None else described(error),
        )
        self.checkpoints.job_ended(action.new, result, self._tell_end)

    def _end_with(self, error: Exception) -> None:
        """End a job whose regular end raised an error."""
        self._ended = True
        self.gateway.set_result(JobStatus.FAILED, error, {})
        self._main_thread.post(self._tell_end)

    def _tell_end(self) -> None:
        if not self._is_end_told:
            self._is_end_told = True
            self._on_ended(self)

    def _check_stuck(self) -> None:
        if not self._ended:
            logger.warning("job %s was cancelled and does not end", self._graph.name)
            self._on_stuck()
