"""Jobs on a real YARN of one node, whose application attempts are killed (internals M48, M75).

Method: jobs of `recovery.endless_jobs` are submitted by `spark-submit`; their files are compared
with the model, however often an ApplicationMaster has died.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from e2e.running import ROOT
from recovery.chaos import Progress
from recovery.endless_jobs import JOBS
from support.patience import PATIENCE_S
from support.sessions import Spoken, eventually
from support.yarn_cluster import JARS, YarnCluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(10 * PATIENCE_S),  # eight JVMs start, one after the other
    pytest.mark.skipif(not JARS.is_dir(), reason="YARN's jars are not there: make build/yarn/jars"),
]

T = TypeVar("T")
TESTS = str(ROOT / "tests")
PROGRAM = str(ROOT / "tests" / "recovery" / "endless_jobs.py")
#: The class of the ApplicationMaster in each mode.
MASTERS = {"client": "ExecutorLauncher", "cluster": "ApplicationMaster"}


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    cluster = YarnCluster(tmp_path_factory.mktemp("yarn"))
    try:
        yield cluster
    finally:
        cluster.close()


def while_it_runs(submitter: Spoken, condition: Callable[[], T]) -> T:
    """Wait for a true result while `spark-submit` runs, whatever time the start of JVMs takes."""
    while not (found := condition()):
        assert submitter.process.poll() is None, submitter.log
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("mode", MASTERS)
def test_a_killed_attempt_is_retried_and_the_job_continues(
    mode: str, yarn: YarnCluster, tmp_path: Path
) -> None:
    """`kill -9` of the ApplicationMaster.

    In client mode the driver survives, and loses all executors; in cluster mode the driver's JVM is
    killed, and the driver of the next attempt finds the job in its storage.
    """
    folder = tmp_path / "job"
    options = {
        "execution.target": "spark",
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "high-availability"),
        "high-availability.cluster-id": "on-yarn",
    }
    progress = Progress(folder / "checkpoints")
    submitter = yarn.submit(mode, TESTS, PROGRAM, str(folder), "counts", json.dumps(options))
    try:
        workers = while_it_runs(submitter, lambda: yarn.containers("penstock.taskexecutor"))
        progress.await_checkpoint()
        (first,) = yarn.containers(f"org.apache.spark.deploy.yarn.{MASTERS[mode]}", "java")
        first.kill()
        while_it_runs(submitter, lambda: yarn.attempts()[1:] and yarn.attempts()[1][1] == "RUNNING")
        while_it_runs(submitter, lambda: {*yarn.containers("penstock.taskexecutor")} - {*workers})
        progress.await_checkpoint()
        (folder / "end").touch()
        assert submitter.end() == 0, submitter.log
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(submitter.pid, signal.SIGKILL)
        raise
    eventually(lambda: yarn.attempts()[1][1] == "FINISHED", "the second attempt ends", 0.2)
    assert yarn.attempts()[0][1] == "FAILED"
    JOBS["counts"].check(folder)
