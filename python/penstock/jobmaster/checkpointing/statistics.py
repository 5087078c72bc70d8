"""Checkpoint statistics of a job, for REST and the log (internals M69)."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.checkpoint_storage.handles import CheckpointMetrics
    from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason
    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.checkpointing.completed_store import CompletedCheckpoint
    from penstock.jobmaster.checkpointing.pending_checkpoint import PendingCheckpoint
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph

#: Number of checkpoints whose details are kept, and of completed ones in summaries.
HISTORY_SIZE: Final = 10
SUMMARY_SIZE: Final = 1000


@dataclass
class CheckpointRecord:
    """One checkpoint.

    Attributes:
        checkpoint_id: Its id.
        status: ``IN_PROGRESS``, ``COMPLETED`` or ``FAILED``.
        kind: Name of its `SnapshotKind`.
        savepoint_format: Name of a savepoint's `SavepointFormat`.
        trigger_ms: When it was triggered, wall clock.
        num_subtasks: Number of tasks that report, by vertex.
        subtasks: When each reported, wall clock, and its figures.
        latest_ack_ms: When the last one reported.
        end_ms: When it was complete or failed.
        external_path: Its location.
        is_discarded: Whether it was deleted since.
        failure: Why it failed.
    """

    checkpoint_id: int
    status: str
    kind: str
    savepoint_format: str | None
    trigger_ms: int
    num_subtasks: dict[bytes, int]
    subtasks: dict[tuple[bytes, int], tuple[int, CheckpointMetrics]] = field(default_factory=dict)
    latest_ack_ms: int | None = None
    end_ms: int | None = None
    external_path: str | None = None
    is_discarded: bool = False
    failure: str | None = None

    @property
    def is_savepoint(self) -> bool:
        """Return whether it is a savepoint."""
        return self.savepoint_format is not None

    @property
    def duration_ms(self) -> int:
        """Return the time from the trigger to the last report, or to the end."""
        last = self.latest_ack_ms or self.end_ms or self.trigger_ms
        return max(0, last - self.trigger_ms)

    def total(self, name: str) -> int:
        """Return the sum of a figure of `CheckpointMetrics` over the subtasks."""
        return sum(getattr(metrics, name) for _, metrics in self.subtasks.values())


@dataclass(frozen=True)
class Summary:
    """The distribution of one figure over the last completed checkpoints."""

    minimum: float
    maximum: float
    average: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float

    @staticmethod
    def of(values: Iterable[float]) -> Summary:
        """Summarise any number of values; all zero if there are none."""
        ordered = sorted(values)
        if not ordered:
            return Summary(0, 0, 0, 0, 0, 0, 0, 0)

        def quantile(share: float) -> float:
            return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

        return Summary(
            ordered[0],
            ordered[-1],
            statistics.fmean(ordered),
            *(quantile(share) for share in (0.5, 0.9, 0.95, 0.99, 0.999)),
        )


class CompletedFigures(NamedTuple):
    """Figures of one completed checkpoint: sizes in bytes, the duration in ms."""

    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    processed_data: int
    persisted_data: int


def summaries(completed: Iterable[CompletedFigures]) -> dict[str, Summary]:
    """Return the distribution of each figure over completed checkpoints."""
    columns = list(zip(*completed, strict=True)) or [()] * len(CompletedFigures._fields)
    return {
        name: Summary.of(column)
        for name, column in zip(CompletedFigures._fields, columns, strict=True)
    }


class CheckpointStatistics:
    """Counts, history, latest and summaries; others only read it.

    Attributes:
        counts: ``restored``, ``total``, ``in_progress``, ``completed`` and ``failed``.
        history: The last checkpoints, newest first.
        latest: The latest ``completed``, ``savepoint`` and ``failed`` record.
        completed_figures: Figures of the last completed ones, oldest first.
        latest_restored: The checkpoint that the job last restored, and when.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("restored", "total", "in_progress", "completed", "failed"), 0)
        self.history: deque[CheckpointRecord] = deque(maxlen=HISTORY_SIZE)
        self.latest: dict[str, CheckpointRecord] = {}
        self.latest_restored: tuple[CompletedCheckpoint, int] | None = None
        self._under_way: dict[int, CheckpointRecord] = {}
        self.completed_figures: deque[CompletedFigures] = deque(maxlen=SUMMARY_SIZE)

    def started(self, pending: PendingCheckpoint, graph: ExecutionGraph) -> None:
        """Record the start of a checkpoint."""
        properties = pending.request.properties
        participants: dict[bytes, int] = dict.fromkeys(graph.vertices, 0)
        for task in pending.plan.wait_for:
            participants[task.subtask[0]] += 1
        record = CheckpointRecord(
            pending.checkpoint_id,
            "IN_PROGRESS",
            properties.kind.name,
            properties.savepoint_format.name if properties.is_savepoint else None,
            pending.timestamp_ms,
            participants,
        )
        self._under_way[pending.checkpoint_id] = record
        self.history.appendleft(record)
        self.counts["total"] += 1
        self.counts["in_progress"] += 1

    def acknowledged(
        self,
        pending: PendingCheckpoint,
        attempt_id: ExecutionAttemptID,
        metrics: CheckpointMetrics,
        wall_ms: int,
    ) -> None:
        """Record a task's report."""
        record = self._under_way.get(pending.checkpoint_id)
        if record is not None and pending.takes_part(attempt_id):
            record.subtasks[(attempt_id.vertex_id, attempt_id.subtask)] = (wall_ms, metrics)
            record.latest_ack_ms = wall_ms

    def completed(
        self, pending: PendingCheckpoint, checkpoint: CompletedCheckpoint, wall_ms: int
    ) -> None:
        """Record the completion of a checkpoint."""
        record = self._end(pending, "COMPLETED", wall_ms)
        record.external_path = checkpoint.pointer
        self.latest["savepoint" if record.is_savepoint else "completed"] = record
        self.completed_figures.append(
            CompletedFigures(
                record.total("checkpointed_bytes"),
                record.total("full_bytes"),
                record.duration_ms,
                record.total("processed_bytes"),
                record.total("persisted_bytes"),
            )
        )

    def failed(
        self,
        pending: PendingCheckpoint,
        reason: CheckpointFailureReason,
        detail: str,
        wall_ms: int,
    ) -> None:
        """Record an aborted checkpoint."""
        record = self._end(pending, "FAILED", wall_ms)
        record.failure = f"{reason.value}: {detail}" if detail else reason.value
        self.latest["failed"] = record

    def discarded(self, checkpoint_id: int) -> None:
        """Record that a completed checkpoint is being deleted."""
        for record in (*self.history, *self.latest.values()):
            if record.checkpoint_id == checkpoint_id:
                record.is_discarded = True

    def restored(self, checkpoint: CompletedCheckpoint, wall_ms: int) -> None:
        """Record a restore of the job."""
        self.counts["restored"] += 1
        self.latest_restored = (checkpoint, wall_ms)

    @property
    def summary(self) -> dict[str, Summary]:
        """Return summaries of the last completed ones: sizes in bytes, durations in ms."""
        return summaries(self.completed_figures)

    def _end(self, pending: PendingCheckpoint, status: str, wall_ms: int) -> CheckpointRecord:
        record = self._under_way.pop(pending.checkpoint_id)
        record.status = status
        record.end_ms = wall_ms
        self.counts["in_progress"] -= 1
        self.counts[status.lower()] += 1
        return record
