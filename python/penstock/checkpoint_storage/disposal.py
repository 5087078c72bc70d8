"""Deletion of the files that handles name; handles without files need none."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

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


#: Number of files deleted at a time in parallel.
_AT_A_TIME: Final = 8


def discard_task_state(state: TaskStateSnapshot, files: FileSystems) -> None:
    """Delete the files of one subtask's report for a checkpoint that was never completed.

    Of shared files only those written for it are deleted: no other checkpoint refers to them.

    Raises:
        OSError: A file cannot be deleted.
    """
    for operator in state.operators.values():
        _discard(operator, files)
    own = (file for file, is_own in shared_files(state.operators.values()) if is_own)
    discard_streams(own, files)


def discard_streams(
    unused: Iterable[StreamHandle], files: FileSystems, *, in_parallel: bool = False
) -> None:
    """Delete the files of some streams.

    Args:
        unused: The streams.
        files: The file systems of the streams.
        in_parallel: Whether to delete several at a time; else one after another.

    Raises:
        OSError: A file cannot be deleted; others may remain.
    """
    paths = [stream.path for stream in unused if isinstance(stream, FileHandle)]
    if in_parallel and len(paths) > 1:
        _delete_in_parallel(paths, files)
        return
    for path in paths:
        files.of(path).delete_file(path)


def _delete_in_parallel(paths: Iterable[str], files: FileSystems) -> None:
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for path in paths:
        left.put(path)
    errors: list[Exception] = []

    def delete() -> None:
        while not errors:
            try:
                path = left.get_nowait()
            except queue.Empty:
                return
            try:
                files.of(path).delete_file(path)
            except Exception as error:
                errors.append(error)

    # At exit the interpreter waits for the threads of a pool, and storage may hang.
    threads = [
        threading.Thread(target=delete, name=f"checkpoint cleaner {number}", daemon=True)
        for number in range(min(_AT_A_TIME, left.qsize()))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def discard_checkpoint_state(
    metadata: CheckpointMetadata, files: FileSystems, *, in_parallel: bool = False
) -> None:
    """Delete the files of a checkpoint, except shared ones.

    Args:
        metadata: The metadata that names them.
        files: The file systems of the files.
        in_parallel: See `discard_streams`.

    Raises:
        OSError: A file cannot be deleted; others may remain.
    """
    found = [
        stream
        for operator in metadata.operators.values()
        for subtask in operator.subtasks.values()
        for stream in _exclusive_streams(subtask)
    ]
    discard_streams(found, files, in_parallel=in_parallel)


def _discard(state: OperatorSubtaskState, files: FileSystems) -> None:
    discard_streams(_exclusive_streams(state), files)


def shared_files(states: Iterable[OperatorSubtaskState]) -> Iterator[tuple[FileHandle, bool]]:
    """Yield the files that checkpoints may share, each with whether this one wrote it."""
    for state in states:
        for keyed in state.managed_keyed:
            if isinstance(keyed, IncrementalKeyGroupsHandle):
                for name, stream in keyed.shared.items():
                    if isinstance(stream, FileHandle):
                        # Files of a database are named by their checkpoint and their own name.
                        yield stream, name.partition("/")[0] == str(keyed.checkpoint_id)


def streams(
    handles: Iterable[KeyGroupsHandle | IncrementalKeyGroupsHandle | OperatorStateHandle],
) -> Iterator[StreamHandle]:
    """Yield the streams that handles name, including shared ones."""
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
