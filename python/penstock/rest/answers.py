"""Answers of this room's servers: JSON, errors, and the files of the page."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

logger = logging.getLogger(__name__)

HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}

_FOLDER: Final = Path(__file__).with_name("page")
_TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
PAGE: Final = {
    "/" if path.name == "index.html" else f"/page/{path.name}": (path.name, _TYPES[path.suffix])
    for path in sorted(_FOLDER.iterdir())
    if path.suffix in _TYPES
}
"""The files of the page by their paths, with their types."""


def json_answer(status: int, value: Any) -> Response:
    """Return an answer in JSON."""
    # Texts of a user may contain lone surrogates, which are escaped.
    body = json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)
    return Response(body, status, headers=HEADERS, media_type="application/json")


def error_answer(status: int, message: str) -> Response:
    """Return an error in Flink's format."""
    response = json_answer(status, {"errors": [message]})
    if status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def page_routes() -> list[Route]:
    """Return the routes of the page."""
    return [Route(path, _serving(path), methods=["GET"]) for path in PAGE]


def _serving(path: str) -> Callable[[Request], Awaitable[Response]]:
    name, media_type = PAGE[path]
    body = (_FOLDER / name).read_bytes()
    own = "'self'"
    policy = f"default-src 'none'; script-src {own}; style-src {own}; connect-src {own}; "
    policy += "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    headers = {**HEADERS, "Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"}

    async def serve(request: Request) -> Response:  # noqa: ARG001
        return Response(body, headers=headers, media_type=media_type)

    return serve


async def _http_error(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    if status == 404:
        return error_answer(404, f"Unable to load requested file {request.url.path[:200]}.")
    return error_answer(status, str(getattr(error, "detail", error)))


async def _defect(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_answer(500, f"Internal server error: {type(error).__name__}: {error}")


EXCEPTION_HANDLERS: Final[Any] = {HTTPException: _http_error, Exception: _defect}
"""Handlers of requests without a route, and of defects."""
