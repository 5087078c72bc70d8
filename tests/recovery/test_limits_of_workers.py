"""Worker processes that cannot write checkpoints: a full disk, limits of files (M49, M52, M58).

Goal: nothing hangs, nothing is lost, and a log line names the cause.  Method: the job of
`test_storage_faults` on workers whose limits the kernel lowers for a while; the full disk is a
small file system in memory, if this process may mount one.
"""

import resource
import subprocess
import threading
from contextlib import contextmanager

import pytest

from recovery import chaos
from recovery.test_storage_faults import Job, await_log

SIZE_BYTES = 4 << 20


@contextmanager
def small_disk(folder):
    """Yield a file system of a few megabytes.

    Raises:
        pytest.skip.Exception: This process may not mount one.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder):
    """Keep the file system full during the block, also when files on it are deleted."""
    filler = folder / "filler"
    is_over = threading.Event()

    def fill():
        with filler.open("wb", buffering=0) as file:
            while not is_over.is_set():
                try:
                    file.write(bytes(4096))
                except OSError:
                    is_over.wait(0.005)

    thread = threading.Thread(target=fill, name="filler")
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        filler.unlink()


@contextmanager
def limited(limit, value):
    """Lower the limit of the present workers during the block."""
    before = {pid: resource.prlimit(pid, limit) for pid in chaos.living_workers()}
    for pid, (_, hard) in before.items():
        resource.prlimit(pid, limit, (value, hard))
    try:
        yield
    finally:
        for pid, limits in before.items():
            if chaos.lives(pid):
                resource.prlimit(pid, limit, limits)


@pytest.mark.parametrize("kinds", [[], ["rocksdb", "incremental"]], ids=" ".join)
def test_a_full_disk(tmp_path, caplog, kinds):
    with small_disk(tmp_path / "checkpoints"):
        job = Job(tmp_path, **{"execution.target": "local", **chaos.options_of(kinds)})
        with job.stream.execute_and_collect() as results:
            job.progress.await_checkpoint()
            with filled(job.checkpoints):
                await_log(
                    caplog, "a checkpoint failed", "No space left on device", str(job.checkpoints)
                )
                job.fail()
            job.progress.await_checkpoint()
            job.end(results)


def test_a_full_disk_of_databases(tmp_path, caplog):
    """The tasks fail repeatedly, with a message; once there is room the job continues."""
    disk = tmp_path / "disk"
    with small_disk(disk):
        options = {
            **chaos.options_of(["rocksdb", "incremental"]),
            "execution.target": "local",
            "state.backend.rocksdb.localdir": str(disk),
        }
        job = Job(tmp_path, **options)
        with job.stream.execute_and_collect() as results:
            job.progress.await_checkpoint()
            with filled(disk):
                await_log(caplog, "No space left on device", str(disk))
            job.progress.await_checkpoint()
            job.end(results)


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [
        (resource.RLIMIT_FSIZE, 0, "File too large"),
        (resource.RLIMIT_NOFILE, 3, "Too many open files"),
    ],
    ids=["size of files", "open files"],
)
def test_a_limit_of_files(tmp_path, caplog, limit, value, says):
    job = Job(tmp_path, **{"execution.target": "local"})
    with job.stream.execute_and_collect() as results:
        job.progress.await_checkpoint()
        with limited(limit, value):
            await_log(caplog, "a checkpoint failed", says, str(job.checkpoints))
            job.fail()
        job.progress.await_checkpoint()
        job.end(results)
