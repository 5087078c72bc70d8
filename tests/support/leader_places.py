"""The two ways in which drivers elect a leader, for tests that apply to both."""

import contextlib
from pathlib import Path

import pytest
from penstock.high_availability.services import HighAvailabilityServices
from support.zookeeper_server import JARS, ZooKeeperServer

KINDS = ("filesystem", "zookeeper")


class Place:
    """One cluster id without any leader so far.

    Attributes:
        options: The options that all its drivers and jobmanagers share.
        folder: Its storage.
    """

    def __init__(self, folder, options, lease_key):
        self.folder = folder
        self._lease_key = lease_key
        self.options = {
            "high-availability.storageDir": str(folder),
            "high-availability.cluster-id": "mine",
            **options,
        }

    def with_lease(self, lease_ms):
        return {**self.options, self._lease_key: f"{lease_ms} ms"}

    def services(self, lease_ms):
        return HighAvailabilityServices.configured(self.with_lease(lease_ms))


class FilePlace(Place):
    """Leader election by renaming a directory."""

    def __init__(self, folder):
        super().__init__(
            folder, {"high-availability.type": "filesystem"}, "penstock.high-availability.lease"
        )

    @property
    def epoch_directory(self):
        (found,) = (self.folder / "mine").iterdir()
        return found

    def names(self):
        """Return the names that leaders have stored; empty during a takeover."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return sorted(path.name for path in self.epoch_directory.iterdir())
        return []

    def overtake(self):
        """Let another driver take over, as if the lease had ended."""
        path = self.epoch_directory
        path.rename(path.with_name(f"epoch-{int(path.name.partition('-')[2]) + 1}"))

    def close(self):
        pass


class ZooKeeperPlace(Place):
    """Leader election by writing to a node of ZooKeeper."""

    def __init__(self, folder, server, root):
        super().__init__(
            folder,
            {
                "high-availability.type": "zookeeper",
                "high-availability.zookeeper.quorum": server.quorum,
                "high-availability.zookeeper.path.root": root,
            },
            "high-availability.zookeeper.client.session-timeout",
        )
        from kazoo.client import KazooClient

        self.base = f"{root}/mine"
        self.client = KazooClient(server.quorum)
        self.client.start()

    def names(self):
        """Return the names that leaders have stored; empty before the first leader."""
        from kazoo.exceptions import NoNodeError

        try:
            return sorted(self.client.get_children(f"{self.base}/kept"))
        except NoNodeError:
            return []

    def overtake(self):
        """Let another driver take over, as if the session had ended."""
        self.client.set(f"{self.base}/epoch", b"{}")

    def close(self):
        self.client.stop()
        self.client.close()


def serving_zookeeper(tmp_path_factory):
    """Yield a shared server, for a fixture."""
    if not JARS.exists():
        pytest.skip("the server's jars are not there: make build/kafka/jars")
    server = ZooKeeperServer(Path(tmp_path_factory.mktemp("zookeeper")))
    try:
        yield server.start()
    finally:
        server.stop()
