"""A connection to a RabbitMQ broker, kept alive by its own thread."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from penstock.common.packages.optional_library import optional_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connectors.rabbitmq.connection_config import RMQConnectionConfig
    from penstock.errors import PenstockError

logger = logging.getLogger(__name__)

#: Defaults of Flink's client, in ms.
_RECOVERY_INTERVAL_MS: Final = 5_000
_CONNECTION_TIMEOUT_MS: Final = 60_000

#: How long the thread waits for frames before it checks whether the connection is closed, in s.
_TURN_S: Final = 1.0

#: How long closing waits for pending work, in s: a broker may be silent.
_CLOSE_S: Final = 10.0

#: Transient reasons of the broker to close a connection: an operator, or an internal error.
_PASSING: Final = frozenset({320, 541})

_NOT_FOUND: Final = 404


class BrokerThread(ABC):
    """Connects, reconnects if necessary, and works on the connection's channel.

    The client library confines a connection to one thread.  The channel is transactional: when
    `commit` returns, the broker has executed the channel's commands and sent all responses.

    Attributes:
        condition: Guards the state shared with the task's thread; notified of changes.
        failure: Why the connection cannot be used any more, or None.
        session: The number of connections so far; delivery tags are valid within one.
        shown: The source or sink, queue, host and port, for messages.
    """

    def __init__(
        self,
        used_by: str,
        config: RMQConnectionConfig,
        queue: str,
        error: Callable[[str], PenstockError],
    ) -> None:
        """Create a connection; its thread starts with `start`.

        Args:
            used_by: The source or sink, for messages.
            config: The address of the broker.
            queue: The queue; declared as durable if it is missing.
            error: Returns the exception for a message.
        """
        self.condition = threading.Condition()
        self.failure: PenstockError | None = None
        self.session = 0
        self.queue = queue
        self._used_by, self._config, self._error = used_by, config, error
        self._library = pika_library(used_by)
        address = config.address()
        self.shown = f"{used_by} of queue {queue!r}: {address.host}:{address.port}"
        self._recovers = config.is_automatic_recovery() is not False
        interval_ms = config.get_network_recovery_interval() or _RECOVERY_INTERVAL_MS
        self._interval_s = interval_ms / 1000
        self._timeout_s = (config.get_connection_timeout() or _CONNECTION_TIMEOUT_MS) / 1000
        self._connection: Any = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=used_by, daemon=True)

    @abstractmethod
    def on_connected(self, channel: Any) -> None:
        """Prepare a new channel; the queue exists."""

    @abstractmethod
    def work(self, channel: Any) -> None:
        """Execute the requested work; may wait for the broker."""

    def start(self) -> None:
        """Start to connect."""
        self._thread.start()

    def check(self) -> None:
        """Raise the failure if the connection cannot be used any more."""
        with self.condition:
            if self.failure is not None:
                raise self.failure

    def was_connected(self) -> bool:
        """Return whether a connection was ever established."""
        return self.session > 0

    def wake(self) -> None:
        """Let the thread check for work now; may be called from any thread."""
        connection = self._connection
        if connection is not None:
            # Without a connection, the thread checks for work after connecting.
            with suppress(self._library.exceptions.ConnectionWrongStateError):
                connection.add_callback_threadsafe(_nothing)

    def fail(self, what: str, cause: BaseException | None = None) -> None:
        """Store the first failure."""
        with self.condition:
            if self.failure is None:
                self.failure = self._error(f"{self.shown} {what}")
                self.failure.__cause__ = cause
            self.condition.notify_all()

    def commit(self, channel: Any) -> None:
        """Commit the channel's transaction; return when the broker has executed it."""
        channel.tx_commit()

    def close(self) -> None:
        """Finish requested work if there is a connection; then close it and stop the thread.

        A thread that is connecting stops by itself: its wait cannot be interrupted.
        """
        self._closed.set()
        self.wake()
        self._thread.join(_TURN_S if self._connection is None else _CLOSE_S)

    def _run(self) -> None:
        exceptions = self._library.exceptions
        library_log = logging.getLogger("pika")
        if library_log.level == logging.NOTSET:
            # The library logs a dozen errors per attempt; this class logs the relevant one.
            library_log.setLevel(logging.CRITICAL)
        told_session = -1
        deadline_s = time.monotonic() + self._timeout_s
        while not self._closed.is_set() and self.failure is None:
            try:
                self._converse()
                continue
            except exceptions.ChannelClosedByBroker as error:
                self.fail(f"refuses queue {self.queue!r}: {_said(error)}", error)
                return
            except exceptions.ConnectionClosedByBroker as error:
                if error.reply_code not in _PASSING:
                    self.fail(f"rejects the credentials: {_said(error)}", error)
                    return
                lost: Exception = error
            except (
                exceptions.ProbableAuthenticationError,
                exceptions.ProbableAccessDeniedError,
                exceptions.AuthenticationError,
            ) as error:
                self.fail(f"rejects the credentials: {_said(error)}", error)
                return
            except (exceptions.AMQPError, OSError) as error:
                lost = error
            except Exception as error:
                self.fail(f"cannot be used: {error!r}", error)
                return
            if self._closed.is_set():
                return
            is_new = self.session == 0
            if not self._recovers:
                what = "cannot be reached" if is_new else "has ended the connection"
                self.fail(f"{what} (automatic_recovery is False): {lost!r}", lost)
                return
            left_s = deadline_s - time.monotonic() if is_new else self._interval_s
            if left_s <= 0:
                seconds = f"{self._timeout_s:g} s (connection_timeout)"
                self.fail(f"cannot be reached within {seconds}: {lost!r}", lost)
                return
            if told_session != self.session:
                told_session = self.session
                logger.warning("%s: not connected, retrying: %r", self.shown, lost)
            self._closed.wait(min(self._interval_s, left_s))

    def _converse(self) -> None:
        """Connect, and work until the connection is lost or closed."""
        connection = self._library.BlockingConnection(self._parameters())
        try:
            channel = self._channel(connection)
            channel.tx_select()
            with self.condition:
                self.session += 1
            self.on_connected(channel)
            self._connection = connection
            while not self._closed.is_set() and self.failure is None:
                self.work(channel)
                connection.process_data_events(time_limit=_TURN_S)
            if self.failure is None:
                self.work(channel)
        finally:
            self._connection = None
            if connection.is_open:
                connection.close()

    def _parameters(self) -> Any:
        library, config, address = self._library, self._config, self._config.address()
        options = {
            "channel_max": config.get_requested_channel_max(),
            "frame_max": config.get_requested_frame_max(),
            "heartbeat": config.get_requested_heartbeat(),
        }
        if address.has_tls:
            options["ssl_options"] = library.SSLOptions(ssl.create_default_context(), address.host)
        return library.ConnectionParameters(
            host=address.host,
            port=address.port,
            virtual_host=address.virtual_host,
            credentials=library.PlainCredentials(address.user_name, address.password),
            socket_timeout=self._timeout_s,
            stack_timeout=self._timeout_s,
            client_properties={"connection_name": f"penstock {self._used_by} {self.queue}"},
            **{name: value for name, value in options.items() if value is not None},
        )

    def _channel(self, connection: Any) -> Any:
        """Open a channel and ensure the queue: a passive declaration needs no permission."""
        channel = connection.channel()
        if self.session and self._config.is_topology_recovery() is False:
            return channel
        try:
            channel.queue_declare(self.queue, passive=True)
        except self._library.exceptions.ChannelClosedByBroker as error:
            if error.reply_code != _NOT_FOUND:
                raise
            channel = connection.channel()
            channel.queue_declare(self.queue, durable=True)
        return channel


def pika_library(used_by: str) -> Any:
    """Import the module ``pika``.

    Raises:
        DependencyError: The package is not installed.
    """
    return optional_library("pika", "pika", "rabbitmq", used_by)


def _said(error: Any) -> str:
    """Return the broker's message."""
    return str(getattr(error, "reply_text", "") or error)


def _nothing() -> None:
    """Do nothing: the call itself wakes the connection's thread."""
