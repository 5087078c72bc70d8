"""A ZooKeeper session with bounded requests, which raise the errors of a storage."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.common.packages.optional_library import optional_library
from penstock.errors import CheckpointStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two attempts of a request whose connection was lost.
_PAUSE_S: Final = 0.05

#: Longest pause between two attempts to connect.
_LONGEST_PAUSE_S: Final = 1.0


@dataclass(frozen=True)
class ZooKeeperSettings:
    """The ZooKeeper and its timeouts.

    Attributes:
        quorum: The servers: ``HOST:PORT``, separated by commas.
        root: The parent node of penstock's nodes, such as ``/penstock``.
        session_timeout_ms: Time after which the session of a silent client ends.
        connection_timeout_ms: Timeout of the first connection.
        authorization: The client's credentials: schemes and their values.
        is_private: Whether only clients with the same credentials may access the nodes.
    """

    quorum: str
    root: str
    session_timeout_ms: int
    connection_timeout_ms: int
    authorization: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    is_private: bool = False


class ZooKeeperSession:
    """A client of a ZooKeeper, which reconnects by itself."""

    def __init__(self, settings: ZooKeeperSettings, request_timeout_s: float | None = None) -> None:
        """Create an unconnected session.

        Args:
            settings: The ZooKeeper and its timeouts.
            request_timeout_s: Timeout of a request; None for the session timeout.

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
        """Register a listener of the states ``CONNECTED``, ``SUSPENDED`` and ``LOST``."""
        self._client.add_listener(lambda state: listener(str(state)))

    def start(self) -> None:
        """Connect.

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
        """End the session and its ephemeral nodes; may be called again."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._client.stop()
        self._client.close()

    def request(self, begin: Callable[[Any], Any]) -> Any:
        """Send a request, and retry while there is no connection.

        Args:
            begin: Sends the request with kazoo's client and returns its asynchronous result.

        Returns:
            The result.  An interrupted attempt may have succeeded, too.

        Raises:
            OSError: There was no answer in time, or ZooKeeper rejected the request.
            ZookeeperError: One of `errors` about nodes: NoNodeError, NodeExistsError or
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
        """Apply changes if a node still has a version; all or nothing.

        Args:
            check_path: The node.
            version: Its version.
            add: Adds one change to kazoo's transaction.

        Raises:
            OSError: See `request`.
            StaleVersionError: The node has another version.
            ZookeeperError: The change is impossible; see `request`.
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
    """A node now has another version."""
