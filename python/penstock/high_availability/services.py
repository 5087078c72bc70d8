"""High availability of a program: the order of its jobs, and its leadership."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.checkpoint_storage.file_systems import FileSystems, absolute
from penstock.checkpoint_storage.storage import configured_directory
from penstock.common.options import checkpointing, high_availability
from penstock.errors import ConfigurationError, InvalidProgramError
from penstock.high_availability.file_leader_election import FileLeaderElectionService
from penstock.high_availability.job_records import JobRecords
from penstock.high_availability.leader_address import FileLeaderFinder, ZooKeeperLeaderFinder
from penstock.high_availability.zookeeper_leader_election import ZooKeeperLeaderElectionService
from penstock.high_availability.zookeeper_session import ZooKeeperSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.high_availability.leader_address import LeaderFinder
    from penstock.high_availability.leader_election import LeaderElectionService

_CLUSTER_ID: Final = re.compile(r"/?([A-Za-z0-9_][A-Za-z0-9_.-]*)")


class _OfProcess:
    """High-availability services that jobs of this process with one cluster id share.

    Attributes:
        begun: Number of jobs begun: the next driver begins the same ones, in the same order.
        running: Number of jobs running under ``leadership``.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begun = 0
        self.running = 0
        self.leadership: LeaderElectionService | None = None


_of_process: defaultdict[str, _OfProcess] = defaultdict(_OfProcess)


@dataclass(frozen=True)
class HighAvailabilityServices:
    """Services that outlive the driver of a program.

    Attributes:
        storage_folder: The folder of all records; with a ZooKeeper, of large ones only.
        cluster_id: The cluster id of the program.
        lease_ms: Time after which a silent driver is replaced, without a ZooKeeper.
        zookeeper: The ZooKeeper that elects the leader; None if the folder does.
        files: File systems of the folder, with a ZooKeeper.
    """

    storage_folder: str
    cluster_id: str
    lease_ms: int
    zookeeper: ZooKeeperSettings | None = None
    files: FileSystems = field(default_factory=lambda: FileSystems({}), compare=False)

    @staticmethod
    def of(
        configuration: Mapping[str, str], *, takes_checkpoints: bool, collects: bool
    ) -> HighAvailabilityServices | None:
        """Return the configured services; None if a job ends with its driver.

        Args:
            configuration: The configuration of a job.
            takes_checkpoints: Whether the job takes checkpoints.
            collects: Whether the program collects results of the job.

        Raises:
            ConfigurationError: Options contradict each other.
            InvalidProgramError: The job cannot continue in another driver.
        """
        services = HighAvailabilityServices.configured(configuration)
        if services is None:
            return None
        services.check_job(configuration, takes_checkpoints=takes_checkpoints, collects=collects)
        return services

    @staticmethod
    def configured(configuration: Mapping[str, str]) -> HighAvailabilityServices | None:
        """Return the services in the options; None if they are off.

        Raises:
            ConfigurationError: Options contradict each other.
        """
        kind = high_availability.TYPE.read(configuration)
        if kind == "NONE":
            return None
        needs = f"{high_availability.TYPE.key}: {kind} needs"
        folder = high_availability.STORAGE_FOLDER.read(configuration)
        key = high_availability.STORAGE_FOLDER.key
        if folder is None:
            raise ConfigurationError(
                f"{needs} {key}: name a folder that all drivers of the job reach"
            )
        parts = urlsplit(folder)
        if kind == "filesystem" and parts.scheme not in ("", "file"):
            raise ConfigurationError(
                f"{key}: {folder}: leaders are elected by renaming a directory, which object "
                "stores cannot do: name a folder of a file system that all drivers mount, or use "
                "a ZooKeeper"
            )
        cluster_id = high_availability.CLUSTER_ID.read(configuration)
        if cluster_id is None:
            raise ConfigurationError(
                f"{needs} {high_availability.CLUSTER_ID.key}: name the program, so that its "
                "drivers, and no others, take over from each other"
            )
        name = _CLUSTER_ID.fullmatch(cluster_id)
        if name is None:
            raise ConfigurationError(
                f"{high_availability.CLUSTER_ID.key}: {cluster_id!r} is not a valid folder "
                "name: use letters, digits, '_', '-' and '.'"
            )
        local = absolute(parts.path if parts.scheme in ("", "file") else folder)
        return HighAvailabilityServices(
            local,
            name[1],
            high_availability.LEASE.read(configuration),
            _zookeeper(configuration) if kind == "zookeeper" else None,
            FileSystems(configuration, is_private=True),
        )

    @staticmethod
    def check_job(
        configuration: Mapping[str, str], *, takes_checkpoints: bool, collects: bool
    ) -> None:
        """Check that a job can continue in another driver; arguments and errors as in `of`."""
        if takes_checkpoints and configured_directory(configuration) is None:
            raise ConfigurationError(
                f"{high_availability.TYPE.key} needs {checkpointing.FOLDER.key}: "
                "checkpoints that the driver keeps end with it"
            )
        if collects:
            raise InvalidProgramError(
                "results that a program collects are lost with its driver: with "
                f"{high_availability.TYPE.key} a job writes them to a sink"
            )

    def leadership(self) -> LeaderElectionService:
        """Create a leader election service that is yet to be acquired.

        Raises:
            ConfigurationError: The scheme of the folder is unknown.
            DependencyError: A package is missing.
        """
        if self.zookeeper is None:
            return FileLeaderElectionService(self.storage_folder, self.cluster_id, self.lease_ms)
        return ZooKeeperLeaderElectionService(
            self.zookeeper, self.storage_folder, self.cluster_id, self.files
        )

    def finder(self) -> LeaderFinder:
        """Return the finder of the leader; the caller closes it.

        Raises:
            DependencyError: A package is missing.
        """
        if self.zookeeper is None:
            return FileLeaderFinder(self.storage_folder, self.cluster_id)
        return ZooKeeperLeaderFinder(self.zookeeper, self.cluster_id)

    def __str__(self) -> str:
        if self.zookeeper is None:
            return f"{self.storage_folder}/{self.cluster_id}"
        return f"{self.zookeeper.root}/{self.cluster_id} of ZooKeeper {self.zookeeper.quorum}"

    def lead(self) -> JobRecords:
        """Wait until no other driver leads.

        Returns:
            The records of the job that the program now begins; pass the job's end to `release`.

        Raises:
            CheckpointStorageError: The storage cannot be used.
        """
        shared = _of_process[str(self)]
        with shared.lock:
            if shared.leadership is None:
                leadership = self.leadership()
                leadership.acquire()
                shared.leadership = leadership
            shared.running += 1
            name = f"{self.cluster_id}/{shared.begun}"
            shared.begun += 1
            job_id = hashlib.blake2b(name.encode(), digest_size=16).digest()
            return JobRecords(shared.leadership, job_id)

    def release(self) -> None:
        """Note the end of a job; after the last one, the next driver may lead."""
        shared = _of_process[str(self)]
        with shared.lock:
            shared.running -= 1
            if shared.running == 0 and shared.leadership is not None:
                shared.leadership.release()
                shared.leadership = None


