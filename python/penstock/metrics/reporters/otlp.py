"""Sends metrics, and spans of checkpoints and restarts, to a collector of OpenTelemetry.

It uses OTLP over HTTP, with OpenTelemetry's packages.  Names and attributes are Flink's.
"""

from __future__ import annotations

import time
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from penstock import __version__
from penstock.errors import ConfigurationError
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.metrics.values import HISTOGRAM_FIGURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.common.options.metrics import ReporterSettings
    from penstock.jobmaster.checkpointing.statistics import CheckpointRecord
    from penstock.jobmaster.snapshots import ClusterSnapshot, ExceptionSnapshot, JobSnapshot
    from penstock.metrics.export import Scope
    from penstock.metrics.values import MetricValues

_MS: Final = 1_000_000
"""Nanoseconds."""

_SCOPE: Final = "penstock"
MAX_REMEMBERED: Final = 1000


class OtlpMetricsSender:
    """Sends reports of metrics."""

    def __init__(self, settings: ReporterSettings) -> None:
        """Read the collector's address.

        Raises:
            ConfigurationError: The address is invalid; names the key.
        """
        self._exporter = OTLPMetricExporter(**_connection(settings))
        self._resource = _resource(settings)
        self._start_ns = time.time_ns()

    def send(self, metrics: Iterable[tuple[Scope, MetricValues]]) -> None:
        """Send a report.

        Raises:
            ConnectionError: The collector has not accepted it.
        """
        now_ns = time.time_ns()
        points: dict[tuple[str, bool], list[Any]] = {}
        for scope, values in metrics:
            prefix = ".".join(("flink", *scope.logical))
            attributes = dict(scope.variables)
            for name, value, is_count in _numbers(values):
                point = NumberDataPoint(attributes, self._start_ns, now_ns, value)
                points.setdefault((f"{prefix}.{name}", is_count), []).append(point)
        found = [
            Metric(
                name,
                "",
                "",
                # Flink's counters may go down.
                Sum(of_name, AggregationTemporality.CUMULATIVE, is_monotonic=False)
                if is_count
                else Gauge(of_name),
            )
            for (name, is_count), of_name in points.items()
        ]
        scope_metrics = ScopeMetrics(InstrumentationScope(_SCOPE, __version__), found, "")
        report = MetricsData([ResourceMetrics(self._resource, [scope_metrics], "")])
        if self._exporter.export(report) is not MetricExportResult.SUCCESS:
            raise ConnectionError("the collector of OpenTelemetry rejected the metrics")

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()


def _numbers(values: MetricValues) -> Iterator[tuple[str, int | float, bool]]:
    """Yield names, values, and whether they are counts; OpenTelemetry has no text metrics."""
    for name, count in values.counters.items():
        yield name, count, True
    for name, gauge in values.gauges.items():
        if not isinstance(gauge, str):
            yield name, gauge, False
    for name, meter in values.meters.items():
        yield f"{name}.count", meter.count, True
        yield f"{name}.rate", meter.rate, False
    for name, histogram in values.histograms.items():
        yield f"{name}.count", histogram.count, True
        for figure in HISTOGRAM_FIGURES:
            yield f"{name}.{figure}", getattr(histogram, figure), False


class OtlpTraceSender:
    """Sends a span for each checkpoint and restart, once it has ended."""

    def __init__(self, settings: ReporterSettings) -> None:
        """Read the collector's address.

        Raises:
            ConfigurationError: The address is invalid; names the key.
        """
        self._exporter = OTLPSpanExporter(**_connection(settings))
        self._ended = _EndedSpans()
        provider = TracerProvider(resource=_resource(settings), shutdown_on_exit=False)
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer(_SCOPE, __version__)
        #: Sent spans, and those about to be sent; the oldest are dropped.
        self._known: dict[tuple[bytes, str, int], None] = {}

    def send(self, cluster: ClusterSnapshot) -> None:
        """Send the spans that have ended since the last call.

        Raises:
            ConnectionError: The collector has not accepted them; they are sent again next time.
        """
        for job in cluster.jobs:
            for record in reversed(job.checkpoints.history):
                if record.status != "IN_PROGRESS" and self._is_new(job, "c", record.checkpoint_id):
                    self._checkpoint(job, record)
            for failure in job.exceptions:
                end_ms = _recovered_ms(job, failure)
                if end_ms is not None and self._is_new(job, "f", failure.timestamp_ms):
                    self._restart(job, failure, end_ms)
        spans = self._ended.spans
        if spans:
            if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                del spans[:-MAX_REMEMBERED]
                raise ConnectionError("the collector of OpenTelemetry rejected the spans")
            spans.clear()

    def close(self) -> None:
        """Close the connection."""
        self._exporter.shutdown()

    def _is_new(self, job: JobSnapshot, kind: str, number: int) -> bool:
        key = (job.id, kind, number)
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return True

    def _checkpoint(self, job: JobSnapshot, record: CheckpointRecord) -> None:
        attributes = {
            **_of_job(job),
            "checkpointId": record.checkpoint_id,
            "checkpointStatus": record.status,
            "checkpointType": record.kind,
            "checkpointedSize": record.total("checkpointed_bytes"),
            "fullSize": record.total("full_bytes"),
        }
        if record.failure is not None:
            attributes["failure"] = record.failure
        end_ms = record.trigger_ms + record.duration_ms
        self._span("Checkpoint", attributes, record.trigger_ms, end_ms)

    def _restart(self, job: JobSnapshot, failure: ExceptionSnapshot, end_ms: int) -> None:
        attributes = {
            **_of_job(job),
            "jobStatus": job.status.value,
            "exception.type": failure.failure.exception_name,
            "exception.message": str(failure.failure),
            "taskName": failure.failure.task_name or "",
        }
        self._span("Restart", attributes, failure.timestamp_ms, end_ms)

    def _span(self, name: str, attributes: dict[str, Any], start_ms: int, end_ms: int) -> None:
        span = self._tracer.start_span(name, attributes=attributes, start_time=start_ms * _MS)
        span.end(end_time=max(start_ms, end_ms) * _MS)


class _EndedSpans:
    """Stores spans until they are sent; implements the methods of a span processor."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Do nothing."""

    def _on_ending(self, span: Any) -> None:
        """Do nothing."""

    def on_end(self, span: Any) -> None:
        """Store the span."""
        self.spans.append(span)

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 0) -> bool:  # noqa: ARG002
        """Return True: nothing is pending."""
        return True


def _recovered_ms(job: JobSnapshot, failure: ExceptionSnapshot) -> int | None:
    """Return when the job ran again after a failure, or had ended; None before."""
    if job.end_ms >= 0:
        return job.end_ms
    running_ms = job.timestamps.get(JobStatus.RUNNING, -1)
    is_over = job.status is JobStatus.RUNNING and running_ms >= failure.timestamp_ms
    return running_ms if is_over else None


def _of_job(job: JobSnapshot) -> dict[str, Any]:
    return {"jobId": job.id.hex(), "jobName": job.name}


def _connection(settings: ReporterSettings) -> dict[str, Any]:
    address = settings.values["exporter.endpoint"]
    parts = urllib.parse.urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{settings.key('exporter.endpoint')}: {address!r} is not a URL such as "
            "http://localhost:4318/v1/metrics"
        )
    return {"endpoint": address, "timeout": settings.values["exporter.timeout"] / 1000}


def _resource(settings: ReporterSettings) -> Any:
    return Resource(
        {
            "service.name": settings.values["service.name"],
            "service.version": settings.values["service.version"] or __version__,
        }
    )
