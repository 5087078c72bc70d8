"""RMQConnectionConfig: address, login and recovery of a broker's connection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.errors import InvalidProgramError, WrongArgumentError

_PORTS: Final = {"amqp": 5672, "amqps": 5671}

#: The smallest and largest value of each setting.
_LIMITS: Final = {
    "port": (1, 65_535),
    "network_recovery_interval": (1, 2**31 - 1),
    "connection_timeout": (1, 2**31 - 1),
    "requested_channel_max": (1, 65_535),
    "requested_frame_max": (4096, 131_072),
    "requested_heartbeat": (0, 65_535),
    "prefetch_count": (1, 65_535),
}


@dataclass(frozen=True)
class _Settings:
    """Settings of a builder; None for those that were not set."""

    host: str | None = None
    port: int | None = None
    virtual_host: str | None = None
    user_name: str | None = None
    password: str | None = None
    uri: str | None = None
    network_recovery_interval: int | None = None
    automatic_recovery: bool | None = None
    topology_recovery: bool | None = None
    connection_timeout: int | None = None
    requested_channel_max: int | None = None
    requested_frame_max: int | None = None
    requested_heartbeat: int | None = None
    prefetch_count: int | None = None


@dataclass(frozen=True)
class BrokerAddress:
    """Address and login of a broker, from the settings or the URI.

    Attributes:
        host: The host.
        port: The port.
        virtual_host: The virtual host.
        user_name: The user.
        password: The user's password.
        has_tls: Whether the connection is TLS.
    """

    host: str
    port: int
    virtual_host: str
    user_name: str
    password: str
    has_tls: bool


class RMQConnectionConfig(NoJavaMembers):
    """Connection to a RabbitMQ broker; created by `RMQConnectionConfig.Builder`."""

    def __init__(self, settings: _Settings) -> None:
        """Store the settings of a builder."""
        self._settings = settings

    def __repr__(self) -> str:
        address = self.address()
        return f"RMQConnectionConfig({address.host}:{address.port})"

    def get_host(self) -> str | None:
        """Return the host; None if there is a URI."""
        return self._settings.host

    def get_port(self) -> int | None:
        """Return the port; None if there is a URI."""
        return self._settings.port

    def get_virtual_host(self) -> str | None:
        """Return the virtual host; None if there is a URI."""
        return self._settings.virtual_host

    def get_user_name(self) -> str | None:
        """Return the user name; None if there is a URI."""
        return self._settings.user_name

    def get_password(self) -> str | None:
        """Return the user's password; None if there is a URI."""
        return self._settings.password

    def get_uri(self) -> str | None:
        """Return the URI, or None."""
        return self._settings.uri

    def get_network_recovery_interval(self) -> int | None:
        """Return the delay between reconnection attempts, in ms, if set."""
        return self._settings.network_recovery_interval

    def is_automatic_recovery(self) -> bool | None:
        """Return whether a lost connection is restored, if set."""
        return self._settings.automatic_recovery

    def is_topology_recovery(self) -> bool | None:
        """Return whether the queue is declared again after a reconnect, if set."""
        return self._settings.topology_recovery

    def get_connection_timeout(self) -> int | None:
        """Return the connection timeout, in ms, if set."""
        return self._settings.connection_timeout

    def get_requested_channel_max(self) -> int | None:
        """Return the requested number of channels, if set."""
        return self._settings.requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        """Return the requested frame size, in bytes, if set."""
        return self._settings.requested_frame_max

    def get_requested_heartbeat(self) -> int | None:
        """Return the requested heartbeat interval, in s, if set."""
        return self._settings.requested_heartbeat

    def get_prefetch_count(self) -> int | None:
        """Return the number of unacknowledged messages that the broker sends ahead, if set."""
        return self._settings.prefetch_count

    def address(self) -> BrokerAddress:
        """Return the address in the settings or the URI."""
        found = self._settings
        if found.uri is not None:
            return _parsed(found.uri)
        return BrokerAddress(
            str(found.host),
            found.port or _PORTS["amqp"],
            str(found.virtual_host),
            str(found.user_name),
            str(found.password),
            has_tls=False,
        )

    class Builder(NoJavaMembers):
        """Builder of the settings: a URI, or host, virtual host, user name and password."""

        def __init__(self) -> None:
            """Create a builder without settings."""
            self._settings = _Settings()

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            """Set the port."""
            return self._with("port", port)

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            """Set the host."""
            return self._with("host", host)

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            """Set the virtual host; ``/`` is the one of a new broker."""
            return self._with("virtual_host", vhost)

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            """Set the user name."""
            return self._with("user_name", user_name)

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            """Set the user's password."""
            return self._with("password", password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """Set the URI, ``amqp://user:password@host:port/virtual_host``; ``amqps`` for TLS."""
            return self._with("uri", uri)

        def set_topology_recovery_enabled(
            self, topology_recovery_enabled: bool
        ) -> RMQConnectionConfig.Builder:
            """Set whether a lost queue is declared again after a reconnect."""
            return self._with("topology_recovery", topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Set the requested heartbeat interval, in s; 0 for none."""
            return self._with("requested_heartbeat", requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            """Set the requested frame size, in bytes."""
            return self._with("requested_frame_max", requested_frame_max)

        def set_requested_channel_max(
            self, requested_channel_max: int
        ) -> RMQConnectionConfig.Builder:
            """Set the requested number of channels."""
            return self._with("requested_channel_max", requested_channel_max)

        def set_network_recovery_interval(
            self, network_recovery_interval: int
        ) -> RMQConnectionConfig.Builder:
            """Set the delay between reconnection attempts, in ms; 5000 by default."""
            return self._with("network_recovery_interval", network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """Set the connection timeout, in ms; 60,000 by default."""
            return self._with("connection_timeout", connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Set whether a lost or refused connection is tried again; True by default."""
            return self._with("automatic_recovery", automatic_recovery)

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """Set the number of messages sent ahead of acknowledgements; 65,535 by default."""
            return self._with("prefetch_count", prefetch_count)

        def build(self) -> RMQConnectionConfig:
            """Return the settings.

            Raises:
                InvalidProgramError: Neither a URI nor all of host, port, virtual host, user name
                    and password were set, or both.
            """
            found = self._settings
            parts = ("host", "port", "virtual_host", "user_name", "password")
            missing = [name for name in parts if getattr(found, name) is None]
            if found.uri is None and missing:
                raise InvalidProgramError(
                    f"RMQConnectionConfig needs set_{missing[0]}, or set_uri for all of it"
                )
            if found.uri is not None and len(missing) < len(parts):
                given = next(name for name in parts if name not in missing)
                raise InvalidProgramError(
                    f"RMQConnectionConfig takes set_uri or set_{given}, not both"
                )
            return RMQConnectionConfig(found)

        def _with(self, name: str, value: Any) -> RMQConnectionConfig.Builder:
            _check(name, value)
            self._settings = replace(self._settings, **{name: value})
            return self


def _check(name: str, value: Any) -> None:
    """Check the value of a setting.

    Raises:
        InvalidProgramError: The value is invalid.
    """
    shown = "what was given" if name in ("uri", "password") else repr(value)
    if name in _LIMITS:
        least, most = _LIMITS[name]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise WrongArgumentError(
                f"RMQConnectionConfig: {name} is a number from {least} to {most}, got {shown}"
            )
        return
    if name.endswith("_recovery"):
        if not isinstance(value, bool):
            raise WrongArgumentError(f"RMQConnectionConfig: {name} is True or False, got {shown}")
    elif not isinstance(value, str):
        raise WrongArgumentError(f"RMQConnectionConfig: {name} is a text, got {shown}")
    elif name == "uri":
        _parsed(value)
    elif name in ("host", "virtual_host", "user_name") and not value:
        raise WrongArgumentError(f"RMQConnectionConfig: {name} is a text that is not empty")


def _parsed(uri: str) -> BrokerAddress:
    """Parse a URI; omitted parts are a new broker's defaults, as in its clients.

    Raises:
        InvalidProgramError: The URI does not name a RabbitMQ broker.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    more = parts.query or parts.fragment or "/" in parts.path[1:]
    if parts.scheme not in _PORTS or not parts.hostname or port == 0 or more:
        # The rest of the URI may contain a password.
        raise WrongArgumentError(
            "RMQConnectionConfig takes a URI as amqp://user:password@host:5672/virtual_host, got "
            f"one of the scheme {parts.scheme!r} and the host {parts.hostname!r}"
            f"{', with more behind it' if more else ''}"
        )
    return BrokerAddress(
        parts.hostname,
        port or _PORTS[parts.scheme],
        unquote(parts.path[1:]) or "/",
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        has_tls=parts.scheme == "amqps",
    )
