"""Creation of nameless temporary files, for data that does not fit into memory."""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from penstock.common.options.cluster import TEMPORARY_FOLDERS
from penstock.errors import NetworkError

REMEDY = f"make room there or name other folders in {TEMPORARY_FOLDERS.key}"
"""Remedy for a file that cannot be written."""

_FILE_ATTEMPTS = 10


def create_temporary_file(directories: list[str], content: str, suffix: str) -> tuple[int, str]:
    """Open a file without a name in one of the directories, starting at a random one.

    Args:
        directories: The directories; one that fails is dropped unless it is the last.
        content: What the file is for, for errors.
        suffix: Tells the same, should the file's name ever be seen.

    Returns:
        Its descriptor, and its directory.

    Raises:
        NetworkError: no directory can hold the file.
    """
    candidates = directories or [tempfile.gettempdir()]
    start = secrets.randbelow(len(candidates))
    for attempt in range(_FILE_ATTEMPTS):
        directory = candidates[(start + attempt) % len(candidates)]
        path = Path(directory, f"{secrets.token_hex(20)}.{suffix}")
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            if len(candidates) == 1:
                raise NetworkError(
                    f"{content} needs a temporary file in {directory} ({REMEDY}): {error.strerror}"
                ) from error
            candidates.remove(directory)
            continue
        path.unlink()
        return descriptor, directory
    raise NetworkError(f"no temporary file for {content} could be made in {candidates}")
