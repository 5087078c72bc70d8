"""A session with a ZooKeeper whose requests end, and errors are those of a storage."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.common.optional_library import optional_library
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Between two attempts of a request whose connection was lost.
_PAUSE_S: Final = 0.05

#: The longest pause between two attempts to connect.
_LONGEST_PAUSE_S: Final = 1.0


@dataclass(frozen=True)
class ZooKeeperSettings:
    """Which ZooKeeper, and how long it is waited for.

    Attributes:
        quorum: Its servers: ``HOST:PORT``, separated by commas.
        root: The node below which penstock keeps its own, as ``/penstock``.
        session_timeout_ms: How long a client that is not heard of is waited for.
        connection_timeout_ms: How long a first connection is waited for.
        authorization: What a client shows the servers: schemes with what they ask for.
        is_private: Whether only who shows the same may read and write the nodes.
    """

    quorum: str
    root: str
    session_timeout_ms: int
    connection_timeout_ms: int
    authorization: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    is_private: bool = False


class ZooKeeperSession:
    """One client of a ZooKeeper, which connects again by itself."""

    def __init__(self, settings: ZooKeeperSettings, request_timeout_s: float | None = None) -> None:
        """Connects to nothing yet.

        Args:
            settings: Which ZooKeeper.
            request_timeout_s: How long an answer is waited for; as long as for a client when None.

        Raises:
            DependencyError: The package kazoo is missing.
        """
        used_by = "high-availability.type: zookeeper"
        self._kazoo = optional_library("kazoo.client", "kazoo", "zookeeper", used_by)
        self.errors = optional_library("kazoo.exceptions", "kazoo", "zookeeper", used_by)
        security = optional_library("kazoo.security", "kazoo", "zookeeper", used_by)
        self._settings = settings
        session_s = settings.session_timeout_ms / 1000
        self._timeout_s = request_timeout_s or session_s
        self._client = self._kazoo.KazooClient(
            settings.quorum,
            timeout=session_s,
            default_acl=security.CREATOR_ALL_ACL if settings.is_private else None,
            auth_data=list(settings.authorization) or None,
            connection_retry={
                "max_tries": -1,
                "delay": _PAUSE_S,
                "max_delay": min(_LONGEST_PAUSE_S, session_s / 4),
            },
        )
        self._closed = threading.Event()

    def on_state(self, listener: Callable[[str], None]) -> None:
        """Has ``listener`` told ``CONNECTED``, ``SUSPENDED`` or ``LOST``, by kazoo's thread."""
        self._client.add_listener(lambda state: listener(str(state)))

    def start(self) -> None:
        """Connects.

        Raises:
            CheckpointStorageError: No server answers.
        """
        try:
            self._client.start(self._settings.connection_timeout_ms / 1000)
        except (self._client.handler.timeout_exception, OSError) as error:
            raise CheckpointStorageError(
                "high-availability.zookeeper.quorum: no ZooKeeper answers at "
                f"{self._settings.quorum}: {error}"
            ) from error

    def close(self) -> None:
        """Ends the session: what lives as long as it does is gone; once or more."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._client.stop()
        self._client.close()

    def request(self, begin: Callable[[Any], Any]) -> Any:
        """Does something, again and again while there is no connection.

        Args:
            begin: Begins it with kazoo's client, and returns what is to come.

        Returns:
            What has come.  An attempt that was cut off may have had its effect.

        Raises:
            OSError: There was no answer in time, or ZooKeeper refuses it.
            ZookeeperError: One of `errors` that are about nodes: NoNodeError, NodeExistsError,
                BadVersionError.
        """
        errors = self.errors
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                return begin(self._client).get(timeout=max(0.0, left_s))
            except (errors.NoNodeError, errors.NodeExistsError, errors.BadVersionError):
                raise
            except self._client.handler.timeout_exception:
                reason = f"no answer for {self._timeout_s:g} s"
            except (
                errors.ConnectionLoss,
                errors.ConnectionClosedError,
                errors.OperationTimeoutError,
                errors.SessionExpiredError,
            ) as error:
                reason = type(error).__name__
            except errors.KazooException as error:
                raise OSError(f"ZooKeeper at {self._settings.quorum} refuses: {error!r}") from error
            if left_s <= _PAUSE_S or self._closed.wait(_PAUSE_S):
                raise ConnectionError(f"ZooKeeper at {self._settings.quorum}: {reason}")

    def commit(self, check_path: str, version: int, add: Callable[[Any], None]) -> None:
        """Changes something if a node has still a version; all or nothing.

        Args:
            check_path: The node.
            version: Its version.
            add: Adds one change to kazoo's transaction.

        Raises:
            OSError: As of `request`.
            StaleVersionError: The node has another version.
            ZookeeperError: The change cannot be made, as of `request`.
        """

        def begin(client: Any) -> Any:
            transaction = client.transaction()
            transaction.check(check_path, version)
            add(transaction)
            return transaction.commit_async()

        checked, changed = self.request(begin)
        if isinstance(checked, (self.errors.BadVersionError, self.errors.NoNodeError)):
            raise StaleVersionError(check_path)
        for result in (checked, changed):
            if isinstance(result, (self.errors.NoNodeError, self.errors.NodeExistsError)):
                raise result
            if isinstance(result, self.errors.KazooException) and not isinstance(
                result, self.errors.RolledBackError
            ):
                raise OSError(f"ZooKeeper at {self._settings.quorum} refuses: {result!r}")


class StaleVersionError(Exception):
    """A node has another version by now."""
