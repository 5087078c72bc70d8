"""Leftovers of a test are found and named."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from support import leftovers
from support.leftovers import Leftovers
from support.packages import required
from support.patience import eventually
from support.processes import living

OF_ALL = Path(__file__).parents[1]

pytestmark = pytest.mark.process


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    return Leftovers()


def test_a_test_that_leaves_nothing_passes(impatient):
    with socket.create_server(("127.0.0.1", 0)), tempfile.NamedTemporaryFile():
        pass
    impatient.check()


def test_a_process_is_found_and_ended_that_is_nobodys_child(impatient):
    code = "import subprocess; print(subprocess.Popen(['sleep', '600'], stdout=-3).pid)"
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    process = psutil.Process(int(done.stdout))
    with pytest.raises(AssertionError, match=rf"process {process.pid}: sleep 600"):
        impatient.check()
    eventually(lambda: not living([process]), "the process ends")


def test_a_port_is_found(impatient):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(AssertionError, match=f"port {server.getsockname()[1]}"),
    ):
        impatient.check()


def test_a_temporary_file_is_found(impatient):
    with (
        tempfile.NamedTemporaryFile() as file,
        pytest.raises(AssertionError, match=f"temporary file {file.name}"),
    ):
        impatient.check()


def test_shared_memory_is_found(impatient):
    descriptor = os.memfd_create("forgotten")
    try:
        with pytest.raises(AssertionError, match=r"shared memory \d+: /memfd:forgotten"):
            impatient.check()
    finally:
        os.close(descriptor)


def test_the_error_names_leftovers_at_the_limit_of_a_test(monkeypatch):
    """The limit comes first if a test has waited for long before."""
    found = Leftovers()
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("Timeout"))
    monkeypatch.setattr(leftovers, "time", clock)
    with tempfile.NamedTemporaryFile() as file, pytest.raises(pytest.fail.Exception) as caught:
        found.check()
    assert caught.value.__notes__ == [f"the test has left: ['temporary file {file.name}']"]


def test_earlier_leftovers_are_not_the_tests(tmp_path):
    with tempfile.NamedTemporaryFile() as file:
        Leftovers().check()
        assert Path(file.name).exists()


def test_processes_of_a_server_belong_to_the_server(monkeypatch):
    """The processes of a server that several tests share, and that existed before the test."""
    Leftovers()  # processes started from now on have the mark
    code = (
        "import subprocess, sys; print(flush=True); sys.stdin.readline();"
        "print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        # A process has no environment yet while it is being executed.
        server.stdout.readline()
        monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
        found = Leftovers()
        server.stdin.write("go\n")
        server.stdin.flush()
        child = int(server.stdout.readline())
        try:
            found.check()
        finally:
            os.kill(child, signal.SIGKILL)
            server.kill()


def test_a_job_of_spark_is_found(impatient, monkeypatch):
    """A Spark that several tests share is no leftover, but jobs that run on it are."""
    running = [7]
    tracker = SimpleNamespace(getActiveJobsIds=lambda: running)
    context = SimpleNamespace(statusTracker=lambda: tracker)
    spark = SimpleNamespace(SparkContext=SimpleNamespace(_active_spark_context=context))
    monkeypatch.setitem(sys.modules, "pyspark", spark)
    with pytest.raises(AssertionError, match="Spark job 7"):
        impatient.check()
    running.clear()
    impatient.check()


STARTS_SERVERS = """
import os, signal
from pathlib import Path
from integration.test_mqtt import Mosquitto
from integration.test_redis import RedisServer

servers = [RedisServer(), Mosquitto(Path(os.environ["TMPDIR"]))]
print(len(servers), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_servers_end_with_a_killed_pytest(tmp_path):
    required(shutil.which("redis-server"), "redis-server")
    found = Leftovers()
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_SERVERS],
        env={**os.environ, "PYTHONPATH": str(OF_ALL), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        assert killed.stdout.readline() == "2\n"
    found.check()


LEAVES = """
import tempfile
from support import leftovers

leftovers.PATIENCE_S = 0.0

def test_leaves_a_file():
    tempfile.mkstemp(prefix="forgotten")

def test_leaves_nothing():
    pass
"""


LEAVES_A_JOB = """
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from support import leftovers
from support.patience import eventually
from support.rest_client import UntilMarked

leftovers.PATIENCE_S = 0.0
KEPT = []

def test_leaves_a_job(tmp_path):
    configuration = Configuration()
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", "1000000")
    configuration.set_string("restart-strategy.fixed-delay.delay", "1 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    runs = tmp_path / "runs"
    env.add_source(UntilMarked(tmp_path / "never")).map(lambda _: runs.touch()).print()
    KEPT.append(env.execute_async())
    eventually(runs.exists, "the job runs")

def test_is_alone(caplog):
    eventually(lambda: "starts no more workers" in caplog.text, "the job needs a worker")
    # One may have been about to start.
    eventually(lambda: not leftovers._processes(), "the job has no worker")
"""


def run_tests(tmp_path, folder, content):
    """Run the tests of a file in one of the folders."""
    tests = tmp_path / "tests" / folder
    tests.mkdir(parents=True)
    (tests / "test_leaving.py").write_text(content)
    (tmp_path / "tests" / "conftest.py").symlink_to(OF_ALL / "conftest.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(OF_ALL)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(("folder", "checks"), [("integration", True), ("unit", False)])
def test_the_fixture_fails_a_test_that_leaves_something(tmp_path, folder, checks):
    """Only folders of tests that run jobs are checked; only the test with leftovers fails."""
    output = run_tests(tmp_path, folder, LEAVES)
    assert ("2 passed, 1 error" if checks else "2 passed in") in output, output
    assert ("the test has left: ['temporary file" in output) == checks


@pytest.mark.slow
def test_a_job_that_a_test_leaves_fails_no_other_test(tmp_path):
    """Its workers end, and it gets no others."""
    output = run_tests(tmp_path, "integration", LEAVES_A_JOB)
    assert "2 passed, 1 error" in output, output
    assert "--fork-server" in output, output
