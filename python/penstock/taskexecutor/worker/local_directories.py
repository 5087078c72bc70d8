"""Temporary folders of this process, which do not outlive it.

The process holds a lock beside each folder while it lives, so whichever process creates the next
folder removes those of processes that were killed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_LOCK: Final = ".lock"

#: Pauses before removing a folder again that a thread wrote to during its removal.
_PAUSES_S: Final = (0.001, 0.01, 0.05, 0.2)

logger = logging.getLogger(__name__)


class LocalDirectory:
    """A folder that is removed when it is closed, or by the next process.

    Attributes:
        path: The folder.
    """

    def __init__(self, parent: str, prefix: str) -> None:
        """Create a folder, and remove those that killed processes have left.

        Args:
            parent: A folder, created if missing.
            prefix: Prefix of the folder's name, and of the names of abandoned folders.

        Raises:
            OSError: The folder cannot be created.
        """
        Path(parent).mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent, prefix)
        while True:
            self._lock, lock_path = tempfile.mkstemp(_LOCK, prefix, parent)
            if _is_locked(self._lock, lock_path):
                break
            # Another process took it for abandoned before it was locked.
            os.close(self._lock)
        self._lock_path = lock_path
        self.path = lock_path.removesuffix(_LOCK)
        Path(self.path).mkdir(mode=0o700)

    def close(self) -> None:
        """Remove the folder; further calls do nothing.

        An ending thread may still write to it: the removal is retried, and if that fails, left to
        the next process.
        """
        if self._lock < 0:
            return
        for pause_s in _PAUSES_S:
            shutil.rmtree(self.path, ignore_errors=True)
            if not os.path.lexists(self.path):
                Path(self._lock_path).unlink(missing_ok=True)
                break
            time.sleep(pause_s)
        else:
            logger.warning("cannot remove %s now; the next process will", self.path)
        os.close(self._lock)
        self._lock = -1


def _remove_abandoned(parent: str, prefix: str) -> None:
    """Remove the folders of processes that have ended."""
    for lock_path in Path(parent).glob(f"{prefix}*{_LOCK}"):
        # Another process may be removing it as well, or another user may own it.
        with suppress(OSError):
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _is_locked(lock, str(lock_path)):
                    shutil.rmtree(str(lock_path).removesuffix(_LOCK), ignore_errors=True)
                    lock_path.unlink()
            finally:
                os.close(lock)


def _is_locked(lock: int, path: str) -> bool:
    """Lock a file; return False if another process holds the lock, or the file is gone."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(lock).st_nlink > 0 and Path(path).exists()
