"""Each option belongs to the cluster or to the job, and a job decides only its own."""

import ast
from pathlib import Path

import pytest
from penstock.common.options import (
    checkpointing,
    cluster,
    history,
    metrics,
    network,
    pipeline,
    rest,
    security,
)
from penstock.common.options.option import Option
from penstock.common.options.registry import SECTIONS, options_of
from penstock.common.options.scope import check_job, is_of_cluster, job_part
from penstock.errors import ConfigurationError
from penstock.graph.job_graph import JobGraph
from penstock.jobmaster.dispatcher import Dispatcher
from penstock.monitoring.monitoring import Monitoring
from penstock.per_job.local_driver import LocalDriver
from support.patience import PATIENCE_S

PACKAGE = Path(__file__).resolve().parents[3] / "python" / "penstock"
OF_THE_CLUSTER = [
    "jobmaster/cluster_settings.py",
    "monitoring/monitoring.py",
    "rest/access.py",
    "rest/cluster_views.py",
    "rest/flame_graphs.py",
    "rest/server.py",
    "rest/tls.py",
    "taskexecutor/worker/job_networks.py",
]
"""Modules in which a configuration is the cluster's."""


def options_read_in(path: Path) -> list[Option]:
    modules = {module.__name__.rpartition(".")[2]: module for _, module in SECTIONS}
    tree = ast.parse(path.read_text())
    names = {
        alias.asname or alias.name: modules[alias.name]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "penstock.common.options"
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id=module), attr=option), attr="read"
            ) if module in names:
                found.append(getattr(names[module], option))
    return found


def test_options_that_the_cluster_reads_belong_to_the_cluster():
    count = 0
    for place in OF_THE_CLUSTER:
        for option in options_read_in(PACKAGE / place):
            count += 1
            assert option.scope == "cluster", (place, option)
    assert count > 30


@pytest.mark.parametrize(
    ("module", "scope"),
    [
        (pipeline, "job"),
        (network, "cluster"),
        (security, "cluster"),
        (rest, "cluster"),
        (history, "cluster"),
        (metrics, "cluster"),
    ],
)
def test_whole_sections(module, scope):
    assert {option.scope for option in options_of(module)} == {scope}


@pytest.mark.parametrize(
    ("option", "scope"),
    [
        (cluster.MANAGED_MEMORY, "cluster"),
        (cluster.SHORT_TIME_SLICES, "cluster"),
        (cluster.FAILOVER_STRATEGY, "job"),
        (cluster.CANCELLATION_TIMEOUT, "job"),
        (checkpointing.LOCAL_BACKUP_FOLDERS, "cluster"),
        (checkpointing.LOCAL_BACKUP, "job"),
    ],
)
def test_sections_of_both(option, scope):
    assert option.scope == scope


def test_the_part_of_the_job():
    """Former keys share their option's scope; reporters are the cluster's, others the job's."""
    of_job = {"parallelism.default": "2", "spark.master": "local[2]", "state.backend": "rocksdb"}
    of_cluster = {"rest.port": "0", "metrics.reporter.p.factory.class": "log"}
    assert job_part(of_job | of_cluster) == of_job
    assert all(map(is_of_cluster, of_cluster))


def test_a_job_may_say_what_the_cluster_has():
    """Also with other spellings of a value, and if the cluster has the default."""
    running = {"heartbeat.timeout": "60 s"}
    check_job({"heartbeat.timeout": "1 min", "heartbeat.interval": "10 s"}, running)
    check_job({"parallelism.default": "7"}, running)
    ports = {"rest.bind-port": "8081,0", "rest.port": "0"}
    check_job(ports, ports)


def test_a_job_that_requests_another_cluster_gets_an_error():
    """The message names all such options, both values, and a remedy."""
    running = {"heartbeat.timeout": "60 s", "metrics.reporter.p.factory.class": "log"}
    wanted = {
        "heartbeat.timeout": "70 s",
        "rest.port": "8081",
        "metrics.reporter.p.factory.class": "statsd",
        "parallelism.default": "2",
    }
    with pytest.raises(ConfigurationError, match="leave them out of the job, or set") as raised:
        check_job(wanted, running)
    said = str(raised.value)
    assert "heartbeat.timeout (the job: '70 s', the cluster: '60 s')" in said
    assert "rest.port (the job: '8081', the cluster: 'not set')" in said
    assert "metrics.reporter.p.factory.class (the job: 'statsd', the cluster: 'log')" in said
    assert "parallelism.default" not in said


def test_a_running_cluster_refuses_such_a_job():
    """The cluster accepts the job without that option."""
    dispatcher = Dispatcher({"penstock.runtime": "pure"}, LocalDriver, Monitoring)
    dispatcher.start()
    try:
        with pytest.raises(ConfigurationError, match=r"network\.segments .the job: '8'"):
            dispatcher.submit(
                JobGraph("a job", {}, configuration={"taskmanager.memory.network.segments": "8"})
            )
        handle = dispatcher.submit(
            JobGraph("a job", {}, configuration={"parallelism.default": "8"})
        )
        assert handle.result(PATIENCE_S) is not None
    finally:
        dispatcher.stop()
