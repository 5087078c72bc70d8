"""CheckpointCoordinator: triggers, collects and completes checkpoints (internals M52).

It opens no file, reads no clock and starts no thread: it turns events and the time into actions.
`actions` lists them with the event that answers each.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.checkpointing import actions as a
from penstock.jobmaster.checkpointing.awaited_tasks import awaited_text
from penstock.jobmaster.checkpointing.completed_store import (
    CompletedCheckpoint,
    CompletedCheckpointStore,
)
from penstock.jobmaster.checkpointing.ending_tasks import EndingTasks
from penstock.jobmaster.checkpointing.failure_manager import CheckpointFailureManager
from penstock.jobmaster.checkpointing.pending_checkpoint import (
    Acknowledgement,
    PendingCheckpoint,
    Stage,
    UnionStateOfFinishedError,
)
from penstock.jobmaster.checkpointing.periodic_schedule import PeriodicSchedule
from penstock.jobmaster.checkpointing.plan import NotPossibleError, plan_checkpoint
from penstock.jobmaster.checkpointing.properties import CheckpointProperties
from penstock.jobmaster.checkpointing.request_decider import (
    CheckpointRequest,
    CheckpointRequestDecider,
)
from penstock.jobmaster.checkpointing.statistics import CheckpointStatistics
from penstock.jobmaster.scheduling.states import ExecutionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.checkpoint_storage.handles import CheckpointMetrics, TaskStateSnapshot
    from penstock.jobmaster.checkpointing.plan import Participant
    from penstock.jobmaster.checkpointing.settings import CheckpointSettings
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
    from penstock.jobmaster.scheduling.states import JobStatus
    from penstock.rpc.checkpoint_messages import TaskStanding


#: Before a checkpoint expires, workers have this time to answer what it waits for.
_ANSWER_MS: Final = 1000

#: A checkpoint with a shorter timeout would expire before an answer arrives.
_LEAST_ASKED_MS: Final = 500

#: Number of completed checkpoints for which a second report is recognised as a duplicate.
REMEMBERED_COMPLETIONS: Final = 16


class CheckpointCoordinator:
    """Coordinates the checkpoints of one job.

    Attributes:
        settings: The checkpoint settings of the job.
        store: The completed checkpoints.
        statistics: Figures of each checkpoint, for people.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        settings: CheckpointSettings,
        wall_offset_ms: int,
        rng: random.Random | None = None,
        first_id: int = 1,
    ) -> None:
        """Create a coordinator that is idle until `tasks_changed` finds all tasks running.

        Args:
            graph: The job's subtasks.
            settings: The checkpoint settings.
            wall_offset_ms: The wall clock minus the clock of the events.
            rng: Chooses the time of the first checkpoint.
            first_id: The first checkpoint's id.
        """
        self.settings = settings
        self.store = CompletedCheckpointStore(settings.num_retained)
        self.statistics = CheckpointStatistics()
        self._graph = graph
        self._wall_offset_ms = wall_offset_ms
        self._next_id = first_id
        self._numbers = itertools.count(1)
        self._decider = CheckpointRequestDecider(settings.max_concurrent, settings.min_pause_ms)
        self._failures = CheckpointFailureManager(settings.tolerable_failures)
        self._pending: dict[int, PendingCheckpoint] = {}
        self._cleaning = 0
        self._periodic = PeriodicSchedule(graph, settings, rng or random.Random())
        self._last_completion_ms: int | None = None
        self._latest_completed_id = -1
        self._ending_tasks = EndingTasks(graph)
        self._lately_completed: deque[int] = deque(maxlen=REMEMBERED_COMPLETIONS)
        #: The request for the savepoint that the job ends with.
        self._ending: int | None = None
        self._ends_no_more = False
        self._is_shut_down = False
        self._out: list[a.CheckpointAction] = []

    @property
    def pending(self) -> tuple[PendingCheckpoint, ...]:
        """Return the pending checkpoints, oldest first."""
        return tuple(self._pending.values())

    # Requests -------------------------------------------------------------------------------

    def request(
        self, properties: CheckpointProperties, now_ms: int
    ) -> tuple[int, list[a.CheckpointAction]]:
        """Request a checkpoint or savepoint.

        Returns:
            The request's number, which `RequestCompleted` or `RequestFailed` will name, and the
            actions.
        """
        request = CheckpointRequest(next(self._numbers), now_ms, properties)
        if self._ending is not None:
            self._refuse(request, Reason.JOB_IS_ENDING, "nothing else is taken meanwhile")
            return request.number, self._settle(now_ms)
        if properties.ends_job and not self._is_shut_down:
            self._give_way(now_ms)
            self._ending = request.number
        self._add(request)
        return request.number, self._settle(now_ms)

    def tasks_changed(self, now_ms: int) -> list[a.CheckpointAction]:
        """Handle changes of task states; periodic checkpoints start once all tasks run.

        A task may have ended before it heard of a checkpoint that was planned with it.  If other
        tasks have stopped for a savepoint, the savepoint holds this task as finished: a task that
        knows of such a savepoint does not end before it is complete, so this one has sent no
        barrier, and its output is part of the downstream states.
        """
        for pending in self.pending:
            ended = [
                task
                for task in pending.awaited
                if self._graph.subtask(task.subtask).state is ExecutionState.FINISHED
            ]
            if not ended:
                continue
            if pending.has_stopped_tasks:
                pending.note_finished(ended)
                self._complete_if_acknowledged(pending, now_ms)
            else:
                detail = f"{self._graph.subtask(ended[0].subtask).task_name} has finished"
                # A requested checkpoint is retried without the task that has ended.
                again = not pending.request.is_periodic
                self._abort(pending, Reason.DECLINED_TASK_CLOSING, detail, now_ms, again=again)
        self._update_periodic(now_ms)
        return self._settle(now_ms)

    def hurry(self, attempt_id: ExecutionAttemptID, now_ms: int) -> list[a.CheckpointAction]:
        """Start the next checkpoint soon: a task has ended and waits for it."""
        self._ending_tasks.add(attempt_id, self._next_id)
        return self._settle(now_ms)

    def tick(self, now_ms: int) -> list[a.CheckpointAction]:
        """Run what is due: periodic requests, expired checkpoints."""
        for pending in self.pending:
            if now_ms >= pending.started_ms + self.settings.timeout_ms:
                self._abort(pending, Reason.EXPIRED, self._awaited_by(pending), now_ms)
            elif now_ms >= self._wanted_at_ms(pending):
                pending.standings = {}
                self._out.append(a.AskTasks(pending.checkpoint_id, pending.awaited))
        if self._periodic.is_due(now_ms):
            self._periodic.advance(now_ms)
            # One waiting request stands for all later ones.
            if not self._decider.has_periodic:
                # The owner of the initial checkpoint may delete it, so it is not built on.
                latest = self.store.latest
                properties = CheckpointProperties.checkpoint(
                    self.settings.retention, full=latest is not None and latest.is_unclaimed
                )
                self._add(CheckpointRequest(next(self._numbers), now_ms, properties, True))
        return self._settle(now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the latest time for the next `tick`, or None."""
        times = [self._wanted_at_ms(pending) for pending in self.pending]
        if self._periodic.next_ms is not None:
            times.append(self._periodic.next_ms)
        return min(times, default=None)

    def standings_reported(
        self, checkpoint_id: int, standings: Iterable[TaskStanding], now_ms: int
    ) -> list[a.CheckpointAction]:
        """Store a worker's answer about a checkpoint that is about to expire."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.standings is not None:
            for standing in standings:
                attempt_id = ExecutionAttemptID.from_bytes(standing.attempt_id)
                pending.standings[attempt_id] = standing
        return self._settle(now_ms)

    # Answers of storage and coordinators ----------------------------------------------------

    def location_created(
        self, checkpoint_id: int, location: str, now_ms: int
    ) -> list[a.CheckpointAction]:
        """Continue with a checkpoint whose directory was created."""
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            self._out.append(a.DiscardPending(checkpoint_id, location, ()))
        else:
            pending.location = location
            pending.stage = Stage.COORDINATORS
            self._out.append(a.SnapshotCoordinators(checkpoint_id))
        return self._settle(now_ms)

    def coordinators_snapshotted(
        self, checkpoint_id: int, states: Mapping[bytes, bytes], now_ms: int
    ) -> list[a.CheckpointAction]:
        """Trigger the tasks: the operators' coordinators have returned their states."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            pending.coordinators = dict(states)
            pending.stage = Stage.TASKS
            properties = pending.request.properties
            alignment, timeout_ms = self.settings.alignment(properties)
            assert pending.location is not None
            self._out.append(
                a.TriggerTasks(
                    checkpoint_id,
                    pending.timestamp_ms,
                    properties,
                    alignment,
                    timeout_ms,
                    pending.location,
                    pending.plan.trigger,
                )
            )
            self._complete_if_acknowledged(pending, now_ms)
        return self._settle(now_ms)

    def coordinators_failed(
        self, checkpoint_id: int, detail: str, now_ms: int
    ) -> list[a.CheckpointAction]:
        """Abort a checkpoint for which a coordinator failed to snapshot its state."""
        return self._failed(checkpoint_id, Reason.TRIGGER_FAILURE, detail, now_ms)

    def storage_failed(
        self, checkpoint_id: int, detail: str, now_ms: int
    ) -> list[a.CheckpointAction]:
        """Abort a checkpoint whose directory or metadata could not be written."""
        pending = self._pending.get(checkpoint_id)
        finalizing = pending is not None and pending.stage is Stage.METADATA
        reason = Reason.FINALIZE_FAILURE if finalizing else Reason.IO_EXCEPTION
        return self._failed(checkpoint_id, reason, detail, now_ms)

    def metadata_stored(
        self, checkpoint_id: int, pointer: str, now_ms: int
    ) -> list[a.CheckpointAction]:
        """Complete a checkpoint: its metadata is durable."""
        pending = self._pending.pop(checkpoint_id, None)
        if pending is not None:
            self._completed(pending, pointer, now_ms)
        return self._settle(now_ms)

    def discarded(self, now_ms: int) -> list[a.CheckpointAction]:
        """Note that a completed checkpoint was deleted."""
        self._cleaning -= 1
        return self._settle(now_ms)

    # Answers of tasks -----------------------------------------------------------------------

    def acknowledged(
        self,
        attempt_id: ExecutionAttemptID,
        checkpoint_id: int,
        state: TaskStateSnapshot | None,
        metrics: CheckpointMetrics,
        now_ms: int,
    ) -> list[a.CheckpointAction]:
        """Add a task's report; delete the state of a report for no pending checkpoint."""
        pending = self._pending.get(checkpoint_id)
        outcome = Acknowledgement.UNKNOWN
        if pending is not None:
            outcome = pending.acknowledge(attempt_id, state, metrics)
        elif checkpoint_id in self._lately_completed:
            # All participants had reported: this duplicate refers to state to keep.
            outcome = Acknowledgement.DUPLICATE
        if pending is not None and outcome is Acknowledgement.SUCCESS:
            self.statistics.acknowledged(pending, attempt_id, metrics, self._wall(now_ms))
            gone = None if state is None else self.store.shared.report(checkpoint_id, state)
            if gone is None:
                if not pending.is_acknowledged:
                    # Hundreds of reports end here: none of them lets a checkpoint start.
                    return []
                self._complete_if_acknowledged(pending, now_ms)
            else:
                detail = f"it refers to {gone.path}, deleted because later checkpoints do not"
                self._abort(pending, Reason.SUBSUMED, detail, now_ms)
        if outcome is Acknowledgement.UNKNOWN and state is not None:
            self._out.append(a.DiscardState(checkpoint_id, state))
        return self._settle(now_ms)

    def declined(
        self,
        attempt_id: ExecutionAttemptID,
        checkpoint_id: int,
        reason: Reason,
        detail: str,
        now_ms: int,
    ) -> list[a.CheckpointAction]:
        """Abort a checkpoint that a task declined; ignore an unknown checkpoint or attempt."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None and pending.takes_part(attempt_id):
            return self._failed(checkpoint_id, reason, detail, now_ms)
        return self._settle(now_ms)

    # The job --------------------------------------------------------------------------------

    def job_failing(self, detail: str, now_ms: int) -> list[a.CheckpointAction]:
        """Abort pending checkpoints: tasks are about to be restarted."""
        self._periodic.stop()
        self._ending = None
        self._abort_all(Reason.JOB_FAILOVER_REGION, detail, now_ms)
        for request in self._decider.drain():
            self._refuse(request, Reason.JOB_FAILOVER_REGION, detail)
        return self._settle(now_ms)

    def job_cancelling(self, now_ms: int) -> list[a.CheckpointAction]:
        """Shut down: the user cancels the job, so its tasks end before a checkpoint completes."""
        self._shut_down("the job is cancelled", now_ms)
        return self._settle(now_ms)

    def job_ended(
        self, status: JobStatus, now_ms: int, *, is_resumed: bool = False
    ) -> list[a.CheckpointAction]:
        """Shut down: the job has reached a terminal status.

        Args:
            status: The status.
            now_ms: The time.
            is_resumed: Whether another driver resumes it from the checkpoints.
        """
        self._shut_down(f"the job is {status.name}", now_ms)
        if not is_resumed:
            for checkpoint in self.store.end(status):
                self._discard(checkpoint)
        return self._settle(now_ms)

    def start_from(self, checkpoint: CompletedCheckpoint, now_ms: int) -> list[a.CheckpointAction]:
        """Start from a checkpoint or savepoint of another run; call it before anything else."""
        for subsumed in self.store.add(checkpoint):
            self._discard(subsumed)
        self._next_id = max(self._next_id, checkpoint.checkpoint_id + 1)
        self._latest_completed_id = checkpoint.checkpoint_id
        self.statistics.restored(checkpoint, self._wall(now_ms))
        return self._settle(now_ms)

    # Inside ---------------------------------------------------------------------------------

    def _shut_down(self, detail: str, now_ms: int) -> None:
        self._is_shut_down = True
        self._periodic.stop()
        self._abort_all(Reason.COORDINATOR_SHUTDOWN, detail, now_ms)
        for request in self._decider.drain():
            self._refuse(request, Reason.COORDINATOR_SHUTDOWN, detail)

    def _wall(self, now_ms: int) -> int:
        return now_ms + self._wall_offset_ms

    def _update_periodic(self, now_ms: int) -> None:
        """Start periodic checkpoints once all tasks run; stop them when a task does not."""
        if not self._is_shut_down:
            self._periodic.tasks_changed(now_ms, is_ending=self._ending is not None)

    def _give_way(self, now_ms: int) -> None:
        """Abort and reject everything else: the job ends with a savepoint."""
        detail = "the job ends with another savepoint"
        self._periodic.stop()
        self._abort_all(Reason.JOB_IS_ENDING, detail, now_ms)
        for request in self._decider.drain():
            self._refuse(request, Reason.JOB_IS_ENDING, detail)

    def _add(self, request: CheckpointRequest) -> None:
        if self._is_shut_down:
            self._refuse(request, Reason.COORDINATOR_SHUTDOWN, "the job has ended")
            return
        dropped = self._decider.add(request)
        if dropped is not None:
            self._refuse(dropped, Reason.TOO_MANY_CHECKPOINT_REQUESTS, "try again later")

    def _wanted_at_ms(self, pending: PendingCheckpoint) -> int:
        """Return when a checkpoint expires, or when workers must be asked what it waits for."""
        timeout_ms = self.settings.timeout_ms
        asks = (
            pending.stage is Stage.TASKS
            and pending.standings is None
            and timeout_ms >= _LEAST_ASKED_MS
        )
        answer_ms = min(_ANSWER_MS, timeout_ms // 4) if asks else 0
        return pending.started_ms + timeout_ms - answer_ms

    def _awaited_by(self, pending: PendingCheckpoint) -> str:
        """Return what an expired checkpoint waits for."""
        timeout_s = self.settings.timeout_ms / 1000
        reported = (
            f"{pending.num_acknowledged} of {len(pending.plan.wait_for)} tasks reported within "
            f"{timeout_s:g} s"
        )
        if pending.stage is not Stage.TASKS:
            return f"{reported}; {pending.stage.value}"
        plan, standings = pending.plan, pending.standings or {}
        return f"{reported}; {awaited_text(self._graph, pending.awaited, plan.trigger, standings)}"

    def _settle(self, now_ms: int) -> list[a.CheckpointAction]:
        """Start what may start, and return all actions."""
        while not self._is_held_up:
            decision = self._decider.choose(
                pending=len(self._pending),
                cleaning=self._cleaning,
                last_completion_ms=self._last_completion_ms,
                now_ms=now_ms,
            )
            for request, reason in decision.refused:
                self._refuse(request, reason, "")
            if decision.retry_at_ms is not None:
                self._periodic.postpone(decision.retry_at_ms)
            if decision.start is not None:
                self._begin(decision.start, now_ms)
            elif not decision.refused:
                break
        if self._ends_no_more:
            self._ends_no_more = False
            self._update_periodic(now_ms)
        self._hurry(now_ms)
        out, self._out = self._out, []
        return out

    @property
    def _is_held_up(self) -> bool:
        """Return whether no checkpoint may start: one is being triggered, or the job will fail."""
        return any(p.stage in (Stage.LOCATION, Stage.COORDINATORS) for p in self.pending) or any(
            isinstance(action, a.FailJob) for action in self._out
        )

    def _hurry(self, now_ms: int) -> None:
        """Bring the next checkpoint forward while tasks wait for one to end with."""
        if self._periodic.next_ms is None:
            return
        wanted_id = self._ending_tasks.wanted_id
        # Tasks are not notified of a plain savepoint, so they cannot end with it.
        if wanted_id is not None and not any(
            pending.checkpoint_id >= wanted_id and pending.request.properties.is_told
            for pending in self.pending
        ):
            self._periodic.hurry(now_ms, self._last_completion_ms)

    def _begin(self, request: CheckpointRequest, now_ms: int) -> None:
        try:
            plan = plan_checkpoint(self._graph, after_tasks_finish=self.settings.after_tasks_finish)
            if request.properties.is_savepoint and plan.finished and not plan.wait_for:
                raise NotPossibleError(
                    Reason.NOT_ALL_REQUIRED_TASKS_RUNNING, "every task has finished"
                )
        except NotPossibleError as error:
            self._refuse(request, error.reason, str(error))
            return
        pending = PendingCheckpoint(
            self._next_id, request, plan, self._wall(now_ms), started_ms=now_ms
        )
        self._next_id += 1
        self._pending[pending.checkpoint_id] = pending
        self.statistics.started(pending, self._graph)
        self._out.append(a.CreateLocation(pending.checkpoint_id, request.properties))

    def _complete_if_acknowledged(self, pending: PendingCheckpoint, now_ms: int) -> None:
        if not pending.is_acknowledged or pending.stage is not Stage.TASKS:
            return
        try:
            metadata = pending.metadata(self._graph)
        except UnionStateOfFinishedError as error:
            self._abort(pending, Reason.FINALIZE_FAILURE, str(error), now_ms)
            return
        pending.stage = Stage.METADATA
        assert pending.location is not None
        pending.written = metadata
        is_savepoint = pending.request.properties.is_savepoint
        self._out.append(a.StoreMetadata(metadata, pending.location, not is_savepoint))

    def _completed(self, pending: PendingCheckpoint, pointer: str, now_ms: int) -> None:
        properties = pending.request.properties
        assert pending.written is not None
        checkpoint = CompletedCheckpoint(pending.written, properties, pointer, self._wall(now_ms))
        if not properties.is_savepoint:
            for subsumed in self.store.add(checkpoint):
                self.statistics.discarded(subsumed.checkpoint_id)
                self._discard(subsumed)
        self._failures.succeeded(checkpoint.checkpoint_id)
        self._last_completion_ms = now_ms
        self._lately_completed.append(checkpoint.checkpoint_id)
        self.statistics.completed(pending, checkpoint, self._wall(now_ms))
        self._out.append(a.RequestCompleted(pending.request.number, checkpoint))
        # A plain savepoint must not commit the pending output of sinks.
        if properties.is_told:
            self._ending_tasks.told_of(checkpoint.checkpoint_id)
            self._latest_completed_id = max(self._latest_completed_id, checkpoint.checkpoint_id)
            self._out.append(a.NotifyComplete(checkpoint.checkpoint_id, pending.plan.wait_for))
            for older in self.pending:
                if (
                    older.checkpoint_id < checkpoint.checkpoint_id
                    and not older.request.properties.is_savepoint
                ):
                    by = f"by {checkpoint.checkpoint_id}"
                    self._abort(older, Reason.SUBSUMED, by, now_ms)

    def _failed(
        self, checkpoint_id: int, reason: Reason, detail: str, now_ms: int
    ) -> list[a.CheckpointAction]:
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            self._abort(pending, reason, detail, now_ms)
        return self._settle(now_ms)

    def _abort_all(self, reason: Reason, detail: str, now_ms: int) -> None:
        for pending in self.pending:
            self._abort(pending, reason, detail, now_ms)

    def _abort(
        self,
        pending: PendingCheckpoint,
        reason: Reason,
        detail: str,
        now_ms: int,
        *,
        again: bool = False,
    ) -> None:
        del self._pending[pending.checkpoint_id]
        self.statistics.failed(pending, reason, detail, self._wall(now_ms))
        told: tuple[Participant, ...] = pending.plan.wait_for
        self._out.append(a.NotifyAborted(pending.checkpoint_id, told, self._latest_completed_id))
        if pending.stage is not Stage.LOCATION:
            unused = self.store.shared.unregister(pending.checkpoint_id)
            self._out.append(
                a.DiscardPending(pending.checkpoint_id, pending.location, pending.states, unused)
            )
        if again:
            self._add(pending.request)
        else:
            self._refuse(pending.request, reason, detail)
        # A failed savepoint is reported to its caller and does not fail the job.
        if not pending.request.properties.is_savepoint and self._failures.failed(
            pending.checkpoint_id, reason
        ):
            self._out.append(
                a.FailJob(
                    "Exceeded checkpoint tolerable failure threshold: checkpoint "
                    f"{pending.checkpoint_id} failed, {reason.value}: {detail}"
                )
            )
        elif pending.has_stopped_tasks and reason not in _OF_THE_JOB:
            self._out.append(
                a.FailJob(
                    f"the job cannot be stopped with savepoint {pending.checkpoint_id}: "
                    f"{reason.value}: {detail}"
                )
            )

    def _refuse(self, request: CheckpointRequest, reason: Reason, detail: str) -> None:
        self._out.append(a.RequestFailed(request.number, reason, detail))
        if request.number == self._ending:
            self._ending = None
            self._ends_no_more = True

    def _discard(self, checkpoint: CompletedCheckpoint) -> None:
        self._cleaning += 1
        unused = self.store.shared.unregister(checkpoint.checkpoint_id)
        self._out.append(a.DiscardCheckpoint(checkpoint, unused))


_OF_THE_JOB: Final = frozenset(
    {Reason.JOB_FAILOVER_REGION, Reason.JOB_FAILURE, Reason.COORDINATOR_SHUTDOWN, Reason.SUSPEND}
)
