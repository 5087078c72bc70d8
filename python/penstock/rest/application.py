"""The web application: access, limits, and the dispatch of requests to their handlers."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from penstock.metrics.derived import driver_metrics
from penstock.metrics.export import scoped_metrics
from penstock.metrics.reporters.prometheus import CONTENT_TYPE, prometheus_text
from penstock.metrics.scope_formats import ScopeFormats
from penstock.rest.access import EVENTS
from penstock.rest.answers import (
    EXCEPTION_HANDLERS,
    HEADERS,
    error_answer,
    json_answer,
    page_routes,
)
from penstock.rest.call import Call, RestError, Text
from penstock.rest.flame_graphs import FlameGraphs
from penstock.rest.live import LiveFeed, TooManyWatchersError
from penstock.rest.openapi import openapi_document
from penstock.rest.routes import ENDPOINTS, Endpoint

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import ClusterSnapshot
    from penstock.rest.access import Access
    from penstock.rest.operations import Operations

SNAPSHOT_TIMEOUT_S: Final = 10.0
BODY_TIMEOUT_S: Final = 10.0


class RestApplication:
    """Answers the requests of one cluster."""

    def __init__(
        self,
        gateway: ClusterGateway,
        operations: Operations,
        driver_process: Mapping[str, Any],
        *,
        access: Access,
        read_only: bool,
        max_content_bytes: int,
    ) -> None:
        """Create the application.

        Args:
            gateway: The cluster.
            operations: Stores triggered operations.
            driver_process: Gauges of the driver's process.
            access: The access control.
            read_only: Whether requests that change a job are rejected.
            max_content_bytes: The longest body.
        """
        self._gateway = gateway
        self._operations = operations
        self._process = driver_process
        self._flame_graphs = FlameGraphs(gateway.configuration)
        self.live = LiveFeed(self._call)
        self._formats = ScopeFormats(gateway.configuration)
        self._access = access
        self._read_only = read_only
        self._max_content_bytes = max_content_bytes

    def asgi(self) -> ASGIApp:
        """Return the application as a server runs it."""
        routes = [
            Route(prefix + endpoint.path, self._answering(endpoint), methods=[endpoint.method])
            for prefix in ("/v1", "")
            for endpoint in ENDPOINTS
        ]
        routes += page_routes()
        routes += [Route(path, self._events, methods=["GET"]) for path in EVENTS]
        routes.append(Route("/openapi.json", self._openapi, methods=["GET"]))
        routes.append(Route("/metrics", self._prometheus, methods=["GET"]))
        inner = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
        return self._access.guarding(inner)

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
                return error_answer(error.status, str(error))
            except TimeoutError:
                return error_answer(503, "the driver is busy; try again")
            except ValueError as error:  # of the query's parser
                return error_answer(400, str(error))
            if isinstance(found, Text):
                return PlainTextResponse(found.text, headers={**HEADERS, **found.headers})
            return json_answer(endpoint.status, found)

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
            return error_answer(503, "too many clients follow the events; try again later")
        return StreamingResponse(events, headers=HEADERS, media_type="text/event-stream")

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
            raise RestError(413, f"the body is longer than {self._max_content_bytes} bytes")
        try:
            body = await asyncio.wait_for(self._read(request), BODY_TIMEOUT_S)
        except TimeoutError:
            raise RestError(408, "the body did not arrive in time") from None
        if not body:
            return {}
        # A web page cannot send JSON by its type without a preflight request.  curl declares its
        # bodies as forms, and browsers send the origin of a form.
        kind = request.headers.get("content-type", "").split(";")[0].strip()
        of_curl = kind == "application/x-www-form-urlencoded" and "origin" not in request.headers
        if kind != "application/json" and not of_curl:
            raise RestError(415, "a body must have the type application/json")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise RestError(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise RestError(400, "the body is not a JSON object")
        if endpoint.takes_any_body:
            return found
        known = {field for field, _ in endpoint.body} | _ALIASES
        unknown = sorted(set(found) - known)
        if unknown:
            raise RestError(400, f"the body has a field that is not known: {unknown[0][:100]!r}")
        return found

    async def _read(self, request: Request) -> bytes:
        parts, size = [], 0
        try:
            async for part in request.stream():
                size += len(part)
                if size > self._max_content_bytes:
                    raise RestError(413, f"the body is longer than {self._max_content_bytes} bytes")
                parts.append(part)
        except ClientDisconnect:
            raise RestError(400, "the connection ended before the body") from None
        return b"".join(parts)

    async def _openapi(self, request: Request) -> Response:  # noqa: ARG002
        return json_answer(200, openapi_document())

    async def _prometheus(self, request: Request) -> Response:  # noqa: ARG002
        try:
            cluster, _ = await self._picture()
        except TimeoutError:
            return error_answer(503, "the driver is busy; try again")
        text = prometheus_text(
            scoped_metrics(cluster, self._gateway.metrics, self._process, self._formats)
        )
        return PlainTextResponse(text, headers={**HEADERS, "Content-Type": CONTENT_TYPE})


_ALIASES: Final = frozenset({"targetDirectory", "target-directory"})
