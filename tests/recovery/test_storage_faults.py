"""Storage that fails, hangs or loses data: the job continues, a log line says why (M49, M52).

Method: the job of `chaos` in threads of this process, whose file system is replaced for a while; an
exception in the meantime makes it restart from the last good checkpoint.  Its final state is
compared with a model.
"""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from penstock.checkpoint_storage.disposal import streams
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import FileHandle
from penstock.checkpoint_storage.storage import load_metadata
from penstock.common import JobStatus
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.errors import (
    CheckpointFailedJobError,
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
    JobExecutionError,
)
from support.patience import PATIENCE_S

from recovery import chaos

FAILS = {
    "full disk": ("create", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))),
    "no permission": ("make_directory", PermissionError(errno.EACCES, os.strerror(errno.EACCES))),
    "too many open files": ("create", OSError(errno.EMFILE, os.strerror(errno.EMFILE))),
    "no metadata": ("publish", OSError(errno.EIO, os.strerror(errno.EIO))),
}


class FailsOnDemand(chaos.Count):
    """The first count, which raises when a file requests it."""

    def process_element(self, value, ctx):
        if value[4] % 100 == 0 and os.path.exists(self.folder):
            Path(self.folder).unlink(missing_ok=True)
            raise RuntimeError("on purpose")
        yield from super().process_element(value, ctx)


class Job:
    """A job that runs until it is stopped."""

    def __init__(self, folder, **options):
        self.checkpoints = folder / "checkpoints"
        self.savepoints = folder / "savepoints"
        self.demand = folder / "fail"
        self.progress = chaos.Progress(self.checkpoints)
        self.stream = chaos.job(
            self.checkpoints,
            FailsOnDemand("first", str(self.demand)),
            workers=2,
            options={
                "execution.target": "in-process",
                "execution.checkpointing.tolerable-failed-checkpoints": "1000000",
                **options,
            },
        )

    def fail(self):
        """Make the job fail, and wait until it does."""
        self.demand.touch()
        while self.demand.exists():
            threading.Event().wait(0.005)

    def end(self, results):
        self.progress.stop(results.get_job_client(), self.savepoints)
        assert chaos.check([tuple(row) for row in results], is_exact=True, workers=2) > 0
        assert not list(self.checkpoints.rglob("*")), "files of checkpoints were left"


def await_log(caplog, *texts):
    while not any(all(text in message for text in texts) for message in caplog.messages):
        threading.Event().wait(0.005)


@pytest.mark.parametrize("fault", FAILS)
def test_a_job_outlives_storage_that_fails(tmp_path, monkeypatch, caplog, fault):
    """Checkpoints fail, with a message; the job restarts from the last good one, and continues."""
    method, error = FAILS[fault]
    job = Job(tmp_path)
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()

        def fails(self, path, *arguments):
            raise type(error)(error.errno, error.strerror, path)

        with monkeypatch.context() as patch:
            patch.setattr(LocalFileSystem, method, fails)
            await_log(caplog, "a checkpoint failed", error.strerror, str(job.checkpoints))
            job.fail()
        job.progress.await_checkpoint()
        job.end(results)


def job_in(checkpoints, tmp_path, **options):
    return chaos.job(
        checkpoints,
        FailsOnDemand("first", str(tmp_path / "fail")),
        workers=1,
        options={"execution.target": "in-process", **options},
    )


@pytest.mark.parametrize("checkpoints", ["file", "file/below", "/proc", "/proc/checkpoints"])
def test_a_job_whose_checkpoints_have_no_place_fails_before_it_begins(tmp_path, checkpoints):
    """Without this check, each checkpoint would fail, and restart the job in turn."""
    (tmp_path / "file").touch()
    stream = job_in(tmp_path / checkpoints, tmp_path)
    what = rf"execution.checkpointing.dir: '.*{checkpoints}' cannot store the job's files: .*; name"
    with pytest.raises(ConfigurationError, match=what):
        list(stream.execute_and_collect())


def test_so_does_one_whose_log_of_state_has_none(tmp_path):
    (tmp_path / "file").touch()
    log = {
        "state.changelog.enabled": "true",
        "state.changelog.storage": "filesystem",
        "dstl.dfs.base-path": str(tmp_path / "file"),
    }
    stream = job_in(tmp_path / "checkpoints", tmp_path, **log)
    with pytest.raises(ConfigurationError, match=r"dstl.dfs.base-path: .*file' cannot store"):
        list(stream.execute_and_collect())


