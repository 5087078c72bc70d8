"""An MQTT 5 broker, and a connection to it that a thread of the client library keeps alive."""

from __future__ import annotations

import logging
import ssl
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from penstock.common.packages.optional_library import optional_library
from penstock.errors import InvalidProgramError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}

#: The longest topic or filter in MQTT, which stores its length in two bytes.
MAX_TOPIC_BYTES: Final = 65_535

#: The client's keep-alive interval, in seconds.
_KEEP_ALIVE_S: Final = 60

#: The first and the longest delay before a reconnect, in seconds.
_RECONNECT_S: Final = (1, 2)

#: Transient reasons of a refusal: the server is unavailable or busy, or a limit is exceeded.
_PASSING: Final = frozenset({136, 137, 151, 159})


class _TlsSocket(ssl.SSLSocket):
    """A socket that closes itself if its handshake fails.

    The library would leave one socket per attempt to the garbage collector.
    """

    def do_handshake(self, block: bool = False) -> None:
        """Perform the TLS handshake; close the socket if it fails."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class MqttServer:
    """Address and credentials of a broker.

    Attributes:
        shown: Host and port, for messages.
        connect_timeout_s: Time to wait for the broker at the start.
    """

    def __init__(self, user: str, url: str, ca_file: str | None, connect_timeout_ms: int) -> None:
        """Check the arguments; do not connect.

        Args:
            user: The source or sink, for messages.
            url: ``mqtt://user:password@host:port`` or ``mqtts://…``.
            ca_file: A PEM file with the trusted certificates; the system's if None.
            connect_timeout_ms: Time to wait for the broker at the start.

        Raises:
            InvalidProgramError: An argument is invalid.
            DependencyError: The package paho-mqtt is not installed.
        """
        mqtt_library(user)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        more = parts.path.strip("/") + parts.query + parts.fragment
        if parts.scheme not in _PORTS or not parts.hostname or port == 0 or more:
            # The rest of the URL may contain a password.
            raise InvalidProgramError(
                f"{user} takes a URL as mqtt://host:1883 or mqtts://user:password@host, got one of "
                f"the scheme {parts.scheme!r} and the host {parts.hostname!r}"
                f"{f', with {more!r} behind' if more else ''}"
            )
        if ca_file is not None and parts.scheme != "mqtts":
            raise InvalidProgramError(f"{user}: ca_file is for mqtts://, the URL is of mqtt://")
        if connect_timeout_ms < 1:
            raise InvalidProgramError(
                f"{user}: connect_timeout_ms is at least 1, got {connect_timeout_ms}"
            )
        self.user = user
        self.connect_timeout_s = connect_timeout_ms / 1000
        self._host, self._port = parts.hostname, port or _PORTS[parts.scheme]
        self.shown = f"{self._host}:{self._port}"
        self._has_tls, self._ca_file = parts.scheme == "mqtts", ca_file
        self._name = None if parts.username is None else unquote(parts.username)
        self._password = None if parts.password is None else unquote(parts.password)

    def client(self, client_id: str, *, acknowledges_itself: bool) -> Any:
        """Create a client of the library, which is not connected.

        Args:
            client_id: Its name at the broker.
            acknowledges_itself: Whether it acknowledges messages on arrival.
        """
        library = mqtt_library(self.user)
        client = library.Client(
            library.CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=library.MQTTv5,
            manual_ack=not acknowledges_itself,
        )
        client.enable_logger(logger)
        client.reconnect_delay_set(*_RECONNECT_S)
        if self._name is not None:
            client.username_pw_set(self._name, self._password)
        if self._has_tls:
            try:
                context = ssl.create_default_context(cafile=self._ca_file)
            except OSError as error:
                raise InvalidProgramError(
                    f"{self.user}: ca_file must be a PEM file of certificates that the worker can "
                    f"read, got {self._ca_file!r}: {error}"
                ) from error
            context.sslsocket_class = _TlsSocket
            client.tls_set_context(context)
        return client

    def connect(self, client: Any, clean_start: Any, properties: Any = None) -> None:
        """Start the client's thread, which connects and reconnects."""
        client.connect_async(
            self._host,
            self._port,
            _KEEP_ALIVE_S,
            clean_start=clean_start,
            properties=properties,
        )
        client.loop_start()


class MqttConnection:
    """A connection of a reader or writer.

    Attributes:
        condition: Guards the state shared with the library's thread; notified of changes.
        failure: Why the connection cannot be used any more, or None.
    """

    def __init__(
        self, server: MqttServer, client: Any, error: Callable[[str], PenstockError]
    ) -> None:
        """Create a connection for a client that is not connected.

        Args:
            server: The broker.
            client: The library's client.
            error: Returns the exception for a message.
        """
        self.server = server
        self.client = client
        self.condition = threading.Condition()
        self.failure: PenstockError | None = None
        self._error = error
        self._deadline_s: float | None = time.monotonic() + server.connect_timeout_s
        #: The error of the last attempt to connect.
        self._last: BaseException | None = None
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_disconnect = self._on_disconnect

    def check(self) -> None:
        """Raise an error if the connection failed, or was not established in time."""
        with self.condition:
            if self.failure is not None:
                raise self.failure
            if self._deadline_s is not None and time.monotonic() >= self._deadline_s:
                last = "" if self._last is None else f": {self._last!r}"
                raise self._error(
                    f"cannot be reached within {self.server.connect_timeout_s:g} s "
                    f"(connect_timeout_ms){last}"
                )

    def fail(self, what: str) -> None:
        """Store the first failure; called in the library's thread."""
        with self.condition:
            if self.failure is None:
                self.failure = self._error(what)
            self.condition.notify_all()

    def on_connected(self, *, has_session: bool) -> None:
        """Handle a new connection, the first one or a later one.

        Args:
            has_session: Whether the broker still has the session with its unacknowledged messages.
        """

    def on_disconnected(self) -> None:
        """Handle a lost connection; the library reconnects."""

    def close(self) -> None:
        """Close the connection and stop the thread."""
        self.client.disconnect()
        self.client.loop_stop()
        # Closes the sockets that wake the library's thread, which only garbage collection would
        # close.
        self.client.reinitialise()

    def _on_connect(
        self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        del client, userdata, properties
        if reason.is_failure:
            if reason.value not in _PASSING:
                self.fail(f"rejects the credentials: {reason}")
            return
        with self.condition:
            self._deadline_s = None
        self.on_connected(has_session=bool(flags.session_present))

    def _on_connect_fail(self, client: Any, userdata: Any) -> None:
        del client, userdata
        with self.condition:
            self._last = sys.exc_info()[1]  # the library is about to suppress it

    def _on_disconnect(
        self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        del client, userdata, flags, properties
        self.on_disconnected()
        if reason.is_failure:
            logger.warning("%s: the connection is lost: %s; reconnecting", self.server.user, reason)


def mqtt_library(used_by: str) -> Any:
    """Import the module ``paho.mqtt.client``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("paho.mqtt.client", "paho-mqtt", "mqtt", used_by)
