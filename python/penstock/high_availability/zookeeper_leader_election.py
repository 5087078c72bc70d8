"""Leader election by a ZooKeeper, with a folder for large files.

```
<root>/<cluster id>/candidates/<session>-<n>   a driver, ephemeral; the least leads
<root>/<cluster id>/epoch                      its version is the number of the epoch
<root>/<cluster id>/kept/<name>                records for later leaders
<storageDir>/<cluster id>/kept/<name>.<x>      the same, if larger than 16 KiB
```

The leader writes its record to ``epoch``, which increments that node's version.  Each change of
``kept`` is one transaction with a check of the version, so a former leader can change nothing:
neither one whose session has ended, nor one that has not yet learnt of it.

The content of a ``kept`` node is ``=`` and the data, or ``@`` and the name of a file.  The file is
written before the node, and deleted after it.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
import time
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.errors import CheckpointStorageError
from penstock.high_availability.leader_election import LeaderElectionService
from penstock.high_availability.leader_record import (
    LEADER_RECORDS,
    LeaderRecord,
    is_gone,
    this_process,
)
from penstock.high_availability.zookeeper_session import StaleVersionError, ZooKeeperSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.high_availability.zookeeper_session import ZooKeeperSettings

logger = logging.getLogger(__name__)

_MAX_INLINE_BYTES: Final = 16 << 10
_INLINE: Final = b"="
_IN_FILE: Final = b"@"

#: The number of polls by standbys within a session timeout, and the longest time between two.
_LOOKS: Final = 20
_LOOK_S: Final = 0.5


class ZooKeeperLeaderElectionService(LeaderElectionService):
    """Leads while no other candidate has written to the epoch, and within its session."""

    def __init__(
        self,
        settings: ZooKeeperSettings,
        storage_folder: str,
        cluster_id: str,
        files: FileSystems,
    ) -> None:
        """Create the service; `acquire` creates the nodes.

        Args:
            settings: The ZooKeeper and its timeouts.
            storage_folder: A folder, or a URL of an object store, that all drivers reach.
            cluster_id: The cluster id of the program.
            files: File systems of the folder.

        Raises:
            ConfigurationError: The folder's scheme is unknown.
            DependencyError: The package kazoo is missing.
        """
        super().__init__()
        self._settings = settings
        self._nodes = Nodes(settings, cluster_id)
        self._folder = f"{storage_folder.rstrip('/')}/{cluster_id}/kept"
        self._files = files.of(storage_folder)
        self._session = ZooKeeperSession(settings)
        self._session.on_state(self._state_changed)
        self._own = secrets.token_hex(8)
        self._look = threading.Event()
        self._epoch = 0
        self._state = threading.Condition()
        self._is_expired = False
        self._suspended_s: float | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def __str__(self) -> str:
        return f"{self._nodes.base} of ZooKeeper {self._settings.quorum}"

    def acquire(self) -> bool:
        """Stand for election until this is the first candidate."""
        try:
            if not self._given_up.is_set():
                self._session.start()
                if self._lead():
                    return True
        except BaseException:
            self.release()
            raise
        # A remaining candidate would block others.
        self.release()
        return False

    def give_up(self) -> None:
        """Make `acquire` return."""
        super().give_up()
        self._look.set()

    def release(self) -> None:
        """End the leadership; the end of the session removes the candidate."""
        with self._lock:
            self._is_leader = False
        with self._state:
            self._is_closed = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._session.close()

    # ---- records for later leaders ----------------------------------------------------------

    def publish(self, name: str, data: bytes) -> None:
        """Write a node; if the data is large, write a file before."""
        self._check_leads()
        path = self._nodes.of(name)
        node = self._node(name)
        value = _INLINE + data
        if len(data) > _MAX_INLINE_BYTES:
            file = f"{name}.{secrets.token_hex(8)}"
            self._files.publish(f"{self._folder}/{file}", data)
            value = _IN_FILE + file.encode()
        # If this fails, the file stays: an interrupted attempt may have succeeded.
        if node is None:
            # If the node exists by now, it is overwritten below.
            with contextlib.suppress(self._session.errors.NodeExistsError):
                self._change(lambda transaction: transaction.create(path, value))
                return
        self._change(lambda transaction: transaction.set_data(path, value))
        self._delete_file(_file_of(node))

    def read(self, name: str) -> bytes | None:
        """Return the content of a node or of its file."""
        self._check_leads()
        value = self._node(name)
        self._check_epoch()
        if value is None:
            return None
        file = _file_of(value)
        if file is None:
            if value[:1] != _INLINE:
                raise CheckpointStorageError(f"{self}: {name} is damaged: it begins {value[:1]!r}")
            return value[1:]
        path = f"{self._folder}/{file}"
        try:
            return self._files.read(path)
        except FileNotFoundError as error:
            raise CheckpointStorageError(
                f"{self}: {name} refers to {path}, which does not exist"
            ) from error

    def names(self, prefix: str) -> list[str]:
        """Return the names of nodes with a prefix."""
        self._check_leads()
        found = self._request(lambda client: client.get_children_async(self._nodes.kept))
        self._check_epoch()
        return sorted(name for name in found if name.startswith(prefix))

    def names_by_age(self, prefix: str, suffix: str) -> list[str]:
        """Return the names in the order of ZooKeeper's transactions."""
        found = {name: self._get(name) for name in self.names(prefix) if name.endswith(suffix)}
        written = {name: node[1].mzxid for name, node in found.items() if node is not None}
        return sorted(written, key=written.__getitem__)

    def delete(self, name: str) -> None:
        """Delete a node, then its file."""
        self._check_leads()
        node = self._node(name)
        if node is None:
            self._check_epoch()
            return
        path = self._nodes.of(name)
        # If the node is gone, an interrupted attempt deleted it.
        with contextlib.suppress(self._session.errors.NoNodeError):
            self._change(lambda transaction: transaction.delete(path))
        self._delete_file(_file_of(node))

    @property
    def epoch(self) -> int:
        """The version of the epoch's node."""
        self._check_leads()
        return self._epoch

    # ---- inside: nodes -------------------------------------------------------------------------

    def _request(self, begin: Callable[[Any], Any]) -> Any:
        """Send a leader's request; without an answer, the leadership may be lost."""
        try:
            return self._session.request(begin)
        except ConnectionError:
            self._check_leads()
            raise

    def _get(self, name: str) -> tuple[bytes, Any] | None:
        """Return a node's data and ZooKeeper's record of it; None if there is none."""
        path = self._nodes.of(name)
        try:
            value, stat = self._request(lambda client: client.get_async(path))
        except self._session.errors.NoNodeError:
            return None
        return bytes(value), stat

    def _node(self, name: str) -> bytes | None:
        found = self._get(name)
        return None if found is None else found[0]

    def _change(self, add: Callable[[Any], None]) -> None:
        try:
            self._session.commit(self._nodes.epoch, self._epoch, add)
        except StaleVersionError as error:
            raise self._end("another driver has taken over") from error
        except ConnectionError:
            self._check_leads()
            raise

    def _check_epoch(self) -> None:
        stat = self._request(lambda client: client.exists_async(self._nodes.epoch))
        if stat is None or stat.version != self._epoch:
            raise self._end("another driver has taken over")

    def _delete_file(self, file: str | None) -> None:
        if file is None:
            return
        try:
            self._files.delete_file(f"{self._folder}/{file}")
        except OSError as error:
            # The next leader deletes it.
            logger.warning("%s stays in %s: %s", file, self._folder, error)

    def _remove_unnamed_files(self) -> None:
        """Remove files whose nodes a former leader has not written, or has deleted."""
        files = set(self._files.names(self._folder))
        if files:
            nodes = (self._node(name) for name in self.names(""))
            for file in files - {_file_of(node) for node in nodes if node is not None}:
                self._delete_file(file)

    # ---- inside: election ----------------------------------------------------------------------

    def _lead(self) -> bool:
        try:
            for path in (self._nodes.candidates, self._nodes.kept, self._nodes.epoch):
                self._session.request(methodcaller("ensure_path_async", path))
            self._files.make_directory(self._folder)
            if not self._stand():
                return False
            self._remove_unnamed_files()
        except OSError as error:
            raise CheckpointStorageError(f"{self} cannot be used: {error}") from error
        self._thread = threading.Thread(target=self._watch, name="leadership", daemon=True)
        self._thread.start()
        return True

    def _stand(self) -> bool:
        look_s = min(self._settings.session_timeout_ms / 1000 / _LOOKS, _LOOK_S)
        while not self._given_up.is_set():
            try:
                first = self._first_candidate()
                if first is None:
                    if self._try_to_lead():
                        return True
                    continue
                self._wait_for(str(first))
            except ConnectionError as error:
                # Keep waiting: the servers may be about to form a quorum.
                self._wait_for(f"an unknown driver ({error})")
            self._look.wait(look_s)
            self._look.clear()
        return False

    def _first_candidate(self) -> LeaderRecord | None:
        """Return the candidate before this driver; None if it is the first."""
        names = self._candidates()
        if not any(self._is_own(name) for name in names):
            record = LeaderRecord(0, self._own, 0, socket.gethostname(), this_process())
            data = msgspec.json.encode(record)
            path = f"{self._nodes.candidates}/{self._own}-"
            self._session.request(
                lambda client: client.create_async(path, data, ephemeral=True, sequence=True)
            )
            names = self._candidates()
            if not any(self._is_own(name) for name in names):
                raise ConnectionError("the session was over at once")
        if self._is_own(names[0]):
            return None
        own = next(number for number, name in enumerate(names) if self._is_own(name))
        # Each watches the one before it, so that the leader's end does not wake all.
        before = f"{self._nodes.candidates}/{names[own - 1]}"
        self._session.request(lambda client: client.exists_async(before, watch=self._wake))
        path = f"{self._nodes.candidates}/{names[0]}"
        with contextlib.suppress(self._session.errors.NoNodeError):
            data, _ = self._session.request(lambda client: client.get_async(path))
            try:
                record = LEADER_RECORDS.decode(data)
            except msgspec.MsgspecError as error:
                raise CheckpointStorageError(f"{self}: {names[0]} is damaged: {error}") from error
            if not is_gone(record.process):
                return record
            # This machine learns of the process's end before ZooKeeper expires the session.
            self._session.request(lambda client: client.delete_async(path))
        return self._first_candidate()

    def _wake(self, _: object) -> None:
        self._look.set()

    def _candidates(self) -> list[str]:
        path = self._nodes.candidates
        names = self._session.request(lambda client: client.get_children_async(path))
        return sorted(names, key=lambda name: name.rpartition("-")[2])

    def _is_own(self, name: str) -> bool:
        return name.startswith(self._own)

    def _try_to_lead(self) -> bool:
        """Begin an epoch; return False if this driver is no longer the first candidate."""
        path = self._nodes.epoch
        session = self._session
        data, stat = session.request(lambda client: client.get_async(path))
        record = LeaderRecord(
            stat.version + 1, secrets.token_hex(8), 0, socket.gethostname(), this_process()
        )
        own = msgspec.json.encode(record)
        try:
            session.request(lambda client: client.set_async(path, own, version=stat.version))
        except session.errors.BadVersionError:
            data, _ = session.request(lambda client: client.get_async(path))
            if data != own:
                return False
            # An interrupted attempt succeeded.
        with self._state:
            self._is_expired = False
        if not any(self._is_own(name) for name in self._candidates()):
            return False  # the session had ended before; a later loss is reported
        with self._lock:
            self._epoch, self._is_leader = record.epoch, True
        logger.info("this driver leads %s in epoch %d", self, record.epoch)
        return True

    # ---- inside: the session -------------------------------------------------------------------

    def _state_changed(self, state: str) -> None:
        with self._state:
            if state == "LOST":
                self._is_expired = True
            elif state == "SUSPENDED":
                self._suspended_s = time.monotonic()
            else:
                self._suspended_s = None
            self._state.notify_all()

    def _watch(self) -> None:
        """End the leadership with the session, even if no server answers."""
        timeout_s = self._settings.session_timeout_ms / 1000
        with self._state:
            while not self._is_closed:
                if self._is_expired:
                    reason = "its session with ZooKeeper is over"
                    break
                left_s = None
                if self._suspended_s is not None:
                    left_s = self._suspended_s + timeout_s - time.monotonic()
                    if left_s <= 0:
                        reason = f"no ZooKeeper has answered for {timeout_s:g} s"
                        break
                self._state.wait(left_s)
            else:
                return
        self._end(reason)
        # Servers may have kept the session, and with it this candidate.
        self._session.close()


class Nodes:
    """The paths of a cluster id's nodes."""

    def __init__(self, settings: ZooKeeperSettings, cluster_id: str) -> None:
        """Create the paths."""
        self.base = f"{settings.root.rstrip('/')}/{cluster_id}"
        self.candidates = f"{self.base}/candidates"
        self.epoch = f"{self.base}/epoch"
        self.kept = f"{self.base}/kept"

    def of(self, name: str) -> str:
        """Return the path of a name's node."""
        return f"{self.kept}/{name}"


def inline_content(value: bytes) -> bytes | None:
    """Return the content of a ``kept`` node, or None if it is in a file."""
    return value[1:] if value[:1] == _INLINE else None


def _file_of(value: bytes | None) -> str | None:
    """Return the name of the file that a node refers to, or None."""
    return value[1:].decode() if value is not None and value[:1] == _IN_FILE else None
