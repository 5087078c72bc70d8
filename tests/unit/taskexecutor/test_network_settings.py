"""The worker's launch line and the job's credentials determine its data plane's settings."""

import io
import json
import os
import socket
import ssl

import msgspec
import pytest
from penstock.errors import ConfigurationError, NetworkError
from penstock.rpc.job_certificate import SERVER_NAME, new_job_certificate
from penstock.rpc.job_credentials import JobCredentials
from penstock.taskexecutor.worker.job_networks import create_network_environment
from penstock.taskexecutor.worker.launch import LaunchSpec, launch_spec_of, read_launch_spec
from support.patience import PATIENCE_S

CREDENTIALS = JobCredentials(b"token")


def launch(**settings) -> LaunchSpec:
    return LaunchSpec(("127.0.0.1", 1), os.urandom(32).hex(), "worker", 1, **settings)


@pytest.fixture(autouse=True)
def pure_runtime(monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")


def test_compression_codec():
    """The job's codec reaches the data plane, which rejects codecs that it lacks."""
    config = {"taskmanager.network.compression.codec": "zip"}
    with pytest.raises(ConfigurationError, match="zip"):
        create_network_environment(launch(config=config), CREDENTIALS, 8)


def test_spill_threshold():
    """The job's threshold reaches the data plane, which rejects invalid ones."""
    config = {"taskmanager.network.record.spill-threshold": "-1"}
    with pytest.raises(ConfigurationError, match=r"record\.spill-threshold: '-1'"):
        create_network_environment(launch(config=config), CREDENTIALS, 8)


def test_encryption():
    """The job's certificate reaches the data plane, which encrypts with it, as configured."""
    certificate, private_key = new_job_certificate()
    config = {"taskmanager.network.same-host.enabled": "false"}
    credentials = JobCredentials(b"token", (certificate, private_key))
    environment = create_network_environment(launch(config=config), credentials, 8)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=certificate)
        with (
            socket.create_connection(environment.address, timeout=PATIENCE_S) as raw,
            context.wrap_socket(raw, server_hostname=SERVER_NAME) as client,
        ):
            assert client.getpeercert(binary_form=True) == certificate
    finally:
        environment.close()


def test_temporary_directories(tmp_path):
    """Blocking partitions are written to the worker's configured folders."""
    missing = str(tmp_path / "missing")
    environment = create_network_environment(launch(temp_dirs=(missing,)), CREDENTIALS, 8)
    try:
        with pytest.raises(NetworkError, match=missing):
            environment.create_result_partition(bytes(60), 1, "BLOCKING")
    finally:
        environment.close()


def test_a_launch_line_has_paths_that_are_not_utf_8():
    """Python gives them lone surrogates."""
    path = b"/programs/caf\xe9".decode(errors="surrogateescape")
    given = msgspec.to_builtins(launch(sys_path=("x",))) | {"program_path": path}
    line = json.dumps(given).encode() + b"\n"
    assert read_launch_spec(io.BytesIO(line)) == launch_spec_of(given)
    assert read_launch_spec(io.BytesIO(line)).program_path == path
    with pytest.raises(ConfigurationError, match="the launch line is not valid"):
        read_launch_spec(io.BytesIO(line.replace(b'"slots": 1', b'"slots": "x"')))
