"""The enumerator of sources that one subtask reads: of one thing that has an order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.datastream.connectors.split_source import SourceSplit, SplitEnumerator

if TYPE_CHECKING:
    from penstock.datastream.connectors.split_source import SplitEnumeratorContext

S = TypeVar("S", bound=SourceSplit)


class SingleSplitEnumerator(SplitEnumerator[S], Generic[S]):
    """Gives the split to the first reader that asks; the others have nothing to read."""

    def __init__(self, context: SplitEnumeratorContext[S], splits: list[S]) -> None:
        """Gives ``splits``: the one, or none when a reader's checkpoint has it."""
        self._context = context
        self._splits = list(splits)

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Gives it, and says that there is no other."""
        del requester_hostname
        if self._splits:
            self._context.assign_split(self._splits.pop(), subtask_id)
        self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: list[S], subtask_id: int) -> None:
        """Its reader failed: it asks again."""
        del subtask_id
        self._splits.extend(splits)

    def add_reader(self, subtask_id: int) -> None:
        """Nothing: readers ask."""

    def snapshot_state(self, checkpoint_id: int) -> list[S]:
        """The split while nobody has it."""
        del checkpoint_id
        return list(self._splits)
