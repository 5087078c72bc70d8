"""HttpSink: posts batches of elements to a web service, a webhook (beyond PyFlink)."""

from __future__ import annotations

import http.client
import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from penstock.common.types import Row
from penstock.datastream.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import FormatError, InvalidProgramError, SinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["HttpSink"]

logger = logging.getLogger(__name__)

#: Of an answer that refuses a batch, for the error.
_SHOWN_BYTES: Final = 500
_TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500


class HttpSink(PythonSink[Any]):
    """Posts elements, at least once: before each checkpoint all that came before it is taken.

    A subtask keeps its connection, and waits for the answer to each batch.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        batch_size: int = 100,
        max_retries: int = 3,
        retry_delay_ms: int = 1000,
        timeout_ms: int = 30_000,
        encode: Callable[[list[Any]], bytes] | None = None,
    ) -> None:
        """Makes a sink.

        Args:
            url: Where to post to, ``http://…`` or ``https://…``.
            headers: Sent with each request; the type of the content is JSON unless they say so.
            batch_size: The most elements of a request.
            max_retries: How often a request is tried again when there is no answer, or one of 429
                or 500 and above.
            retry_delay_ms: Before the first of them; twice as long before each further one.
            timeout_ms: For the connection and for the answer.
            encode: Makes the body of a list of elements; an array of JSON when None, in which rows
                are objects.

        Raises:
            InvalidProgramError: The URL is none, or a number is too small.
        """
        super().__init__()
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidProgramError(f"HttpSink takes a URL of http or https, got {url!r}")
        for name, number, least in (
            ("batch_size", batch_size, 1),
            ("max_retries", max_retries, 0),
            ("retry_delay_ms", retry_delay_ms, 0),
            ("timeout_ms", timeout_ms, 1),
        ):
            if number < least:
                raise InvalidProgramError(f"HttpSink: {name} is at least {least}, got {number}")
        self.url = url
        self.headers = {"Content-Type": "application/json", **(headers or {})}
        self.batch_size = batch_size
        self.max_retries = max_retries
        self.retry_delay_ms = retry_delay_ms
        self.timeout_ms = timeout_ms
        self.encode = encode or json_array

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Makes the writer of a subtask, which connects when it has something to send."""
        del context
        return _HttpWriter(self)


def json_array(elements: list[Any]) -> bytes:
    """An array of JSON; rows are objects.

    Raises:
        FormatError: JSON has nothing for a value.
    """
    shown = [element.as_dict(True) if isinstance(element, Row) else element for element in elements]
    try:
        return json.dumps(shown).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"HttpSink: {error}; map the elements to texts, numbers, lists and dictionaries, or "
            "give an encode function"
        ) from None


class _HttpWriter(SinkWriter[Any]):
    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink
        self._elements: list[Any] = []
        self._connection: http.client.HTTPConnection | None = None

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Keeps an element until there are enough of them."""
        del context
        self._elements.append(element)
        if len(self._elements) >= self._sink.batch_size:
            self.flush(False)

    def flush(self, end_of_input: bool) -> None:
        """Posts what is kept.

        Raises:
            SinkError: The service does not take it.
        """
        del end_of_input
        if not self._elements:
            return
        body = self._sink.encode(self._elements)
        delay_ms = self._sink.retry_delay_ms
        for tries_left in range(self._sink.max_retries, -1, -1):
            failure, is_final, cause = self._post(body)
            if failure is None:
                self._elements = []
                return
            if is_final or tries_left == 0:
                raise SinkError(
                    f"{self._sink.url} does not take {len(self._elements)} elements: {failure}"
                ) from cause
            logger.warning("%s: %s; trying again in %d ms", self._sink.url, failure, delay_ms)
            time.sleep(delay_ms / 1000)
            delay_ms *= 2

    def close(self) -> None:
        """Closes the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _post(self, body: bytes) -> tuple[str | None, bool, BaseException | None]:
        """What went wrong, None if nothing did, whether it will again, and why."""
        parts = urlsplit(self._sink.url)
        target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        try:
            if self._connection is None:
                secure = parts.scheme == "https"
                kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
                assert parts.hostname is not None, "checked when the sink was made"
                timeout_s = self._sink.timeout_ms / 1000
                self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
            self._connection.request("POST", target, body, self._sink.headers)
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            return f"{type(error).__name__}: {error}", False, error
        if 200 <= answer.status < 300:
            return None, False, None
        shown = text[:_SHOWN_BYTES].decode(errors="replace")
        may_pass = answer.status == _TOO_MANY_REQUESTS or answer.status >= _SERVER_ERRORS
        return f"{answer.status} {answer.reason}: {shown}", not may_pass, None
