"""Connections of the REST interface: limits, and which connection is dropped for another.

As at the control port, a client authenticates by its first request.  The number of unauthenticated
clients is limited; beyond the limit, the oldest one of the address with the most is dropped.
However many silent clients connect, a client with the token gets a place.

With TLS a connection counts from the moment it is accepted: uvicorn would see it only after the
handshake, which a client need not complete.  So this module does the handshakes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.rpc.admission import DropLog, Unproven, origin_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, MutableMapping

    from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

PROVED: Final = "penstock.proved"
"""The entry of a request's scope to call once its client is authenticated."""


class Doorkeeper:
    """The unauthenticated connections of one server; used in its event loop only."""

    def __init__(self, tls: ssl.SSLContext | None, handshake_timeout_s: float) -> None:
        """Start without connections.

        Args:
            tls: The server's side of TLS; None without it.
            handshake_timeout_s: Time limit of a client's handshake.
        """
        self.strangers: Unproven[GuardedConnection | TlsHandshake] = Unproven()
        self.tls = tls
        self.handshake_timeout_s = handshake_timeout_s
        self.handshakes: set[asyncio.Task[None]] = set()
        self._drops = DropLog(logger)

    def protocol(self, *args: Any, **kwargs: Any) -> asyncio.Protocol:
        """Create the protocol of one connection, for uvicorn."""
        if self.tls is None:
            return GuardedConnection(self, *args, **kwargs)
        return TlsHandshake(self, self.tls, partial(GuardedConnection, self, *args, **kwargs))

    def enter(self, connection: GuardedConnection | TlsHandshake, host: str) -> None:
        """Add a connection; another one may be dropped for it."""
        superfluous = self.strangers.enter(connection, origin_of(host))
        if superfluous is not None:
            self.strangers.leave(superfluous)
            superfluous.transport.abort()
            self._drops.note(
                "dropped a client of the REST interface: too many unauthenticated connections, "
                "most of them of its address",
                time.monotonic(),
            )


class GuardedConnection(H11Protocol):
    """One connection, which a doorkeeper tracks until its client has authenticated."""

    def __init__(self, doorkeeper: Doorkeeper, *args: Any, **kwargs: Any) -> None:
        """Create it as uvicorn does."""
        super().__init__(*args, **kwargs)
        self._doorkeeper = doorkeeper
        inner: Callable[..., Awaitable[None]] = self.app

        async def told(scope: Scope, receive: Receive, send: Send) -> None:
            entries: MutableMapping[str, Any] = scope
            entries[PROVED] = self._proved
            await inner(scope, receive, send)

        self.app = told

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection of a client."""
        super().connection_made(transport)
        self._doorkeeper.enter(self, self.client[0] if self.client else "")

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the closed connection."""
        self._doorkeeper.strangers.leave(self)
        super().connection_lost(exc)

    def _proved(self) -> None:
        self._doorkeeper.strangers.leave(self)


class TlsHandshake(asyncio.Protocol):
    """A connection until it is encrypted; then a `GuardedConnection` replaces it."""

    transport: asyncio.Transport

    def __init__(
        self, doorkeeper: Doorkeeper, tls: ssl.SSLContext, serve: Callable[[], GuardedConnection]
    ) -> None:
        """Create it for one connection.

        Args:
            doorkeeper: Tracks it until it has ended.
            tls: The server's side of TLS.
            serve: Creates the protocol of the encrypted connection.
        """
        self._doorkeeper = doorkeeper
        self._tls = tls
        self._serve = serve
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the handshake with a client."""
        self.transport = transport
        transport.pause_reading()  # only the handshake may read it
        peer = transport.get_extra_info("peername")
        self._doorkeeper.enter(self, peer[0] if peer else "")
        task = asyncio.get_running_loop().create_task(self._shake())
        self._doorkeeper.handshakes.add(task)
        task.add_done_callback(self._doorkeeper.handshakes.discard)

    def data_received(self, data: bytes) -> None:
        """Store bytes that the client sends with the end of its handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the closed connection."""
        del exc
        self._doorkeeper.strangers.leave(self)

    async def _shake(self) -> None:
        plain = self.transport
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                plain,
                self,
                self._tls,
                server_side=True,
                ssl_handshake_timeout=self._doorkeeper.handshake_timeout_s,
            )
        except OSError:  # of TLS, of the connection, or a timeout
            plain.abort()
            encrypted = None
        finally:
            self._doorkeeper.strangers.leave(self)
        if encrypted is None or encrypted.is_closing():
            return
        served = self._serve()
        encrypted.set_protocol(served)
        served.connection_made(encrypted)
        for data in self._early:
            served.data_received(data)
