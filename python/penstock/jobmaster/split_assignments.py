"""Which splits a source has assigned, and which of them no checkpoint covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


class SplitAssignments:
    """The splits that the readers were given since the last complete checkpoint.

    A split that was assigned before a checkpoint is in the snapshot of its reader; one that was
    assigned afterwards is in no snapshot, and has to go back to the enumerator when the reader
    starts from that checkpoint.
    """

    def __init__(self) -> None:
        """Nothing is assigned."""
        self._since: dict[int, list[Any]] = {}
        self._before: dict[int, dict[int, list[Any]]] = {}

    def assigned(self, subtask: int, splits: Sequence[Any]) -> None:
        """A reader was given splits."""
        self._since.setdefault(subtask, []).extend(splits)

    def checkpoint(self, checkpoint_id: int) -> None:
        """Cover the assignments until now by this checkpoint, if it completes."""
        self._before[checkpoint_id] = self._since
        self._since = {}

    def completed(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: what it and those before it cover is safe."""
        self._before = {n: splits for n, splits in self._before.items() if n > checkpoint_id}

    def take_back(self, subtask: int, checkpoint_id: int | None) -> list[Any]:
        """The splits that a reader loses when it starts from a checkpoint; they are forgotten here.

        Args:
            subtask: The reader's.
            checkpoint_id: None when it starts without state, and so loses all that no complete
                checkpoint has let us forget.
        """
        splits: list[Any] = []
        for number, assigned in sorted(self._before.items()):
            found = assigned.pop(subtask, [])
            if checkpoint_id is None or number > checkpoint_id:
                splits.extend(found)
        return splits + self._since.pop(subtask, [])