def test_a_driver_that_others_stand_by_for_ends_with_a_failed_job(tmp_path):
    """And no other driver tries in vain."""
    (tmp_path / "file").touch()
    options = {
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(tmp_path / "leaders"),
        "high-availability.cluster-id": "one",
    }
    for _ in range(2):
        stream = job_in(tmp_path / "file", tmp_path, **options)
        stream.sink_to(DiscardingSink())
        client = stream.get_execution_environment().execute_async()
        with pytest.raises((ConfigurationError, JobExecutionError), match=r"checkpointing\.dir"):
            client.get_job_execution_result().result()
        assert client.get_job_status().result() == JobStatus.FAILED


@pytest.mark.parametrize("databases", ["file", "file/below", "/proc/databases"])
def test_a_folder_for_databases_that_cannot_be_made_is_refused(tmp_path, databases):
    """Otherwise each task would fail at its first state, and the job restart for ever."""
    (tmp_path / "file").touch()
    options = {
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(tmp_path / databases),
    }
    stream = job_in(tmp_path / "checkpoints", tmp_path, **options)
    what = rf"state.backend.rocksdb.localdir: no database can be in '.*{databases}': .*; name"
    with pytest.raises(ConfigurationError, match=what):
        stream.execute_and_collect()


def away(monkeypatch, times):
    """Replace the storage by one that fails a number of calls; return the failed calls."""
    calls = []
    make = LocalFileSystem.make_directory

    def make_directory(self, path):
        if len(calls) < times:
            calls.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        make(self, path)

    monkeypatch.setattr(LocalFileSystem, "make_directory", make_directory)
    return calls


def test_storage_that_is_away_when_a_job_starts_costs_restarts(tmp_path, monkeypatch, caplog):
    """The first call belongs to the start, which continues; each other one fails a checkpoint."""
    calls = away(monkeypatch, 4)
    job = Job(tmp_path, **{"execution.checkpointing.tolerable-failed-checkpoints": "0"})
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        job.end(results)
    assert len(calls) == 4
    assert any(
        "starts though execution.checkpointing.dir cannot be reached now" in message
        for message in caplog.messages
    )


def test_no_more_than_the_restart_strategy_allows(tmp_path, monkeypatch):
    calls = away(monkeypatch, 1 << 30)
    stream = job_in(
        tmp_path / "checkpoints", tmp_path, **{"restart-strategy.fixed-delay.attempts": "2"}
    )
    with pytest.raises(CheckpointFailedJobError, match=os.strerror(errno.EIO)):
        list(stream.execute_and_collect())
    assert len(calls) >= 4


def test_a_job_outlives_the_loss_of_its_directory(tmp_path, caplog):
    """Pending checkpoints fail; the next one creates the directory again."""
    job = Job(tmp_path)
    with job.stream.execute_and_collect() as results:
        for _ in range(3):
            job.progress.await_checkpoint()
            # Files may appear while it is being removed.
            shutil.rmtree(job.checkpoints, ignore_errors=True)
        job.progress.await_checkpoint()
        job.fail()
        job.progress.await_checkpoint()
        job.end(results)


@pytest.mark.parametrize("method", ["make_directory", "create", "publish", "delete_directory"])
def test_a_job_outlives_storage_that_hangs(tmp_path, monkeypatch, caplog, method):
    """Checkpoints expire while records flow; a restart does not wait; later ones succeed."""
    job = Job(tmp_path, **{"execution.checkpointing.timeout": "1 s"})
    goes_on = threading.Event()
    real = getattr(LocalFileSystem, method)

    def hangs(self, *arguments):
        goes_on.wait()
        return real(self, *arguments)

    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        with monkeypatch.context() as patch:
            patch.setattr(LocalFileSystem, method, hangs)
            await_log(caplog, "a checkpoint failed", "was not complete in time")
            job.fail()
        goes_on.set()
        job.progress.await_checkpoint()
        job.end(results)


