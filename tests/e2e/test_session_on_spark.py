"""A session whose taskexecutors are Spark tasks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from e2e.running import run_program
from e2e.spark_jobs import LIGHT_LOCAL_JVM
from support.patience import PATIENCE_S
from support.processes import children
from support.sessions import eventually

pytestmark = pytest.mark.spark

JOB = """
from penstock.common import Types
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_collection([1, 2, 3], Types.LONG()).rebalance()
with numbers.map(lambda n: n * n, Types.LONG()).execute_and_collect() as found:
    print(sorted(found))
"""


def penstock(*arguments: str) -> str:
    """Run a command; its background processes continue."""
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_jobs_share_what_spark_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost taskexecutor is requested again; all processes end with the session."""
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    program = tmp_path / "job.py"
    program.write_text(JOB)
    started = json.loads(
        penstock(
            *("cluster", "start", "--target", "spark", "--slots", "2", "--json"),
            *("-D", "spark.master=local[2]", "-D", "spark.ui.enabled=false"),
            *(word for option in LIGHT_LOCAL_JVM.items() for word in ("-D", "=".join(option))),
        )
    )
    try:
        jobmanager = psutil.Process(started["pid"])
        processes = [jobmanager, *jobmanager.children(recursive=True)]
        run = ["-m", "penstock", "run", "--target", "session", str(program)]
        for _ in range(2):
            outcome = run_program(run)
            assert (outcome.code, outcome.out) == (0, "[1, 4, 9]\n"), outcome.err

        def hosts() -> list[psutil.Process]:
            return children("--fork-server", of=jobmanager)

        eventually(lambda: len(hosts()) == 2, "Spark hosts two taskexecutors")
        os.kill(hosts()[0].ppid(), 9)
        outcome = run_program(run)
        assert (outcome.code, outcome.out) == (0, "[1, 4, 9]\n"), outcome.err
        # The other one may have run the job before.
        eventually(lambda: "is lost" in Path(started["log"]).read_text(), "the loss is told")
        processes += jobmanager.children(recursive=True)
    finally:
        penstock("cluster", "stop")
        Path(started["log"]).unlink()
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    assert not alive
