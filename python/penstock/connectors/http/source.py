"""HttpSource: polls a web service for new records (beyond PyFlink)."""

from __future__ import annotations

import http.client
import json
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from penstock.common.basic_types import VALUE
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.serialization import DeserializationSchema, produced_type
from penstock.connectors.single_split import SingleSplitReader, SingleSplitSource
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
)
from penstock.errors import FormatError, SourceError, WrongArgumentError
from penstock.external.background import BackgroundCall
from penstock.external.http_connection import (
    HttpConnection,
    check_http,
    web_address,
    with_given,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from penstock.common.typeinfo import TypeInformation

logger = logging.getLogger(__name__)

#: Records that one call emits; the task does nothing else meanwhile.
_STEP: Final = 1000


@dataclass
class HttpSplit(SourceSplit):
    """Read position of a service.

    Attributes:
        cursor: The cursor of the current request; None at the start.
        taken: The number of records of its response that were emitted.
    """

    cursor: Any = None
    taken: int = 0

    def split_id(self) -> str:
        """Constant: there is only one split."""
        return "service"


@dataclass
class _Page:
    """A response.

    Attributes:
        elements: The records that were not emitted before.
        cursor: The cursor of the next request.
    """

    elements: list[Any]
    cursor: Any


@checks_arguments
class HttpSource(SingleSplitSource[VALUE, HttpSplit]):
    """Polls a service that responds with records in JSON.

    A checkpoint stores the cursor of the last response, and the number of its records that were
    read: each record is read once if the service repeats its records for the same cursor, and
    adds new ones only at the end.  One subtask reads; the others end at once.
    """

    def __init__(
        self,
        url: str,
        *,
        cursor_parameter: str | None = None,
        cursor: str | Callable[[Any], Any] | None = None,
        records: str | None = None,
        lines: bool = False,
        schema: DeserializationSchema[VALUE] | None = None,
        headers: Mapping[str, str] | None = None,
        bounded: bool = False,
        interval_ms: int = 1000,
        max_retries: int = 3,
        retry_delay_ms: int = 1000,
        timeout_ms: int = 30_000,
    ) -> None:
        """Create a source.

        Args:
            url: The URL to request, ``http://user:password@host/path`` or ``https://…``.
            cursor_parameter: The URL parameter for the cursor, after which the service continues;
                without one each response has all records, new ones at the end.
            cursor: The next cursor: the name of a field of the last record, or a function of the
                whole response, which returns None if nothing follows yet.
            records: The field with the array of records, if the response is an object; without it
                the response is the array.
            lines: Whether each line of a response is a record (NDJSON).
            schema: Schema that converts a record's JSON; without one records are JSON values.
            headers: Headers of each request.
            bounded: Whether the source ends when a response has no new records.
            interval_ms: The delay of the next request after such a response.
            max_retries: Number of retries of a request if there is no response, or one of 429
                or 500 and above.
            retry_delay_ms: Delay before the first retry; doubled before each further one.
            timeout_ms: Timeout of the connection and of a response.

        Raises:
            InvalidProgramError: An argument is invalid.
        """
        super().__init__()
        check_http(
            "HttpSource",
            url,
            headers,
            interval_ms=(interval_ms, 1),
            max_retries=(max_retries, 0),
            retry_delay_ms=(retry_delay_ms, 0),
            timeout_ms=(timeout_ms, 1),
        )
        if (cursor_parameter is None) != (cursor is None):
            raise WrongArgumentError("HttpSource takes cursor_parameter and cursor together")
        for name, text in (
            ("cursor_parameter", cursor_parameter),
            ("cursor", cursor),
            ("records", records),
        ):
            if text == "":
                raise WrongArgumentError(f"HttpSource: {name} must be a name, got ''")
        named: Any = cursor
        if named is not None and not isinstance(named, str) and not callable(named):
            raise WrongArgumentError(
                f"HttpSource: cursor must be the name of a field or a function, got {cursor!r}"
            )
        if lines and records is not None:
            raise WrongArgumentError("HttpSource takes records or lines, not both")
        given: Any = schema
        if given is not None and not isinstance(given, DeserializationSchema):
            raise WrongArgumentError(
                f"HttpSource: schema must be a DeserializationSchema, got {schema!r}"
            )
        self.url, who = web_address(url)
        self.cursor_parameter = cursor_parameter
        self.cursor = cursor
        self.records = records
        self.lines = lines
        self.schema = schema
        self.headers = with_given({"Accept": "application/json", **who}, headers)
        self.bounded = bounded
        self.interval_s = interval_ms / 1000
        self.max_retries = max_retries
        self.retry_delay_ms = retry_delay_ms
        self.timeout_ms = timeout_ms

    def get_boundedness(self) -> Boundedness:
        """Return whether the source ends."""
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the schema's records, or None."""
        return None if self.schema is None else produced_type(self.schema)

    def first_split(self) -> HttpSplit:
        """Return the split at the service's beginning."""
        return HttpSplit()

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[HttpSplit]:
        """Create the reader of a subtask."""
        return _HttpReader(self, reader_context)


class _HttpReader(SingleSplitReader[HttpSplit]):
    """Emits the records of responses; a thread requests the next one."""

    def __init__(self, source: HttpSource, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._source = source
        self._connection = HttpConnection(source.timeout_ms)
        self._asking: BackgroundCall[_Page] = BackgroundCall("http-source")
        self._page: _Page | None = None
        self._delay_s = 0.0

    def poll_split(self, split: HttpSplit, output: ReaderOutput) -> InputStatus:
        """Emit some records."""
        if self._page is None:
            if not self._asking.is_done():
                return InputStatus.NOTHING_AVAILABLE
            self._page = self._asking.taken()
            if self._page is None:
                return InputStatus.NOTHING_AVAILABLE
            is_empty = not self._page.elements
            if is_empty and self._source.bounded and self._page.cursor in (None, split.cursor):
                return InputStatus.END_OF_INPUT
            self._delay_s = self._source.interval_s if is_empty else 0.0
        page = self._page
        step, page.elements = page.elements[:_STEP], page.elements[_STEP:]
        for element in step:
            output.collect(element)
        split.taken += len(step)
        if page.elements:
            return InputStatus.MORE_AVAILABLE
        if page.cursor is not None and page.cursor != split.cursor:
            split.cursor, split.taken = page.cursor, 0
        self._page = None
        return InputStatus.NOTHING_AVAILABLE

    def is_available(self) -> Future[Any] | None:
        """Return a future that completes when a response has arrived."""
        if self._split is not None and self._page is None and self._asking.future is None:
            split = replace(self._split)
            self._asking.begin(partial(self._next_page, split), self._delay_s)
        return self._asking.future

    def close(self) -> None:
        """Stop the thread and close the connection."""
        self._asking.close(self._connection.close, self._connection.interrupt)

    def _next_page(self, split: HttpSplit) -> _Page:
        """Request the next response; runs in the reader's own thread."""
        source = self._source
        url = source.url
        if split.cursor is not None:
            mark = "&" if "?" in url else "?"
            url += f"{mark}{quote(source.cursor_parameter or '')}={quote(str(split.cursor))}"
        body = self._body_of(url)
        try:
            answer: Any = (
                [json.loads(line) for line in body.splitlines() if line.strip()]
                if source.lines
                else json.loads(body)
            )
            found = answer if source.records is None else answer[source.records]
            if not isinstance(found, list):
                raise TypeError(f"expected an array, got {found!r:.100}")
            cursor = self._cursor_behind(answer, found)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise FormatError(
                f"HttpSource: the response of {url} is invalid: "
                f"{type(error).__name__}: {error}; it begins with {body[:100]!r}"
            ) from error
        if len(found) < split.taken:
            raise SourceError(
                f"HttpSource: {url} responds with {len(found)} records, but {split.taken} were "
                "read before: for the same cursor, a service must repeat its records and append "
                "new ones"
            )
        rest = found[split.taken :]
        if source.schema is not None:
            deserialize = source.schema.deserialize
            try:
                rest = [deserialize(json.dumps(element).encode()) for element in rest]
            except Exception as failure:
                failure.add_note(f"No records can be created from the response of {url}.")
                raise
        return _Page(rest, cursor)

    def _cursor_behind(self, answer: Any, found: list[Any]) -> Any:
        wanted = self._source.cursor
        if wanted is None:
            return None
        if callable(wanted):
            return wanted(answer)
        return found[-1][wanted] if found else None

    def _body_of(self, url: str) -> bytes:
        source = self._source
        delay_ms = source.retry_delay_ms
        for tries_left in range(source.max_retries, -1, -1):
            cause: BaseException | None = None
            try:
                answer = self._connection.ask("GET", url, None, source.headers)
            except (OSError, http.client.HTTPException) as error:
                failure, is_final, cause = f"{type(error).__name__}: {error}", False, error
            else:
                if answer.is_good:
                    return answer.body
                failure, is_final = str(answer), not answer.may_pass
            if is_final or tries_left == 0:
                break
            logger.warning("%s: %s; retrying in %d ms", url, failure, delay_ms)
            if not self._asking.pause(delay_ms / 1000):
                break
            delay_ms *= 2
        raise SourceError(f"HttpSource: {url} does not respond as expected: {failure}") from cause
