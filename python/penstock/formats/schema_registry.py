"""Client of a schema registry with Confluent's API (beyond PyFlink)."""

from __future__ import annotations

import http.client
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from penstock.errors import FormatError, SourceError
from penstock.external.background import ServerThreads, pause
from penstock.external.http_connection import (
    HttpConnection,
    check_http,
    web_address,
    with_given,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.external.http_connection import Answer

logger = logging.getLogger(__name__)

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = 404


class SchemaRegistry:
    """Requests schemas by id, and ids by schema."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None,
        max_retries: int,
        retry_delay_ms: int,
        timeout_ms: int,
    ) -> None:
        """Create a client; it connects on its first request.

        Args:
            url: ``http://user:password@host:8081``, or ``https://…``.
            headers: Headers of each request.
            max_retries: Number of retries of a request if there is no response, or one of 429
                or 500 and above.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of a response.

        Raises:
            InvalidProgramError: An argument is invalid.
        """
        check_http(
            "a schema registry",
            url,
            headers,
            max_retries=(max_retries, 0),
            retry_delay_ms=(retry_delay_ms, 0),
            timeout_ms=(timeout_ms, 1),
        )
        address, who = web_address(url)
        self._headers = with_given({"Accept": _CONTENT_TYPE, **who}, headers)
        self._url = urlsplit(address)._replace(query="").geturl().rstrip("/")
        self._max_retries, self._retry_delay_ms = max_retries, retry_delay_ms
        self._timeout_ms = timeout_ms

    def schema(self, number: int) -> dict[str, Any]:
        """Return the registry's entry for a schema id: ``schema``, a text, and its references.

        Raises:
            FormatError: The registry has no schema with the id.
            SourceError: The registry refuses, or is unreachable for too long.
        """
        answer = self._asked("GET", f"/schemas/ids/{number}", None)
        if answer is None:
            raise FormatError(f"the schema registry {self._url} has no schema {number}")
        return answer

    def version(self, subject: str, version: int) -> dict[str, Any]:
        """Return the registry's entry for a version of a subject."""
        answer = self._asked("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}", None)
        if answer is None:
            raise FormatError(
                f"the schema registry {self._url} has no version {version} of {subject}"
            )
        return answer

    def register(self, subject: str, schema: str) -> int:
        """Register a schema if necessary, and return its id.

        Raises:
            SourceError: The registry refuses, or is unreachable for too long.
        """
        path = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._asked("POST", path, json.dumps({"schema": schema}).encode())
        number = None if answer is None else answer.get("id")
        if not isinstance(number, int):
            raise self._failure(f"returned no number for the schema of {subject}: {answer!r:.200}")
        return number

    def _asked(self, method: str, path: str, body: bytes | None) -> dict[str, Any] | None:
        """Return the registry's response, or None; runs in the client's own thread."""
        connection = HttpConnection(self._timeout_ms)
        threads = ServerThreads("schema-registry")
        try:
            delay_ms = self._retry_delay_ms
            for tries_left in range(self._max_retries, -1, -1):
                found = threads.call(partial(self._tried, connection, method, path, body))
                if not isinstance(found, Exception):
                    return found
                if tries_left == 0:
                    raise self._failure(f"does not respond as expected: {found!r}") from found
                logger.warning("%s: %r; retrying in %d ms", self._url + path, found, delay_ms)
                pause(delay_ms / 1000, threads.closed)
                delay_ms *= 2
            raise AssertionError("the last try has returned or raised")
        finally:
            threads.close(connection.close, connection.interrupt)

    def _tried(
        self, connection: HttpConnection, method: str, path: str, body: bytes | None
    ) -> dict[str, Any] | Exception | None:
        """Send one request; return the response, or the reason for a retry."""
        headers = (
            self._headers
            if body is None
            else with_given(self._headers, {"Content-Type": _CONTENT_TYPE})
        )
        try:
            answer = connection.ask(method, self._url + path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            return error
        if answer.is_good:
            return self._parsed(answer)
        if answer.may_pass:
            return SourceError(str(answer))
        if answer.status == _NOT_FOUND and method == "GET":
            return None
        raise self._failure(f"refuses {method} {path}: {answer}")

    def _parsed(self, answer: Answer) -> dict[str, Any]:
        try:
            found = json.loads(answer.body)
        except ValueError as error:
            raise self._failure(f"does not return JSON: {answer}") from error
        if not isinstance(found, dict):
            raise self._failure(f"does not return a JSON object: {answer}")
        return found

    def _failure(self, what: str) -> SourceError:
        return SourceError(f"the schema registry {self._url} {what}")
