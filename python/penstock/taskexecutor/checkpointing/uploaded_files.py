"""Database files, of which a checkpoint writes only those that no earlier one has (M61).

A database never changes a file of rows: the same name means the same content.  A task refers only
to files of checkpoints that it knows to be complete.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint_storage.disposal import discard_streams
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    FileHandle,
    IncrementalKeyGroupsHandle,
)
from penstock.serialization.type_serializer import TypeSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import StreamHandle
    from penstock.checkpoint_storage.streams import StateOutputStream
    from penstock.taskexecutor.state.snapshots.snapshot_contents import DatabaseFolder

#: Suffixes of files whose content never changes.
_ROWS: Final = ".sst"

#: Other files that a database needs; the remaining files are logs.
_DESCRIPTIONS: Final = ("CURRENT", "MANIFEST", "OPTIONS", "rocksdict-config")

_CHUNK_BYTES: Final = 1 << 20

#: A file's name among the shared files of a handle, and its stream.
_Uploaded = tuple[str, "StreamHandle"]


class UploadedFiles:
    """Database files of a task that its checkpoints have uploaded.

    ``write`` and ``failed`` run in the writing thread, the rest in the task's.
    """

    def __init__(self, files: FileSystems, threads: int) -> None:
        """Create a record without a base: the first checkpoint writes all files.

        Args:
            files: File systems of the checkpoint files.
            threads: Number of files written at a time.
        """
        self._files = files
        self._threads = threads
        self._by_checkpoint: dict[int, dict[bytes, dict[str, _Uploaded]]] = {}
        self._base: dict[bytes, dict[str, _Uploaded]] = {}

    def write(
        self,
        checkpoint_id: int,
        operator_id: bytes,
        folder: DatabaseFolder,
        open_stream: Callable[[bool], StateOutputStream],
        *,
        is_full: bool = False,
    ) -> tuple[tuple[IncrementalKeyGroupsHandle, ...], int]:
        """Write an operator's database files; return its handle and the bytes referred to.

        Args:
            checkpoint_id: The checkpoint.
            operator_id: The operator.
            folder: The operator's files.
            open_stream: Opens a stream of this checkpoint alone or, given True, a shared one.
            is_full: Whether the checkpoint refers to no other one's files.

        Raises:
            OSError: A stream cannot be written; those already written are deleted.
        """
        base = {} if is_full else self._base.get(operator_id, {})
        names = needed_names(folder.path)
        rows = [name for name in names if name.endswith(_ROWS)]
        kept = {name: base[name] for name in rows if name in base}
        new = [name for name in rows if name not in base]
        private = [name for name in names if not name.endswith(_ROWS)]
        written: dict[str, StreamHandle] = {}
        try:
            write_files(
                folder.path,
                (*new, *private),
                lambda name: open_stream(name in new),
                self._threads,
                written,
            )
            meta = open_stream(False)
            try:
                meta.write(TypeSerializer[Any]().serialize(dict(folder.meta)))
                meta_handle = meta.handle()
            finally:
                meta.close()
        except BaseException:
            discard_streams(written.values(), self._files)
            raise
        assert meta_handle is not None, "something was written"
        shared = kept | {name: (f"{checkpoint_id}/{name}", written[name]) for name in new}
        self._by_checkpoint.setdefault(checkpoint_id, {})[operator_id] = shared
        groups = folder.key_groups
        handle = IncrementalKeyGroupsHandle(
            checkpoint_id,
            operator_id.hex(),
            groups.start,
            len(groups),
            sum(written[name].size for name in new),
            meta_handle,
            dict(shared.values()),
            {name: written[name] for name in private},
        )
        return (handle,), sum(stream.size for _, stream in kept.values())

    def completed(self, checkpoint_id: int) -> None:
        """Note a complete checkpoint, to whose files later ones refer."""
        if checkpoint_id not in self._by_checkpoint:
            return
        self._base = self._by_checkpoint[checkpoint_id]
        # Delete in place, from a copy of the keys: the writing thread adds entries.
        for earlier_id in list(self._by_checkpoint):
            if earlier_id <= checkpoint_id:
                del self._by_checkpoint[earlier_id]

    def failed(self, checkpoint_id: int) -> None:
        """Delete the files of a checkpoint that could not be written completely."""
        for uploaded in self._by_checkpoint.pop(checkpoint_id, {}).values():
            own = f"{checkpoint_id}/"
            streams = [stream for name, stream in uploaded.values() if name.startswith(own)]
            discard_streams(streams, self._files)

    def aborted(self, checkpoint_id: int) -> None:
        """Forget a checkpoint that will not complete."""
        self._by_checkpoint.pop(checkpoint_id, None)


def file_name(shared_name: str) -> str:
    """Return the name of a file in its folder, given its name among a handle's shared files."""
    return shared_name.partition("/")[2]


def needed_names(folder: str) -> list[str]:
    """Return the names of a folder's files that a database needs."""
    names = sorted(path.name for path in Path(folder).iterdir())
    return [name for name in names if name.endswith(_ROWS) or name.startswith(_DESCRIPTIONS)]


def write_files(
    folder: str,
    names: Iterable[str],
    open_stream: Callable[[str], StateOutputStream],
    threads: int,
    written: dict[str, StreamHandle],
) -> None:
    """Write files to streams.

    Args:
        folder: The folder of the files.
        names: The files' names.
        open_stream: Opens the stream of a file; any thread.
        threads: Number of files written at a time.
        written: Filled with the streams by file name, also if some cannot be written.

    Raises:
        OSError: A stream cannot be written.
    """

    def write(name: str) -> None:
        handle = _written(Path(folder, name), open_stream(name))
        # An empty file has no stream.
        written[name] = handle or ByteStreamHandle(name, b"")

    with ThreadPoolExecutor(threads, "penstock-rocksdb-write") as pool:
        for one in [pool.submit(partial(write, name)) for name in names]:
            one.result()


def _written(path: Path, stream: StateOutputStream) -> FileHandle | ByteStreamHandle | None:
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                stream.write(chunk)
        return stream.handle()
    finally:
        stream.close()
