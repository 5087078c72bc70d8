"""Metrics are pushed to a Pushgateway, and deleted at the end."""

import http.server
import threading

import pytest
from penstock.common.options.metrics import reporters_of
from penstock.errors import ConfigurationError
from penstock.metrics.export import Scope
from penstock.metrics.reporters.pushgateway import PushgatewaySender
from penstock.metrics.reporters.runner import ScheduledReporter
from penstock.metrics.values import MetricValues
from prometheus_client.parser import text_string_to_metric_families

SCOPE = Scope(("jobmanager",), ("h", "jobmanager"), {"host": "h"})


def settings(**options):
    keys = {f"metrics.reporter.g.{name}": text for name, text in options.items()}
    return reporters_of({"metrics.reporter.g.factory.class": "pushgateway", **keys})[0]


@pytest.fixture
def gateway():
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            asked.append((self.command, self.path, body))
            self.send_response(202)
            self.end_headers()

        do_DELETE = do_PUT

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("deletes", ["true", "false"])
def test_a_cluster_that_ends_has_pushed_its_last_figures(gateway, deletes):
    url, asked = gateway
    chosen = settings(hostUrl=url, jobName="my/job", interval="1 h", randomJobNameSuffix="false",
                      deleteOnShutdown=deletes)  # fmt: skip
    sender = PushgatewaySender(chosen)
    metrics = [(SCOPE, MetricValues(gauges={"numRunningJobs": 3}))]
    reporter = ScheduledReporter(chosen, lambda: metrics, sender.send, sender.close)
    reporter.start()
    reporter.close()
    assert [(method, path) for method, path, _ in asked] == [
        ("PUT", "/metrics/job/my%2Fjob"),
        *([("DELETE", "/metrics/job/my%2Fjob")] if deletes == "true" else []),
    ]
    (family,) = text_string_to_metric_families(asked[0][2])
    assert (family.name, family.samples[0].value) == ("flink_jobmanager_numRunningJobs", 3)


def test_names_differ_unless_they_are_to_be_the_same():
    first, second = (PushgatewaySender(settings(jobName="j")).url for _ in range(2))
    assert first != second
    assert first.startswith("http://localhost:9091/metrics/job/j")


def test_an_address_that_is_none_is_refused():
    with pytest.raises(ConfigurationError, match=r"metrics\.reporter\.g\.hostUrl: 'localhost'"):
        PushgatewaySender(settings(hostUrl="localhost"))


def test_a_gateway_that_is_not_there_is_one_warning(caplog):
    chosen = settings(hostUrl="http://127.0.0.1:1", interval="1 h")
    sender = PushgatewaySender(chosen)
    reporter = ScheduledReporter(chosen, list, sender.send, sender.close)
    reporter.start()
    reporter.close()
    assert any("metric reporter g" in record.message for record in caplog.records)
