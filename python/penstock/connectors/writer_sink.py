"""Sinks in Python, as Flink's Sink V2 interfaces (beyond PyFlink).

A sink creates one writer for each of its subtasks.  All methods of a writer are called in the
thread of its task.  `penstock.connectors.committer` has the sinks that commit with checkpoints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.connectors.base import Sink
from penstock.connectors.committer import SupportsCommitter, SupportsGlobalCommitter
from penstock.connectors.init_context import InitContext
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "CommittingSinkWriter",
    "PythonSink",
    "SinkWriter",
    "StatefulSinkWriter",
    "SupportsWriterState",
    "WriterInitContext",
]

T = TypeVar("T")
CommT = TypeVar("CommT")
StateT = TypeVar("StateT")


class SinkWriter(ABC, Generic[T]):
    """Writes the records of one subtask."""

    class Context(ABC):
        """Context of the current record."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark, in ms."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's timestamp in ms, or None."""

    @abstractmethod
    def write(self, element: T, context: SinkWriter.Context) -> None:
        """Write a record; it may be buffered until `flush`."""

    def write_watermark(self, watermark: int) -> None:
        """Handle a watermark, in ms."""

    @abstractmethod
    def flush(self, end_of_input: bool) -> None:
        """Write all buffered records; afterwards no record received so far can be lost.

        Args:
            end_of_input: Whether no record follows.
        """

    def close(self) -> None:
        """Release resources; called once, however the task ends."""


class CommittingSinkWriter(SinkWriter[T], Generic[T, CommT]):
    """A writer whose data becomes visible when it is committed."""

    @abstractmethod
    def prepare_commit(self) -> Iterable[CommT]:
        """Return the committables of all data written since the last call.

        Called after `flush`, at the barrier of a checkpoint and at the end of the input.
        Committables are values that the job can serialize; they are committed when the checkpoint
        is complete, and at the end of the input if the job takes none.
        """


class StatefulSinkWriter(SinkWriter[T], Generic[T, StateT]):
    """A writer with state that is part of the checkpoints."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Iterable[StateT]:
        """Return the state: serializable values, redistributed when the parallelism changes."""


class SupportsWriterState(ABC, Generic[T, StateT]):
    """A sink with writers of the class `StatefulSinkWriter`."""

    @abstractmethod
    def restore_writer(
        self, context: WriterInitContext, recovered_state: Sequence[StateT]
    ) -> StatefulSinkWriter[T, StateT]:
        """Return the writer of a subtask, restored from a checkpoint.

        Args:
            context: The context of the writer.
            recovered_state: This subtask's part of the states of all writers.
        """


class WriterInitContext(InitContext):
    """Context of a writer's creation."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the time of the machine's clock, in ms."""


class PythonSink(Sink, ABC, Generic[T]):
    """A sink written in Python, for `DataStream.sink_to`."""

    def __init__(self) -> None:
        """Create a sink."""
        super().__init__(None)

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter[T]:
        """Return the writer of a subtask."""

    def sink_operator(self) -> operators.SinkWriter:
        """Return the descriptor of the operator that runs the writers."""
        return operators.SinkWriter(self)

    def committer_operator(self) -> operators.SinkCommitter | None:
        """Return the descriptor of the committers, or None without a `SupportsCommitter`."""
        if not isinstance(self, SupportsCommitter):
            return None
        return operators.SinkCommitter(self)

    def has_global_committer(self) -> bool:
        """Return whether the sink is a `SupportsGlobalCommitter`."""
        return isinstance(self, SupportsGlobalCommitter)
