"""The committer of FileSink: gives whole files their names."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.datastream.connectors.committer import Committer
from penstock.errors import SinkError
from penstock.taskexecutor.sinks.committer import CommitterOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.connectors.committer import CommitRequest
    from penstock.graph import operators
    from penstock.taskexecutor.compiled import StreamOperator
    from penstock.taskexecutor.sinks.part_file import PendingFile
    from penstock.taskexecutor.task.operator_context import OperatorContext

logger = logging.getLogger(__name__)


def create_file_committer(
    context: OperatorContext, descriptor: operators.FileCommitter
) -> StreamOperator:
    """Commits the pending files of FileSink."""
    del context, descriptor
    return CommitterOperator(lambda _: FileCommitter())


class FileCommitter(Committer["PendingFile"]):
    """Renames pending files; one that has its name already is left alone."""

    def commit(self, requests: Sequence[CommitRequest[PendingFile]]) -> None:
        """Gives the files their names, which are durable afterwards.

        Raises:
            SinkError: A file cannot be renamed, or is not as long as it was.
        """
        folders: set[Path] = set()
        for request in requests:
            pending = request.get_committable()
            path, final_path = Path(pending.path), Path(pending.final_path)
            try:
                size_bytes = path.stat().st_size
                if final_path.exists():
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                if size_bytes == pending.size_bytes:
                    path.rename(final_path)
                    folders.add(final_path.parent)
                    continue
            except FileNotFoundError:
                # A name belongs to one file: either this was committed before, and may have been
                # moved on since, or somebody has removed what belongs to the sink.
                if not final_path.exists():
                    logger.warning("neither %s nor %s is there any more", path, final_path)
                request.signal_already_committed()
                continue
            except OSError as error:
                raise SinkError(
                    f"the file sink cannot give {path} the name {final_path.name}: {error.strerror}"
                ) from error
            raise SinkError(
                f"the file sink cannot commit {path}: it has {size_bytes} bytes, but had "
                f"{pending.size_bytes} when it was closed"
            )
        for folder in folders:
            _synchronize(folder)


def _synchronize(folder: Path) -> None:
    """Brings names of files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
