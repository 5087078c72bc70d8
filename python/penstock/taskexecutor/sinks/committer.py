"""The operator behind a sink's writers: keeps committables until their checkpoint completes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from penstock.common.calls.coroutines import refuse_coroutines
from penstock.common.exception_deadline import repr_in_time
from penstock.common.options.pipeline import COMMITTER_RETRIES
from penstock.common.typeinfo import Types
from penstock.connectors.committer import (
    END_OF_INPUT,
    CommitRequest,
    CommittableSummary,
    CommittableWithLineage,
    Committer,
)
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import SinkError
from penstock.serialization.versioned_form import VersionedForm
from penstock.taskexecutor.checkpointing.final_checkpoint import awaits_final_checkpoint
from penstock.taskexecutor.compiled import StreamOperator
from penstock.taskexecutor.sinks.init_context import SinkInitContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.connectors.committer import CommitterInitContext
    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)

_STATE: Final = "streaming_committer_raw_states"

_FORM: Final = VersionedForm("a committable", ("checkpoint_id", "subtask_id", "committable"))

_MISSING_STATE: Final = "streaming_committer_missing_committables"

_MISSING_FORM: Final = VersionedForm(
    "an incomplete batch of committables", ("checkpoint_id", "subtask_id", "announced", "received")
)

#: The checkpoint of committables that no snapshot contains yet.
_NO_CHECKPOINT: Final = -1


def create_committer(
    context: OperatorContext, descriptor: operators.SinkCommitter
) -> StreamOperator:
    """Create the committer operator of the sink that is the descriptor's function."""
    del context
    return CommitterOperator(descriptor.function.create_committer)


class _Request(CommitRequest[Any]):
    """A committable from its arrival to its commit."""

    def __init__(self, committable: object) -> None:
        self.committable = committable
        self.retries = 0
        self.is_to_retry = False
        self.unknown_failure: BaseException | None = None

    def get_committable(self) -> object:
        """Return the committable."""
        return self.committable

    def get_number_of_retries(self) -> int:
        """Return the number of earlier attempts."""
        return self.retries

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Drop the committable."""
        logger.warning(
            "dropped the commit of %s: %s", repr_in_time(self.committable), repr_in_time(error)
        )

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Fail the job."""
        self.unknown_failure = error

    def retry_later(self) -> None:
        """Retry the commit."""
        self.is_to_retry = True

    def update_and_retry_later(self, committable: object) -> None:
        """Retry with another committable."""
        self.committable = committable
        self.is_to_retry = True

    def signal_already_committed(self) -> None:
        """Count the committable as committed."""
        logger.info("was committed before: %r", self.committable)


class _Batch:
    """The numbers of committables that one writer announced and sent for one checkpoint.

    Attributes:
        announced: The number in the summary; None before the summary arrives.
        received: The number of committables.
        first: The first checkpoint that contains the batch.
    """

    __slots__ = ("announced", "first", "received")

    def __init__(self) -> None:
        self.announced: int | None = None
        self.received = 0
        self.first = _NO_CHECKPOINT

    @property
    def is_incomplete(self) -> bool:
        """Return whether announced committables are missing."""
        return self.announced is not None and self.received < self.announced


