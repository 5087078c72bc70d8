"""Access control of this room's servers, decided before a request is processed."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.rest.answers import PAGE, error_answer
from penstock.rest.connections import PROVED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANSWER_TIMEOUT_S: Final = 30.0
EVENTS: Final = ("/v1/events", "/events")
"""Paths whose answers continue for as long as the client listens."""


@dataclass(frozen=True)
class Access:
    """Access control.

    Attributes:
        token: The token that a client must present; None if every client may ask.
        hosts: Host names by which a server without a token may be addressed, besides numbers.
    """

    token: str | None
    hosts: frozenset[str]

    def guarding(self, inner: ASGIApp) -> ASGIApp:
        """Return the application behind the access check, which also drops slow readers."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            refusal = self._refusal(scope)
            if refusal is not None:
                await error_answer(*refusal)(scope, receive, send)
                return
            if self.token is None or scope["path"] not in PAGE:
                proved = scope.get(PROVED)
                if proved is not None:
                    proved()
            # A client that reads its answer too slowly is cut off: the server closes the
            # connection.
            if scope["path"] in EVENTS:

                async def send_in_time(message: Message) -> None:
                    await asyncio.wait_for(send(message), ANSWER_TIMEOUT_S)

                await inner(scope, receive, send_in_time)
            else:
                await asyncio.wait_for(inner(scope, receive, send), ANSWER_TIMEOUT_S)

        return guarded

    def _refusal(self, scope: Mapping[str, Any]) -> tuple[int, str] | None:
        """Return why a request is rejected, before the rest of it is processed; None if allowed."""
        headers = dict(scope["headers"])
        if self.token is not None:
            if scope["path"] in PAGE and scope["method"] == "GET":
                return None  # the page has no secrets; it requests them with the token
            shown = _shown_token(headers, scope["query_string"])
            if not hmac.compare_digest(shown, self.token.encode()):
                return 401, "a token is needed: in the header 'Authorization: Bearer <token>'"
            return None
        # Without a token, a web page in the user's browser must not be able to ask: its own host
        # name may resolve to this address.
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name.strip("[]") not in self.hosts and not _is_address(name.strip("[]")):
            return 403, f"the header 'Host' has {name[:100]!r}, not a name of this server"
        return None


def _shown_token(headers: Mapping[bytes, bytes], query: bytes) -> bytes:
    """Return the token that a client presents, in the header or, in a link, in the query."""
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
