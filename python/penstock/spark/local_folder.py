"""The folder for all temporary files of a Spark that is started here.

Spark removes its files itself, unless it is killed.  So they are in one folder that the starting
process has locked: an unlocked folder was left by a killed Spark, and the next start removes it.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "penstock-spark-"

_locks: list[int] = []
"""Descriptors of this process's folders; the folders are locked as long as it lives."""


def make_local_folder() -> Path:
    """Create a folder that is locked until this process ends.

    Raises:
        OSError: There is no room for temporary files.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_SH)
        if folder.exists():
            _locks.append(lock)
            return folder
        # Between creation and locking, another process removed the folder as abandoned.
        os.close(lock)


def remove_left_folders() -> None:
    """Remove this user's folders whose processes have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # removed meanwhile, or owned by another user
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Its Spark may still be about to remove the same files.
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue  # in use
        finally:
            os.close(lock)
