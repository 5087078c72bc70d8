"""HttpServer: a port with its own thread and event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import threading
import time
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from penstock.common.options import rest
from penstock.errors import ConfigurationError
from penstock.rest.access import Access
from penstock.rest.connections import Doorkeeper
from penstock.rest.tls import tls_context
from penstock.rpc.admission import MAX_UNPROVEN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from starlette.types import ASGIApp

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 2 * MAX_UNPROVEN
"""Half of them for authenticated clients."""

MAX_HEADER_BYTES: Final = 16 * 1024
REQUEST_TIMEOUT_S: Final = 10.0
"""Time limit for a client to send its request."""

START_TIMEOUT_S: Final = 30.0
CLOSE_TIMEOUT_S: Final = 10.0
_WATCH_S: Final = 1.0


class HttpServer:
    """Serves one application.

    Attributes:
        url: The address that it listens on.
        token: The token that clients must present; None if every client may ask.
        ended: Set once it has stopped serving.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        host: str,
        ports: tuple[int, ...] | None,
        ports_key: str,
        new_application: Callable[[Access], ASGIApp],
    ) -> None:
        """Open the port.

        Args:
            options: The configuration.
            host: The address to listen on.
            ports: The ports to try, in this order; any if None.
            ports_key: The option that names them.
            new_application: Creates the application behind the access control.

        Raises:
            ConfigurationError: No port is available, or the token is empty.
        """
        tls = tls_context(options)
        self.token = _token(options)
        self._socket = _listen(host, ports or (0,), ports_key)
        bound, number = self._socket.getsockname()[:2]
        shown = socket.gethostname() if bound in ("0.0.0.0", "::") else bound
        scheme = "https" if tls else "http"
        self.url = (
            f"{scheme}://[{shown}]:{number}" if ":" in shown else f"{scheme}://{shown}:{number}"
        )
        names = frozenset({"localhost", host.lower(), socket.gethostname().lower(), shown})
        try:
            application = new_application(Access(self.token, names))
        except BaseException:
            self._socket.close()
            raise
        self._server = uvicorn.Server(
            uvicorn.Config(
                application,
                http=Doorkeeper(tls, REQUEST_TIMEOUT_S).protocol,  # type: ignore[arg-type]
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # it warns of each invalid request
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=1,
                h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            )
        )
        self.ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)

    @property
    def link(self) -> str:
        """The URL to open in a browser."""
        return f"{self.url}/" if self.token is None else f"{self.url}/?token={self.token}"

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self._server.started and time.monotonic() < deadline_s:
            if self.ended.wait(0.01):
                break

    def close(self, before: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """End the thread and close the port.

        Args:
            before: Runs first, on the server's loop.
        """
        loop = self._loop
        if loop is not None and not loop.is_closed():
            told = asyncio.run_coroutine_threadsafe(before(), loop)
            with contextlib.suppress(TimeoutError, CancelledError):
                told.result(CLOSE_TIMEOUT_S)
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception:
            logger.exception("the server at %s failed; the process continues without it", self.url)
        finally:
            self.ended.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        watch = asyncio.create_task(self._watch())
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    async def _watch(self) -> None:
        """Drop clients that send no request in time: uvicorn itself would wait for ever."""
        since: dict[Any, float] = {}
        while True:
            await asyncio.sleep(_WATCH_S)
            now_s = time.monotonic()
            connections: list[Any] = list(self._server.server_state.connections)
            since = {one: at_s for one, at_s in since.items() if one in connections}
            for connection in connections:
                cycle = connection.cycle
                if cycle is not None and not cycle.response_complete:
                    since.pop(connection, None)  # it is being answered, which has its own limit
                elif now_s - since.setdefault(connection, now_s) > REQUEST_TIMEOUT_S:
                    connection.transport.abort()


def _token(options: Mapping[str, str]) -> str | None:
    if rest.AUTHENTICATION.read(options) == "none":
        return None
    given = rest.TOKEN.read(options)
    if given is None:
        return secrets.token_hex(24)
    if not given.isascii() or not given.isprintable() or len(given) < 16 or " " in given:
        raise ConfigurationError(
            f"{rest.TOKEN.key} must have at least 16 characters of ASCII without spaces"
        )
    return given


def _listen(host: str, ports: tuple[int, ...], key: str) -> socket.socket:
    failure: OSError | None = None
    for port in ports:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family, backlog=64)
        except OSError as error:
            failure = error
    raise ConfigurationError(f"{key}: none of {len(ports)} ports of {host} is free: {failure}")
