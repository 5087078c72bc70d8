"""HttpSink: posts batches of records to a web service, such as a webhook (beyond PyFlink)."""

from __future__ import annotations

import http.client
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.types import Row
from penstock.connectors.writer_sink import PythonSink, SinkWriter, WriterInitContext
from penstock.errors import FormatError, SinkError, WrongArgumentError
from penstock.external.background import ServerThreads, pause
from penstock.external.http_connection import (
    HttpConnection,
    check_http,
    web_address,
    with_given,
)
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["HttpSink"]

logger = logging.getLogger(__name__)


@checks_arguments
class HttpSink(PythonSink[Any]):
    """Posts records, at least once: before each checkpoint the service has accepted all.

    A subtask keeps its connection open, and waits for the response to each batch.
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
        """Create a sink.

        Args:
            url: The URL to post to, ``http://user:password@host/path`` or ``https://…``.
            headers: Headers of each request; the content type is JSON unless they set it.
            batch_size: The largest number of records in a request.
            max_retries: Number of retries of a request if there is no response, or one of 429
                or 500 and above.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of the response.
            encode: Function that encodes a list of records as a body; by default a JSON array, in
                which rows are objects.

        Raises:
            InvalidProgramError: The URL is invalid, or a number is too small.
        """
        super().__init__()
        check_http(
            "HttpSink",
            url,
            headers,
            batch_size=(batch_size, 1),
            max_retries=(max_retries, 0),
            retry_delay_ms=(retry_delay_ms, 0),
            timeout_ms=(timeout_ms, 1),
        )
        if encode is not None and not callable(encode):
            raise WrongArgumentError(f"HttpSink: encode must be a function, got {encode!r}")
        self.url, who = web_address(url)
        self.headers = with_given({"Content-Type": "application/json", **who}, headers)
        self.batch_size = batch_size
        self.max_retries = max_retries
        self.retry_delay_ms = retry_delay_ms
        self.timeout_ms = timeout_ms
        self.encode = encode or json_array

    def create_writer(self, context: WriterInitContext) -> SinkWriter[Any]:
        """Create the writer of a subtask, which connects on its first request."""
        del context
        return _HttpWriter(self)


def json_array(elements: list[Any]) -> bytes:
    """Encode records as a JSON array; rows become objects.

    Raises:
        FormatError: JSON cannot represent a value.
    """
    try:
        shown = [
            element.as_dict(True) if isinstance(element, Row) else element for element in elements
        ]
        return json.dumps(shown, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"HttpSink: {error}; map the records to strings, numbers, lists and dictionaries, or "
            "pass an encode function"
        ) from None


class _HttpWriter(SinkWriter[Any]):
    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink
        self._elements: list[Any] = []
        self._connection = HttpConnection(sink.timeout_ms)
        self._threads = ServerThreads("http-sink")

    def write(self, element: Any, context: SinkWriter.Context) -> None:
        """Buffer a record; post the batch if it is full."""
        del context
        self._elements.append(element)
        if len(self._elements) >= self._sink.batch_size:
            self.flush(False)

    def flush(self, end_of_input: bool) -> None:
        """Post the buffered records.

        Raises:
            SinkError: The service does not accept them.
        """
        del end_of_input
        if not self._elements:
            return
        with meant_for(self._sink.url):
            body: Any = self._sink.encode(self._elements)
        if not isinstance(body, (bytes, bytearray)):
            raise SinkError(
                f"HttpSink: the encode function must return bytes, got {body!r:.100}, for "
                f"{self._sink.url}"
            )
        delay_ms = self._sink.retry_delay_ms
        for tries_left in range(self._sink.max_retries, -1, -1):
            failure, is_final, cause = self._threads.call(partial(self._post, body))
            if failure is None:
                self._elements = []
                return
            if is_final or tries_left == 0:
                raise SinkError(
                    f"{self._sink.url} does not accept {len(self._elements)} records: {failure}"
                ) from cause
            logger.warning("%s: %s; trying again in %d ms", self._sink.url, failure, delay_ms)
            pause(delay_ms / 1000, self._threads.closed)
            delay_ms *= 2

    def close(self) -> None:
        """Close the connection."""
        self._threads.close(self._connection.close, self._connection.interrupt)

    def _post(self, body: bytes | bytearray) -> tuple[str | None, bool, BaseException | None]:
        """Post a body; return the error or None, whether it is final, and its cause."""
        try:
            answer = self._connection.ask("POST", self._sink.url, body, self._sink.headers)
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}", False, error
        return (None, False, None) if answer.is_good else (str(answer), not answer.may_pass, None)
