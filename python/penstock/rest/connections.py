"""Connections of the REST interface: how many wait for whom, and which goes for another.

As at the control port: a client proves by its first request that it may ask.  Of those that have
not, there is a bound, beyond which the oldest one of the address with the most goes.  However many
connect and say nothing, a client with the token finds a place.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.rpc.admission import DropLog, Unproven, origin_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

PROVED: Final = "penstock.proved"
"""The entry of a request's scope that is to be called once its client may ask."""


class Doorkeeper:
    """The connections of one server that have not proved anything; used in its event loop alone."""

    def __init__(self) -> None:
        """Starts without connections."""
        self.strangers: Unproven[GuardedConnection] = Unproven()
        self._drops = DropLog(logger)

    def protocol(self, *args: Any, **kwargs: Any) -> GuardedConnection:
        """Make what serves one connection, as uvicorn asks for it."""
        return GuardedConnection(self, *args, **kwargs)

    def enter(self, connection: GuardedConnection, host: str) -> None:
        """Take a connection in; another one may have to go for it."""
        superfluous = self.strangers.enter(connection, origin_of(host))
        if superfluous is not None:
            self.strangers.leave(superfluous)
            superfluous.transport.abort()
            self._drops.note(
                "dropped a client of the REST interface: too many connections prove nothing, of "
                "its address the most",
                time.monotonic(),
            )


class GuardedConnection(H11Protocol):
    """One connection, which a doorkeeper knows until its client has proved that it may ask."""

    def __init__(self, doorkeeper: Doorkeeper, *args: Any, **kwargs: Any) -> None:
        """Make it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self._doorkeeper = doorkeeper
        inner: Callable[..., Awaitable[None]] = self.app

        async def told(scope: Scope, receive: Receive, send: Send) -> None:
            entries: MutableMapping[str, Any] = scope
            entries[PROVED] = self._proved
            await inner(scope, receive, send)

        self.app = told

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The client has connected."""
        super().connection_made(transport)
        self._doorkeeper.enter(self, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._doorkeeper.strangers.leave(self)
        super().connection_lost(exc)

    def _proved(self) -> None:
        self._doorkeeper.strangers.leave(self)
