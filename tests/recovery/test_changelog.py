"""Jobs whose checkpoints log the changes of keyed state (internals M66).

Method: the jobs of `chaos` and `savepoint_programs`.  `chaos --kind changelog` shows that workers
may die.
"""

import shutil
from pathlib import Path

import pytest
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import FileHandle
from penstock.checkpoint_storage.storage import load_metadata
from penstock.errors import ConfigurationError
from penstock.state_processor import Savepoint

from recovery.cancelling import cancel_once
from recovery.savepoint_programs import (
    KEYS,
    counted,
    environment,
    last_counts,
    numbers,
    stopped,
)
from recovery.test_storage_faults import FAILS, Job, await_log

ELEMENTS = 50_000
ALL = dict.fromkeys(range(KEYS), ELEMENTS // KEYS)
CHANGELOG = {
    "state.changelog.enabled": "true",
    "state.changelog.storage": "filesystem",
    "execution.checkpointing.data-inline-threshold": "0 b",
}
BACKENDS = ["hashmap", "rocksdb"]


def logged(folder, **options):
    return {
        **CHANGELOG,
        "state.changelog.dstl.dfs.base-path": str(folder / "log"),
        **{key.replace("_", "-"): value for key, value in options.items()},
    }


def handles_of(path):
    metadata, _ = load_metadata(str(path), FileSystems({}))
    return [
        handle
        for operator in metadata.operators.values()
        for subtask in operator.subtasks.values()
        for handle in subtask.managed_keyed
    ]


def is_met(folder, wanted):
    """Return whether a checkpoint meets a condition."""
    for path in sorted(folder.glob("checkpoints/*/chk-*/_metadata")):
        try:
            # The checkpoint may be deleted meanwhile.
            names = [name for handle in handles_of(path) for name in handle.shared]
        except Exception:
            continue
        if wanted(names):
            return True
    return False


def retained(folder, options, wanted):
    """Cancel a job once a checkpoint meets a condition; return its last checkpoint."""
    options = {
        **options,
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    stream = counted(numbers(environment(options), ELEMENTS), slowly=True)
    results = stream.execute_and_collect()
    cancel_once(results, lambda: is_met(folder, wanted), "a checkpoint meets the condition")
    return sorted(
        folder.glob("checkpoints/*/chk-*"), key=lambda path: int(path.name.partition("-")[2])
    )[-1]


def has_log(names):
    return any(name.endswith("/log") for name in names)


def is_log_begun_anew(names):
    """Return whether the full snapshot is newer than the first checkpoints."""
    wholes = [int(name.partition("/")[0]) for name in names if not name.endswith("/log")]
    return bool(wholes) and min(wholes) > 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("then", ["logged", "not logged"])
def test_a_checkpoint_is_restored_with_a_log_or_without(tmp_path, backend, then):
    """At another parallelism; a reader of the checkpoint sees the counts."""
    options = {**logged(tmp_path), "state.backend.type": backend}
    path = retained(tmp_path, options, has_log)
    states = Savepoint.read(str(path)).keyed_state("counts", "_reduce_state")
    seen = dict(zip(states["key"].to_pylist(), states["value"].to_pylist(), strict=True))
    assert set(seen) <= set(range(KEYS))
    from_there = {
        "state.backend.type": backend,
        "execution.state-recovery.path": str(path),
        **(options if then == "logged" else {}),
    }
    with counted(numbers(environment(from_there, 3), ELEMENTS)).execute_and_collect() as results:
        assert last_counts(results) == ALL


@pytest.mark.parametrize(("backend", "claims"), [("hashmap", True), ("rocksdb", False)])
def test_the_owner_of_a_retained_log(tmp_path, backend, claims):
    """A job that claims the files owns them; otherwise their owner may delete them later."""
    options = {**logged(tmp_path), "state.backend.type": backend}
    path = retained(tmp_path, options, has_log)
    of_it = {
        stream.path
        for handle in handles_of(path)
        for stream in (handle.meta, *handle.shared.values(), *handle.private.values())
        if isinstance(stream, FileHandle)
    }
    old = path.parent.name
    from_there = {
        **options,
        "execution.state-recovery.path": str(path),
        "execution.state-recovery.claim-mode": "CLAIM" if claims else "NO_CLAIM",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    newer = "checkpoints/*/chk-*/_metadata"
    stream = counted(numbers(environment(from_there), ELEMENTS), slowly=True)
    seen = set()

    def are_known():
        """Return whether there is a third one: then the driver knows the first two."""
        seen.update(p.parent for p in tmp_path.glob(newer) if p.parent.parent.name != old)
        return len(seen) >= 3

    cancel_once(stream.execute_and_collect(), are_known, "there are three checkpoints")
    new = [p.parent for p in tmp_path.glob(newer) if p.parent.parent.name != old]
    latest = max(new, key=lambda p: int(p.name.partition("-")[2]))
    if claims:
        assert not path.exists()
    else:
        assert path.exists()
        assert all(Path(file).exists() for file in of_it), "they are its owner's"
        shutil.rmtree(path.parent)
        shutil.rmtree(tmp_path / "log" / old, ignore_errors=True)
    from_latest = {"state.backend.type": backend, "execution.state-recovery.path": str(latest)}
    with counted(numbers(environment(from_latest, 3), ELEMENTS)).execute_and_collect() as results:
        assert last_counts(results) == ALL


def test_a_log_of_the_hashmap_backend_is_restored_by_rocksdb(tmp_path):
    path = retained(tmp_path, logged(tmp_path), has_log)
    from_there = {"state.backend.type": "rocksdb", "execution.state-recovery.path": str(path)}
    with counted(numbers(environment(from_there, 3), ELEMENTS)).execute_and_collect() as results:
        assert last_counts(results) == ALL


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_option_has_its_effect(tmp_path, backend):
    """enabled, storage, dstl.dfs.base-path; periodic-materialize.enabled and .interval."""
    options = {**logged(tmp_path), "state.backend.type": backend}
    often = {**options, "state.changelog.periodic-materialize.interval": "10 ms"}
    path = retained(tmp_path, often, is_log_begun_anew)
    below = f"{tmp_path}/log/{path.parent.name}/dstl/"
    of_log = [
        stream.path
        for handle in handles_of(path)
        for name, stream in handle.shared.items()
        if name.endswith("/log")
    ]
    assert all(p.startswith(below) and Path(p).exists() for p in of_log)
    never = {**often, "state.changelog.periodic-materialize.enabled": "false"}
    other = tmp_path / "other"
    path = retained(
        other,
        {**never, "state.changelog.storage": "memory"},
        lambda names: sum(name.endswith("/log") for name in names) > 6,
    )
    wholes = [
        name for handle in handles_of(path) for name in handle.shared if not name.endswith("/log")
    ]
    assert {int(name.partition("/")[0]) for name in wholes} <= {1, 2, 3}
    assert not list(other.glob("log/*"))


def test_a_savepoint_is_as_without_a_log(tmp_path):
    """Another backend, without a log, restores it."""
    with counted(
        numbers(environment(logged(tmp_path)), ELEMENTS), slowly=True
    ).execute_and_collect() as results:
        path, counts = stopped(results, tmp_path / "savepoints")
    assert 0 < sum(counts.values()) < ELEMENTS
    assert not list(tmp_path.glob("log/*")), "it goes with the job"
    for options in ({"state.backend.type": "rocksdb"}, logged(tmp_path)):
        from_there = {**options, "execution.state-recovery.path": path}
        with counted(
            numbers(environment(from_there, 3), ELEMENTS)
        ).execute_and_collect() as results:
            assert last_counts(results) == ALL


@pytest.mark.parametrize("fault", ["full disk", "no permission"])
def test_a_job_outlives_a_log_that_cannot_be_written(tmp_path, monkeypatch, caplog, fault):
    """Checkpoints fail after some attempts; the job continues from the last good one."""
    method, error = FAILS[fault]
    options = logged(tmp_path)
    options["state.changelog.dstl.dfs.upload.next-attempt-delay"] = "1 ms"
    job = Job(tmp_path, **options)
    real = getattr(LocalFileSystem, method)
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()

        def fails(self, path, *arguments):
            if "/dstl" in path:
                raise type(error)(error.errno, error.strerror, path)
            return real(self, path, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(LocalFileSystem, method, fails)
            await_log(caplog, "attempt 2 of 3 to write the change log failed", error.strerror)
            await_log(caplog, "a checkpoint failed", error.strerror, "dstl")
            job.fail()
        job.progress.await_checkpoint()
        job.end(results)
    assert not list(tmp_path.glob("log/*"))


def test_a_folder_of_the_log_is_judged_before_the_start(tmp_path):
    """An unknown scheme is rejected then, instead of failing each checkpoint."""
    options = {**logged(tmp_path), "state.changelog.dstl.dfs.base-path": "nobody://knows"}
    with pytest.raises(ConfigurationError, match="nobody"):
        numbers(environment(options), 10).execute_and_collect()
