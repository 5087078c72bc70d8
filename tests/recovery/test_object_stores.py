"""Checkpoints and savepoints in an object store, by a real S3 server (internals M59 to M62, M49).

Method: the jobs of `chaos` and `savepoint_programs`; the server runs in this process, behind a port
that is closed, locked or delayed for a while.
"""

import json
import os
import signal
import tempfile
import threading
from pathlib import Path

import pytest
from penstock.common import Configuration
from penstock.errors import ConfigurationError, JobCancelledError
from penstock.state_processor import Savepoint
from support.commands import penstock
from support.s3_server import BUCKET, SECRET_KEY, s3_server

from recovery import chaos
from recovery.savepoint_programs import (
    KEYS,
    asked,
    counted,
    environment,
    last_counts,
    numbers,
    stopped,
)
from recovery.sink_programs import POLICIES, Fate, expected_lines, fates, write_files
from recovery.test_storage_faults import FailsOnDemand, await_log

ELEMENTS = 50_000
ALL = dict.fromkeys(range(KEYS), ELEMENTS // KEYS)


@pytest.fixture
def server():
    with s3_server() as running:
        yield running


SEEN = ("cmdline", "environ")


def secret_places(folder):
    """Return files, command lines and environments that contain the secret."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    paths += [Path(f"/proc/{pid}/{name}") for pid in chaos.living_workers() for name in SEEN]
    return [path for path in paths if SECRET_KEY.encode() in content(path)]


def content(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""  # the file or the process has vanished


LOGGED = {
    "state.changelog.enabled": "true",
    "state.changelog.storage": "filesystem",
    "state.changelog.dstl.dfs.base-path": f"s3://{BUCKET}/logs",
    "execution.checkpointing.data-inline-threshold": "0 b",
}
KEPT = {
    "whole": ({"execution.checkpointing.incremental": "false"}, None),
    "incremental": ({"execution.checkpointing.incremental": "true"}, "checkpoints/"),
    "logged": (LOGGED, "logs/"),
}


@pytest.mark.parametrize("kept", KEPT)
def test_a_job_survives_the_death_of_a_worker(server, tmp_path, monkeypatch, caplog, kept):
    """Its checkpoints are objects; the store's keys are in no file, and in no line of the log."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    caplog.set_level("DEBUG", logger="penstock")
    changed, shared = KEPT[kept]
    options = {**server.options, **changed, "execution.checkpointing.interval": "100 ms"}
    progress = chaos.BucketProgress(server)
    stream = chaos.job(
        f"s3://{BUCKET}/checkpoints", chaos.Count("first"), workers=2, options=options
    )
    with stream.execute_and_collect() as results:
        progress.await_checkpoint()
        os.kill(chaos.living_workers()[0], signal.SIGKILL)
        progress.await_checkpoint()
        for prefix, part in (("checkpoints/", "/shared/"), ("logs/", "/dstl/")):
            found = any(part in key for key in server.objects(prefix))
            assert found is (shared == prefix) or kept == "logged"
            assert found or shared != prefix
        assert secret_places(tmp_path) == []
        progress.stop(results.get_job_client(), f"s3://{BUCKET}/savepoints")
        assert chaos.check([tuple(row) for row in results], is_exact=True, workers=2) > 0
    for prefix in ("checkpoints/", "logs/"):
        assert not server.objects(prefix), "files of checkpoints were left"
    assert any(key.endswith("/_metadata") for key in server.objects("savepoints/"))
    assert SECRET_KEY not in caplog.text


def test_a_savepoint_is_taken_read_restored_and_deleted(own_process, server, monkeypatch):
    directory = f"s3://{BUCKET}/savepoints"
    with counted(
        numbers(environment(server.options), ELEMENTS), slowly=True
    ).execute_and_collect() as results:
        client = results.get_job_client()
        paths = [asked(client.trigger_savepoint, directory)]
        path, counts = stopped(results, directory)
    assert 0 < sum(counts.values()) < ELEMENTS
    paths.append(path)
    for path in paths:
        from_there = {**server.options, "execution.state-recovery.path": path}
        with counted(
            numbers(environment(from_there, 3), ELEMENTS)
        ).execute_and_collect() as results:
            assert last_counts(results) == ALL
    configuration = Configuration.from_dict(server.options)
    states = Savepoint.read(path, configuration=configuration).states()
    assert "counts" in states["uid"].to_pylist()

    monkeypatch.setenv("PENSTOCK_CONFIGURATION", json.dumps(server.options))
    for path in paths:
        shown = penstock("savepoint", "inspect", path)
        assert "uid 'counts'" in shown
        assert SECRET_KEY not in shown
        penstock("savepoint", "dispose", path)
    assert not server.objects("savepoints/")


def test_a_retained_checkpoint_is_claimed(server):
    """The checkpoint survives the cancellation, and is deleted once its new job has later ones."""
    options = {
        **server.options,
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": f"s3://{BUCKET}/checkpoints",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.incremental": "true",
    }
    env = environment(options)
    with counted(numbers(env, ELEMENTS), slowly=True).execute_and_collect() as results:
        chaos.BucketProgress(server).await_checkpoint()
        results.get_job_client().cancel().result()
        with pytest.raises(JobCancelledError):
            list(results)
    (key,) = [key for key in server.objects("checkpoints/") if key.endswith("/_metadata")]
    path = f"s3://{BUCKET}/{key}"
    claimed = {
        **options,
        "execution.state-recovery.path": path,
        "execution.state-recovery.claim-mode": "CLAIM",
    }
    with counted(numbers(environment(claimed), ELEMENTS)).execute_and_collect() as results:
        assert last_counts(results) == ALL
    assert not server.objects("checkpoints/")


@pytest.mark.parametrize("policy", list(POLICIES))
def test_parts_are_exactly_those_of_an_unfailed_run(server, tmp_path, policy):
    """Workers are killed halfway, and at the notification of a complete checkpoint."""
    fates(tmp_path / "fates", ["on the way", "told before the sink"])
    out = f"s3://{BUCKET}/out"
    write_files(out, ELEMENTS, policy, Fate(tmp_path / "fates", "kill"), server.options)
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    client = server.client
    lines = [
        line
        for key in server.objects("out/part-")
        for line in client.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode().splitlines()
    ]
    assert sorted(lines) == expected_lines(ELEMENTS)


@pytest.mark.parametrize(
    ("bucket", "changed", "answer"),
    [
        ("nowhere", {}, "NO_SUCH_BUCKET"),
        (BUCKET, {"s3.access-key": "AKIDSTRANGER"}, "ACCESS_DENIED"),
    ],
    ids=["no bucket", "another key"],
)
@pytest.mark.parametrize("is_log", [False, True], ids=["checkpoints", "log"])
def test_a_job_that_the_store_refuses_fails_before_it_begins(
    server, tmp_path, bucket, changed, answer, is_log
):
    """Otherwise each checkpoint would fail, and the job would restart because of that for ever."""
    place, option = f"s3://{bucket}/place", "execution.checkpointing.dir"
    options = {**server.options, **changed, "execution.target": "in-process"}
    if is_log:
        option = "state.changelog.dstl.dfs.base-path"
        options |= {**LOGGED, option: place}
    checkpoints = tmp_path / "checkpoints" if is_log else place
    stream = chaos.job(checkpoints, chaos.Count("first"), workers=1, options=options)
    with pytest.raises(ConfigurationError, match=f"{place}' cannot store .*{answer}") as caught:
        list(stream.execute_and_collect())
    assert str(caught.value).startswith(option)
    assert SECRET_KEY not in str(caught.value)
    assert not server.objects()


def test_a_job_leaves_nothing_of_what_it_tried_when_it_began(server):
    options = {**server.options, "execution.checkpointing.interval": "1 h"}
    options["execution.checkpointing.dir"] = f"s3://{BUCKET}/checkpoints"
    with counted(numbers(environment(options), 100)).execute_and_collect() as results:
        assert sum(last_counts(results).values()) == 100
    assert not server.objects()


@pytest.mark.parametrize("fault", ["gone", "locked", "held"])
def test_a_job_outlives_a_server_that_does_not_serve(server, tmp_path, caplog, fault):
    """Checkpoints fail or expire, and a log line says why; records flow; later ones succeed."""
    demand = tmp_path / "fail"
    stream = chaos.job(
        f"s3://{BUCKET}/checkpoints",
        FailsOnDemand("first", str(demand)),
        workers=2,
        options={
            **server.options,
            "execution.target": "in-process",
            "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
            # Shorter than a request is retried, so that a delayed one expires.
            "execution.checkpointing.timeout": "1 s" if fault == "held" else "1 min",
        },
    )
    progress = chaos.BucketProgress(server)
    with stream.execute_and_collect() as results:
        progress.await_checkpoint()
        with getattr(server, fault)():
            if fault == "held":
                await_log(caplog, "a checkpoint failed", "was not complete in time")
            else:
                await_log(caplog, "a checkpoint failed", f"s3://{BUCKET}/checkpoints/", "AWS Error")
            demand.touch()
            while demand.exists():
                threading.Event().wait(0.005)
        progress.await_checkpoint()
        progress.stop(results.get_job_client(), tmp_path)
        assert chaos.check([tuple(row) for row in results], is_exact=True, workers=2) > 0
    assert SECRET_KEY not in caplog.text
