"""Runs the reporters of a cluster: a thread for those that send, a port for one that is scraped."""

from __future__ import annotations

import http.server
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.errors import ConfigurationError
from penstock.metrics.export import Scope
from penstock.metrics.reporters.prometheus import CONTENT_TYPE, prometheus_text
from penstock.metrics.values import MetricValues

if TYPE_CHECKING:
    from penstock.common.options.metrics import ReporterSettings

logger = logging.getLogger(__name__)

Metrics = Iterable[tuple[Scope, MetricValues]]
STATSD_DATAGRAM_BYTES: Final = 1400
CLOSE_TIMEOUT_S: Final = 5.0
SCRAPE_TIMEOUT_S: Final = 10.0
MAX_SCRAPES: Final = 8


T = TypeVar("T")


class ScheduledReporter:
    """Reports at an interval, by calling a function in its own thread."""

    def __init__(
        self,
        settings: ReporterSettings,
        gather: Callable[[], T],
        send: Callable[[T], None],
        end: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a reporter.

        Args:
            settings: The reporter's settings.
            gather: Returns the current values to report.
            send: Reports them.
            end: Called after the last report.
        """
        self._end = end
        self._settings = settings
        self._report: Callable[[], None] = lambda: send(gather())
        self._closed = threading.Event()
        self._failing = False
        self._thread = threading.Thread(
            target=self._run, name=f"metric reporter {settings.name}", daemon=True
        )

    def start(self) -> None:
        """Start to report."""
        self._thread.start()

    def close(self) -> None:
        """Send a last report and end the thread."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._closed.wait(self._settings.values["interval"] / 1000)
            try:
                self._report()
                self._failing = False
            except Exception as error:
                # One line for consecutive failures: the other side may be gone for long.
                if not self._failing:
                    logger.warning("metric reporter %s: %s", self._settings.name, error)
                self._failing = True
        try:
            self._end()
        except Exception as error:
            logger.warning("metric reporter %s: %s", self._settings.name, error)


def log_metrics(metrics: Metrics, delimiter: str) -> None:
    """Write all metrics to the log, as one record."""
    lines = [
        f"{delimiter.join(scope.identifier)}{delimiter}{name}: {value}"
        for scope, values in metrics
        for name, value in values.flat().items()
    ]
    logger.info("metrics report\n%s", "\n".join(lines))


class StatsdSender:
    """Sends metrics as gauges in datagrams, as Flink's reporter does."""

    def __init__(self, settings: ReporterSettings, delimiter: str) -> None:
        """Resolve the target's address.

        Args:
            settings: The reporter's settings.
            delimiter: The separator of the parts of a name.

        Raises:
            ConfigurationError: The host is unknown; names the key.
        """
        host = settings.values["host"]
        try:
            found = socket.getaddrinfo(host, settings.values["port"], type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise ConfigurationError(f"{settings.key('host')}: {host!r}: {error}") from None
        self._family, self._address = found[0], found[4]
        self._delimiter = delimiter

    def send(self, metrics: Metrics) -> None:
        """Send one report."""
        batch, size = list[bytes](), 0
        with socket.socket(self._family, socket.SOCK_DGRAM) as sock:
            for scope, values in metrics:
                prefix = self._delimiter.join(map(_statsd_name, scope.identifier))
                for name, value in values.flat().items():
                    if isinstance(value, str):
                        continue
                    key = f"{prefix}{self._delimiter}{_statsd_name(name)}"
                    # A sign would subtract from the gauge: set it to 0 first, as Flink does.
                    reset = f"{key}:0|g\n" if value < 0 else ""
                    line = f"{reset}{key}:{value}|g".encode(errors="backslashreplace")
                    if size + len(line) > STATSD_DATAGRAM_BYTES and batch:
                        sock.sendto(b"\n".join(batch), self._address)
                        batch, size = [], 0
                    batch.append(line)
                    size += len(line) + 1
            if batch:
                sock.sendto(b"\n".join(batch), self._address)


def _statsd_name(name: str) -> str:
    return name.translate({ord(":"): "-", ord("|"): "-", ord("\n"): "-", ord("@"): "-"})


class PrometheusEndpoint:
    """A port that answers ``GET /metrics``, without a token: bind it to the scrapers' network.

    It listens on the first free port of its range.
    """

    def __init__(self, settings: ReporterSettings, gather: Callable[[], Metrics]) -> None:
        """Open the port.

        Raises:
            ConfigurationError: No port of the range is free; names the key.
        """
        host, ports = settings.values["host"], settings.values["port"]
        server = None
        failure: OSError | None = None
        for port in ports:
            try:
                server = _PrometheusServer((host, port), gather)
                break
            except OSError as error:
                failure = error
        if server is None:
            raise ConfigurationError(
                f"{settings.key('port')}: none of {len(ports)} ports of {host} is free: {failure}"
            )
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name=f"metric reporter {settings.name}",
            daemon=True,
        )
        self.address: tuple[str, int] = (host, server.server_address[1])

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()
        logger.info("metrics for Prometheus: http://%s:%d/metrics", *self.address)

    def close(self) -> None:
        """Close the port."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join(CLOSE_TIMEOUT_S)
        self._server.server_close()


class _PrometheusServer(http.server.ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], gather: Callable[[], Metrics]) -> None:
        self.gather = gather
        self.turns = threading.BoundedSemaphore(MAX_SCRAPES)
        super().__init__(address, _PrometheusHandler)

    def process_request(self, request: object, client_address: object) -> None:
        """Accept a connection, unless there are too many: slow clients must not accumulate."""
        if not self.turns.acquire(blocking=False):
            self.shutdown_request(request)  # type: ignore[arg-type]
            return
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def process_request_thread(self, request: object, client_address: object) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self.turns.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        """Log the error without a traceback: the client went away."""
        logger.debug("a scrape from %s failed", client_address, exc_info=True)


class _PrometheusHandler(http.server.BaseHTTPRequestHandler):
    timeout = SCRAPE_TIMEOUT_S
    server: _PrometheusServer

    def do_GET(self) -> None:
        """Answer with all metrics."""
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404)
            return
        body = prometheus_text(self.server.gather()).encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing: requests are not logged."""
