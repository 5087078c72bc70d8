"""Sinks that commit with checkpoints, as Flink's Sink V2 interfaces (beyond PyFlink).

Between two checkpoints a writer writes data that is not visible yet.  At the barrier its
`prepare_commit` returns committables, which describe how to publish that data.  They are part of
the checkpoint, and are committed once it is complete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.connectors.init_context import InitContext

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CommitRequest",
    "CommittableSummary",
    "CommittableWithLineage",
    "Committer",
    "CommitterInitContext",
    "SupportsCommitter",
    "SupportsGlobalCommitter",
    "SupportsPreCommitTopology",
]

CommT = TypeVar("CommT")
#: A DataStream; connectors do not import streams.
StreamT = TypeVar("StreamT")

#: The checkpoint id of data written after the last checkpoint, at the end of the input.
END_OF_INPUT = 2**63 - 1


class CommitRequest(ABC, Generic[CommT]):
    """A committable to commit; without a signal it counts as committed."""

    @abstractmethod
    def get_committable(self) -> CommT:
        """Return the committable."""

    @abstractmethod
    def get_number_of_retries(self) -> int:
        """Return the number of earlier attempts in this attempt of the task."""

    @abstractmethod
    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Log and drop the committable, which cannot be committed for a known reason."""

    @abstractmethod
    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Fail the job, which restarts: the commit failed for an unknown reason."""

    @abstractmethod
    def retry_later(self) -> None:
        """Retry the commit later, at most ``sink.committer.retries`` times."""

    @abstractmethod
    def update_and_retry_later(self, committable: CommT) -> None:
        """Retry the commit later with another committable; see `retry_later`."""

    @abstractmethod
    def signal_already_committed(self) -> None:
        """Accept the committable, which an earlier attempt has committed."""


class Committer(ABC, Generic[CommT]):
    """Commits committables; after a failure they may be repeated, which must be harmless."""

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[CommT]]) -> None:
        """Commit; an exception fails the job, which commits all of them again after the restart.

        Args:
            requests: The requests, in the order in which the committables were written.
        """

    def close(self) -> None:
        """Release resources; called once, however the task ends."""


class CommitterInitContext(InitContext):
    """Context of a committer's creation."""


class SupportsCommitter(ABC, Generic[CommT]):
    """A sink with writers of the class `CommittingSinkWriter`."""

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommT]:
        """Return the committer of a subtask; each writer has one."""


class SupportsGlobalCommitter(SupportsCommitter[CommT]):
    """A sink with a single committer, which receives the committables of all writers."""


class SupportsPreCommitTopology(ABC, Generic[StreamT]):
    """A sink that transforms the committables on their way to the committer."""

    @abstractmethod
    def add_pre_commit_topology(self, committables: StreamT) -> StreamT:
        """Return the stream that the committer reads, derived from the writers' output.

        Both consist of `CommittableSummary` and `CommittableWithLineage`.  A stream that drops or
        joins committables sends a summary with their new number: while announced committables are
        missing, the committer fails the job instead of committing the rest.  All messages of one
        writer reach the same committer.
        """


@dataclass(frozen=True)
class CommittableSummary:
    """Precedes the committables of one writer for one checkpoint.

    Attributes:
        subtask_id: The writer, from 0.
        number_of_subtasks: The number of writers.
        checkpoint_id: The checkpoint; `END_OF_INPUT` after the last one.
        number_of_committables: The number of committables that follow.
    """

    subtask_id: int
    number_of_subtasks: int
    checkpoint_id: int
    number_of_committables: int


@dataclass(frozen=True)
class CommittableWithLineage(Generic[CommT]):
    """A committable and its origin.

    Attributes:
        committable: The committable.
        checkpoint_id: The checkpoint; `END_OF_INPUT` after the last one.
        subtask_id: The writer, from 0.
    """

    committable: CommT
    checkpoint_id: int
    subtask_id: int
