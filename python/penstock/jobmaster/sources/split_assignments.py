"""Tracks the splits that a source has assigned, and which of them no checkpoint covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class SplitAssignments:
    """The splits assigned to readers since the last complete checkpoint.

    A split assigned before a checkpoint is in the snapshot of its reader; one assigned afterwards
    is in no snapshot, and must go back to the enumerator when the reader starts from that
    checkpoint.
    """

    def __init__(self) -> None:
        """Create an empty record."""
        self._since: dict[int, list[Any]] = {}
        self._before: dict[int, dict[int, list[Any]]] = {}

    def assigned(self, subtask: int, splits: Sequence[object]) -> None:
        """Record splits assigned to a reader."""
        self._since.setdefault(subtask, []).extend(splits)

    def checkpoint(self, checkpoint_id: int) -> None:
        """Cover the assignments until now by this checkpoint, if it completes."""
        self._before[checkpoint_id] = self._since
        self._since = {}

    def completed(self, checkpoint_id: int) -> None:
        """Forget the assignments that a complete checkpoint or an earlier one covers."""
        self._before = {n: splits for n, splits in self._before.items() if n > checkpoint_id}

    def take_back(self, subtask: int, checkpoint_id: int | None) -> list[object]:
        """Remove and return the splits that a reader loses when it starts from a checkpoint.

        Args:
            subtask: The reader's.
            checkpoint_id: None if it starts without state, and so loses all splits that no complete
                checkpoint covers.
        """
        splits: list[Any] = []
        for number, assigned in sorted(self._before.items()):
            found = assigned.pop(subtask, [])
            if checkpoint_id is None or number > checkpoint_id:
                splits.extend(found)
        return splits + self._since.pop(subtask, [])
