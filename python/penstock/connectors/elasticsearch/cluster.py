"""Cluster: the nodes of Elasticsearch, their credentials and timeouts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.common.packages.optional_library import optional_library
from penstock.errors import InvalidProgramError
from penstock.external.background import shut_down

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PORT: Final = 9200


def transport_library(used_by: str) -> Any:
    """Return the module ``elastic_transport``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("elastic_transport", "elastic-transport", "elasticsearch", used_by)


@dataclass(frozen=True)
class Cluster:
    """The nodes of a cluster.

    Attributes:
        hosts: The nodes, as ``http://host:9200``.
        username: The user; None without credentials.
        password: The password.
        path_prefix: The prefix of the path of each request.
        connect_timeout_ms: How long to wait for a connection, in ms.
        socket_timeout_ms: How long to wait for a response, in ms.
        fingerprint: The SHA-256 fingerprint of a certificate that is trusted; None for the
            system's authorities.
        ca_file: The file with the certificates of trusted authorities; None for the system's.
    """

    hosts: tuple[str, ...]
    username: str | None = None
    password: str | None = None
    path_prefix: str = ""
    connect_timeout_ms: int = 5_000
    socket_timeout_ms: int = 60_000
    fingerprint: str | None = None
    ca_file: str | None = None

    @property
    def shown(self) -> str:
        """The hosts, for messages."""
        return f"Elasticsearch at {', '.join(self.hosts)}"

    def transport(self) -> ClusterTransport:
        """Return a transport, which connects on its first request."""
        return ClusterTransport(self)


def hosts_of(given: Sequence[str], used_by: str) -> tuple[str, ...]:
    """Return the URLs of nodes; ``http`` and port 9200 are the defaults.

    Raises:
        InvalidProgramError: A host is malformed, or the list is empty.
    """
    found = []
    for host in given:
        url = host if "://" in host else f"http://{host}"
        try:
            parts = urlsplit(url)
            port = _PORT if parts.port is None else parts.port
        except ValueError:
            parts, port = urlsplit(""), _PORT
        is_plain = parts.path in ("", "/") and not parts.query and "@" not in parts.netloc
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
            raise InvalidProgramError(
                f"{used_by}: a host is http://host:9200 or https://host:9200, without user or "
                f"path, got {host.rpartition('@')[2]!r}"
            )
        name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        found.append(f"{parts.scheme}://{name}:{port}")
    if not found:
        raise InvalidProgramError(f"{used_by} needs at least one host, such as http://host:9200")
    return tuple(dict.fromkeys(found))


class ClusterTransport:
    """Sends requests to the nodes in turn, in one thread.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        library = transport_library("ElasticsearchSink")
        #: The opened connections, which `interrupt` shuts down.
        self._opened: list[Any] = []
        headers = {}
        if cluster.username is not None:
            headers["authorization"] = library.client_utils.basic_auth_to_header(
                (cluster.username, cluster.password or "")
            )
        prefix = cluster.path_prefix.strip("/")
        self._transport = library.Transport(
            [
                replace(
                    library.client_utils.url_to_node_config(host),
                    path_prefix=f"/{prefix}" if prefix else "",
                    connections_per_node=1,
                    headers=headers,
                    **_trusted(host, cluster),
                )
                for host in cluster.hosts
            ],
            node_class=_node_class(library, cluster, self._opened),
            # If a node is unavailable, try another one at once; the writer backs off.
            max_retries=len(cluster.hosts) - 1,
            retry_on_status=(),
        )

    def post_bulk(self, body: bytes) -> tuple[int, Any]:
        """Send a bulk request.

        Returns:
            The status and the response: decoded JSON, or the text of another type.

        Raises:
            elastic_transport.TransportError: No node can be reached.
        """
        # Plain media types: servers reject those of another version's client.
        headers = {"accept": "application/json", "content-type": "application/x-ndjson"}
        answer = self._transport.perform_request("POST", "/_bulk", body=[body], headers=headers)
        return answer.meta.status, answer.body

    def interrupt(self) -> None:
        """Abort a request that another thread waits for."""
        for connection in list(self._opened):
            shut_down(connection.sock)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


def _trusted(host: str, cluster: Cluster) -> dict[str, Any]:
    if not host.startswith("https"):
        return {}
    return {"ssl_assert_fingerprint": cluster.fingerprint, "ca_certs": cluster.ca_file}


def _node_class(library: Any, cluster: Cluster, opened: list[Any]) -> Callable[..., Any]:
    """Return the class of nodes with the cluster's timeouts, which records its connections."""
    timeouts = optional_library(
        "urllib3.util.timeout", "urllib3", "elasticsearch", "ElasticsearchSink"
    )

    class Node(library.Urllib3HttpNode):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.pool.timeout = timeouts.Timeout(
                connect=cluster.connect_timeout_ms / 1000, read=cluster.socket_timeout_ms / 1000
            )
            plain: Any = self.pool.ConnectionCls

            class Noted(plain):  # type: ignore[misc]
                def connect(self) -> None:
                    super().connect()
                    opened[:] = [each for each in opened if each.sock is not None]
                    opened.append(self)

            self.pool.ConnectionCls = Noted

    return Node
