"""Deletes the files that handles name; handles without files have nothing to be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint_storage.handles import FileHandle, IncrementalKeyGroupsHandle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import (
        KeyGroupsHandle,
        OperatorStateHandle,
        OperatorSubtaskState,
        StreamHandle,
        TaskStateSnapshot,
    )


def discard_task_state(state: TaskStateSnapshot, files: FileSystems) -> None:
    """Deletes the files of one subtask's report for a checkpoint that was never completed.

    Of shared files those that were written for it: no other checkpoint refers to them.

    Raises:
        OSError: A file cannot be deleted.
    """
    for operator in state.operators.values():
        _discard(operator, files)
    own = (file for file, is_own in shared_files(state.operators.values()) if is_own)
    discard_streams(own, files)


def discard_streams(unused: Iterable[StreamHandle], files: FileSystems) -> None:
    """Deletes the files of streams.

    Raises:
        OSError: A file cannot be deleted.
    """
    for stream in unused:
        if isinstance(stream, FileHandle):
            files.of(stream.path).delete_file(stream.path)


def discard_checkpoint_state(metadata: CheckpointMetadata, files: FileSystems) -> None:
    """Deletes the files of a checkpoint, shared ones aside.

    Raises:
        OSError: A file cannot be deleted.
    """
    for operator in metadata.operators.values():
        for subtask in operator.subtasks.values():
            _discard(subtask, files)


def _discard(state: OperatorSubtaskState, files: FileSystems) -> None:
    discard_streams(_exclusive_streams(state), files)


def shared_files(states: Iterable[OperatorSubtaskState]) -> Iterator[tuple[FileHandle, bool]]:
    """The files that several checkpoints may use, each with whether it was written for this one."""
    for state in states:
        for keyed in state.managed_keyed:
            if isinstance(keyed, IncrementalKeyGroupsHandle):
                for name, stream in keyed.shared.items():
                    if isinstance(stream, FileHandle):
                        # Those of a database are named by their checkpoint and their own name.
                        yield stream, name.partition("/")[0] == str(keyed.checkpoint_id)


def streams(
    handles: Iterable[KeyGroupsHandle | IncrementalKeyGroupsHandle | OperatorStateHandle],
) -> Iterator[StreamHandle]:
    """The streams that handles name, shared ones as well."""
    for handle in handles:
        if isinstance(handle, IncrementalKeyGroupsHandle):
            yield handle.meta
            yield from handle.private.values()
            yield from handle.shared.values()
        else:
            yield handle.stream


def _exclusive_streams(state: OperatorSubtaskState) -> Iterator[StreamHandle]:
    for keyed in (*state.managed_keyed, *state.raw_keyed):
        if isinstance(keyed, IncrementalKeyGroupsHandle):
            yield keyed.meta
            yield from keyed.private.values()
        else:
            yield keyed.stream
    for operator in (*state.managed_operator, *state.raw_operator):
        yield operator.stream
    for channel in (*state.input_channels, *state.result_subpartitions):
        yield channel.stream
