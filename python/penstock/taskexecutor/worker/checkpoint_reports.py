"""Delays a worker's reports for a checkpoint, to send them together with the last one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason
from penstock.errors import MessageTooLargeError
from penstock.rpc.message import encode_message
from penstock.rpc.messages import (
    AcknowledgeCheckpoint,
    AcknowledgeCheckpointEvent,
    AcknowledgeCheckpoints,
    DeclineCheckpoint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.rpc.message import Message


class CheckpointReports:
    """Counts tasks and their reports, for each job.

    A checkpoint is not complete before the last task has reported, so nothing waits for the others.
    If the count is wrong, as when a task starts or ends meanwhile, the connection sends delayed
    reports after its own time limit.  Methods may be called by any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[bytes, int] = {}
        #: By job, the latest reported checkpoint and the number of tasks that reported for it.
        self._reported: dict[bytes, tuple[int, int]] = {}

    def task_begins(self, job_id: bytes) -> None:
        """Count a task that starts."""
        with self._lock:
            self._tasks[job_id] = self._tasks.get(job_id, 0) + 1

    def task_ended(self, job_id: bytes) -> None:
        """Count a task that has ended."""
        with self._lock:
            left = self._tasks[job_id] - 1
            if left:
                self._tasks[job_id] = left
            else:
                del self._tasks[job_id]
                self._reported.pop(job_id, None)

    def may_wait(self, message: Message) -> bool:
        """Return whether a message of a task may wait for those of other tasks."""
        if isinstance(message, AcknowledgeCheckpointEvent):
            # The report of the same task follows.
            return True
        if not isinstance(message, AcknowledgeCheckpoint):
            return False
        with self._lock:
            checkpoint_id, count = self._reported.get(message.job_id, (-1, 0))
            if checkpoint_id > message.checkpoint_id:
                return False
            count = count + 1 if checkpoint_id == message.checkpoint_id else 1
            self._reported[message.job_id] = message.checkpoint_id, count
            return count < self._tasks.get(message.job_id, 0)


def encode_held(held: Sequence[Message]) -> list[bytes]:
    """Encode delayed messages, with a checkpoint's reports in as few messages as possible.

    The order stays, except that sources' notices of a sent barrier precede the reports.
    """
    bodies: list[bytes] = []
    reports: list[AcknowledgeCheckpoint] = []
    for message in held:
        if not isinstance(message, AcknowledgeCheckpoint):
            if not isinstance(message, AcknowledgeCheckpointEvent):
                bodies += _encode_reports(reports)
                reports = []
            bodies.append(encode_message(message))
            continue
        if reports and (reports[0].job_id, reports[0].checkpoint_id) != (
            message.job_id,
            message.checkpoint_id,
        ):
            bodies += _encode_reports(reports)
            reports = []
        reports.append(message)
    return bodies + _encode_reports(reports)


def _encode_reports(reports: list[AcknowledgeCheckpoint]) -> list[bytes]:
    """Encode reports as one message, or as many as fit into frames."""
    if not reports:
        return []
    first = reports[0]
    together: Message = first
    if len(reports) > 1:
        parts = tuple((report.attempt_id, report.metrics, report.state) for report in reports)
        together = AcknowledgeCheckpoints(first.job_id, first.checkpoint_id, parts)
    try:
        return [encode_message(together)]
    except MessageTooLargeError as error:
        if len(reports) == 1:
            return [encode_message(declined(first, error))]
    middle = len(reports) // 2
    return _encode_reports(reports[:middle]) + _encode_reports(reports[middle:])


def declined(report: AcknowledgeCheckpoint, error: MessageTooLargeError) -> DeclineCheckpoint:
    """Return the message sent instead of a report that does not fit into a frame."""
    return DeclineCheckpoint(
        report.job_id,
        report.attempt_id,
        report.checkpoint_id,
        CheckpointFailureReason.ASYNC_EXCEPTION.name,
        f"the state that goes with the report is too large, {error}; a smaller "
        "execution.checkpointing.data-inline-threshold writes it to files",
    )
