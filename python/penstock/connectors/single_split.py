"""Sources of a single ordered split that one subtask reads."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.connectors.split_source import (
    InputStatus,
    PythonSource,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)

if TYPE_CHECKING:
    from penstock.connectors.split_source import (
        ReaderOutput,
        SourceReaderContext,
        SplitEnumeratorContext,
    )

S = TypeVar("S", bound=SourceSplit)
RECORD = TypeVar("RECORD", covariant=True)


class SingleSplitEnumerator(SplitEnumerator[S], Generic[S]):
    """Assigns the split to the first reader that requests it; the others have nothing to read."""

    def __init__(self, context: SplitEnumeratorContext[S], splits: list[S]) -> None:
        """Create an enumerator of the split; without it if a reader's checkpoint has it."""
        self._context = context
        self._splits = list(splits)

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Assign the split, and signal that there are no others."""
        del requester_hostname
        if self._splits:
            self._context.assign_split(self._splits.pop(), subtask_id)
        self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[S], subtask_id: int) -> None:
        """Keep the split of a failed reader, which will request it again."""
        del subtask_id
        self._splits.extend(splits)

    def add_reader(self, subtask_id: int) -> None:
        """Do nothing: readers send requests."""

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        """Return the split while it is not assigned."""
        del checkpoint_id
        return list(self._splits)


class SingleSplitSource(PythonSource[RECORD, S], Generic[RECORD, S]):
    """Source with a single split, which one reader reads."""

    @abstractmethod
    def first_split(self) -> S:
        """Return the split of a new job."""

    def create_enumerator(self, enum_context: SplitEnumeratorContext[S]) -> SplitEnumerator[S]:
        """Create the enumerator."""
        return SingleSplitEnumerator(enum_context, [self.first_split()])

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[S], state: Any
    ) -> SplitEnumerator[S]:
        """Restore the enumerator."""
        return SingleSplitEnumerator(enum_context, state)


class SingleSplitReader(SourceReader[S], Generic[S]):
    """Reader of a subtask: one subtask reads the split, the others nothing."""

    def __init__(self, context: SourceReaderContext) -> None:
        """Create a reader without the split."""
        self._context = context
        self._split: S | None = None
        self._no_more_splits = False

    def start(self) -> None:
        """Request the split."""
        self._context.send_split_request()

    def add_splits(self, splits: list[S]) -> None:
        """Store the split."""
        for split in splits:
            self._split = split

    def notify_no_more_splits(self) -> None:
        """Note that there is no split for this reader."""
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Read some of the split, if this reader has it."""
        if self._split is not None:
            return self.poll_split(self._split, output)
        is_over = self._no_more_splits
        return InputStatus.END_OF_INPUT if is_over else InputStatus.NOTHING_AVAILABLE

    @abstractmethod
    def poll_split(self, split: S, output: ReaderOutput) -> InputStatus:
        """Emit at most a few records without blocking, and update the position in the split."""

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        """Return the read position of the split."""
        del checkpoint_id
        return [] if self._split is None else [copy(self._split)]
