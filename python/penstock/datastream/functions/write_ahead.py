"""A sink function whose state holds the records that are not yet sent (beyond PyFlink)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from penstock.common.typeinfo import Types
from penstock.datastream.functions.two_phase_commit import CommittingSinkFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import SinkError
from penstock.serialization.versioned_form import VersionedForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.datastream.functions.runtime_context import RuntimeContext
    from penstock.datastream.functions.source_sink import SinkFunction

__all__ = ["CheckpointCommitter", "GenericWriteAheadSink"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: The checkpoint id of records that are sent at the end of an input without a last checkpoint.
_END = 2**63 - 1

_FORM: Final = VersionedForm(
    "the state of a GenericWriteAheadSink", ("checkpoint_id", "subtask", "timestamp", "values")
)


class CheckpointCommitter(ABC):
    """The record, in the external system, of the checkpoints that each subtask has sent.

    Store it in the system that receives the records, so that both are written together or not at
    all.

    Attributes:
        job_id: The id that distinguishes jobs; set before `create_resource`.
        operator_id: The id that distinguishes the sinks of a job.
    """

    job_id = ""
    operator_id = ""

    def set_job_id(self, job_id: str) -> None:
        """Set the id that distinguishes jobs; it stays the same when a job is started again."""
        self.job_id = job_id

    def set_operator_id(self, operator_id: str) -> None:
        """Set the id that distinguishes the sinks of a job."""
        self.operator_id = operator_id

    def create_resource(self) -> None:  # noqa: B027 (optional)
        """Create the storage of commits unless it exists; every subtask calls it."""

    @abstractmethod
    def open(self) -> None:
        """Connect to the external system."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect from the external system."""

    @abstractmethod
    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Store that a checkpoint of a subtask was sent."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Return whether a checkpoint of a subtask was sent."""


class GenericWriteAheadSink(CommittingSinkFunction, Generic[T]):
    """A sink that stores records in state and sends them when their checkpoint is complete.

    It is meant for systems without transactions.  Records are sent in the order of checkpoints, and
    again if the job fails between `send_values` and the commit: delivery is exactly once only if
    sending again has no further effect.
    """

    def __init__(self, committer: CheckpointCommitter, job_id: str = "") -> None:
        """Create a sink.

        Args:
            committer: The record of the sent checkpoints.
            job_id: The id of this job's commits; it stays the same when the job is started again.
        """
        committer.set_job_id(job_id)
        self._committer = committer

    @abstractmethod
    def send_values(self, values: Sequence[T], checkpoint_id: int, timestamp: int) -> bool:
        """Send records.

        Args:
            values: The records, in the order of arrival.
            checkpoint_id: The checkpoint that stored them.
            timestamp: The time at which the checkpoint was triggered, in ms.

        Returns:
            True if they were sent.  After False or an exception the sink sends them again with
            the next checkpoint, or fails the job if there is none.
        """

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the records that a checkpoint stored and that were not sent."""
        self._values: list[T] = []
        self._is_finished = False
        descriptor = ListStateDescriptor("pending-checkpoints", Types.PICKLED_BYTE_ARRAY())
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        # (checkpoint, subtask, timestamp, values)
        self._pending: list[tuple[int, int, int, list[T]]] = sorted(
            (cast("Any", tuple(_FORM.read(kept))) for kept in self._state.get() or ()),
            key=lambda pending: pending[:2],
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the committer, and drop records that were sent before."""
        self._subtask = runtime_context.get_index_of_this_subtask()
        committer = self._committer
        committer.set_operator_id(runtime_context.get_task_name())
        committer.create_resource()
        committer.open()
        self._pending = [
            pending
            for pending in self._pending
            if not committer.is_checkpoint_committed(pending[1], pending[0])
        ]

    def close(self) -> None:
        """Close the committer."""
        self._committer.close()

    def invoke(self, value: T, context: SinkFunction.Context) -> None:  # noqa: ARG002
        """Store a record."""
        self._values.append(value)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the records to be sent in the snapshot."""
        self._hold(context.get_checkpoint_id(), context.get_checkpoint_timestamp())
        self._state.update([_FORM.write(*pending) for pending in self._pending])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Send the records of the checkpoint and of earlier ones, in order.

        Raises:
            SinkError: The input has ended, and records cannot be sent.
        """
        while self._pending and self._pending[0][0] <= checkpoint_id:
            number, subtask, timestamp, values = self._pending[0]
            if not self._committer.is_checkpoint_committed(subtask, number):
                failure: Exception | None = None
                try:
                    is_sent = self.send_values(values, number, timestamp)
                    if is_sent:
                        self._committer.commit_checkpoint(subtask, number)
                except Exception as error:
                    is_sent, failure = False, error
                if not is_sent:
                    # Later checkpoints must not be sent before it.
                    self._not_sent(number, failure)
                    return
            del self._pending[0]

    def finish(self) -> None:
        """Handle the end of the input."""
        self._is_finished = True

    def commit_rest(self) -> None:
        """Send all records: no checkpoint follows."""
        self._hold(_END, 0)
        self.notify_checkpoint_complete(_END)

    def _hold(self, checkpoint_id: int, timestamp: int) -> None:
        if self._values:
            self._pending.append((checkpoint_id, self._subtask, timestamp, self._values))
            self._values = []

    def _not_sent(self, checkpoint_id: int, failure: Exception | None) -> None:
        name = type(self).__name__
        if self._is_finished:
            raise SinkError(
                f"{name} could not send the records of checkpoint {checkpoint_id}, and the input "
                "has ended, so no later checkpoint can send them"
            ) from failure
        logger.warning(
            "%s could not send the records of checkpoint %d; it tries again with the next one",
            *(name, checkpoint_id),
            exc_info=failure,
        )
