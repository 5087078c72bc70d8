"""Tracks which files several checkpoints share, and when one becomes unused (internals M61)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint_storage.disposal import shared_files

if TYPE_CHECKING:
    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
    from penstock.checkpoint_storage.handles import FileHandle, TaskStateSnapshot


class SharedStateRegistry:
    """The shared files of retained and pending checkpoints.

    A task refers to files of the last checkpoint whose completion it knows of, which need not be
    the latest.  So a report registers the files it refers to, and is rejected if one is deleted.
    """

    def __init__(self) -> None:
        """Create an empty registry."""
        self._users: dict[str, set[int]] = {}
        self._files: dict[int, dict[str, FileHandle]] = {}

    def report(self, checkpoint_id: int, state: TaskStateSnapshot) -> FileHandle | None:
        """Register a task's report; return a deleted file if it refers to one, else None."""
        files = list(shared_files(state.operators.values()))
        for file, is_own in files:
            if not is_own and file.path not in self._users:
                return file
        for file, _ in files:
            self._register(checkpoint_id, file)
        return None

    def register(self, metadata: CheckpointMetadata) -> None:
        """Register the files of a retained checkpoint."""
        for operator in metadata.operators.values():
            for file, _ in shared_files(operator.subtasks.values()):
                self._register(metadata.checkpoint_id, file)

    def unregister(self, checkpoint_id: int) -> tuple[FileHandle, ...]:
        """Unregister a deleted or aborted checkpoint; return the files that no other one uses."""
        unused: list[FileHandle] = []
        for path, file in self._files.pop(checkpoint_id, {}).items():
            users = self._users[path]
            users.discard(checkpoint_id)
            if not users:
                del self._users[path]
                unused.append(file)
        return tuple(unused)

    def _register(self, checkpoint_id: int, file: FileHandle) -> None:
        self._users.setdefault(file.path, set()).add(checkpoint_id)
        self._files.setdefault(checkpoint_id, {})[file.path] = file
