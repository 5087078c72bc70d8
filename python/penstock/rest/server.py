"""RestServer: the REST interface of a cluster at a port.

It has its own event loop; a handler uses nothing of the job but immutable snapshots.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import rest
from penstock.rest.application import RestApplication
from penstock.rest.http_server import HttpServer
from penstock.rest.operations import Operations
from penstock.rest.run_files import RunFile
from penstock.rest.tls import own_certificates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.rest.access import Access

logger = logging.getLogger(__name__)

LINGER_S: Final = 5.0
"""Time that the end of a cluster waits for clients to fetch the outcome of their operations."""


class RestServer:
    """Serves one cluster."""

    def __init__(self, gateway: ClusterGateway, driver_process: Mapping[str, Any]) -> None:
        """Open the port.

        Args:
            gateway: The cluster.
            driver_process: Gauges of the driver's process.

        Raises:
            ConfigurationError: No port is available, or the token is empty.
        """
        options = gateway.configuration
        self._operations = Operations()

        def new_application(access: Access) -> ASGIApp:
            self._application = RestApplication(
                gateway,
                self._operations,
                driver_process,
                access=access,
                read_only=rest.READ_ONLY.read(options),
                max_content_bytes=rest.MAX_CONTENT.read(options),
            )
            return self._application.asgi()

        self._http = HttpServer(
            options,
            rest.BIND_ADDRESS.read(options),
            rest.PORT.read(options),
            rest.PORT.key,
            new_application,
        )
        self._run_file = RunFile(self._http.url, self._http.token, own_certificates(options))

    def start(self) -> None:
        """Start to serve, and log the address."""
        self._http.start()
        try:
            self._run_file.write()
        except OSError as error:
            logger.warning("the command line will not find this cluster by itself: %s", error)
        logger.warning("REST interface: %s", self._http.link)

    def close(self) -> None:
        """End the thread and close the port, after clients have fetched their outcomes."""
        deadline_s = time.monotonic() + LINGER_S
        while self._operations.untold and time.monotonic() < deadline_s:
            if self._http.ended.wait(0.05):
                break
        self._http.close(self._application.live.close)
        self._run_file.remove()
