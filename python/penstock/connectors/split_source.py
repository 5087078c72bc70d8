"""Sources in Python, as Flink's FLIP-27 interfaces (beyond PyFlink).

A source has two sides.  Its enumerator runs once per job, beside the JobMaster, finds the splits
and assigns them.  Its readers run in the source's subtasks and read the assigned splits.  Every
method of an enumerator is called in one thread, every method of a reader in the thread of its
task; none of them may block for long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.connectors.base import Source
from penstock.graph import operators

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from penstock.common.configuration import Configuration
    from penstock.datastream.output_tag import OutputTag

__all__ = [
    "Boundedness",
    "InputStatus",
    "PythonSource",
    "ReaderInfo",
    "ReaderOutput",
    "SourceOutput",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
]


class Boundedness(Enum):
    """Boundedness of a source."""

    BOUNDED = 0
    CONTINUOUS_UNBOUNDED = 1


class InputStatus(Enum):
    """Outcome of `SourceReader.poll_next`."""

    MORE_AVAILABLE = 0
    NOTHING_AVAILABLE = 1
    END_OF_INPUT = 2


class SourceSplit(ABC):
    """A part of a source that one reader reads; plain data, which is sent to the reader."""

    @abstractmethod
    def split_id(self) -> str:
        """Return the name of the split, which is unique within the source."""


S = TypeVar("S", bound=SourceSplit)
T = TypeVar("T")
RECORD = TypeVar("RECORD", covariant=True)


@dataclass(frozen=True)
class ReaderInfo:
    """A registered reader.

    Attributes:
        subtask_id: The index of its subtask, from 0.
        location: The host on which it runs.
    """

    subtask_id: int
    location: str


class SplitEnumeratorContext(ABC, Generic[S]):
    """Context of an enumerator.  Call it in the enumerator's thread only."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Return the number of subtasks of the source."""

    @abstractmethod
    def registered_readers(self) -> Mapping[int, ReaderInfo]:
        """Return the registered readers, by subtask."""

    @abstractmethod
    def assign_splits(self, assignment: Mapping[int, Sequence[S]]) -> None:
        """Assign splits to registered readers.

        Raises:
            ValueError: A subtask has no registered reader.
        """

    def assign_split(self, split: S, subtask_id: int) -> None:
        """Assign one split to a registered reader."""
        self.assign_splits({subtask_id: [split]})

    @abstractmethod
    def signal_no_more_splits(self, subtask_id: int) -> None:
        """Signal to a registered reader that no splits follow."""

    @abstractmethod
    def send_event_to_source_reader(self, subtask_id: int, event: Any) -> None:
        """Send plain data to a registered reader's `SourceReader.handle_source_events`."""

    @abstractmethod
    def call_async(
        self,
        call: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        initial_delay_ms: int = 0,
        period_ms: int | None = None,
    ) -> None:
        """Call a function that may block in another thread, and the handler in this one.

        Args:
            call: The function; it must not access the enumerator.
            handler: Called with the result and None, or with None and the exception of ``call``.
            initial_delay_ms: The delay before the first call.
            period_ms: The interval between two calls; only one call if None.
        """

    @abstractmethod
    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        """Run an action in the enumerator's thread; may be called from any thread."""


class SplitEnumerator(ABC, Generic[S]):
    """Finds and assigns the splits of a source."""

    def start(self) -> None:
        """Start the enumerator; called once, before any reader registers."""

    @abstractmethod
    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Handle a reader's request for a split."""

    @abstractmethod
    def add_splits_back(self, splits: list[S], subtask_id: int) -> None:
        """Add the splits of a failed reader, which must be assigned again."""

    @abstractmethod
    def add_reader(self, subtask_id: int) -> None:
        """Handle the registration of a reader."""

    def handle_source_event(self, subtask_id: int, source_event: Any) -> None:
        """Handle an event of a reader; refused unless overridden.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.handle_source_event: subtask {subtask_id} sent {source_event!r}"
        )

    def snapshot_state(self, checkpoint_id: int) -> Any:
        """Return the unassigned splits, and any other state for `restore_enumerator`.

        The state is plain data, like splits.  The snapshots of the readers have the assigned
        splits.

        Raises:
            NotImplementedError: Unless overridden; a checkpoint of the source needs it.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.snapshot_state: checkpoint {checkpoint_id} needs the splits "
            "that are not assigned"
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle a complete checkpoint, which subsumes earlier ones; notifications may be lost."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle a checkpoint that will not be completed."""

    def close(self) -> None:
        """Release resources; called once, when the job ends."""


