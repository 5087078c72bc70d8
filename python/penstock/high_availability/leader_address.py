"""Retrieval of a leader's address: the last one published for a cluster id."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from penstock.common.values.decoders import json_decoder
from penstock.errors import CheckpointStorageError
from penstock.high_availability.file_leader_election import current_epoch
from penstock.high_availability.zookeeper_leader_election import Nodes, inline_content
from penstock.high_availability.zookeeper_session import ZooKeeperSession

if TYPE_CHECKING:
    from penstock.high_availability.leader_election import LeaderElectionService
    from penstock.high_availability.zookeeper_session import ZooKeeperSettings

_NAME: Final = "address"

#: Callers that poll every second do not wait for long.
_ANSWER_S: Final = 3.0


class LeaderAddress(msgspec.Struct, frozen=True):
    """The address of a leader.

    Attributes:
        epoch: The epoch of the leader.
        host: The host at which others reach it.
        port: The port at which others reach it.
    """

    epoch: int
    host: str
    port: int


_ADDRESSES: Final = json_decoder(LeaderAddress)


class LeaderFinder(Protocol):
    """Looks up the leader's address repeatedly; one thread at a time."""

    def find(self) -> LeaderAddress | None:
        """Return the leader's address; None while no leader has published one.

        Raises:
            CheckpointStorageError: The published address cannot be read, or no server answers.
            OSError: The storage fails.
        """

    def close(self) -> None:
        """Release the finder's resources."""


def publish_address(leadership: LeaderElectionService, host: str, port: int) -> None:
    """Publish the address of a leader.

    Raises:
        LeadershipLostError: Another driver leads.
        OSError: The storage fails.
    """
    address = LeaderAddress(leadership.epoch, host, port)
    leadership.publish(_NAME, msgspec.json.encode(address))


class FileLeaderFinder:
    """Reads the file of the last epoch."""

    def __init__(self, storage_folder: str, cluster_id: str) -> None:
        """Create a finder for a cluster id."""
        self._root = Path(storage_folder, cluster_id)

    def find(self) -> LeaderAddress | None:
        """Return the leader's address."""
        if not self._root.exists():
            return None
        epoch, directory = current_epoch(self._root)
        try:
            data = (directory / _NAME).read_bytes()
        except FileNotFoundError:
            return None  # not published, or the next epoch has begun meanwhile
        return _address(data, epoch, str(directory / _NAME))

    def close(self) -> None:
        """Do nothing: no resources are open."""


class ZooKeeperLeaderFinder:
    """Reads the address from a ZooKeeper, over one session."""

    def __init__(self, settings: ZooKeeperSettings, cluster_id: str) -> None:
        """Create a finder, which connects on first use.

        Raises:
            DependencyError: The package kazoo is missing.
        """
        self._settings = settings
        self._nodes = Nodes(settings, cluster_id)
        self._session = ZooKeeperSession(settings, _ANSWER_S)
        self._is_started = False

    def find(self) -> LeaderAddress | None:
        """Return the leader's address."""
        if not self._is_started:
            self._session.start()
            self._is_started = True
        path = self._nodes.of(_NAME)
        try:
            value, _ = self._session.request(lambda client: client.get_async(path))
        except self._session.errors.NoNodeError:
            return None  # not published
        stat = self._session.request(lambda client: client.exists_async(self._nodes.epoch))
        return _address(inline_content(value) or b"", 0 if stat is None else stat.version, path)

    def close(self) -> None:
        """End the session."""
        self._session.close()


def _address(data: bytes, epoch: int, where: str) -> LeaderAddress | None:
    """Return a leader's published address; None if it belongs to another epoch."""
    try:
        address = _ADDRESSES.decode(data)
    except msgspec.MsgspecError as error:
        raise CheckpointStorageError(f"{where} is damaged: {error}") from error
    return address if address.epoch == epoch else None
