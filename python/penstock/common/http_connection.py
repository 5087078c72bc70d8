"""A connection to a web service that is kept, for a source and a sink."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from penstock.common.background import shut_down
from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Of an answer that refuses something, for the error.
_SHOWN_BYTES: Final = 500
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500


def check_http(where: str, url: str, **numbers: tuple[int, int]) -> None:
    """Refuses what is no URL of a web service, and numbers that are too small.

    Args:
        where: What takes them, for the message.
        url: The URL.
        numbers: By name a number, and the least that it may be.

    Raises:
        InvalidProgramError: One of them cannot be meant so.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidProgramError(f"{where} takes a URL of http or https, got {url!r}")
    for name, (number, least) in numbers.items():
        if number < least:
            raise InvalidProgramError(f"{where}: {name} is at least {least}, got {number}")


class Answer(NamedTuple):
    """What a service says.

    Attributes:
        status: The status.
        reason: Its name.
        body: The rest.
    """

    status: int
    reason: str
    body: bytes

    @property
    def is_good(self) -> bool:
        """Whether the service did what it was asked."""
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered otherwise later."""
        return self.status == _TOO_MANY_REQUESTS or self.status >= _SERVER_ERRORS

    def __str__(self) -> str:
        shown = self.body[:_SHOWN_BYTES].decode(errors="replace")
        return f"{self.status} {self.reason}: {shown}"


class HttpConnection:
    """Asks one service; connects when there is something to ask."""

    def __init__(self, timeout_ms: int) -> None:
        """Connects to nothing yet.

        Args:
            timeout_ms: For the connection and for an answer.
        """
        self._timeout_s = timeout_ms / 1000
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Sends a request and waits for the answer.

        Raises:
            OSError: There is no connection, or no answer.
            http.client.HTTPException: What came is no answer.
        """
        parts = urlsplit(url)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        try:
            if self._connection is None:
                secure = parts.scheme == "https"
                kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
                assert parts.hostname is not None, "checked before"
                self._connection = kind(parts.hostname, parts.port, timeout=self._timeout_s)
            self._connection.request(method, target, body, dict(headers))
            answer = self._connection.getresponse()
            return Answer(answer.status, answer.reason, answer.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def interrupt(self) -> None:
        """Ends what another thread waits for, with an error there."""
        connection = self._connection
        if connection is not None:
            shut_down(connection.sock)

    def close(self) -> None:
        """Closes the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
