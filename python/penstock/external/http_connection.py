"""A persistent connection to a web service, for a source and a sink."""

from __future__ import annotations

import base64
import http.client
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from penstock.errors import InvalidProgramError
from penstock.external.background import shut_down

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Size of the part of a rejection that errors show.
_SHOWN_BYTES: Final = 500
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500

#: Allowed characters of a request's target and headers.
_PLAIN: Final = re.compile(r"[!-~]*")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_TEXT: Final = re.compile(r"[\t -~\xa0-\xff]*")


def check_http(
    where: str, url: str, headers: Mapping[str, str] | None, **numbers: tuple[int, int]
) -> None:
    """Reject invalid URLs and headers of a web service, and numbers that are too small.

    Args:
        where: The call, for the message.
        url: The URL.
        headers: The headers.
        numbers: By name a number, and its minimum.

    Raises:
        InvalidProgramError: One of them is invalid.
    """
    try:
        parts = urlsplit(url)
        is_reachable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_reachable = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not is_reachable:
        # The rest of the URL may contain a password.
        raise InvalidProgramError(
            f"{where} takes a URL of http or https, as http://host:8080/path, got "
            f"{url.rpartition('@')[2]!r}"
        )
    if not _PLAIN.fullmatch(parts.path + parts.query):
        raise InvalidProgramError(
            f"{where}: the URL {url.rpartition('@')[2]!r} has characters that urllib.parse.quote "
            "has to quote"
        )
    for name, text in (headers or {}).items():
        if not _HEADER.fullmatch(name) or not _HEADER_TEXT.fullmatch(text):
            # The text may be a secret.
            raise InvalidProgramError(
                f"{where}: the header {name!r} is invalid: a name consists of letters, digits "
                "and -, a text of one line in Latin-1"
            )
    for name, (number, least) in numbers.items():
        if number < least:
            raise InvalidProgramError(f"{where}: {name} is at least {least}, got {number}")


def web_address(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without user, password and fragment, and the headers that authenticate."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    shown = parts._replace(netloc=place, fragment="").geturl()
    if parts.username is None:
        return shown, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return shown, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def with_given(own: Mapping[str, str], given: Mapping[str, str] | None) -> dict[str, str]:
    """Return headers with the program's own, which replace others regardless of case."""
    replaced = {name.lower() for name in given or ()}
    kept = {name: text for name, text in own.items() if name.lower() not in replaced}
    return {**kept, **(given or {})}


class Answer(NamedTuple):
    """Response of a service.

    Attributes:
        status: The status code.
        reason: Its name.
        body: The body.
    """

    status: int
    reason: str
    body: bytes

    @property
    def is_good(self) -> bool:
        """Return whether the service accepted the request."""
        return 200 <= self.status < 300

    @property
    def may_pass(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.status == _TOO_MANY_REQUESTS or self.status >= _SERVER_ERRORS

    def __str__(self) -> str:
        shown = self.body[:_SHOWN_BYTES].decode(errors="replace")
        return f"{self.status} {self.reason}: {shown}"


class HttpConnection:
    """Sends requests to one service; connects on demand."""

    def __init__(self, timeout_ms: int) -> None:
        """Create the connection without connecting.

        Args:
            timeout_ms: Time limit for the connection and for an answer.
        """
        self._timeout_s = timeout_ms / 1000
        self._connection: http.client.HTTPConnection | None = None

    def ask(
        self, method: str, url: str, body: bytes | bytearray | None, headers: Mapping[str, str]
    ) -> Answer:
        """Send a request and wait for the answer.

        Raises:
            OSError: There is no connection, or no answer.
            http.client.HTTPException: The answer is invalid.
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
        """Interrupt another thread that waits, with an error there."""
        connection = self._connection
        if connection is not None:
            shut_down(connection.sock)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
