"""Executes the checkpoint coordinator's actions: storage, coordinators, messages, timers."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason
from penstock.errors import CheckpointError, CheckpointFailedJobError, RescalingError
from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.checkpointing import actions as a
from penstock.jobmaster.checkpointing.checkpoints_cleaner import CheckpointsCleaner
from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
from penstock.jobmaster.checkpointing.coordinator import CheckpointCoordinator
from penstock.jobmaster.checkpointing.end_of_job import EndOfJob
from penstock.jobmaster.checkpointing.pointers import CheckpointPointers
from penstock.jobmaster.checkpointing.properties import CheckpointProperties
from penstock.jobmaster.checkpointing.state_assignment import assign_states, coordinator_states
from penstock.jobmaster.queue_limits import MAX_CHECKPOINT_STEPS
from penstock.jobmaster.shared_services import JobManagerSharedServices
from penstock.rpc import messages
from penstock.rpc.checkpoint_messages import AskCheckpoint, CheckpointStandings
from penstock.rpc.task_deployment import RestoredState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.checkpoint_storage.handles import CheckpointMetrics, TaskStateSnapshot
    from penstock.checkpoint_storage.recovery import RecoverySource
    from penstock.checkpoint_storage.storage import CheckpointStorage
    from penstock.graph.job_graph import JobGraph
    from penstock.high_availability.job_records import JobRecords
    from penstock.high_availability.job_result_store import JobResult
    from penstock.jobmaster.checkpointing.plan import Participant
    from penstock.jobmaster.checkpointing.settings import CheckpointSettings
    from penstock.jobmaster.main_thread import QueueUser, Timer
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
    from penstock.jobmaster.scheduling.states import JobStatus
    from penstock.jobmaster.sources.source_coordinators import SourceCoordinators
    from penstock.rpc.message import Message

logger = logging.getLogger(__name__)

#: At the job's end, the longest wait for its files to be deleted.
CLOSE_TIMEOUT_S: Final = 10.0


class CheckpointService:
    """The checkpoints of one job.  Everything but the storage's I/O runs in the main thread.

    Attributes:
        coordinator: The state machine, with the completed checkpoints and the statistics.
    """

    def __init__(
        self,
        job: JobGraph,
        graph: ExecutionGraph,
        settings: CheckpointSettings,
        storage: CheckpointStorage,
        main_thread: QueueUser,
        sources: SourceCoordinators,
        send: Callable[[str, Message], None],
        fail_job: Callable[[BaseException], None],
        on_request: Callable[[Future[CompletedCheckpoint]], None],
        records: JobRecords | None = None,
        services: JobManagerSharedServices | None = None,
    ) -> None:
        """Create the service; nothing happens before `tasks_changed`.

        Args:
            job: The job.
            graph: Its subtasks.
            settings: The checkpoint settings.
            storage: Stores the checkpoints.
            main_thread: Runs everything that changes the job's state.
            sources: The coordinators of the job's sources.
            send: Sends a message to a TaskExecutor, if it is still connected.
            fail_job: Fails the job, which may restart.
            on_request: Called for each checkpoint and savepoint that is requested.
            records: Records checkpoints for the next driver; None if there is none.
            services: Time, threads and chance; those of this process by default.
        """
        services = services or JobManagerSharedServices()
        self._clock = services.clock
        self._now_ms = services.clock.now_ms
        wall_offset_ms = self._clock.wall_ms() - self._now_ms()
        self.coordinator = CheckpointCoordinator(
            graph,
            settings,
            wall_offset_ms,
            services.new_random(),
            first_id=1 if records is None else records.next_checkpoint_id,
        )
        self._records = records
        self._pointers = CheckpointPointers(records)
        self._job = job
        self._storage = storage
        self._main_thread = main_thread
        self._sources = sources
        self._send = send
        self._fail_job = fail_job
        self._on_request = on_request
        self._timer: Timer | None = None
        self._timer_deadline_ms = 0
        self._requests: dict[int, Future[CompletedCheckpoint]] = {}
        self._io_thread = services.new_thread(f"checkpoint storage of {job.name}")
        self._io = self._io_thread.user(
            f"steps of checkpoints of job {job.name}", MAX_CHECKPOINT_STEPS
        )
        self._io_thread.start()
        self._cleaner = CheckpointsCleaner(
            storage,
            self._pointers,
            self._io.post,
            lambda: self._later(self.coordinator.discarded),
            in_parallel=settings.cleans_in_parallel,
        )
        self._carry_out: dict[type, Callable[[Any], None]] = {
            a.CreateLocation: self._create_location,
            a.SnapshotCoordinators: self._snapshot_coordinators,
            a.TriggerTasks: self._trigger_tasks,
            a.AskTasks: self._ask_tasks,
            a.StoreMetadata: self._store_metadata,
            a.NotifyComplete: self._notify_complete,
            a.NotifyAborted: self._notify_aborted,
            a.DiscardState: self._cleaner.discard_state,
            a.DiscardPending: self._cleaner.discard_pending,
            a.DiscardCheckpoint: self._cleaner.discard_checkpoint,
            a.RequestCompleted: self._request_completed,
            a.RequestFailed: self._request_failed,
            a.FailJob: self._job_failed,
        }

    # ---- the job ---------------------------------------------------------------------------

    def request(self, properties: CheckpointProperties) -> Future[CompletedCheckpoint]:
        """Request a checkpoint or savepoint; the future fails with a `CheckpointError`."""
        number, todo = self.coordinator.request(properties, self._now_ms())
        future: Future[CompletedCheckpoint] = Future()
        self._requests[number] = future
        self._on_request(future)
        self._run(todo)
        return future

    def start_from(
        self, sources: Sequence[RecoverySource]
    ) -> dict[tuple[bytes, int], RestoredState]:
        """Return the initial state of the job's subtasks; call it before anything else.

        Args:
            sources: Checkpoints, oldest first; the job starts from the last.

        Raises:
            InvalidProgramError: The job does not fit the checkpoint.
        """
        source = sources[-1]
        operators = source.metadata.operators
        try:
            assigned = assign_states(
                self._job, operators, allow_non_restored=source.allows_non_restored
            )
        except BaseException:
            self._io_thread.close(timeout_s=0)
            raise
        for one in sources:
            # A claimed checkpoint is treated like the job's own.
            checkpoint = CompletedCheckpoint(
                one.metadata,
                CheckpointProperties.checkpoint(self.coordinator.settings.retention),
                one.location,
                self._clock.wall_ms(),
                is_unclaimed=not one.is_claimed,
            )
            self._run(self.coordinator.start_from(checkpoint, self._now_ms()))
        logger.info(
            "job %s starts from checkpoint %d in %s",
            self._job.name,
            checkpoint.checkpoint_id,
            source.location,
        )
        return _restored(checkpoint, assigned, assigned)

    def coordinator_states(self) -> dict[bytes, bytes]:
        """Return the initial states of the sources' coordinators, by operator."""
        latest = self.coordinator.store.latest
        return {} if latest is None else coordinator_states(self._job, latest.metadata.operators)

    def tasks_changed(self) -> None:
        """Handle changes of task states."""
        self._run(self.coordinator.tasks_changed(self._now_ms()))

    def final_checkpoint_wanted(self, attempt_id: bytes) -> None:
        """Handle a task that has ended and waits for a checkpoint that includes its end."""
        attempt = ExecutionAttemptID.from_bytes(attempt_id)
        self._run(self.coordinator.hurry(attempt, self._now_ms()))

    def job_failing(self, detail: str) -> None:
        """Abort pending checkpoints: tasks are about to be restarted."""
        self._run(self.coordinator.job_failing(detail, self._now_ms()))

    def job_cancelling(self) -> None:
        """Shut down: the user cancels the job."""
        self._run(self.coordinator.job_cancelling(self._now_ms()))

    def store_parallelisms(self, parallelisms: Mapping[bytes, int], stored: Future[None]) -> None:
        """Store the parallelisms of a rescaled job for the next driver, if there is one.

        Args:
            parallelisms: The parallelism of each vertex.
            stored: Completed once they are stored; fails with a `RescalingError` otherwise.
        """
        records = self._records
        if records is None:
            stored.set_result(None)
            return

        def store() -> None:
            try:
                records.set_parallelisms(parallelisms)
            except Exception as error:
                failure = RescalingError(
                    f"job {self._job.name!r} is rescaled, but a driver that took it up would not "
                    f"know: {error}"
                )
                self._main_thread.post(partial(stored.set_exception, failure))
            else:
                self._main_thread.post(partial(stored.set_result, None))

        self._io.post(store)

    def job_ended(self, status: JobStatus, result: JobResult, then: Callable[[], None]) -> None:
        """Delete obsolete checkpoints of an ended job, then run ``then`` in the main thread."""
        if self._timer is not None:
            self._timer.cancel()
        end = EndOfJob(self._storage, CLOSE_TIMEOUT_S, then)
        if self._records is None:
            self._delete(status, end, is_resumed=False)
        elif not status.is_globally_terminal:
            self._delete(status, end, is_resumed=True)
        else:
            # First, so that no driver restarts a job whose checkpoints are deleted.
            self._io.post(partial(self._record, status, result, end))
        self._main_thread.schedule(CLOSE_TIMEOUT_S, end.give_up)

    def _record(self, status: JobStatus, result: JobResult, end: EndOfJob) -> None:
        """Record how the job has ended, in the storage's thread; continue in the main thread."""
        is_resumed = not self._recorded(result)
        self._main_thread.post(partial(self._delete, status, end, is_resumed=is_resumed))

    def _delete(self, status: JobStatus, end: EndOfJob, *, is_resumed: bool) -> None:
        """Delete checkpoints that nobody needs, and continue when the storage has answered."""
        self._run(self.coordinator.job_ended(status, self._now_ms(), is_resumed=is_resumed))
        delete_the_rest = partial(self._delete_the_rest, end, is_resumed=is_resumed)
        self._io.post(lambda: self._main_thread.post(delete_the_rest))

    def _delete_the_rest(self, end: EndOfJob, *, is_resumed: bool) -> None:
        """Delete later files too; all earlier requests to the storage are answered by now."""
        if not is_resumed:
            retained = {checkpoint.pointer for checkpoint in self.coordinator.store.all}
            self._cleaner.close_storage(retained)
        self._io.post(lambda: self._main_thread.post(end.reached))
        self._io_thread.close(timeout_s=0)

    def _recorded(self, result: JobResult) -> bool:
        """Record how the job has ended; return False if that fails, so that it is resumed."""
        assert self._records is not None
        try:
            self._records.results.put(result)
        except Exception as error:
            logger.error(
                "job %s is %s, but that could not be recorded: the next driver will resume the job "
                "from its last checkpoint: %s",
                self._job.name,
                result.status,
                _text(error),
            )
            return False
        return True

    def restored(
        self, subtasks: Iterable[tuple[bytes, int]], *, is_global: bool
    ) -> dict[tuple[bytes, int], RestoredState]:
        """Return the initial states of subtasks that are about to be redeployed.

        The coordinators of their sources are reset to the same checkpoint.

        Raises:
            InvalidProgramError: The job does not fit the checkpoint.
        """
        latest = self.coordinator.store.latest
        if latest is None:
            if is_global:
                self._sources.reset()
            else:
                self._sources.subtasks_reset(subtasks)
            return {}
        operators = latest.metadata.operators
        assigned = assign_states(self._job, operators, allow_non_restored=True)
        if is_global:
            self._sources.reset(coordinator_states(self._job, operators))
        else:
            self._sources.subtasks_reset(subtasks, latest.checkpoint_id)
        self.coordinator.statistics.restored(latest, self._clock.wall_ms())
        return _restored(latest, assigned, subtasks)

    def damaged(self, checkpoint_id: int, detail: str) -> bool:
        """Drop the checkpoint that the job restarts from: one of its files is damaged.

        Returns:
            Whether the job can continue from an older one, which is now the latest.
        """
        store = self.coordinator.store
        dropped = store.drop(checkpoint_id)
        if dropped is None:
            logger.error(
                "job %s cannot continue: its only checkpoint, %d, is damaged: %s; "
                "raise execution.checkpointing.num-retained to keep more than one",
                self._job.name,
                checkpoint_id,
                detail,
            )
            return False
        assert store.latest is not None, "the store never drops its only checkpoint"
        logger.error(
            "job %s restarts from checkpoint %d, because checkpoint %d is damaged; the files of "
            "the damaged one stay until the job ends: %s",
            self._job.name,
            store.latest.checkpoint_id,
            checkpoint_id,
            detail,
        )
        return True

    # ---- answers of tasks ------------------------------------------------------------------

    def acknowledged(self, message: messages.AcknowledgeCheckpoint) -> None:
        """Handle a task's report of its part of a checkpoint."""
        self._acknowledged(
            message.checkpoint_id, (message.attempt_id, message.metrics, message.state)
        )

    def acknowledged_together(self, message: messages.AcknowledgeCheckpoints) -> None:
        """Handle a worker's report of several tasks' parts."""
        for report in message.reports:
            self._acknowledged(message.checkpoint_id, report)

    def declined(self, message: messages.DeclineCheckpoint) -> None:
        """Handle a task's report that it declines a checkpoint."""
        attempt = ExecutionAttemptID.from_bytes(message.attempt_id)
        reason = CheckpointFailureReason.__members__.get(
            message.reason, CheckpointFailureReason.DECLINED
        )
        self._run(
            self.coordinator.declined(
                attempt, message.checkpoint_id, reason, message.detail, self._now_ms()
            )
        )

    def standings_reported(self, message: CheckpointStandings) -> None:
        """Handle a worker's report of its tasks' progress with a checkpoint."""
        standings, checkpoint_id = message.standings, message.checkpoint_id
        self._run(self.coordinator.standings_reported(checkpoint_id, standings, self._now_ms()))

    def _acknowledged(
        self,
        checkpoint_id: int,
        report: tuple[bytes, CheckpointMetrics, TaskStateSnapshot | None],
    ) -> None:
        attempt_id, metrics, state = report
        attempt = ExecutionAttemptID.from_bytes(attempt_id)
        todo = self.coordinator.acknowledged(attempt, checkpoint_id, state, metrics, self._now_ms())
        if todo:
            self._run(todo)

    # ---- actions ---------------------------------------------------------------------------

    def _run(self, todo: Iterable[a.CheckpointAction]) -> None:
        for action in todo:
            self._carry_out[type(action)](action)
        deadline_ms = self.coordinator.next_deadline_ms()
        if self._timer is not None:
            # Hundreds of tasks report without moving the deadline.
            if deadline_ms == self._timer_deadline_ms:
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None:
            delay_s = max(0, deadline_ms - self._now_ms()) / 1000
            self._timer = self._main_thread.schedule(delay_s, self._tick)
            self._timer_deadline_ms = deadline_ms

    def _tick(self) -> None:
        self._timer = None
        self._run(self.coordinator.tick(self._now_ms()))

    def _later(self, event: Callable[..., list[a.CheckpointAction]], *arguments: object) -> None:
        """Pass an answer to the coordinator, in the main thread."""
        self._main_thread.post(lambda: self._run(event(*arguments, self._now_ms())))

    def _create_location(self, action: a.CreateLocation) -> None:
        def create() -> None:
            try:
                self._pointers.checkpoint_begins(action.checkpoint_id)
                if action.properties.target is not None:
                    location = self._storage.create_savepoint(action.properties.target)
                else:
                    location = self._storage.create_checkpoint(action.checkpoint_id)
            except Exception as error:
                self._later(self.coordinator.storage_failed, action.checkpoint_id, _text(error))
            else:
                self._later(self.coordinator.location_created, action.checkpoint_id, location)

        self._io.post(create)

    def _snapshot_coordinators(self, action: a.SnapshotCoordinators) -> None:
        futures = self._sources.checkpoint(action.checkpoint_id)
        if not futures:
            self._later(self.coordinator.coordinators_snapshotted, action.checkpoint_id, {})
            return
        waiting = set(futures)

        def ended(operator_id: bytes) -> None:
            waiting.discard(operator_id)
            if waiting:
                return
            try:
                states = {id_: future.result() for id_, future in futures.items()}
            except Exception as error:
                self._run(
                    self.coordinator.coordinators_failed(
                        action.checkpoint_id, _text(error), self._now_ms()
                    )
                )
            else:
                self._run(
                    self.coordinator.coordinators_snapshotted(
                        action.checkpoint_id, states, self._now_ms()
                    )
                )

        def tell(operator_id: bytes, _: Future[bytes]) -> None:
            self._main_thread.post(partial(ended, operator_id))

        for operator_id, future in futures.items():
            future.add_done_callback(partial(tell, operator_id))

    def _trigger_tasks(self, action: a.TriggerTasks) -> None:
        for executor_id, attempt_ids in _by_executor(action.tasks).items():
            self._send(
                executor_id,
                messages.TriggerCheckpoint(
                    attempt_ids,
                    action.checkpoint_id,
                    action.timestamp_ms,
                    int(action.properties.kind),
                    int(action.alignment),
                    action.aligned_timeout_ms,
                    int(action.properties.savepoint_format),
                    action.location.encode(),
                ),
            )

    def _ask_tasks(self, action: a.AskTasks) -> None:
        for executor_id, attempt_ids in _by_executor(action.tasks).items():
            self._send(
                executor_id, AskCheckpoint(self._job.job_id, attempt_ids, action.checkpoint_id)
            )

    def _store_metadata(self, action: a.StoreMetadata) -> None:
        checkpoint_id = action.metadata.checkpoint_id

        def store() -> None:
            try:
                pointer = self._storage.publish(action.location, action.metadata)
                if action.is_restored_from:
                    self._pointers.checkpoint_completed(checkpoint_id, pointer)
            except Exception as error:
                self._later(self.coordinator.storage_failed, checkpoint_id, _text(error))
            else:
                self._later(self.coordinator.metadata_stored, checkpoint_id, pointer)

        self._io.post(store)

    def _notify_complete(self, action: a.NotifyComplete) -> None:
        for executor_id, attempt_ids in _by_executor(action.tasks).items():
            self._send(
                executor_id, messages.NotifyCheckpointComplete(attempt_ids, action.checkpoint_id)
            )
        self._sources.notify_checkpoint_complete(action.checkpoint_id)

    def _notify_aborted(self, action: a.NotifyAborted) -> None:
        for executor_id, attempt_ids in _by_executor(action.tasks).items():
            self._send(
                executor_id,
                messages.NotifyCheckpointAborted(
                    attempt_ids, action.checkpoint_id, action.latest_completed_id
                ),
            )
        self._sources.notify_checkpoint_aborted(action.checkpoint_id)

    def _request_completed(self, action: a.RequestCompleted) -> None:
        logger.debug(
            "job %s: checkpoint %d is complete, in %s",
            self._job.name,
            action.checkpoint.checkpoint_id,
            action.checkpoint.pointer,
        )
        future = self._requests.pop(action.number, None)
        if future is not None:
            future.set_result(action.checkpoint)

    def _request_failed(self, action: a.RequestFailed) -> None:
        text = action.reason.value + (f": {action.detail}" if action.detail else "")
        future = self._requests.pop(action.number, None)
        if future is not None:
            future.set_exception(CheckpointError(text))
        elif action.reason.is_counted:
            logger.warning("job %s: a checkpoint failed: %s", self._job.name, text)
        else:
            logger.info("job %s: no checkpoint: %s", self._job.name, text)

    def _job_failed(self, action: a.FailJob) -> None:
        self._fail_job(CheckpointFailedJobError(action.message))


def _by_executor(tasks: Iterable[Participant]) -> dict[str, tuple[bytes, ...]]:
    """Return the attempts of each worker, which one message notifies."""
    attempts: dict[str, list[bytes]] = {}
    for task in tasks:
        attempts.setdefault(task.executor_id, []).append(task.attempt_id.to_bytes())
    return {executor_id: tuple(of) for executor_id, of in attempts.items()}


def _restored(
    checkpoint: CompletedCheckpoint,
    assigned: Mapping[tuple[bytes, int], TaskStateSnapshot],
    subtasks: Iterable[tuple[bytes, int]],
) -> dict[tuple[bytes, int], RestoredState]:
    return {
        subtask: RestoredState(checkpoint.checkpoint_id, assigned[subtask])
        for subtask in subtasks
        if subtask in assigned
    }


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
