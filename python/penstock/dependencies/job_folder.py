"""The folder of one job on one host, which the job's workers there share.

Every process that uses it holds a lock, which the kernel releases however the process ends; the
last one that leaves removes the folder.  Its entries are moved there complete by a rename, so
nobody finds a partial one.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

logger = logging.getLogger(__name__)

_USERS = ".users"
_LEAVING = ".leaving"
_PUBLISHING = ".publishing"
_PARTS = ".parts"
MAX_ENTER_ATTEMPTS = 1000
MAX_REMOVE_ATTEMPTS = 100


class JobFolder:
    """A folder that exists until its last user has left it."""

    def __init__(self, path: Path) -> None:
        """Enter the folder; create it if necessary.

        Raises:
            OSError: It cannot be created.
        """
        self.path = path
        self._users: int | None = _enter(path)

    def publish(self, name: str, build: Callable[[Path], None]) -> Path:
        """Return the path ``name`` in the folder; build it unless another user has built it.

        Args:
            name: Relative, with ``/`` between its parts.
            build: Creates a file or folder at the given path.
        """
        target = self.path / name
        if not os.path.lexists(target):
            part = self.path / _PARTS / uuid.uuid4().hex
            part.parent.mkdir(exist_ok=True)
            try:
                build(part)
                target.parent.mkdir(parents=True, exist_ok=True)
                part.rename(target)
            except BaseException:
                _remove(part)
                raise
        return target

    @contextlib.contextmanager
    def publishing(self) -> Iterator[None]:
        """Let other users wait until the block has ended; they then find its results."""
        with _locked(self.path / _PUBLISHING):
            yield

    def leave(self) -> None:
        """Leave the folder, and remove it if it has no other users.  Idempotent."""
        users, self._users = self._users, None
        if users is None:
            return
        try:
            # Two that leave at once would each find the other still present.
            with _locked(self.path / _LEAVING), contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_at_once(self.path)
        except FileNotFoundError:
            return  # somebody removed it manually
        finally:
            os.close(users)

    def remove(self) -> None:
        """Remove the folder even if it has other users: they are known to have ended."""
        users, self._users = self._users, None
        if users is not None:
            with contextlib.suppress(FileNotFoundError):
                _remove_at_once(self.path)
            os.close(users)


def _enter(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(MAX_ENTER_ATTEMPTS):
        # Not exist_ok: it fails if the folder is removed before it has checked its kind.
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        try:
            users = os.open(path / _USERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # removed between the two lines
        fcntl.flock(users, fcntl.LOCK_SH)
        with contextlib.suppress(FileNotFoundError):
            if _is_at(users, path / _USERS):
                return users
        os.close(users)  # the folder was removed while this waited for the lock
    raise OSError(f"the folder {path} was removed each time it was created")


def _is_at(descriptor: int, path: Path) -> bool:
    return os.path.samestat(os.fstat(descriptor), path.stat())


def _remove_at_once(path: Path) -> None:
    """Remove a folder so that nobody finds a part of it."""
    gone = path.with_name(f"{path.name}-removed-{uuid.uuid4().hex[:8]}")
    path.rename(gone)
    # A process about to enter may create a file during the removal, and then leaves.
    for _ in range(MAX_REMOVE_ATTEMPTS):
        shutil.rmtree(gone, ignore_errors=True)
        if not os.path.lexists(gone):
            return
    logger.warning("%s cannot be removed", gone)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
