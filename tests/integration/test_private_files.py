"""Files that a run leaves on disk are readable only by its user, and contain no secrets.

Method: jobs with high availability, RocksDB, checkpoints and files of their own, on the local
target, in a session and on Spark, wait while another user walks their files, and again after their
end.  `support.other_users` is that user.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.running import start_program
from support.other_users import reached_by_others, shared_machine
from support.patience import PATIENCE_S
from support.sessions import TOKEN

SECRET = "hunter2-hunter2"
TESTS = str(Path(__file__).parent.parent)
CHOSEN = {"checkpoints", "module.py", "job.py", "marks", "__pycache__"}
"""Files that the user has requested or created, and the interpreter's byte code beside them; the
umask determines their modes."""

JOB = """
import os, sys, time
from pathlib import Path
from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

marks = Path(sys.argv[1])

class Numbers(SourceFunction):
    def run(self, ctx):
        for number in range(10_000):
            ctx.collect(number)
        while ctx.is_running() and not (marks / "go on").exists():
            ctx.collect(0)
            time.sleep(0.01)

class Keeps(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.STRING()))
        self.number = 0

    def process_element(self, value, ctx):
        import module
        self.seen.update(module.TEXT * value)
        self.number += 1
        if self.number == 10_000:
            (marks / "here").touch()
        yield value

    def close(self):
        assert self.seen is not None

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.add_python_file(str(marks.parent / "module.py"))
numbers = env.add_source(Numbers()).key_by(lambda value: value % 100)
numbers.process(Keeps(), Types.LONG()).filter(lambda value: value < 0).print()
env.execute("private")
"""


@pytest.fixture
def machine(monkeypatch) -> Iterator[Path]:
    """Yield a machine with other users; all unconfigured files are in these folders."""
    with shared_machine() as folder:
        for name in ("temporary", "marks"):
            (folder / name).mkdir(mode=0o755)
        (folder / "module.py").write_text("TEXT = 'x'\n")
        (folder / "job.py").write_text(JOB)
        monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
        monkeypatch.setenv("PENSTOCK_RUN_DIR", str(folder / "run"))
        monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", TOKEN)
        monkeypatch.delenv("PENSTOCK_REST_TOKEN", raising=False)
        yield folder


def cluster_options(machine: Path) -> list[str]:
    """Return options of a cluster that stores what a successor needs to take over."""
    return _words(
        {
            "rest.port": "0",
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(machine / "shared"),
            "high-availability.cluster-id": "mine",
            "s3.access-key": "key",
            "s3.secret-key": SECRET,
        }
    )


def job_options(machine: Path) -> list[str]:
    """Return options of a job that has files of its own."""
    return _words(
        {
            "state.backend.type": "rocksdb",
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": str(machine / "checkpoints"),
        }
    )


def _words(options: dict[str, str]) -> list[str]:
    return [word for key, value in options.items() for word in ("-D", f"{key}={value}")]


def run(machine: Path, *arguments: str) -> None:
    """Run the job as `penstock run` does, and check its files while it waits and after its end."""
    marks = machine / "marks"
    program = start_program(
        [
            *("-m", "penstock", "run"),
            *arguments,
            *job_options(machine),
            f"{machine}/job.py",
            f"{marks}",
        ],
        PYTHONPATH=TESTS,
    )
    try:
        while not (marks / "here").exists():
            assert program.poll() is None, program.communicate()
            time.sleep(0.02)
        assert os.listdir(machine / "temporary"), "it has temporary files to look at"
        assert reached_by_others(machine, but=CHOSEN) == []
        look_for_secrets(machine)
    finally:
        (marks / "go on").touch()
        out, err = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0, out + err
    assert reached_by_others(machine, but=CHOSEN) == []
    look_for_secrets(machine)


def look_for_secrets(machine: Path) -> None:
    # `os.walk` passes over a folder that a running job removes meanwhile.
    for folder, _, names in os.walk(machine):
        for path in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file():
                    assert SECRET.encode() not in path.read_bytes(), path


@pytest.mark.timeout(240)
def test_a_job_of_the_local_target(machine):
    run(machine, "--target", "local", *cluster_options(machine))
    assert any((machine / "shared").rglob("*"))


@pytest.mark.timeout(300)
def test_a_session_its_jobs_and_its_logs(machine):
    """Also the folder of its state, into which others could put a socket."""

    def penstock(*arguments: str) -> str:
        command = [sys.executable, "-m", "penstock", "cluster", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    started = json.loads(penstock("start", "--slots", "2", "--json", *cluster_options(machine)))
    try:
        assert Path(started["log"]).is_relative_to(machine), "it is looked at"
        run(machine, "--target", "session")
        assert list((machine / "run").iterdir())
        for path in (machine / "shared").rglob("*"):
            assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
    finally:
        penstock("stop")
    assert reached_by_others(machine, but=CHOSEN) == []
    look_for_secrets(machine)
    assert Path(started["log"]).exists()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_job_of_spark(machine):
    """Spark's own folders are as private as Spark creates them."""
    spark = ["-D", f"spark.local.dir={machine / 'temporary'}", "-D", "spark.ui.enabled=false"]
    run(machine, "--master", "local[2]", *cluster_options(machine), *spark)
    assert any((machine / "shared").rglob("*"))


def test_another_user_finds_what_is_open():
    """A check of the walk itself: files, folders, pipes and sockets that others can reach."""
    with shared_machine() as folder:
        (folder / "private").mkdir(mode=0o700)
        (folder / "private" / "file").write_text("")
        (folder / "closed").touch(mode=0o600)
        (folder / "file").touch(mode=0o644)
        (folder / "both").touch()
        (folder / "both").chmod(0o666)
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)
        (folder / "link").symlink_to(folder / "closed")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "socket"))
            server.listen()
            (folder / "socket").chmod(0o666)
            found = reached_by_others(folder)
        others = {(what, Path(path).name) for what, path in found if "socket" not in path}
        assert others == {
            ("read", "file"),
            ("read", "both"),
            ("written", "both"),
            ("changed", "open"),
        }
        assert any("socket" in path for _, path in found)
        assert reached_by_others(folder, but={"file", "both", "open", "socket"}) == []
