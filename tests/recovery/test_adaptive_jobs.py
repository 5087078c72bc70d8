"""Adaptive jobs of a session whose taskexecutors are killed and join; see `adaptive_scheduler`."""

import signal

import pytest
from penstock.common.serialization import Encoder
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.errors import InvalidProgramError
from penstock.rest.run_files import running_clusters
from support.rest_client import Client
from support.sessions import Session

from recovery.test_rescaling_running_jobs import EXPECTED, counted

ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0 ms",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0 ms",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 ms",
    "execution.checkpointing.interval": "10 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("PENSTOCK_SESSION_TOKEN", raising=False)
    made = Session()
    try:
        yield made
    finally:
        made.close()


def runs_with(client, job_id, parallelism):
    """Wait until all tasks run, with these parallelisms."""
    client.until(
        f"/jobs/{job_id}",
        lambda job: all(v["tasks"]["RUNNING"] == parallelism for v in job["vertices"]),
    )


def test_a_job_continues_with_the_remaining_slots_and_uses_new_ones(tmp_path, session):
    """Its files still contain each result once."""
    session.jobmanager()
    session.taskexecutor(1)
    second = session.taskexecutor(1)
    env = session.environment(**ADAPTIVE, **{"parallelism.default": "3"})
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    counted(env, tmp_path / "ends").sink_to(sink)
    job = env.execute_async("adaptive")
    client, job_id = Client(running_clusters()[0]), str(job.get_job_id())
    runs_with(client, job_id, 2)
    client.until(f"/jobs/{job_id}/checkpoints", lambda found: found["counts"]["completed"] > 0)
    second.signal(signal.SIGKILL)
    runs_with(client, job_id, 1)
    wanted = client.get(f"/jobs/{job_id}/resource-requirements")
    bounds = {"lowerBound": 1, "upperBound": 3}
    assert list(wanted.values()) == [{"parallelism": bounds}] * len(wanted)
    session.taskexecutor(2)
    runs_with(client, job_id, 3)
    assert client.get(f"/jobs/{job_id}")["schedulerType"] == "Adaptive"
    for vertex in wanted.values():
        vertex["parallelism"] = {"lowerBound": 1, "upperBound": 2}
    put = f"/jobs/{job_id}/resource-requirements"
    assert client.ask(put, "PUT", wanted) == (200, {})
    runs_with(client, job_id, 2)
    for vertex in wanted.values():
        vertex["parallelism"]["upperBound"] = 3
    assert client.ask(put, "PUT", wanted) == (200, {})
    runs_with(client, job_id, 3)
    next(iter(wanted.values()))["parallelism"]["lowerBound"] = 2
    status, refusal = client.ask(put, "PUT", wanted)
    assert status == 400
    assert "lower bound of an adaptive job is 1" in refusal["errors"][0]
    (tmp_path / "ends").touch()
    job.get_job_execution_result().result()
    parts = [path for path in (tmp_path / "out").iterdir() if path.name.startswith("part-")]
    assert sorted(line for path in parts for line in path.read_text().splitlines()) == EXPECTED


def test_a_batch_job_is_refused(session):
    env = session.environment(**ADAPTIVE)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1]).print()
    with pytest.raises(InvalidProgramError, match="is Adaptive, but the job runs in BATCH mode"):
        env.execute()
