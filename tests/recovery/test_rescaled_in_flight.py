"""In-flight data of a checkpoint that is restored with another parallelism (M57, M63)."""

import signal

import pytest
from penstock.checkpoint_storage.metadata_serializer import deserialize_metadata
from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.errors import InvalidProgramError, JobCancelledError
from penstock.rest.run_files import running_clusters
from support.rest_client import Client, UntilMarked
from support.sessions import Session

from recovery.programs import KEYS, PAIR, Work
from recovery.rescaling_programs import TRIPLE, cancelled, job, last_counts
from recovery.test_adaptive_jobs import ADAPTIVE
from recovery.test_rescaling_running_jobs import EXPECTED, Lanes, rescale, watched

ELEMENTS = 20_000
FORCED = {
    "execution.checkpointing.unaligned.enabled": "true",
    "execution.checkpointing.unaligned.forced": "true",
}
SMALL = {"taskmanager.memory.segment-size": "2kb"}


@pytest.mark.parametrize(("runtime", "before", "after"), [("native", 2, 3), ("pure", 3, 2)])
def test_each_record_once(tmp_path, monkeypatch, runtime, before, after):
    """F-11: keyed in-flight data goes to the new owners, other data to any subtask."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    options = {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.dir": str(tmp_path),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "taskmanager.memory.segment-size": "2kb",
    }
    path = cancelled(job(ELEMENTS, options, before, 0.004, 300), tmp_path)
    assert has_in_flight(path), "nothing was in flight"
    options["execution.state-recovery.path"] = path
    with job(ELEMENTS, options, after, 0.0, 300) as results:
        assert last_counts(results) == dict.fromkeys(range(KEYS), ELEMENTS // KEYS)


def has_in_flight(path):
    with open(f"{path}/_metadata", "rb") as file:
        metadata = deserialize_metadata(file.read(), path)
    subtasks = [s for operator in metadata.operators.values() for s in operator.subtasks.values()]
    return any(s.input_channels for s in subtasks) and any(s.result_subpartitions for s in subtasks)


def behind_a_partitioner(env, ends, pause_s):
    """Count by key behind a slow function with a custom partitioner in front of it.

    Much of the source's output is in flight there at any time.
    """
    text = "x" * 300
    return (
        env.add_source(Lanes(ends), "Lanes", Types.LONG())
        .map(lambda number: (number % KEYS, 1, text), TRIPLE)
        .partition_custom(lambda key, number: key % number, lambda triple: triple[0])
        .map(Work(pause_s), TRIPLE)
        .key_by(lambda triple: triple[0], Types.LONG())
        .map(lambda triple: triple[:2], PAIR)
        .key_by(lambda pair: pair[0], Types.LONG())
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    )


def files(folder):
    """Return a sink whose files have the records of complete checkpoints."""
    return (
        FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def lines(folder):
    """Return the lines of the sink's finished files."""
    parts = [path for path in folder.iterdir() if path.name.startswith("part-")]
    return sorted(line for path in parts for line in path.read_text().splitlines())


def hold_data(found):
    latest = found["latest"]["completed"]
    return latest is not None and latest["persisted_data"] > 0


def test_a_running_job_is_rescaled_though_nobody_could_spread_its_data_in_flight(
    tmp_path, monkeypatch
):
    """The checkpoint that it continues from has no in-flight data, unlike earlier ones."""
    env = watched(tmp_path, monkeypatch, FORCED | SMALL)
    behind_a_partitioner(env, tmp_path / "ends", 0.0005).sink_to(files(tmp_path / "out"))
    job = env.execute_async("rescaled")
    client, job_id = Client.of_last_cluster(), str(job.get_job_id())
    client.until(f"/jobs/{job_id}/checkpoints", hold_data)
    rescale(client, job_id, 3)
    (tmp_path / "ends").touch()
    job.get_job_execution_result().result()
    assert lines(tmp_path / "out") == EXPECTED


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Yield a session of small buffers, with two slots."""
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("PENSTOCK_SESSION_TOKEN", raising=False)
    made = Session()
    try:
        made.jobmanager(*(f"-D{key}={value}" for key, value in SMALL.items()))
        made.taskexecutor(1)
        yield made
    finally:
        made.close()


def runs_with(client, job, parallelism):
    """Wait for the parallelism: the job may start with one slot, and then use the other."""
    client.until(
        f"/jobs/{job.get_job_id()}",
        lambda found: all(
            (v["status"], v["parallelism"]) == ("RUNNING", parallelism) for v in found["vertices"]
        ),
    )


def test_an_adaptive_job_that_loses_a_slot_can_spread_what_is_in_flight(tmp_path, session):
    """Behind the partitioner nothing is overtaken, so any parallelism is possible."""
    lost = session.taskexecutor(1)
    env = session.environment(**{**ADAPTIVE, **FORCED, "parallelism.default": "2"})
    behind_a_partitioner(env, tmp_path / "ends", 0.002).sink_to(files(tmp_path / "out"))
    job = env.execute_async("adaptive")
    client = Client(running_clusters()[0])
    runs_with(client, job, 2)
    client.until(
        f"/jobs/{job.get_job_id()}/checkpoints", lambda found: found["counts"]["completed"] > 3
    )
    lost.signal(signal.SIGKILL)
    runs_with(client, job, 1)
    (tmp_path / "ends").touch()
    job.get_job_execution_result().result()
    assert lines(tmp_path / "out") == EXPECTED


def test_a_job_that_cannot_be_restored_fails_alone(tmp_path, session):
    """The job lacks a slot for the in-flight data of its checkpoint; another job continues."""
    client = Client(running_clusters()[0])
    env = session.environment()
    env.add_source(UntilMarked(tmp_path / "stop")).map(lambda x: x, Types.LONG()).print()
    other = env.execute_async("other")
    runs_with(client, other, 1)
    for _ in range(2):
        session.taskexecutor(1)
    options = {
        **FORCED,
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    env = session.environment(**options, **{"parallelism.default": "2"})
    behind_a_partitioner(env, tmp_path / "ends", 0.02).print()
    job = env.execute_async("before")
    client.until(f"/jobs/{job.get_job_id()}/checkpoints", hold_data)
    job.cancel().result()
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()  # older checkpoints are deleted by then
    (found,) = (tmp_path / "checkpoints").glob("*/chk-*/_metadata")
    assert has_in_flight(found.parent)
    options["execution.state-recovery.path"] = str(found.parent)
    env = session.environment(**options, **{"parallelism.default": "1"})
    behind_a_partitioner(env, tmp_path / "ends", 0.02).print()
    with pytest.raises(InvalidProgramError, match="does not say where it belongs"):
        env.execute("after")
    assert other.get_job_status().result().name == "RUNNING"
    (tmp_path / "stop").touch()
    other.get_job_execution_result().result()
