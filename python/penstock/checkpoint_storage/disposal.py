"""Deletes the files that handles name; handles without files have nothing to be deleted."""

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


#: Files that are deleted at a time where that is wanted.
_AT_A_TIME: Final = 8


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


def discard_streams(
    unused: Iterable[StreamHandle], files: FileSystems, *, in_parallel: bool = False
) -> None:
    """Deletes the files of streams.

    Args:
        unused: The streams.
        files: Where they are.
        in_parallel: Whether several are deleted at a time; else one after the other.

    Raises:
        OSError: A file cannot be deleted; others may be left.
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

    # The interpreter waits for the threads of a pool when it ends, and storage may hang.
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
    """Deletes the files of a checkpoint, shared ones aside.

    Args:
        metadata: What names them.
        files: Where they are.
        in_parallel: As for `discard_streams`.

    Raises:
        OSError: A file cannot be deleted; others may be left.
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
