"""Settings, variables and folders by which drivers and executors recognise YARN and Kubernetes."""

import pyspark
import pytest
from penstock.errors import ConfigurationError
from penstock.jobmaster.cluster_settings import ClusterSettings
from penstock.spark import host, session
from penstock.spark.session import (
    control_address,
    control_plane_options,
    encrypts_its_network,
    refuse_copies,
)


class Told:
    """A context with the settings of a cluster manager."""

    def __init__(self, **settings):
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}

    def getConf(self):
        return self.settings


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        (
            {
                "spark_master": "k8s://https://10.96.0.1:443",
                "spark_driver_host": "clicks-5b1-driver-svc.streams.svc",
                "spark_driver_bindAddress": "10.244.1.7",
            },
            "10.244.1.7",
        ),
        ({"spark_master": "yarn", "spark_driver_host": "node3.example"}, "node3.example"),
        (
            {
                "spark_master": "yarn",
                "spark_driver_host": "node3.example",
                "spark_driver_bindAddress": "0.0.0.0",
            },
            "node3.example",
        ),
        ({"spark_master": "local[2]", "spark_driver_bindAddress": "10.0.0.1"}, "127.0.0.1"),
    ],
    ids=["a pod", "a container of YARN", "every address", "one machine"],
)
def test_the_address_of_the_control_port(settings, address):
    assert control_address(Told(**settings)) == address


@pytest.mark.parametrize(
    ("options", "dialled"),
    [
        ({}, "node3.example"),
        ({"jobmanager.bind-host": "0.0.0.0"}, "node3.example"),
        ({"jobmanager.bind-host": "::"}, "node3.example"),
        ({"jobmanager.bind-host": "10.0.0.9"}, "10.0.0.9"),
        ({"jobmanager.bind-host": "::", "jobmanager.rpc.address": "nat.example"}, "nat.example"),
    ],
)
def test_executors_dial_an_address_that_they_can_reach(options, dialled):
    """Not 0.0.0.0, with which they would look for the driver on their own machine."""
    context = Told(spark_master="yarn", spark_driver_host="node3.example")
    settings = ClusterSettings.from_configuration(
        {"penstock.runtime": "pure", **control_plane_options(context, options), **options}
    )
    assert settings.dialled_host == dialled


def test_every_address_is_nobodys_to_dial():
    with pytest.raises(ConfigurationError, match=r"jobmanager\.rpc\.address: 0\.0\.0\.0 is each"):
        ClusterSettings.from_configuration({"jobmanager.rpc.address": "0.0.0.0"})


def test_a_manager_that_encrypts_has_penstock_encrypt():
    assert encrypts_its_network(Told(spark_network_crypto_enabled="true"))
    assert not encrypts_its_network(Told(spark_authenticate="true"))


def test_copies_of_slow_tasks_are_refused():
    """Spark copies the only task of a stage only if a threshold is configured."""
    refuse_copies(Told(spark_speculation="true"))
    threshold = "spark.speculation.task.duration.threshold"
    refuse_copies(Told(**{threshold: "30s"}))
    with pytest.raises(ConfigurationError, match=r"threshold: 30s .* spark\.speculation to false"):
        refuse_copies(Told(**{"spark_speculation": "true", threshold: "30s"}))


@pytest.mark.parametrize("submitted", [True, False])
def test_the_settings_of_spark_submit_are_read_from_its_jvm(monkeypatch, submitted):
    """They are nowhere else: without them, every submitted program would run on local[*]."""
    order = []
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(pyspark.SparkContext, "_ensure_initialized", lambda: order.append("JVM"))
    monkeypatch.setattr(
        pyspark, "SparkConf", lambda: order.append("conf") or pyspark.conf.SparkConf()
    )
    monkeypatch.setattr(session, "_set_local_folder", lambda _: None)
    monkeypatch.setattr(session, "_started", lambda conf: conf.get("spark.master"))
    assert session.spark_context({}) == ("local[*]", True)
    assert order == (["JVM", "conf"] if submitted else ["conf"])


@pytest.mark.parametrize("variable", ["SPARK_LOCAL_DIRS", "LOCAL_DIRS"])
def test_temporary_files_are_where_the_manager_says(tmp_path, monkeypatch, variable):
    """A pod's volumes and a container's folders; both are removed with it."""
    for name in ("SPARK_LOCAL_DIRS", "LOCAL_DIRS"):
        monkeypatch.delenv(name, raising=False)
    folders = [tmp_path / "disk1", tmp_path / "disk2"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv(variable, ",".join(map(str, folders)))
    launched = []

    class Worker:
        pid, log_tail = 1, ""

        def __init__(self, specification, environment):
            launched.append(specification)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def wait(self, _):
            return 0

    monkeypatch.setattr(host, "WorkerProcess", Worker)
    rows = list(host.host_task_executor({"driver": ("127.0.0.1", 9), "executor_id": "worker"}))
    assert [row["state"] for row in rows] == ["ended"]
    assert launched[0]["temp_dirs"] == [str(folder) for folder in folders]
    assert launched[0]["executor_id"].startswith("worker-")


def test_the_second_attempt_of_a_spark_task_hosts_nobody(monkeypatch):
    """The first attempt's loss is known, and another worker is requested under another name."""
    monkeypatch.setattr(host, "attempt_number", lambda: 1)
    assert list(host.host_task_executor({})) == []
