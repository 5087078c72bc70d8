"""Reasons for which a checkpoint is not taken, or is aborted (internals M53)."""

from __future__ import annotations

import enum


class CheckpointFailureReason(enum.Enum):
    """A reason; its value is the text in logs and messages."""

    # Before the checkpoint has started anywhere.
    COORDINATOR_SHUTDOWN = "the checkpoint coordinator was shut down"
    PERIODIC_SCHEDULER_SHUTDOWN = "periodic checkpoints are stopped"
    TOO_MANY_CHECKPOINT_REQUESTS = "too many requests for checkpoints wait"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "the pause after the last checkpoint is not over"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "not all tasks that take part are running"
    BLOCKING_OUTPUT_EXIST = "tasks exchange data by blocking partitions"
    JOB_IS_ENDING = "the job is being ended with a savepoint"

    # While it is pending.
    IO_EXCEPTION = "an I/O operation failed"
    ASYNC_EXCEPTION = "the asynchronous part of a task's snapshot failed"
    EXPIRED = "the checkpoint was not complete in time"
    SUBSUMED = "a later checkpoint is complete"
    DECLINED = "a task declined the checkpoint"
    DECLINED_TASK_NOT_READY = "a task was not ready for the checkpoint"
    DECLINED_TASK_CLOSING = "a task was ending"
    DECLINED_SUBSUMED = "a task saw the barrier of a later checkpoint first"
    DECLINED_ON_CANCELLATION_BARRIER = "a task upstream cancelled the checkpoint"
    ALIGNMENT_LIMIT_EXCEEDED = "more data waited for barriers than was allowed"
    DECLINED_INPUT_END_OF_STREAM = "an input of a task ended before its barrier"
    SUSPEND = "the job was suspended"
    JOB_FAILURE = "the job failed"
    JOB_FAILOVER_REGION = "tasks of the job are restarted"
    TASK_FAILURE = "a task failed"
    TRIGGER_FAILURE = "the checkpoint could not be triggered"
    FINALIZE_FAILURE = "the complete checkpoint could not be stored"

    @property
    def is_counted(self) -> bool:
        """Return whether the failure counts against ``tolerable-failed-checkpoints``."""
        return self in _COUNTED


_COUNTED = frozenset(
    {
        CheckpointFailureReason.IO_EXCEPTION,
        CheckpointFailureReason.ASYNC_EXCEPTION,
        CheckpointFailureReason.DECLINED,
        CheckpointFailureReason.EXPIRED,
        CheckpointFailureReason.FINALIZE_FAILURE,
    }
)
