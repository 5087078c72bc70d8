"""Copies of checkpoints on a worker's own disk, for tasks that restart there (internals M66).

Each state file is copied while it is written, under its unique name.  A restoring task reads the
copy if it matches what was written, else the checkpoint's file: a failure to write or read a copy
is only logged.

    ROOT/jid_JOB/vtx_VERTEX_sti_SUBTASK/chk_N/files
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from penstock.checkpoint_storage.disposal import streams
from penstock.checkpoint_storage.handles import FileHandle
from penstock.checkpoint_storage.streams import StateOutputStream, is_as_written
from penstock.taskexecutor.worker.local_directories import LocalDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.checkpoint_storage.file_systems import FileSystem
    from penstock.checkpoint_storage.handles import StreamHandle, TaskStateSnapshot

logger = logging.getLogger(__name__)

_PREFIX: Final = "penstock-local-state-"


class LocalStateStores:
    """Local copies of the state of one worker's tasks; any thread."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Create the stores; no folder is created yet.

        Args:
            folders: Folders for the copies, one of them for each subtask; the system's temporary
                folder if empty.
        """
        self._folders = list(folders) or [tempfile.gettempdir()]
        self._lock = threading.Lock()
        self._roots: dict[str, LocalDirectory] = {}
        self._stores: dict[tuple[bytes, bytes, int], tuple[bytes, TaskLocalStateStore]] = {}

    def of(
        self, job_id: bytes, allocation_id: bytes, vertex_id: bytes, subtask: int
    ) -> TaskLocalStateStore:
        """Return the store of a subtask, which exists as long as the job owns its slot.

        Raises:
            OSError: The store's folder cannot be created.
        """
        with self._lock:
            known = self._stores.get((job_id, vertex_id, subtask))
            if known is not None:
                return known[1]
            root = self._root(self._folders[subtask % len(self._folders)])
            name = f"vtx_{vertex_id.hex()}_sti_{subtask}"
            store = TaskLocalStateStore(root / f"jid_{job_id.hex()}" / name)
            self._stores[job_id, vertex_id, subtask] = allocation_id, store
            return store

    def release(self, allocation_id: bytes) -> None:
        """Delete the copies of a slot that the job no longer owns."""
        with self._lock:
            gone = [key for key, (slot, _) in self._stores.items() if slot == allocation_id]
            stores = [self._stores.pop(key)[1] for key in gone]
        for store in stores:
            store.dispose()

    def close(self) -> None:
        """Delete all copies."""
        with self._lock:
            roots = list(self._roots.values())
            self._stores.clear()
            self._roots.clear()
        for root in roots:
            root.close()

    def _root(self, folder: str) -> Path:
        root = self._roots.get(folder)
        if root is None:
            root = self._roots[folder] = LocalDirectory(folder, _PREFIX)
        return Path(root.path)


class TaskLocalStateStore:
    """The copies of one subtask; any thread."""

    def __init__(self, directory: Path) -> None:
        """Create a store without copies."""
        self._directory = directory
        self._lock = threading.Lock()
        self._files: dict[str, Path] = {}
        #: The names of the files that each checkpoint needs.
        self._needed: dict[int, set[str]] = {}
        self._is_disposed = False

    def open_copy(self, checkpoint_id: int, name: str) -> LocalCopy:
        """Open a copy of a checkpoint's file for writing."""
        path = self._directory / f"chk_{checkpoint_id}" / name
        with self._lock:
            self._files[name] = path
        return LocalCopy(self, name, path)

    def written(self, checkpoint_id: int, state: TaskStateSnapshot) -> None:
        """Keep the copies of the files that a written checkpoint needs."""
        names = {
            _name(stream)
            for operator in state.operators.values()
            for stream in (
                *streams(operator.managed_keyed + operator.raw_keyed),
                *streams(operator.managed_operator + operator.raw_operator),
                *(channel.stream for channel in operator.input_channels),
                *(channel.stream for channel in operator.result_subpartitions),
            )
            if isinstance(stream, FileHandle)
        }
        with self._lock:
            self._needed[checkpoint_id] = names

    def completed(self, checkpoint_id: int) -> None:
        """Delete the copies that neither a complete checkpoint nor a later one needs."""
        with self._lock:
            if checkpoint_id not in self._needed:
                return
            self._needed = {id_: of for id_, of in self._needed.items() if id_ >= checkpoint_id}
            needed = set().union(*self._needed.values())
            gone = [
                name
                for name, path in self._files.items()
                if name not in needed and _number(path) <= checkpoint_id
            ]
        for name in gone:
            self.forget(name)

    def aborted(self, checkpoint_id: int) -> None:
        """Delete the copies of an aborted checkpoint."""
        with self._lock:
            self._needed.pop(checkpoint_id, None)
            gone = [name for name, path in self._files.items() if _number(path) == checkpoint_id]
        for name in gone:
            self.forget(name)

    def read(self, handle: FileHandle) -> bytes | None:
        """Return the content of a checkpoint's file, or None if there is no copy of it."""
        name = _name(handle)
        with self._lock:
            path = self._files.get(name)
        if path is None:
            return None
        try:
            data = path.read_bytes()
        except OSError as error:
            logger.warning("the local copy of %s cannot be read: %s", handle.path, error)
        else:
            if len(data) == handle.size and is_as_written(handle, data):
                return data
            logger.warning(
                "%s, the local copy of %s, differs from what was written", path, handle.path
            )
        self.forget(name)
        return None

    def create(self, path: Path) -> BinaryIO | None:
        """Create the file of a copy and its folder, which is removed with its last copy.

        Return None once the store is disposed: the writing thread may outlive its task.

        Raises:
            OSError: The file cannot be created.
        """
        with self._lock:
            if self._is_disposed:
                return None
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("xb")

    def forget(self, name: str) -> None:
        """Delete a copy."""
        # Several threads write database files: none may remove the folder that another has just
        # created.
        with self._lock:
            path = self._files.pop(name, None)
            if path is None:
                return
            with suppress(OSError):
                # The file may not exist; the folder may hold other copies.
                path.unlink(missing_ok=True)
                path.parent.rmdir()

    def dispose(self) -> None:
        """Delete all copies; no more are created."""
        with self._lock:
            self._is_disposed = True
            self._files.clear()
            self._needed.clear()
        shutil.rmtree(self._directory, ignore_errors=True)


