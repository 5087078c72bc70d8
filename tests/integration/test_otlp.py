"""Metrics and spans reach a collector of OpenTelemetry."""

import http.server
import threading

import pytest
from penstock.common import Types
from penstock.common.options.check import check_options
from penstock.errors import ConfigurationError
from support.rest_client import FailsOnce, environment

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


class Collector(http.server.ThreadingHTTPServer):
    """Stores received requests, by path."""

    def __init__(self):
        self.received = {}
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        import gzip

        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format, *args):
        pass


@pytest.fixture
def collector():
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def attributes(found):
    return {one.key: one.value.string_value or one.value.int_value for one in found.attributes}


def test_a_collector_gets_metrics_and_spans_of_checkpoints_and_restarts(collector, tmp_path):
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    at = f"http://127.0.0.1:{collector.server_address[1]}"
    factory = "org.apache.flink.traces.otel.OpenTelemetryTraceReporterFactory"
    env = environment(
        **{
            "execution.target": "in-process",
            "execution.checkpointing.interval": "10 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
            "metrics.reporter.m.factory.class": "otel",
            "metrics.reporter.m.exporter.endpoint": f"{at}/v1/metrics",
            "metrics.reporter.m.service.name": "shop",
            "traces.reporter.t.factory.class": factory,
            "traces.reporter.t.exporter.endpoint": f"{at}/v1/traces",
        }
    )
    numbers = env.from_collection(list(range(100)), Types.LONG())
    numbers.map(FailsOnce(tmp_path / "failed"), Types.LONG()).print()
    env.execute("observed")

    points = {}
    for body in collector.received["/v1/metrics"]:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            assert attributes(resource.resource)["service.name"] == "shop"
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    points.setdefault(metric.name, []).extend(data.data_points)
    restarts = points["flink.jobmanager.job.numRestarts"][-1]
    assert attributes(restarts)["job_name"] == "observed"
    assert restarts.as_int == 1
    assert "flink.taskmanager.job.task.numRecordsOut" in points

    spans = [
        span
        for body in collector.received["/v1/traces"]
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert all(0 < one.start_time_unix_nano <= one.end_time_unix_nano for one in spans)
    [restart] = [attributes(one) for one in spans if one.name == "Restart"]
    assert restart["exception.type"] == "builtins.ArithmeticError"
    assert restart["jobName"] == "observed"
    checkpoints = [attributes(one) for one in spans if one.name == "Checkpoint"]
    assert "COMPLETED" in {one["checkpointStatus"] for one in checkpoints}
    numbers_of = [one["checkpointId"] for one in checkpoints]
    assert len(set(numbers_of)) == len(numbers_of)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("metrics.reporter.o.exporter.protocol", "gRPC", "HTTP"),
        ("traces.reporter.o.exporter.timeout", "soon", "traces.reporter.o.exporter.timeout"),
    ],
)
def test_invalid_options_of_a_reporter_are_rejected(option, value, said):
    family = option.partition(".")[0]
    with pytest.raises(ConfigurationError, match=said):
        check_options({f"{family}.reporter.o.factory.class": "otel", option: value})


def test_an_address_that_is_none_is_refused():
    from penstock.common.options.metrics import reporters_of
    from penstock.metrics.reporters.otlp import OtlpTraceSender

    keys = {"factory.class": "otel", "exporter.endpoint": "localhost:4318"}
    settings = reporters_of({f"traces.reporter.o.{key}": value for key, value in keys.items()})
    with pytest.raises(ConfigurationError, match=r"traces\.reporter\.o\.exporter\.endpoint"):
        OtlpTraceSender(settings[0])