@pytest.mark.parametrize("method", ["make_directory", "create", "publish"])
def test_a_program_ends_though_its_storage_hangs(tmp_path, method):
    """Operations that hang for ever are abandoned, with a log line, and the interpreter ends."""
    program = [sys.executable, "-m", "recovery.hanging", method, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run(
        program, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.stdout.split() == ["hangs", "cancelled"], done.stderr
    assert done.returncode == 0, done.stderr
    is_driver = method != "create"
    assert ("were not deleted within" in done.stderr) is is_driver


@pytest.mark.parametrize("kind", ["", "incremental", "changelog"])
def test_a_checkpoint_that_is_found_has_all_its_files(tmp_path, monkeypatch, kind):
    """A driver may be killed between any two deletions: a remaining checkpoint can be restored."""
    options = chaos.options_of([kind] if kind else [])
    if kind == "changelog":
        options["state.changelog.dstl.dfs.base-path"] = str(tmp_path / "checkpoints")
    job = Job(tmp_path, **{"execution.checkpointing.num-retained": "2", **options})
    deletes = LocalFileSystem.delete_file
    needed = []

    def observed(self, path):
        if not path.endswith("/_metadata"):
            needed.extend(p for p in job.checkpoints.glob("*/chk-*/_metadata") if names(p, path))
        deletes(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "delete_file", observed)
        with job.stream.execute_and_collect() as results:
            for _ in range(3):
                job.progress.await_checkpoint()
            job.end(results)
    assert not needed


def names(metadata_path, path):
    """Return whether a checkpoint refers to a file, if the checkpoint can still be read."""
    try:
        metadata, _ = load_metadata(str(metadata_path), FileSystems({}))
    except CheckpointStorageError:
        return False
    return path in {
        stream.path
        for operator in metadata.operators.values()
        for subtask in operator.subtasks.values()
        for stream in streams(
            (
                *subtask.managed_keyed,
                *subtask.raw_keyed,
                *subtask.managed_operator,
                *subtask.raw_operator,
            )
        )
        if isinstance(stream, FileHandle)
    }


def damage(directory, harm):
    """Damage all files of state of a checkpoint."""
    files = [path for path in directory.iterdir() if path.name != "_metadata"]
    assert files
    for path in files:
        data = path.read_bytes()
        if harm == "torn":
            path.write_bytes(data[: len(data) // 2])
        elif harm == "flipped":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        else:
            path.unlink()


def newest_of(job):
    """Return the newest complete checkpoint; the one before it may be on its way out."""
    complete = [path.parent for path in job.checkpoints.glob("*/chk-*/_metadata")]
    return max(complete, key=lambda path: int(path.name.removeprefix("chk-")))


def damage_latest(job, monkeypatch, caplog, harm):
    """Damage the newest checkpoint before another one completes, and make the job fail."""

    def fails(self, path, data):
        raise OSError(errno.EIO, "not now", path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "publish", fails)
        await_log(caplog, "a checkpoint failed", "not now")
        newest = newest_of(job)
        damage(newest, harm)
        job.fail()
        await_log(caplog, f"{newest.name.removeprefix('chk-')}", "is damaged", str(newest))
    return newest


@pytest.mark.parametrize("harm", ["torn", "flipped", "gone"])
def test_a_job_goes_back_to_the_last_good_checkpoint(tmp_path, monkeypatch, caplog, harm):
    """The error names the damaged file, and its checkpoint is kept for inspection until the end."""
    job = Job(tmp_path, **{"execution.checkpointing.num-retained": "3"})
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        damaged = damage_latest(job, monkeypatch, caplog, harm)
        job.progress.await_checkpoint()
        assert damaged.is_dir()
        job.end(results)
    assert not damaged.exists()


def test_a_job_without_a_good_checkpoint_fails(tmp_path, monkeypatch, caplog):
    """Whatever its restart strategy: it would fail for ever, or lose its counts."""
    job = Job(tmp_path)
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        damaged = damage_latest(job, monkeypatch, caplog, "flipped")
        with pytest.raises(CorruptCheckpointError, match=re.escape(str(damaged))):
            list(results)
    assert "execution.checkpointing.num-retained" in caplog.text


def test_a_folder_for_copies_that_cannot_be_made_is_gone_without(tmp_path, caplog):
    """Copies only save time; the job runs, and restarts, from the files of checkpoints."""
    (tmp_path / "file").touch()
    job = Job(
        tmp_path,
        **{
            "execution.state-recovery.from-local": "true",
            "execution.checkpointing.local-backup.dirs": str(tmp_path / "file" / "below"),
        },
    )
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        job.fail()
        job.progress.await_checkpoint()
        job.end(results)
    words = ("keep local copies", "Not a directory", "execution.checkpointing.local-backup.dirs")
    assert any(all(word in message for word in words) for message in caplog.messages)


def test_tasks_that_return_to_their_workers_start_from_copies_there(tmp_path, monkeypatch, caplog):
    """F15: the files of the checkpoint are missing, and the job still continues from it."""
    local = tmp_path / "local"
    local.mkdir()
    job = Job(
        tmp_path,
        **{
            "execution.state-recovery.from-local": "true",
            "execution.checkpointing.local-backup.dirs": str(local),
        },
    )

    def fails(self, path, data):
        raise OSError(errno.EIO, "not now", path)

    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        with monkeypatch.context() as patch:
            patch.setattr(LocalFileSystem, "publish", fails)
            await_log(caplog, "a checkpoint failed", "not now")
            damage(newest_of(job), "gone")
            job.fail()
        job.progress.await_checkpoint()
        # Copies come and go during the walk.
        assert any(Path(folder).name.startswith("chk_") for folder, _, _ in os.walk(local))
        job.end(results)
    assert "is damaged" not in caplog.text
    assert not list(local.iterdir())
