"""The web application: who may ask, how much, and the way from a request to its handler."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import ipaddress
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.metrics.derived import driver_metrics
from penstock.metrics.export import scoped_metrics
from penstock.metrics.reporters.prometheus import CONTENT_TYPE, prometheus_text
from penstock.metrics.scope_formats import ScopeFormats
from penstock.rest.call import Call, RestError, Text
from penstock.rest.flame_graphs import FlameGraphs
from penstock.rest.live import LiveFeed, TooManyWatchersError
from penstock.rest.openapi import openapi_document
from penstock.rest.routes import ENDPOINTS, Endpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import ClusterSnapshot
    from penstock.rest.operations import Operations

logger = logging.getLogger(__name__)

SNAPSHOT_TIMEOUT_S: Final = 10.0
BODY_TIMEOUT_S: Final = 10.0
ANSWER_TIMEOUT_S: Final = 30.0
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}


class RestApplication:
    """Answers the requests of one cluster."""

    def __init__(
        self,
        gateway: ClusterGateway,
        operations: Operations,
        driver_process: Mapping[str, Any],
        *,
        token: str | None,
        read_only: bool,
        max_content_bytes: int,
        hosts: frozenset[str],
    ) -> None:
        """Prepares.

        Args:
            gateway: The cluster.
            operations: Remembers what was triggered.
            driver_process: Gauges of the driver's process.
            token: What a client must show; None when everybody may ask.
            read_only: Whether what changes a job is refused.
            max_content_bytes: The longest body.
            hosts: Names under which a server without a token may be addressed, besides numbers.
        """
        self._gateway = gateway
        self._operations = operations
        self._process = driver_process
        self._flame_graphs = FlameGraphs(gateway.configuration)
        self.live = LiveFeed(self._call)
        self._formats = ScopeFormats(gateway.configuration)
        self._token = None if token is None else token.encode()
        self._read_only = read_only
        self._max_content_bytes = max_content_bytes
        self._hosts = hosts

    def asgi(self) -> ASGIApp:
        """The application as a server runs it."""
        routes = [
            Route(prefix + endpoint.path, self._answering(endpoint), methods=[endpoint.method])
            for prefix in ("/v1", "")
            for endpoint in ENDPOINTS
        ]
        routes += [Route(path, _serving(path), methods=["GET"]) for path in _PAGE]
        routes += [Route(path, self._events, methods=["GET"]) for path in _EVENTS]
        routes.append(Route("/openapi.json", self._openapi, methods=["GET"]))
        routes.append(Route("/metrics", self._prometheus, methods=["GET"]))
        inner = Starlette(
            routes=routes, exception_handlers={HTTPException: _http_error, Exception: _defect}
        )

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            refusal = self._refusal(scope)
            if refusal is not None:
                await _error(*refusal)(scope, receive, send)
                return
            # A client that reads its answer slowly is cut off: the server closes the connection.
            if scope["path"] in _EVENTS:

                async def send_in_time(message: Message) -> None:
                    await asyncio.wait_for(send(message), ANSWER_TIMEOUT_S)

                await inner(scope, receive, send_in_time)
            else:
                await asyncio.wait_for(inner(scope, receive, send), ANSWER_TIMEOUT_S)

        return guarded

    # ---- who may ask -------------------------------------------------------------------------

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request is not answered, before anything else of it is looked at."""
        headers = dict(scope["headers"])
        if self._token is not None:
            if scope["path"] in _PAGE and scope["method"] == "GET":
                return None  # the page has no secrets; it asks for them with the token
            if not hmac.compare_digest(_shown_token(headers, scope["query_string"]), self._token):
                return 401, "a token is needed: in the header 'Authorization: Bearer <token>'"
            return None
        # Without a token a web page that someone looks at must not be able to ask: its own name
        # may have been made to mean this address.
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name.strip("[]") not in self._hosts and not _is_address(name.strip("[]")):
            return 403, f"this server is not known as {name[:100]!r}"
        return None

    # ---- answers -----------------------------------------------------------------------------

    def _answering(self, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                body = await self._body(request, endpoint)
                query = parse_qs(request.url.query, keep_blank_values=True, max_num_fields=100)
                found = endpoint.handler(await self._call(request.path_params, query, body))
                if inspect.isawaitable(found):
                    found = await found
            except RestError as error:
                return _error(error.status, str(error))
            except TimeoutError:
                return _error(503, "the driver is busy; try again")
            except ValueError as error:  # of the query's parser
                return _error(400, str(error))
            if isinstance(found, Text):
                return PlainTextResponse(found.text, headers={**_HEADERS, **found.headers})
            return _json(endpoint.status, found)

        return answer

    async def _call(
        self,
        path: Mapping[str, str],
        query: Mapping[str, Sequence[str]] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Call:
        return Call(
            self._gateway,
            *await self._picture(),
            self._operations,
            self._flame_graphs,
            path,
            query or {},
            body or {},
        )

    async def _events(self, request: Request) -> Response:
        try:
            events = self.live.watch(request.query_params.get("job", "")[:64])
        except TooManyWatchersError:
            return _error(503, "too many clients are being told what is new")
        return StreamingResponse(events, headers=_HEADERS, media_type="text/event-stream")

    async def _picture(self) -> tuple[ClusterSnapshot, Any]:
        future = asyncio.wrap_future(self._gateway.snapshot())
        cluster = await asyncio.wait_for(asyncio.shield(future), SNAPSHOT_TIMEOUT_S)
        return cluster, driver_metrics(cluster, self._process)

    async def _body(self, request: Request, endpoint: Endpoint) -> Mapping[str, Any]:
        if not endpoint.changes:
            return {}
        if self._read_only:
            raise RestError(403, "this interface is read only (rest.read-only)")
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._max_content_bytes:
            raise RestError(413, f"a body has up to {self._max_content_bytes} bytes")
        try:
            body = await asyncio.wait_for(self._read(request), BODY_TIMEOUT_S)
        except TimeoutError:
            raise RestError(408, "the body did not come in time") from None
        if not body:
            return {}
        # What a web page can send without asking first is never of this type.
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise RestError(415, "a body is of the type application/json")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise RestError(400, "the body is no JSON") from None
        if not isinstance(found, dict):
            raise RestError(400, "the body is no JSON object")
        if endpoint.takes_any_body:
            return {}
        known = {field for field, _ in endpoint.body} | _ALIASES
        unknown = sorted(set(found) - known)
        if unknown:
            raise RestError(400, f"the body has a field that is not known: {unknown[0][:100]!r}")
        return found

    async def _read(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_content_bytes:
                raise RestError(413, f"a body has up to {self._max_content_bytes} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _openapi(self, request: Request) -> Response:  # noqa: ARG002
        return _json(200, openapi_document())

    async def _prometheus(self, request: Request) -> Response:  # noqa: ARG002
        try:
            cluster, _ = await self._picture()
        except TimeoutError:
            return _error(503, "the driver is busy; try again")
        text = prometheus_text(
            scoped_metrics(cluster, self._gateway.metrics, self._process, self._formats)
        )
        return PlainTextResponse(text, headers={**_HEADERS, "Content-Type": CONTENT_TYPE})


_ALIASES: Final = frozenset({"targetDirectory", "target-directory"})


_EVENTS: Final = ("/v1/events", "/events")
_FOLDER: Final = Path(__file__).with_name("page")
_TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_PAGE: Final = {
    "/" if path.name == "index.html" else f"/page/{path.name}": (path.name, _TYPES[path.suffix])
    for path in sorted(_FOLDER.iterdir())
    if path.suffix in _TYPES
}


def _serving(path: str) -> Callable[[Request], Awaitable[Response]]:
    name, media_type = _PAGE[path]
    body = (_FOLDER / name).read_bytes()
    own = "'self'"
    policy = f"default-src 'none'; script-src {own}; style-src {own}; connect-src {own}; "
    policy += "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    headers = {**_HEADERS, "Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}

    async def serve(request: Request) -> Response:  # noqa: ARG001
        return Response(body, headers=headers, media_type=media_type)

    return serve


def _shown_token(headers: Mapping[bytes, bytes], query: bytes) -> bytes:
    """The token that a client shows, in the header or, as a link has it, in the query."""
    kind, _, shown = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() == b"bearer":
        return shown.strip()
    for part in query.split(b"&")[:100]:
        name, _, value = part.partition(b"=")
        if name == b"token":
            return value
    return b""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _json(status: int, value: Any) -> Response:
    # Whatever a user named or said is text: halves of characters go as escapes.
    body = json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)
    return Response(body, status, headers=_HEADERS, media_type="application/json")


def _error(status: int, message: str) -> Response:
    response = _json(status, {"errors": [message]})
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    if status == 404:
        return _error(404, f"Unable to load requested file {request.url.path[:200]}.")
    return _error(status, str(getattr(error, "detail", error)))


async def _defect(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error(500, f"Internal server error: {type(error).__name__}: {error}")