class SourceOutput(ABC):
    """Output of a split's records."""

    @abstractmethod
    def collect(self, record: Any, timestamp: int | None = None) -> None:
        """Emit a record, with its timestamp in ms if it has one."""

    def collect_all(self, records: Sequence[Any], timestamp: int | None = None) -> None:
        """Emit records with the same timestamp, faster than single calls of `collect`."""
        for record in records:
            self.collect(record, timestamp)

    @abstractmethod
    def collect_side(self, output_tag: OutputTag, value: Any) -> None:
        """Emit a record, without timestamp, to a side output; dropped if nobody reads it."""

    @abstractmethod
    def emit_watermark(self, timestamp: int) -> None:
        """Emit a watermark in ms."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Mark the output idle: event time does not wait for it until it emits again."""

    @abstractmethod
    def mark_active(self) -> None:
        """End `mark_idle`; the next record does so as well."""


class ReaderOutput(SourceOutput):
    """Output of a reader's records."""

    @abstractmethod
    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """Return the output of one split: the slowest active split decides the watermark."""

    @abstractmethod
    def release_output_for_split(self, split_id: str) -> None:
        """Release the output of a split that was read to its end."""


class SourceReaderContext(ABC):
    """Context of a reader."""

    @abstractmethod
    def get_index_of_subtask(self) -> int:
        """Return the index of the reader's subtask, from 0."""

    @abstractmethod
    def current_parallelism(self) -> int:
        """Return the number of subtasks of the source."""

    @abstractmethod
    def metric_group(self) -> Any:
        """Return the group in which the reader registers its metrics."""

    @abstractmethod
    def get_configuration(self) -> Configuration:
        """Return the job's configuration."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Request a split from the enumerator."""

    @abstractmethod
    def send_source_event_to_coordinator(self, source_event: Any) -> None:
        """Send plain data to `SplitEnumerator.handle_source_event`."""


class SourceReader(ABC, Generic[S]):
    """Reads splits.

    Attributes:
        fetched_ms: The time at which the current records were fetched, in ms, if the reader sets
            it; the metric currentFetchEventTimeLag is derived from it.
    """

    fetched_ms: int | None = None

    def start(self) -> None:
        """Start the reader; called once, before the first split."""

    @abstractmethod
    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emit at most a few records without blocking, and return the status."""

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes when `poll_next` is worth calling after NOTHING_AVAILABLE.

        Returns:
            The future; None if only splits and events of the enumerator lead to more records.
        """
        return None

    @abstractmethod
    def add_splits(self, splits: list[S]) -> None:
        """Add assigned splits; those of a snapshot are added before `start`."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Handle the signal that no splits follow."""

    def pause_or_resume_splits(
        self, splits_to_pause: list[str], splits_to_resume: list[str]
    ) -> None:
        """Pause splits that are too far ahead, and resume others, for watermark alignment.

        A reader with several splits at a time must override it, unless the option
        ``pipeline.watermark-alignment.allow-unaligned-source-splits`` is true.

        Raises:
            NotImplementedError: Unless overridden.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.pause_or_resume_splits: {splits_to_pause} are too far ahead, "
            f"{splits_to_resume} are not any more"
        )

    def handle_source_events(self, source_event: Any) -> None:
        """Handle an event of the enumerator; refused unless overridden.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.handle_source_events: the enumerator sent {source_event!r}"
        )

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        """Return the splits that are not read to the end, each with its read position.

        Raises:
            NotImplementedError: Unless overridden; a checkpoint of the source needs it.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.snapshot_state: checkpoint {checkpoint_id} needs the splits"
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Handle a complete checkpoint, which subsumes earlier ones; notifications may be lost."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Handle a checkpoint that will not be completed."""

    def close(self) -> None:
        """Release resources; called once, however the task ends."""


class PythonSource(Source[RECORD], ABC, Generic[RECORD, S]):
    """A source written in Python, for `StreamExecutionEnvironment.from_source`."""

    def __init__(self) -> None:
        """Create a source."""
        super().__init__(None)

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether the source is bounded."""

    @abstractmethod
    def create_enumerator(self, enum_context: SplitEnumeratorContext[S]) -> SplitEnumerator[S]:
        """Create the enumerator, beside the JobMaster."""

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[S], state: Any
    ) -> SplitEnumerator[S]:
        """Create the enumerator from the result of `SplitEnumerator.snapshot_state`.

        Raises:
            NotImplementedError: Unless overridden; a job that starts from a checkpoint needs it.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.restore_enumerator: the job starts from a checkpoint with the "
            f"enumerator's state {state!r}"
        )

    @abstractmethod
    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[S]:
        """Create the reader of a subtask."""

    def source_operator(self) -> operators.SplitSource:
        """Return the descriptor of the operator that reads the assigned splits."""
        return operators.SplitSource(self)

    def is_bounded(self) -> bool:
        """Return whether the source is bounded."""
        return self.get_boundedness() is Boundedness.BOUNDED