class CommitterOperator(StreamOperator):
    """Commits the committables of a checkpoint once it is complete.

    Committables wait for the first snapshot that contains them; when that or a later checkpoint
    completes, they are committed together, in order of arrival.  Those in a restored checkpoint are
    committed at once: it is complete, but it is unknown whether they were committed. A job that
    waits for no last checkpoint commits the rest at the end of its input.

    Nothing is committed while announced committables are missing: a pre-commit topology has lost
    them, and their data would never become visible.
    """

    def __init__(self, create: Callable[[CommitterInitContext], Committer[Any]]) -> None:
        """Create an operator that commits with the committer from ``create``."""
        super().__init__()
        self._create = create
        self._committer: Committer[Any] | None = None
        self._restored_checkpoint_id: int | None = None
        self._state: Any = None
        # (first checkpoint that contains it, committable with lineage)
        self._pending: list[tuple[int, CommittableWithLineage[Any]]] = []
        # By checkpoint and writer, until they are committed.
        self._batches: dict[tuple[int, int], _Batch] = {}
        self._missing_state: Any = None
        self._max_retries = 0

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the committables of a checkpoint."""
        self._restored_checkpoint_id = context.get_restored_checkpoint_id()
        descriptor = ListStateDescriptor(_STATE, Types.PICKLED_BYTE_ARRAY())
        store = context.get_operator_state_store()
        self._state = store.get_list_state(descriptor)
        self._missing_state = store.get_list_state(
            ListStateDescriptor(_MISSING_STATE, Types.PICKLED_BYTE_ARRAY())
        )

    def open(self) -> None:
        """Create the committer, and commit the restored checkpoint's committables."""
        self._max_retries = COMMITTER_RETRIES.read(self.context.environment.configuration)
        committer = self._create(SinkInitContext(self.context, self._restored_checkpoint_id))
        refuse_coroutines(committer, "create_committer")
        if not isinstance(committer, Committer):
            msg = f"create_committer must return a Committer, got {committer!r}"
            raise SinkError(msg)
        self._committer = committer
        restored_id = self._restored_checkpoint_id or 0
        self._pending = [
            (restored_id, CommittableWithLineage(committable, checkpoint_id, subtask))
            for checkpoint_id, subtask, committable in map(_FORM.read, self._state.get())
        ]
        for checkpoint_id, subtask, announced, received in map(
            _MISSING_FORM.read, self._missing_state.get()
        ):
            batch = self._batch(checkpoint_id, subtask)
            batch.announced, batch.received, batch.first = announced, received, restored_id
        self._commit_up_to(restored_id)

    def process(self, value: object, timestamp: int) -> None:
        """Keep a committable."""
        del timestamp
        if isinstance(value, CommittableWithLineage):
            self._pending.append((_NO_CHECKPOINT, value))
            self._batch(value.checkpoint_id, value.subtask_id).received += 1
        elif isinstance(value, CommittableSummary):
            batch = self._batch(value.checkpoint_id, value.subtask_id)
            batch.announced = (batch.announced or 0) + value.number_of_committables
        else:
            msg = (
                f"{self.context.name} needs committables, got {repr_in_time(value)}: the stream "
                "that add_pre_commit_topology returns must consist of CommittableSummary and "
                "CommittableWithLineage"
            )
            raise SinkError(msg)

    def process_watermark(self, timestamp: int) -> None:
        """Drop the watermark: no operator follows a committer."""

    def process_status(self, idle: bool) -> None:
        """Drop the status: no operator follows a committer."""

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Store the committables to commit once the checkpoint is complete."""
        number = context.get_checkpoint_id()
        self._pending = [
            (number if first == _NO_CHECKPOINT else first, held) for first, held in self._pending
        ]
        self._state.update(
            _FORM.write(held.checkpoint_id, held.subtask_id, held.committable)
            for _, held in self._pending
        )
        for batch in self._batches.values():
            if batch.first == _NO_CHECKPOINT:
                batch.first = number
        self._missing_state.update(
            _MISSING_FORM.write(*key, batch.announced, batch.received)
            for key, batch in self._batches.items()
            if batch.is_incomplete
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the committables of the checkpoint and of those before it."""
        self._commit_up_to(checkpoint_id)

    def finish(self) -> None:
        """Commit the rest if no checkpoint will contain it."""
        if self.context.is_batch or not awaits_final_checkpoint(
            self.context.environment.configuration
        ):
            self._end_batches(self._batches)
            everything = [held for _, held in self._pending]
            self._pending = []
            self._commit(everything)

    def close(self) -> None:
        """Close the committer."""
        committer, self._committer = self._committer, None
        if committer is not None:
            committer.close()

    def _batch(self, checkpoint_id: int, subtask: int) -> _Batch:
        return self._batches.setdefault((checkpoint_id, subtask), _Batch())

    def _end_batches(self, keys: Iterable[tuple[int, int]]) -> None:
        """Forget batches that are about to be committed.

        Raises:
            SinkError: Committables of a batch are missing.
        """
        for key in list(keys):
            batch = self._batches[key]
            if batch.is_incomplete:
                checkpoint_id, subtask = key
                when = "its end" if checkpoint_id == END_OF_INPUT else f"checkpoint {checkpoint_id}"
                msg = (
                    f"{self.context.name} commits nothing: subtask {subtask} of the writer "
                    f"announced {batch.announced} committables for {when}, and {batch.received} "
                    "arrived; add_pre_commit_topology must pass on each of them, or a "
                    "CommittableSummary with their new number"
                )
                raise SinkError(msg)
            del self._batches[key]

    def _commit_up_to(self, checkpoint_id: int) -> None:
        self._end_batches(
            key
            for key, batch in self._batches.items()
            if _NO_CHECKPOINT < batch.first <= checkpoint_id
        )
        due = [held for first, held in self._pending if _NO_CHECKPOINT < first <= checkpoint_id]
        if due:
            self._commit(due)
            self._pending = [
                (first, held)
                for first, held in self._pending
                if not _NO_CHECKPOINT < first <= checkpoint_id
            ]

    def _commit(self, due: list[CommittableWithLineage[Any]]) -> None:
        assert self._committer is not None, "open() has run"
        requests = [_Request(held.committable) for held in due]
        tries = 0
        while requests:
            self._committer.commit(tuple(requests))
            for request in requests:
                if request.unknown_failure is not None:
                    msg = f"{self.context.name} cannot commit {repr_in_time(request.committable)}"
                    raise SinkError(msg) from request.unknown_failure
            requests = [request for request in requests if request.is_to_retry]
            if requests and tries == self._max_retries:
                first = repr_in_time(requests[0].committable)
                msg = (
                    f"{self.context.name}: {len(requests)} commits were put off "
                    f"{tries + 1} times, the first of them {first}: see why the committer "
                    f"cannot commit, or raise {COMMITTER_RETRIES.key}"
                )
                raise SinkError(msg)
            tries += 1
            for request in requests:
                request.is_to_retry = False
                request.retries += 1
