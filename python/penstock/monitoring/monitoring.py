"""Monitoring: the interfaces of a cluster for watchers: REST, reporters, archives, progress.

Nothing of it runs, and no worker sends metrics, unless the configuration enables it; the progress
line is for longer jobs in front of a terminal.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.common.options import history
from penstock.common.options import metrics as metric_options
from penstock.common.options import rest as rest_options
from penstock.common.options.cluster import PROGRESS
from penstock.errors import ConfigurationError
from penstock.jobmaster.workers.log_tails import DRIVER, DriverLog
from penstock.metrics.scope_formats import ScopeFormats
from penstock.monitoring.progress_line import ProgressLine, terminal
from penstock.rest.requirement import require_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.common.options.metrics import ReporterSettings
    from penstock.jobmaster.cluster_gateway import ClusterGateway
    from penstock.jobmaster.snapshots import ClusterSnapshot
    from penstock.metrics.export import Scope
    from penstock.metrics.values import MetricValues

logger = logging.getLogger(__name__)

SNAPSHOT_TIMEOUT_S: Final = 10.0
ARCHIVE_TIMEOUT_S: Final = 30.0
SCRAPED_INTERVAL_MS: Final = 10_000
"""Interval of the workers' metrics for a reporter that is scraped."""
FINAL_REPORT_INTERVAL_MS: Final = 600_000
"""Interval of the workers\' metrics where only the last ones are wanted."""


