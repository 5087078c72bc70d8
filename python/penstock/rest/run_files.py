"""Addresses of this user's clusters on this machine: one file each, for the command line.

The files are in a folder that only the user can read, as they hold tokens.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_DIRECTORY_VARIABLE: Final = "PENSTOCK_RUN_DIR"
_MAX_BYTES: Final = 64 * 1024
"""Limit of the file of a cluster, which has an address, a token and the id of a process."""


@dataclass(frozen=True)
class RunningCluster:
    """A cluster that listens.

    Attributes:
        url: Its address.
        token: The token to present; None if it requires none.
        pid: The process of its driver.
        certificates: Its certificates, in PEM; None without TLS.
    """

    url: str
    token: str | None
    pid: int
    certificates: str | None = None

    @property
    def dashboard(self) -> str:
        """Return the link that opens the dashboard, with the token."""
        return f"{self.url}/" if self.token is None else f"{self.url}/?token={self.token}"


def run_directory() -> Path:
    """Return the folder of the files: `RUN_DIRECTORY_VARIABLE`, else one of the user's own."""
    named = os.environ.get(RUN_DIRECTORY_VARIABLE)
    if named:
        return Path(named)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "penstock"
    return Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"


class RunFile:
    """The file of one cluster."""

    def __init__(self, url: str, token: str | None, certificates: str | None = None) -> None:
        """Create the object; nothing is written yet.

        Args:
            url: The address that the cluster listens on.
            token: The token to present.
            certificates: Its certificates, in PEM.
        """
        pid = os.getpid()
        self._content = {
            "url": url,
            "token": token,
            "certificates": certificates,
            "pid": pid,
            "process_started_s": psutil.Process(pid).create_time(),
        }
        name = f"{pid}-{url.rpartition(':')[2]}-{time.time_ns():x}.json"
        self._path = run_directory() / name

    def write(self) -> None:
        """Write the file; create its folder if necessary.

        Raises:
            OSError: The folder is another user's, or open to others, or cannot be created.
        """
        private_folder(self._path.parent)
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600
        )
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(self._content, file)

    def remove(self) -> None:
        """Remove the file, and its folder if it was the last one."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it has other files, or is gone
            self._path.parent.rmdir()


def private_folder(folder: Path) -> None:
    """Create a folder that only the user can read, or restrict an existing one.

    Raises:
        OSError: It is another user's, or cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def running_clusters() -> list[RunningCluster]:
    """Return the running clusters of this user, oldest first; remove files of ended ones."""
    folder = run_directory()
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return []  # another user may have created it to receive requests
        paths = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    except OSError:
        return []
    running = []
    for path in paths:
        content = _read(path)
        if content is not None and is_alive(content):
            running.append(
                RunningCluster(
                    content["url"], content["token"], content["pid"], content["certificates"]
                )
            )
        elif content is not None:
            path.unlink(missing_ok=True)
    return running


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None  # another user's, who may want to receive a token
            content = json.loads(file.read(_MAX_BYTES))
        if (
            isinstance(content["url"], str)
            and isinstance(content["pid"], int)
            and isinstance(content["process_started_s"], (int, float))
            and isinstance(content["token"], str | None)
            and isinstance(content["certificates"], str | None)
        ):
            return dict(content)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # it is being written, or not one of this program's
    return None


def is_alive(content: Mapping[str, Any]) -> bool:
    """Return whether the process that wrote a file still runs, by its ``pid`` and start time."""
    try:
        started_s = psutil.Process(content["pid"]).create_time()
    except psutil.Error:
        return False
    return bool(abs(started_s - content["process_started_s"]) < 1.0)
