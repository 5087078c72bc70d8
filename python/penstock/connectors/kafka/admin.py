"""Administrative requests to brokers, and the reasons when they refuse."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.kafka.client import kafka_library

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.errors import PenstockError

#: Errors of the client of brokers that do not answer: _TRANSPORT, _TIMED_OUT.  They may come yet.
_ABSENT: Final = frozenset({-195, -185})

#: User or password are wrong: the library reports this only to `Connections`, and keeps trying.
_AUTHENTICATION: Final = -169

#: No broker is connected, of each of which it was told before why.
_ALL_BROKERS_DOWN: Final = -187

#: How long to wait for brokers before looking whether anybody still wants to know, in seconds.
_STEP_S: Final = 0.5

#: The settings of a client that say how brokers are reached.
_OWN: Final = ("bootstrap.servers", "security.protocol", "client.dns.lookup")
_KINDS: Final = ("sasl.", "ssl.", "socket.", "broker.", "metadata.", "reconnect.", "log_level")


class Connections:
    """Hears what becomes of a client's connections, as its ``error_cb``.

    Attributes:
        refusal: Why the brokers do not let us in, which another try does not change; or None.
    """

    def __init__(self, used_by: str, settings: Mapping[str, Any]) -> None:
        """Has heard nothing yet.

        Args:
            used_by: The source or sink, for the message.
            settings: The client's.
        """
        self._where = f"{used_by}: the brokers at {settings['bootstrap.servers']}"
        self._last = ""
        self.refusal: str | None = None

    def note(self, error: Any) -> None:
        """Record an error; the library's callback."""
        if error.code() == _AUTHENTICATION:
            self.refusal = (
                f"{self._where} do not let us in: {error.str()}; look at sasl.username and "
                "sasl.password, or sasl.jaas.config, and at sasl.mechanism"
            )
        elif error.code() != _ALL_BROKERS_DOWN:
            self._last = error.str()

    def explained(self, reason: str) -> str:
        """Return the reason of a failed operation, with the last message about a connection."""
        return f"{reason} ({self._last})" if self._last else reason


class Admin:
    """The library's client for questions; used by one thread at a time."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        client_id: str,
        used_by: str,
        error: type[PenstockError],
    ) -> None:
        """Connects when it is asked.

        Args:
            settings: Those of the library.
            client_id: Its name at the brokers.
            used_by: The source or sink, for messages.
            error: The exception where brokers refuse.
        """
        self._library = kafka_library(used_by)
        from confluent_kafka.admin import AdminClient

        self._error, self._servers = error, settings["bootstrap.servers"]
        self._connections = Connections(used_by, settings)
        own = {k: v for k, v in settings.items() if k in _OWN or k.startswith(_KINDS)}
        own.update({"client.id": client_id, "error_cb": self._connections.note})
        self.client: Any = AdminClient(own)

    def topics(self, timeout_s: float, is_over: Callable[[], bool]) -> dict[str, Any]:
        """All topics by their names.

        Args:
            timeout_s: How long to wait for brokers.
            is_over: Whether nobody wants to know any more.

        Raises:
            PenstockError: Of the class given: the brokers refuse, or do not answer.
        """
        deadline_s = time.monotonic() + timeout_s
        failure: PenstockError | None = None
        # Raised behind the library's exception, of which the frames hold the client: see `close`.
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
        """Ends the connection, whoever still holds this: an error with its frames does."""
        self.client = None

    def failure(self, what: str, error: Any) -> PenstockError:
        """The exception of what cannot be had."""
        reason = self._connections.explained(error.args[0].str())
        return self._error(f"cannot get {what} from the brokers at {self._servers}: {reason}")
