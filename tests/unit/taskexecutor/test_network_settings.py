"""The worker's launch line decides how its data plane is set up."""

import os

import pytest
from penstock.errors import ConfigurationError, NetworkError
from penstock.taskexecutor.launch import LaunchSpec
from penstock.taskexecutor.task_executor import create_network_environment


def launch(**settings) -> LaunchSpec:
    return LaunchSpec(("127.0.0.1", 1), os.urandom(32).hex(), "worker", 1, **settings)


@pytest.fixture(autouse=True)
def pure_runtime(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")


def test_compression_codec():
    """The job's codec reaches the data plane, which refuses one that it does not have."""
    config = {"taskmanager.network.compression.codec": "zip"}
    with pytest.raises(ConfigurationError, match="zip"):
        create_network_environment(launch(config=config))


def test_temporary_directories(tmp_path):
    """Blocking partitions are written where the worker was told to."""
    missing = str(tmp_path / "missing")
    environment = create_network_environment(launch(temp_dirs=(missing,)))
    try:
        with pytest.raises(NetworkError, match=missing):
            environment.create_result_partition(bytes(60), 1, "BLOCKING")
    finally:
        environment.close()