class _Part(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...


class _KeptLog:
    """Captures the driver's log while the interface is open to show it."""

    def __init__(self, handler: DriverLog) -> None:
        self._handler = handler

    def start(self) -> None:
        logging.getLogger().addHandler(self._handler)

    def close(self) -> None:
        logging.getLogger().removeHandler(self._handler)


class Monitoring:
    """Starts and stops the REST interface and the reporters of a cluster.

    Attributes:
        metrics_interval_ms: Interval at which workers send their metrics; 0 for never.
    """

    def __init__(self, gateway: ClusterGateway) -> None:
        """Read the configuration; nothing is started.

        Raises:
            ConfigurationError: An option is malformed.
        """
        self._gateway = gateway
        self._parts: list[_Part] = []
        self._process: dict[str, Any] = {}
        configuration = gateway.configuration
        self._has_rest = rest_options.PORT.read(configuration) is not None
        self._reporters = metric_options.reporters_of(
            configuration, metric_options.REPORTERS.read(configuration)
        )
        self._archive_folder = history.ARCHIVE_FOLDER.read(configuration)
        if self._archive_folder is not None:
            # An unreachable archive is reported now rather than at the end of the job.
            self._archive_files = FileSystems(configuration).of(self._archive_folder)
        intervals = [
            reporter.values.get("interval", SCRAPED_INTERVAL_MS)
            for reporter in self._reporters
            if reporter.family == "metrics"
        ]
        if self._has_rest or self._archive_folder is not None:
            intervals.append(metric_options.FETCHER_INTERVAL.read(configuration))
        if metric_options.REPORTED_AT_END.read(configuration):
            # Tasks report at their end if they report at all.
            intervals.append(FINAL_REPORT_INTERVAL_MS)
        self._formats = ScopeFormats(configuration)
        self.metrics_interval_ms = min(filter(None, intervals), default=0)

    def start(self) -> None:
        """Open the ports and start to report.

        Raises:
            ConfigurationError: A port is not available.
        """
        if self._has_rest or self._reporters:
            import psutil

            from penstock.metrics.process import process_metrics

            self._process = process_metrics(psutil.Process())
        if self._has_rest:
            self._parts.append(_KeptLog(DriverLog(self._gateway.logs.of(DRIVER))))
            self._parts[-1].start()
            self._parts.append(self._rest_server())
            self._parts[-1].start()
        for settings in self._reporters:
            self._parts.append(self._reporter(settings))
            self._parts[-1].start()
        shown_at = terminal() if PROGRESS.read(self._gateway.configuration) else None
        if shown_at is not None:
            self._parts.append(ProgressLine(self._gateway, shown_at))
            self._parts[-1].start()

    def stop(self) -> None:
        """Stop all parts after a last report, and archive ended jobs."""
        self._archive()
        with contextlib.ExitStack() as steps:
            for part in self._parts:
                steps.callback(part.close)

    def _archive(self) -> None:
        """Write the archives of the ended jobs; if that fails, the cluster ends all the same."""
        folder = self._archive_folder
        if folder is None:
            return
        writing = threading.Thread(
            target=self._write_archives, args=(folder,), name="job archive", daemon=True
        )
        writing.start()
        writing.join(ARCHIVE_TIMEOUT_S)
        if writing.is_alive():
            logger.warning("no archive was written to %s within %g s", folder, ARCHIVE_TIMEOUT_S)

    def _write_archives(self, folder: str) -> None:
        from penstock.metrics.derived import driver_metrics
        from penstock.rest.job_archive import archive_job

        try:
            cluster = self._gateway.snapshot().result(SNAPSHOT_TIMEOUT_S)
            driver = driver_metrics(cluster, self._process)
            for job in cluster.jobs:
                if job.status.is_globally_terminal:
                    path = archive_job(
                        self._gateway, cluster, job, driver, self._archive_files, folder
                    )
                    logger.info("job %s is archived in %s", job.name, path)
        except Exception as error:
            logger.warning("a job could not be archived in %s: %s", folder, error)

    def gather(self) -> Iterable[tuple[Scope, MetricValues]]:
        """Return all metrics as they are now.

        Raises:
            TimeoutError: The main thread is busy.
        """
        from penstock.metrics.export import scoped_metrics

        cluster = self._gateway.snapshot().result(SNAPSHOT_TIMEOUT_S)
        return scoped_metrics(cluster, self._gateway.metrics, self._process, self._formats)

    def _rest_server(self) -> _Part:
        require_rest(f"{rest_options.PORT.key} is set")
        from penstock.rest.server import RestServer

        return RestServer(self._gateway, self._process)

    def _reporter(self, settings: ReporterSettings) -> _Part:
        from penstock.metrics.reporters import runner

        if settings.kind == "prometheus":
            return runner.PrometheusEndpoint(settings, self.gather)
        if settings.kind == "pushgateway":
            from penstock.metrics.reporters.pushgateway import PushgatewaySender

            gateway = PushgatewaySender(settings)
            return runner.ScheduledReporter(settings, self.gather, gateway.send, gateway.close)
        if settings.kind in ("otel", "otel-traces"):
            return self._otlp_reporter(settings)
        delimiter = self._formats.delimiter
        send: Callable[[Any], None] = functools.partial(runner.log_metrics, delimiter=delimiter)
        if settings.kind == "spark":
            from penstock.spark.metric_source import SparkMetricsSender

            send = SparkMetricsSender(settings, delimiter).send
        if settings.kind == "statsd":
            send = runner.StatsdSender(settings, delimiter).send
        return runner.ScheduledReporter(settings, self.gather, send)

    def _otlp_reporter(self, settings: ReporterSettings) -> _Part:
        from penstock.metrics.reporters import runner

        try:
            from penstock.metrics.reporters.otlp import OtlpMetricsSender, OtlpTraceSender
        except ImportError as error:
            raise ConfigurationError(
                f"the reporter {settings.name} is for OpenTelemetry, and {error.name} is not "
                "installed: "
                "pip install 'penstock-engine[otel]'"
            ) from error
        if settings.kind == "otel":
            metrics = OtlpMetricsSender(settings)
            return runner.ScheduledReporter(settings, self.gather, metrics.send, metrics.close)
        traces = OtlpTraceSender(settings)
        return runner.ScheduledReporter(settings, self._cluster, traces.send, traces.close)

    def _cluster(self) -> ClusterSnapshot:
        return self._gateway.snapshot().result(SNAPSHOT_TIMEOUT_S)