class LocalCopy:
    """A file that is written beside another one, and dropped if that fails."""

    def __init__(self, store: TaskLocalStateStore, name: str, path: Path) -> None:
        """Create a copy; use ``TaskLocalStateStore.open_copy``."""
        self._store = store
        self._name = name
        self._path = path
        self._file: BinaryIO | None = None
        self._is_given_up = False

    def write(self, data: bytes) -> None:
        """Write bytes to the copy."""
        if self._is_given_up:
            return
        try:
            if self._file is None:
                self._file = self._store.create(self._path)
            if self._file is None:
                self.drop()
            else:
                self._file.write(data)
        except OSError as error:
            logger.warning("cannot write a local copy of state: %s", error)
            self.drop()

    def end(self) -> None:
        """Complete the copy."""
        if self._file is not None and not self._is_given_up:
            try:
                self._file.close()
            except OSError as error:
                logger.warning("cannot write a local copy of state: %s", error)
                self.drop()

    def drop(self) -> None:
        """Drop the copy."""
        self._is_given_up = True
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                logger.debug("%s: %s", self._path, error)
        self._store.forget(self._name)


class CopiedStateStream(StateOutputStream):
    """A stream of state that is copied if it becomes a file."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        inline_threshold_bytes: int,
        write_buffer_bytes: int,
        store: TaskLocalStateStore,
        checkpoint_id: int,
    ) -> None:
        """Open a stream whose copy ``store`` keeps for a checkpoint."""
        super().__init__(file_system, directory, inline_threshold_bytes, write_buffer_bytes)
        self._copy = store.open_copy(checkpoint_id, self._name)

    def handle(self) -> StreamHandle | None:
        """End the stream and return its handle; None if it is empty."""
        handle = super().handle()
        if isinstance(handle, FileHandle):
            self._copy.end()
        else:
            self._copy.drop()
        return handle

    def close(self) -> None:
        """Delete the written data, unless the handle was returned."""
        if not self._is_ended:
            self._copy.drop()
        super().close()

    def _flush(self) -> None:
        self._copy.write(bytes(self._buffer))
        super()._flush()


def _name(file: FileHandle) -> str:
    return file.path.rpartition("/")[2]


def _number(path: Path) -> int:
    return int(path.parent.name.removeprefix("chk_"))
