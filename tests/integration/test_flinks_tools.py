"""Tools for Flink's REST interface work unchanged: curl, Flink's own client."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from penstock.errors import JobCancelledError
from support.packages import required
from support.patience import PATIENCE_S
from support.rest_client import running_job

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def open_job(tmp_path, monkeypatch):
    """Start jobs whose interface requires no token, as Flink's does."""
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))

    def start(name):
        return running_job(
            tmp_path / name,
            **{
                "rest.authentication": "none",
                "execution.checkpointing.interval": "200 ms",
                "execution.checkpointing.dir": (tmp_path / "checkpoints").as_uri(),
            },
        )

    return start


def test_lines_of_curl(open_job, tmp_path):
    """In the forms of Flink's documentation: without a version, with and without a body."""
    curl = required(shutil.which("curl"), "curl")
    job, client, job_id = open_job("stop")
    savepoints = (tmp_path / "savepoints").as_uri()

    def line(text, status=200):
        words = text.replace(":jobid", job_id).split()
        command = [curl, "-sS", "-w", "\n%{http_code}", *words[:-1], client.url + words[-1]]
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        body, _, code = found.stdout.rpartition("\n")
        assert int(code) == status, found.stdout
        return json.loads(body)

    def outcome(path, trigger):
        done = client.until(
            f"{path}/{trigger['request-id']}", lambda one: one["status"]["id"] == "COMPLETED"
        )
        assert "failure-cause" not in done["operation"], done
        return done["operation"]

    assert line("/jobs")["jobs"] == [{"id": job_id, "status": "RUNNING"}]
    assert line("-X GET /v1/jobs/overview")["jobs"][0]["name"] == "watched"
    vertices = line("/jobs/:jobid")["vertices"]
    assert [one["parallelism"] for one in vertices] == [1, 2, 2]
    names = line("/jobs/:jobid/metrics")
    assert {"id": "numRestarts"} in names
    assert line("/jobs/:jobid/metrics?get=numRestarts") == [{"id": "numRestarts", "value": "0"}]
    mapper = vertices[1]["id"]
    path = f"/jobs/:jobid/vertices/{mapper}/subtasks/metrics?get=numRecordsIn&agg=max,sum"
    assert set(line(path)[0]) == {"id", "max", "sum"}
    assert line("/jobs/:jobid/checkpoints")["counts"]["failed"] == 0
    assert line("/jobs/:jobid/checkpoints/config")["interval"] == 200

    # curl sends bodies as forms by default.
    body = json.dumps({"target-directory": savepoints}, separators=(",", ":"))
    trigger = line(f"-X POST -d {body} /jobs/:jobid/savepoints", 202)
    location = outcome(f"/jobs/{job_id}/savepoints", trigger)["location"]
    assert location.startswith(savepoints.removeprefix("file://")) or savepoints in location
    trigger = line("-X PATCH /jobs/:jobid/rescaling?parallelism=1", 202)
    outcome(f"/jobs/{job_id}/rescaling", trigger)
    assert [one["parallelism"] for one in line("/jobs/:jobid")["vertices"]] == [1, 1, 1]
    body = json.dumps({"targetDirectory": savepoints, "drain": False}, separators=(",", ":"))
    json_type = "-H Content-Type:application/json"
    trigger = line(f"-X POST {json_type} -d {body} /v1/jobs/:jobid/stop", 202)
    outcome(f"/jobs/{job_id}/savepoints", trigger)
    job.get_job_execution_result().result()

    job, client, job_id = open_job("another")
    line("-X PATCH /jobs/:jobid?mode=cancel", 202)
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()


def test_the_command_line_of_flink(open_job, tmp_path):
    """Apache Flink's own client, in Java, if `make record-pyflink` has installed it."""
    place = "lib/python3.11/site-packages/pyflink/bin/flink"
    flink = os.environ.get("PENSTOCK_FLINK") or ROOT / "build" / "pyflink" / place
    if not Path(flink).exists():
        pytest.skip("apache-flink is not installed: make record-pyflink, or PENSTOCK_FLINK=…")

    def run(client, *words):
        host = client.url.removeprefix("http://")
        verb, *rest = words
        found = subprocess.run(
            [flink, verb, "-m", host, *rest],
            env={**os.environ, "FLINK_LOG_DIR": str(tmp_path)},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert found.returncode == 0, found.stdout + found.stderr
        return found.stdout

    savepoints = str(tmp_path / "savepoints")
    job, client, job_id = open_job("stop")
    assert f"{job_id} : watched (RUNNING)" in run(client, "list")
    found = run(client, "savepoint", job_id, savepoints)
    assert Path(re.search(r"Path: (\S+)", found)[1], "_metadata").exists()
    assert "completed" in run(client, "checkpoint", job_id)
    assert savepoints in run(client, "stop", "-p", savepoints, job_id)
    job.get_job_execution_result().result()
    job, client, job_id = open_job("another")
    assert "Cancelled job" in run(client, "cancel", job_id)
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()
