"""Administrative requests to brokers, and the reasons when they refuse."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.kafka.client import LibraryLog, kafka_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.errors import PenstockError

logger = logging.getLogger(__name__)

#: The client's errors for brokers that do not answer, but may later: _TRANSPORT, _TIMED_OUT.
_ABSENT: Final = frozenset({-195, -185})

#: Wrong user or password: the library reports it to `Connections` only, and keeps trying.
_AUTHENTICATION: Final = -169

#: No broker is connected; the library has reported the reason of each before.
_ALL_BROKERS_DOWN: Final = -187

#: The interval, in seconds, at which a wait for brokers checks whether it was cancelled.
_STEP_S: Final = 0.5

#: The interval, in seconds, at which a connection that keeps failing is logged again.
_REPEATED_S: Final = 60.0

#: The settings of a client that are about connections to brokers.
_OWN: Final = ("bootstrap.servers", "security.protocol", "client.dns.lookup")
_KINDS: Final = ("sasl.", "ssl.", "socket.", "broker.", "metadata.", "reconnect.", "log_level")


class Connections:
    """Records the errors of a client's connections, as its ``error_cb``.

    Attributes:
        refusal: The error if the brokers deny access, which a retry cannot change; or None.
    """

    def __init__(self, used_by: str, settings: Mapping[str, Any]) -> None:
        """Create a recorder without errors.

        Args:
            used_by: The source or sink, for the message.
            settings: The client's settings.
        """
        self._where = f"{used_by}: the brokers at {settings['bootstrap.servers']}"
        self._used_by = used_by
        self._last = ""
        self._warned: dict[str, float] = {}
        self.refusal: str | None = None

    def note(self, error: Any) -> None:
        """Record an error; the library's callback."""
        if error.code() == _AUTHENTICATION:
            self.refusal = (
                f"{self._where} reject the credentials: {error.str()}; check sasl.username and "
                "sasl.password, or sasl.jaas.config, and sasl.mechanism"
            )
        elif error.code() != _ALL_BROKERS_DOWN:
            self._last = error.str()
            self._warn(self._last.partition(" (after ")[0])

    def _warn(self, problem: str) -> None:
        """Log a failed connection, unless the last minute had the same warning."""
        now_s = time.monotonic()
        recent = {text: at for text, at in self._warned.items() if now_s < at + _REPEATED_S}
        if problem not in recent:
            self._warned = {**recent, problem: now_s}
            logger.warning("%s: %s; trying again", self._used_by, problem)

    def explained(self, reason: str) -> str:
        """Return the reason of a failed operation, with the last message about a connection."""
        return f"{reason} ({self._last})" if self._last else reason


class Admin:
    """The library's admin client; used by one thread at a time."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        client_id: str,
        used_by: str,
        error: type[PenstockError],
    ) -> None:
        """Create a client, which connects at the first request.

        Args:
            settings: The library's settings.
            client_id: The client id that brokers log.
            used_by: The source or sink, for messages.
            error: The exception to raise if the brokers deny access or do not answer.
        """
        self._library = kafka_library(used_by)
        from confluent_kafka.admin import AdminClient

        self._error, self._servers = error, settings["bootstrap.servers"]
        self._connections = Connections(used_by, settings)
        own = {k: v for k, v in settings.items() if k in _OWN or k.startswith(_KINDS)}
        own.update({"client.id": client_id, "error_cb": self._connections.note})
        self.client: Any = AdminClient(own, logger=LibraryLog)

    def topics(self, timeout_s: float, is_over: Callable[[], bool]) -> dict[str, Any]:
        """Return the metadata of all topics by name.

        Args:
            timeout_s: The longest wait for brokers, in seconds.
            is_over: Returns whether to give up early.

        Raises:
            PenstockError: Of the class ``error``: the brokers deny access, or do not answer.
        """
        deadline_s = time.monotonic() + timeout_s
        failure: PenstockError | None = None
        # Raised outside of the library's exception, whose frames hold the client: see `close`.
        while failure is None:
            left_s = deadline_s - time.monotonic()
            try:
                found = self.client.list_topics(timeout=max(0.0, min(left_s, _STEP_S)))
            except self._library.KafkaException as error:
                self.client.poll(0)
                if self._connections.refusal is not None:
                    failure = self._error(self._connections.refusal)
                elif left_s <= _STEP_S or is_over() or error.args[0].code() not in _ABSENT:
                    failure = self.failure("the topics", error)
            else:
                return dict(found.topics)
        raise failure

    def close(self) -> None:
        """End the connection, even if the frames of an error still refer to this object."""
        self.client = None

    def failure(self, what: str, error: Any) -> PenstockError:
        """Return the exception for a failed request for ``what``."""
        reason = self._connections.explained(error.args[0].str())
        return self._error(f"cannot get {what} from the brokers at {self._servers}: {reason}")
