"""The committer of FileSink: renames complete files to their final names."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.connectors.committer import Committer
from penstock.errors import SinkError
from penstock.taskexecutor.sinks.committer import CommitterOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.connectors.committer import CommitRequest, CommitterInitContext
    from penstock.connectors.files.part_file import PendingFile
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)


def create_file_committer(
    context: OperatorContext, descriptor: operators.FileCommitter
) -> StreamOperator:
    """Create the operator that commits the pending files of a FileSink."""
    replaced = descriptor.replaced

    def create(_: CommitterInitContext) -> FileCommitter:
        return FileCommitter(context.environment.files, replaced)

    if descriptor.partition_commit is None:
        return CommitterOperator(create)
    from penstock.connectors.files.partition_committer import PartitionCommitterOperator

    return PartitionCommitterOperator(context, create, descriptor.partition_commit)


class FileCommitter(Committer["PendingFile"]):
    """Renames pending files; files that already have their final names are skipped."""

    def __init__(self, files: FileSystems, replaced: Sequence[str] = ()) -> None:
        """Create a committer.

        Args:
            files: The file systems, for files in stores.
            replaced: Files to delete once new files in their folder have their final names.
        """
        self._replaced: dict[str, list[str]] = {}
        for path in replaced:
            self._replaced.setdefault(path.rpartition("/")[0], []).append(path)
        self._files = files

    def commit(self, requests: Sequence[CommitRequest[PendingFile]]) -> None:
        """Rename the files to their final names, which are durable afterwards.

        Raises:
            SinkError: A file cannot be renamed, or its length has changed.
        """
        self._commit_files(requests)
        finals = [request.get_committable().final_path for request in requests]
        for folder in dict.fromkeys(path.rpartition("/")[0] for path in finals):
            for path in self._replaced.pop(folder, ()):
                self._files.of(path).delete_file(path)

    def _commit_files(self, requests: Sequence[CommitRequest[PendingFile]]) -> None:
        folders: set[Path] = set()
        obsolete: list[str] = []
        for request in requests:
            pending = request.get_committable()
            if urlsplit(pending.path).scheme:
                self._commit_object(request)
                continue
            path, final_path = Path(pending.path), Path(pending.final_path)
            try:
                size_bytes = path.stat().st_size
                if final_path.exists():
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                if size_bytes == pending.size_bytes:
                    path.rename(final_path)
                    folders.add(final_path.parent)
                    obsolete.extend(pending.segments)
                    continue
            except FileNotFoundError:
                # Final names are unique: either the file was committed before, and may have been
                # moved since, or somebody has removed a file of the sink.
                if not final_path.exists():
                    logger.warning("neither %s nor %s exists any more", path, final_path)
                obsolete.extend(pending.segments)
                request.signal_already_committed()
                continue
            except OSError as error:
                raise SinkError(
                    f"the file sink cannot rename {path} to {final_path.name}: {error.strerror}"
                ) from error
            raise SinkError(
                f"the file sink cannot commit {path}: it has {size_bytes} bytes, but had "
                f"{pending.size_bytes} when it was closed"
            )
        for folder in folders:
            _synchronize(folder)
        # The source files of a compacted file are deleted once its own name is durable.
        for segment in obsolete:
            Path(segment).unlink(missing_ok=True)

    def _commit_object(self, request: CommitRequest[PendingFile]) -> None:
        pending = request.get_committable()
        store = self._files.store(pending.path)
        try:
            size_bytes = store.size(pending.path)
            final_bytes = store.size(pending.final_path)
            if size_bytes is None:
                if final_bytes is None:
                    logger.warning(
                        "neither %s nor %s exists any more", pending.path, pending.final_path
                    )
                request.signal_already_committed()
            elif size_bytes != pending.size_bytes:
                raise SinkError(
                    f"the file sink cannot commit {pending.path}: it has {size_bytes} bytes, but "
                    f"had {pending.size_bytes} when it was uploaded"
                )
            elif final_bytes is None:
                store.move(pending.path, pending.final_path)
            elif final_bytes == size_bytes:
                # A move is a copy and a deletion, and may fail between the two.
                store.delete_file(pending.path)
                request.signal_already_committed()
            else:
                raise SinkError(
                    f"the file sink cannot rename {pending.path} to {pending.final_path}: another "
                    f"object of {final_bytes} bytes has this name"
                )
            for segment in pending.segments:
                store.delete_file(segment)
        except SinkError:
            raise
        except OSError as error:
            raise SinkError(f"the file sink cannot commit {pending.path}: {error}") from error


def _synchronize(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
