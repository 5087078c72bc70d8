"""Connections of the REST interface: how many wait for whom, and which goes for another.

As at the control port: a client proves by its first request that it may ask.  Of those that have
not, there is a bound, beyond which the oldest one of the address with the most goes.  However many
connect and say nothing, a client with the token finds a place.

With TLS a connection counts from the moment it is accepted: uvicorn would hear of it only after the
handshake, which a client need not end.  So the handshakes are made here.
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
"""The entry of a request's scope that is to be called once its client may ask."""


class Doorkeeper:
    """The connections of one server that have not proved anything; used in its event loop alone."""

    def __init__(self, tls: ssl.SSLContext | None, handshake_timeout_s: float) -> None:
        """Start without connections.

        Args:
            tls: The server's side of TLS; None without it.
            handshake_timeout_s: How long a client may take for its handshake.
        """
        self.strangers: Unproven[GuardedConnection | TlsHandshake] = Unproven()
        self.tls = tls
        self.handshake_timeout_s = handshake_timeout_s
        self.handshakes: set[asyncio.Task[None]] = set()
        self._drops = DropLog(logger)

    def protocol(self, *args: Any, **kwargs: Any) -> asyncio.Protocol:
        """Make what serves one connection, as uvicorn asks for it."""
        if self.tls is None:
            return GuardedConnection(self, *args, **kwargs)
        return TlsHandshake(self, self.tls, partial(GuardedConnection, self, *args, **kwargs))

    def enter(self, connection: GuardedConnection | TlsHandshake, host: str) -> None:
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


class TlsHandshake(asyncio.Protocol):
    """A connection until it is encrypted; then a `GuardedConnection` takes its place."""

    transport: asyncio.Transport

    def __init__(
        self, doorkeeper: Doorkeeper, tls: ssl.SSLContext, serve: Callable[[], GuardedConnection]
    ) -> None:
        """Make it for one connection.

        Args:
            doorkeeper: Knows it until it has ended.
            tls: The server's side of TLS.
            serve: Makes what serves the encrypted connection.
        """
        self._doorkeeper = doorkeeper
        self._tls = tls
        self._serve = serve
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        self.transport = transport
        transport.pause_reading()  # nothing but the handshake is to read it
        peer = transport.get_extra_info("peername")
        self._doorkeeper.enter(self, peer[0] if peer else "")
        task = asyncio.get_running_loop().create_task(self._shake())
        self._doorkeeper.handshakes.add(task)
        task.add_done_callback(self._doorkeeper.handshakes.discard)

    def data_received(self, data: bytes) -> None:
        """Keep what the client sends with the end of its handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
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
        except OSError:  # of TLS, of the connection, or the time is up
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
