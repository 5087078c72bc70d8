"""Leader election by a directory that all drivers mount.

```
<storageDir>/<cluster id>/epoch-<n>/leader    the leader's record, renewed in each lease
<storageDir>/<cluster id>/epoch-<n>/<files>   records for later leaders
```

There is one epoch, and the driver that renames it to the next one leads: the file system lets only
one driver do so.  A former leader knows the directory only by its old name, so it can write
nothing, however late it learns of its end.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint_storage.file_systems import PRIVATE_DIRECTORY, LocalFileSystem
from penstock.errors import CheckpointStorageError
from penstock.high_availability.leader_election import LeaderElectionService
from penstock.high_availability.leader_record import (
    LEADER_RECORDS,
    LeaderRecord,
    is_gone,
    this_process,
)

if TYPE_CHECKING:
    from penstock.errors import LeadershipLostError

logger = logging.getLogger(__name__)

_LEADER: Final = "leader"

_EPOCH: Final = re.compile(r"epoch-(\d+)")

#: The number of renewals, and of polls by standbys, within one lease.
_RENEWALS: Final = 5
_LOOKS: Final = 20

#: Longest time between two checks, so that a released leadership is noticed soon.
_LOOK_S: Final = 0.5

#: Share of a lease after which a leader that cannot renew it gives up.
_OWN_SHARE: Final = 0.8


class FileLeaderElectionService(LeaderElectionService):
    """Leads while its directory keeps its name; the leadership is lost if it is not renewed."""

    def __init__(self, storage_folder: str, cluster_id: str, lease_ms: int) -> None:
        """Create the service; `acquire` creates the directories.

        Args:
            storage_folder: A path of a file system that all drivers mount.
            cluster_id: The cluster id of the program.
            lease_ms: Time after which a leader that does not renew its lease is replaced.
        """
        super().__init__()
        self._root = Path(storage_folder, cluster_id)
        self._lease_s = lease_ms / 1000
        self._files = LocalFileSystem(is_private=True)
        self._directory: Path | None = None
        self._record: LeaderRecord | None = None
        self._renewed_s = 0.0
        #: The last change by another driver that was seen, and its time.
        self._seen: tuple[Path, LeaderRecord | None] | None = None
        self._seen_s = 0.0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __str__(self) -> str:
        return str(self._root)

    def acquire(self) -> bool:
        """Take over the directory when its leader has ended."""
        try:
            self._make_root()
            if not self._take_over():
                return False
        except OSError as error:
            raise CheckpointStorageError(
                f"high-availability.storageDir: {self._root} cannot be used: {error}"
            ) from error
        self._thread = threading.Thread(
            target=self._renew_until_closed, name="leadership", daemon=True
        )
        self._thread.start()
        return True

    def release(self) -> None:
        """End the leadership, so that the next driver need not wait."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(self._lease_s)
        with self._lock:
            directory = self._directory if self._is_leader else None
            record, self._is_leader = self._record, False
        if directory is not None and record is not None:
            # If the write fails, the next driver waits for the lease to end.
            with contextlib.suppress(OSError):
                self._write(directory, msgspec.structs.replace(record, is_released=True))

    # ---- records for later leaders ----------------------------------------------------------

    def publish(self, name: str, data: bytes) -> None:
        """Write a temporary file and rename it."""
        directory = self._led()
        try:
            self._files.publish(str(directory / name), data)
        except FileNotFoundError as error:
            raise self._gone(directory) from error

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None."""
        directory = self._led()
        try:
            return (directory / name).read_bytes()
        except FileNotFoundError as error:
            if not directory.exists():
                raise self._gone(directory) from error
            return None

    def names(self, prefix: str) -> list[str]:
        """Return the names of files with a prefix."""
        directory = self._led()
        try:
            return sorted(path.name for path in directory.iterdir() if path.name.startswith(prefix))
        except FileNotFoundError as error:
            raise self._gone(directory) from error

    def names_by_age(self, prefix: str, suffix: str) -> list[str]:
        """Return the names in the order in which the files were written."""
        directory = self._led()
        written = {
            name: (directory / name).stat().st_mtime_ns
            for name in self.names(prefix)
            if name.endswith(suffix)
        }
        return sorted(written, key=written.__getitem__)

    @property
    def epoch(self) -> int:
        """The epoch of the directory."""
        self._led()
        assert self._record is not None
        return self._record.epoch

    def delete(self, name: str) -> None:
        """Delete a file."""
        directory = self._led()
        try:
            (directory / name).unlink()
        except FileNotFoundError as error:
            if not directory.exists():
                raise self._gone(directory) from error

    # ---- inside ------------------------------------------------------------------------------

    def _led(self) -> Path:
        self._check_leads()
        assert self._directory is not None, "it leads"
        return self._directory

    def _make_root(self) -> None:
        """Create the directory with its first epoch; only the first driver succeeds."""
        if self._root.exists() and any(self._root.iterdir()):
            # A former version left it accessible; another user's directory stays as it is.
            with contextlib.suppress(PermissionError):
                self._root.chmod(PRIVATE_DIRECTORY)
            return
        beside = self._root.with_name(f".{self._root.name}.{secrets.token_hex(8)}")
        # Options and code of jobs are private.
        beside.mkdir(PRIVATE_DIRECTORY, parents=True)
        (beside / "epoch-0").mkdir(PRIVATE_DIRECTORY)
        try:
            beside.rename(self._root)
        except OSError:
            # Another driver was faster; any other cause fails in the next step.
            shutil.rmtree(beside)

    def _take_over(self) -> bool:
        while not self._given_up.is_set():
            if self._look():
                return True
            self._given_up.wait(min(self._lease_s / _LOOKS, _LOOK_S))
        return False

    def _look(self) -> bool:
        """Try to lead if no driver is known to; return whether this driver leads."""
        epoch, directory = current_epoch(self._root)
        record = _read_record(directory)
        now_s = time.monotonic()
        if (directory, record) != self._seen:
            self._seen, self._seen_s = (directory, record), now_s
        if epoch == 0 or _has_ended(record, epoch) or now_s - self._seen_s >= self._lease_s:
            return self._try_to_lead(epoch, directory)
        self._wait_for("another driver" if record is None else str(record))
        return False

    def _try_to_lead(self, epoch: int, directory: Path) -> bool:
        """Rename this epoch to the next one; return False if another driver did."""
        following = self._root / f"epoch-{epoch + 1}"
        record = LeaderRecord(
            epoch + 1, secrets.token_hex(8), 0, socket.gethostname(), this_process()
        )
        renewed_s = time.monotonic()
        try:
            directory.rename(following)
            self._write(following, record)
        except FileNotFoundError:
            return False
        with self._lock:
            self._directory, self._record, self._renewed_s = following, record, renewed_s
            self._is_leader = True
        logger.info("this driver leads %s in epoch %d", self._root, epoch + 1)
        return True

    def _write(self, directory: Path, record: LeaderRecord) -> None:
        self._files.publish(str(directory / _LEADER), msgspec.json.encode(record))

    def _renew_until_closed(self) -> None:
        while not self._closed.wait(self._lease_s / _RENEWALS):
            if not self._renew():
                return

    def _renew(self) -> bool:
        """Renew the lease; return whether this driver still leads."""
        with self._lock:
            directory, record = self._directory, self._record
            if not self._is_leader or directory is None or record is None:
                return False
        record = msgspec.structs.replace(record, renewals=record.renewals + 1)
        began_s = time.monotonic()
        try:
            self._write(directory, record)
        except FileNotFoundError:
            self._end("another driver has taken over")
            return False
        except OSError as error:
            logger.warning("the leadership of %s could not be renewed: %s", self._root, error)
        else:
            self._record, self._renewed_s = record, began_s
        if time.monotonic() - self._renewed_s > _OWN_SHARE * self._lease_s:
            self._end(f"it could not be renewed for {_OWN_SHARE * self._lease_s:g} s")
            return False
        return True

    def _gone(self, directory: Path) -> LeadershipLostError:
        return self._end(f"{directory} is gone, which another driver has taken over")


def current_epoch(root: Path) -> tuple[int, Path]:
    """Return the epoch of a cluster id, and its directory.

    Raises:
        CheckpointStorageError: There is no epoch.
        OSError: The directory cannot be read.
    """
    # The epoch may be renamed while the directory is read.
    for _ in range(100):
        found = [
            (int(match[1]), path)
            for path in root.iterdir()
            if (match := _EPOCH.fullmatch(path.name))
        ]
        if found:
            return max(found)
    raise CheckpointStorageError(f"{root} has no epoch-N: it was not made by a driver")


def _read_record(directory: Path) -> LeaderRecord | None:
    """Return the leader of an epoch; None before it has registered."""
    try:
        return LEADER_RECORDS.decode((directory / _LEADER).read_bytes())
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise CheckpointStorageError(f"{directory / _LEADER} is damaged: {error}") from error


def _has_ended(record: LeaderRecord | None, epoch: int) -> bool:
    """Return whether a leader is known to have ended."""
    if record is None or record.epoch != epoch:
        return False  # the driver that created this epoch has yet to write its record
    return record.is_released or is_gone(record.process)