def _zookeeper(configuration: Mapping[str, str]) -> ZooKeeperSettings:
    quorum = high_availability.ZOOKEEPER_QUORUM.read(configuration)
    if quorum is None:
        raise ConfigurationError(
            f"{high_availability.TYPE.key}: zookeeper needs "
            f"{high_availability.ZOOKEEPER_QUORUM.key}: HOST:PORT of its servers"
        )
    if high_availability.LEASE.is_set(configuration):
        raise ConfigurationError(
            f"{high_availability.LEASE.key} has no effect with zookeeper: set "
            f"{high_availability.ZOOKEEPER_SESSION_TIMEOUT.key}"
        )
    root = high_availability.ZOOKEEPER_ROOT.read(configuration)
    if not root.startswith("/") or "//" in root:
        raise ConfigurationError(
            f"{high_availability.ZOOKEEPER_ROOT.key}: {root!r} is not a path such as /penstock"
        )
    acl = high_availability.ZOOKEEPER_ACL.read(configuration)
    authorization = high_availability.ZOOKEEPER_AUTHORIZATION.read(configuration)
    if acl == "creator" and not authorization:
        raise ConfigurationError(
            f"{high_availability.ZOOKEEPER_ACL.key}: creator needs "
            f"{high_availability.ZOOKEEPER_AUTHORIZATION.key}, such as digest:'user:password': "
            "without "
            "it, the ZooKeeper does not know its client"
        )
    return ZooKeeperSettings(
        quorum,
        root,
        high_availability.ZOOKEEPER_SESSION_TIMEOUT.read(configuration),
        high_availability.ZOOKEEPER_CONNECTION_TIMEOUT.read(configuration),
        tuple(authorization.items()),
        is_private=acl == "creator",
    )
