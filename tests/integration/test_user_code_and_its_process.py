"""User code and its process: standard input, debuggers, crashes, children.

Method: programs on real workers of the local target.  Children report their pids through a file.
"""

import bdb
import ctypes
import getpass
import multiprocessing
import os
import pdb
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import PythonSink, SinkWriter
from penstock.errors import IllegalStateError, InvalidProgramError, TaskExecutorLostError
from support.patience import PATIENCE_S


def execute(function: Callable[[int], Any], target: str = "local") -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", target)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.from_collection([1]).map(function)
    env.execute()


@pytest.mark.parametrize(
    "read",
    [
        lambda n: input("more? "),
        lambda n: sys.stdin.read(),
        lambda n: sys.stdin.readline(),
        lambda n: sys.stdin.buffer.read(10),
        lambda n: list(sys.stdin),
        lambda n: getpass.getpass(),
    ],
    ids=["input", "read", "readline", "buffer", "iteration", "getpass"],
)
@pytest.mark.filterwarnings("ignore")
def test_standard_input_ends_at_once_with_words(read: Callable[[int], Any]) -> None:
    with pytest.raises(EOFError, match="a worker has no standard input"):
        execute(read)


def test_standard_input_is_empty_for_children_and_for_c() -> None:
    """The descriptor itself: neither C code nor child processes wait for it."""

    def read(_: int) -> None:
        assert subprocess.run(["cat"], capture_output=True, check=True).stdout == b""
        assert os.read(0, 10) == b""
        assert Path("/dev/stdin").read_bytes() == b""

    execute(read)


def test_a_breakpoint_says_where_debuggers_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    with pytest.raises(IllegalStateError, match=r"breakpoint\(\).*in-process"):
        execute(lambda n: breakpoint())


def test_another_hook_for_breakpoints_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A remote debugger needs no terminal."""
    monkeypatch.setenv("PYTHONBREAKPOINT", "os.getpid")
    execute(lambda n: breakpoint())


def test_the_debugger_itself_fails_with_the_same_words() -> None:
    with pytest.raises(bdb.BdbQuit) as raised:
        execute(lambda n: [pdb.set_trace(), n])
    assert any("in-process" in note for note in raised.value.__notes__)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (lambda n: os._exit(0), r"exit code 0 \(user code that calls os\._exit\(\)"),
        (lambda n: os._exit(7), r"exit code 7 \(user code that calls os\._exit\(\)"),
        (lambda n: os.abort(), r"signal 6 \(SIGABRT"),
        (lambda n: os.kill(os.getpid(), signal.SIGKILL), r"signal 9 \(SIGKILL"),
    ],
    ids=["exit 0", "exit 7", "abort", "kill"],
)
def test_user_code_that_ends_its_worker_is_a_lost_worker(
    end: Callable[[int], Any], words: str
) -> None:
    with pytest.raises(TaskExecutorLostError, match=words):
        execute(end)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_worker_whose_output_user_code_closed_ends_in_silence(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    execute(lambda n: getattr(sys, name).close())
    seen = capfd.readouterr()
    assert "closed file" not in seen.out + seen.err


class Untold(Exception):
    """An error whose text is not available."""

    def __str__(self) -> str:
        raise ValueError("no text")


def test_an_exception_that_cannot_tell_its_text_ends_the_job_as_itself() -> None:
    def fail(_: int) -> None:
        raise Untold

    with pytest.raises(Untold):
        execute(fail)


def test_a_crash_in_c_shows_the_line_of_python() -> None:
    def crash(_: int) -> None:
        ctypes.string_at(0)

    with pytest.raises(TaskExecutorLostError, match=r"SIGSEGV(.|\n)*in crash"):
        execute(crash)


def test_a_writer_with_coroutines_fails_when_it_is_made() -> None:
    """Such a writer would write nothing; only its worker can see that, not the program."""

    class Writer(SinkWriter):
        async def write(self, element, context):
            pass

        def flush(self, end_of_input):
            pass

        def close(self):
            pass

    class Sink(PythonSink):
        def create_writer(self, context):
            return Writer()

    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.from_collection([1]).sink_to(Sink())
    with pytest.raises(InvalidProgramError, match="write is written with async def"):
        env.execute()


# ---- children --------------------------------------------------------------------------------


def start_children(pids: Path) -> None:
    """Start some in the worker's group, in a session of their own, and orphaned."""
    script = "sleep 600 >/dev/null & echo $!"
    orphan = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout
    children = [
        subprocess.Popen(["sleep", "600"]).pid,
        subprocess.Popen(["sleep", "600"], start_new_session=True).pid,
        int(orphan),
    ]
    for method in ("fork", "spawn"):
        process = multiprocessing.get_context(method).Process(target=time.sleep, args=(600,))
        process.start()
        children.append(process.pid)
    pids.write_text(" ".join(map(str, children)))


def assert_gone(pids: Path) -> None:
    gone_by_s = time.monotonic() + PATIENCE_S
    for pid in map(int, pids.read_text().split()):
        while psutil.pid_exists(pid):
            try:
                if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                    break
            except psutil.NoSuchProcess:
                break
            assert time.monotonic() < gone_by_s, pid
            time.sleep(0.05)


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def test_children_end_with_a_job_that_finishes(pids: Path) -> None:
    def start(_: int) -> None:
        subprocess.Popen(["sleep", "600"])
        start_children(pids)

    execute(start)
    assert_gone(pids)


def test_children_end_with_a_job_that_fails(pids: Path) -> None:
    def start(_: int) -> None:
        start_children(pids)
        raise LookupError("after all")

    with pytest.raises(LookupError, match="after all"):
        execute(start)
    assert_gone(pids)


def test_children_end_with_a_worker_that_is_killed(pids: Path) -> None:
    """Children that left its group are ended, too: its host knows them by their environment.

    The error need not name the signal: the host ends the children before it reports that, and on a
    busy machine the driver does not wait for so long.
    """

    def start(_: int) -> None:
        start_children(pids)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(TaskExecutorLostError):
        execute(start)
    assert_gone(pids)


@pytest.mark.stops_processes
@pytest.mark.parametrize("one_stands_still", [False, True])
def test_children_end_with_a_driver_that_is_killed(
    pids: Path, tmp_path: Path, one_stands_still: bool
) -> None:
    """The kernel sends SIGHUP to an orphaned group in which a process is stopped."""
    started = tmp_path / "started"
    os.mkfifo(started)
    program = f"""
import os
import signal
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from integration.test_user_code_and_its_process import execute, start_children

def start(_):
    import threading
    start_children(Path({str(pids)!r}))
    if {one_stands_still}:
        os.kill(int(Path({str(pids)!r}).read_text().split()[0]), signal.SIGSTOP)
    Path({str(started)!r}).write_text("")
    threading.Event().wait()

if __name__ == "__main__":
    execute(start)
"""
    driver = subprocess.Popen([sys.executable, "-c", program])
    try:
        started.read_text()
    finally:
        driver.kill()
        driver.wait()
    assert_gone(pids)


def test_children_that_are_forked_can_be_terminated(pids: Path) -> None:
    """They lack the worker's handler, with which they would take eight seconds to end."""

    def start(_: int) -> int:
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
        process.start()
        process.terminate()
        process.join()
        pids.write_text(str(process.exitcode))
        return 1

    execute(start)
    assert int(pids.read_text()) == -signal.SIGTERM


def test_a_worker_ends_on_a_signal_that_the_thread_of_a_task_takes() -> None:
    def take(_: int) -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        threading.Event().wait()

    with pytest.raises(TaskExecutorLostError, match="is lost: terminated by a signal"):
        execute(take)
