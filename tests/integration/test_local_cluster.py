"""A job on the local target: every way in which it can end, without leftovers.

Goal: success, user failure, cancellation, a killed worker, too few slots, Ctrl-C, a killed driver.
Method: real processes of the pure runtime, vertices that run small fakes; psutil and the list of
threads show leftovers.
"""

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from integration.fake_jobs import FakeInvokable, job, vertex
from penstock.common.jobs.job_gateway import JobGateway
from penstock.errors import (
    ConfigurationError,
    JobCancelledError,
    JobExecutionError,
    NoResourceAvailableError,
    TaskExecutorLostError,
)
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.per_job.local import LocalExecutor
from penstock.taskexecutor.worker import task_executor
from penstock.taskexecutor.worker.launch import LaunchSpec
from support.patience import PATIENCE_S, eventually
from support.processes import living

pytestmark = pytest.mark.own_fork_server

QUIET = {"logging.level": "WARNING"}


def execute(
    *vertices: object, configuration: dict[str, str] | None = None, **job_options: str
) -> JobGateway:
    options = QUIET | (configuration or {})
    return LocalExecutor().execute(job(*vertices, **job_options), options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Check after every test: no child process, thread, port or temporary file is left."""
    if "in-process" not in request.node.name:  # in this process the runtime is the original one
        monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    me = psutil.Process()
    # Servers that several files share, such as Kafka's broker, are children too.
    processes = set(me.children(recursive=True))
    threads = set(threading.enumerate())
    connections = {c.laddr for c in me.net_connections()}
    yield
    assert set(me.children(recursive=True)) <= processes
    left = {thread for thread in threading.enumerate() if thread not in threads}
    for thread in left:
        thread.join(PATIENCE_S)
    assert not [thread for thread in left if thread.is_alive()]
    assert {c.laddr for c in me.net_connections() if c.status == "LISTEN"} <= connections
    assert list(tmp_path.iterdir()) == []


# ---- the fakes, which run in the workers -----------------------------------------------------


def count(task: FakeInvokable) -> None:
    task.environment.report_accumulators({"subtasks": 1, "ids": [task.environment.subtask]})


def write_temporary_file(task: FakeInvokable) -> None:
    Path(task.environment.temp_directory(), "file").write_text("temporary")


def tell_and_wait(task: FakeInvokable) -> None:
    """Report its process and wait for cancellation."""
    task.environment.report_accumulators({"pids": [os.getpid()]})
    task.wait_cancelled()


class UserError(Exception):
    """An exception with its own constructor."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, self.text)


def fail_in_second(task: FakeInvokable) -> None:
    if task.environment.subtask == 1:
        raise UserError(42, "no luck")
    tell_and_wait(task)


class Unpicklable(ValueError):
    """An exception that cannot be unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def fail_unpicklable(task: FakeInvokable) -> None:
    raise Unpicklable("this ", "that")


def exit_process(task: FakeInvokable) -> None:
    print("last words", file=sys.stderr, flush=True)
    os._exit(7)


def loop_forever(task: FakeInvokable) -> None:
    task.environment.report_accumulators({"pids": [os.getpid()]})
    while True:
        pass


def hang(task: FakeInvokable) -> None:
    """Ignore cancellation; only a file can report that it has started."""
    import ctypes

    Path(os.environ["TMPDIR"], "hangs").touch()
    ctypes.PyDLL(None).pause()  # holds the interpreter lock


def hold_the_interpreter_lock(task: FakeInvokable) -> None:
    """Compute for five seconds without releasing the lock, as an extension may."""
    import ctypes

    ctypes.PyDLL(None).usleep(5_000_000)
    count(task)


def fail_once(task: FakeInvokable) -> None:
    if task.environment.attempt_number == 0:
        raise ValueError("the first attempt fails")
    count(task)


def die_once(task: FakeInvokable) -> None:
    if task.environment.attempt_number == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    count(task)


def running(handle: JobGateway, subtasks: int) -> list[int]:
    """Wait until a number of subtasks have reported their pid; return these."""
    eventually(lambda: len(handle.accumulators().get("pids", [])) >= subtasks, "subtasks report")
    pids: list[int] = handle.accumulators()["pids"]
    return pids


# ---- ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["local", "in-process"])
def test_a_job_that_finishes(target: str) -> None:
    handle = execute(vertex(count, parallelism=3), configuration={"execution.target": target})
    assert handle.result(PATIENCE_S) == {"subtasks": 3, "ids": [0, 1, 2]}
    assert handle.status() is JobStatus.FINISHED
    assert handle.done()


@pytest.mark.parametrize("target", ["in-process"])
def test_a_worker_that_ends_while_it_begins_to_beat(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job whose subtasks run on others ends before one of its workers has started."""
    connect = task_executor.heartbeat_sender
    last = "taskexecutor-2"

    def late(launch: LaunchSpec, *arguments: Any) -> Any:
        sender = connect(launch, *arguments)
        if launch.executor_id == last:
            worker = next(thread for thread in threading.enumerate() if thread.name == last)
            worker.join(PATIENCE_S)
        return sender

    monkeypatch.setattr(task_executor, "heartbeat_sender", late)
    options = {
        "execution.target": target,
        "heartbeat.interval": "1 min",
        "heartbeat.timeout": "2 min",
    }
    handle = execute(vertex(count, parallelism=2), configuration=options)
    assert handle.result(PATIENCE_S)["subtasks"] == 2


def test_several_slots_share_one_process() -> None:
    handle = execute(
        vertex(tell_and_wait, parallelism=3), configuration={"taskmanager.numberOfTaskSlots": "3"}
    )
    assert len(set(running(handle, 3))) == 1
    handle.cancel()
    assert handle.wait(PATIENCE_S)


def test_temporary_files_are_removed() -> None:
    execute(vertex(write_temporary_file)).result(PATIENCE_S)


@pytest.mark.parametrize("target", ["local", "in-process"])
def test_a_user_exception_reaches_the_caller_as_itself(target: str) -> None:
    handle = execute(
        vertex(fail_in_second, "Flat Map", 2), configuration={"execution.target": target}
    )
    with pytest.raises(UserError, match="no luck") as raised:
        handle.result(PATIENCE_S)
    assert (raised.value.code, raised.value.text) == (42, "no luck")
    text = "".join(traceback.format_exception(raised.value))
    assert "Flat Map (2/2)" in text
    assert 'raise UserError(42, "no luck")' in text
    assert "fail_in_second" in text
    assert handle.status() is JobStatus.FAILED


def test_an_exception_that_cannot_be_pickled_keeps_its_text() -> None:
    with pytest.raises((JobExecutionError, ValueError), match="this that") as raised:
        execute(vertex(fail_unpicklable)).result(PATIENCE_S)
    assert "fail_unpicklable" in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("target", ["local", "in-process"])
def test_cancelling(target: str) -> None:
    handle = execute(
        vertex(tell_and_wait, parallelism=2), configuration={"execution.target": target}
    )
    running(handle, 2)
    handle.cancel()
    with pytest.raises(JobCancelledError):
        handle.result(PATIENCE_S)
    assert handle.status() is JobStatus.CANCELED


@pytest.mark.parametrize("target", ["local", "in-process"])
def test_cancelling_interrupts_an_endless_loop(target: str) -> None:
    handle = execute(vertex(loop_forever), configuration={"execution.target": target})
    running(handle, 1)
    handle.cancel()
    with pytest.raises(JobCancelledError):
        handle.result(PATIENCE_S)


def test_cancelling_kills_a_worker_that_hangs(tmp_path: Path) -> None:
    handle = execute(vertex(hang), configuration={"cluster.shutdown.grace": "200 ms"})
    eventually((tmp_path / "hangs").exists, "the task hangs")
    (tmp_path / "hangs").unlink()
    handle.cancel()
    with pytest.raises(JobCancelledError):
        handle.result(PATIENCE_S)


def test_cancelling_at_once() -> None:
    handle = execute(vertex(tell_and_wait, parallelism=2))
    handle.cancel()
    with pytest.raises(JobCancelledError):
        handle.result(PATIENCE_S)


def test_a_killed_worker_fails_the_job_and_is_named() -> None:
    handle = execute(vertex(tell_and_wait, parallelism=2))
    victim = running(handle, 2)[0]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(TaskExecutorLostError, match=f"{victim}.*by signal 9"):
        handle.result(PATIENCE_S)


SHORT_HEARTBEATS = {"heartbeat.interval": "100 ms", "heartbeat.timeout": "2 s"}


def test_a_silent_worker_is_lost() -> None:
    handle = execute(vertex(hold_the_interpreter_lock), configuration=SHORT_HEARTBEATS)
    with pytest.raises(TaskExecutorLostError, match="no heartbeat came for"):
        handle.result(PATIENCE_S)


def test_a_worker_whose_user_code_is_busy_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("penstock._core")
    monkeypatch.setenv("PENSTOCK_RUNTIME", "native")
    # Shorter than the lock is held, and as long as that allows: a busy machine pauses, too.
    options = SHORT_HEARTBEATS | {"heartbeat.timeout": "4 s"}
    handle = execute(vertex(hold_the_interpreter_lock), configuration=options)
    assert handle.result(PATIENCE_S) == {"subtasks": 1, "ids": [0]}


def test_the_end_of_a_dead_workers_log_is_in_the_error() -> None:
    with pytest.raises(TaskExecutorLostError, match="exit code 7") as raised:
        execute(vertex(exit_process)).result(PATIENCE_S)
    assert "last words" in str(raised.value)


def restarting(**options: str) -> dict[str, str]:
    return {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "2",
        "restart-strategy.fixed-delay.delay": "10 ms",
    } | options


@pytest.mark.parametrize("body", [fail_once, die_once])
def test_a_failed_job_restarts(body: object) -> None:
    graph = job(vertex(body, parallelism=2))  # type: ignore[arg-type]
    graph.configuration.update(restarting())
    handle = LocalExecutor().execute(graph, QUIET)
    assert handle.result(PATIENCE_S) == {"subtasks": 2, "ids": [0, 1]}


def test_workers_that_do_not_start_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        NoResourceAvailableError, match="asked for 2 slots and was given 0"
    ) as raised:
        execute(vertex(count, parallelism=2)).result(PATIENCE_S)
    assert "exit code 1" in str(raised.value)


def test_too_few_slots_in_time(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tmp_path_factory.mktemp("alive but not registered") / "worker"
    worker.write_text("#!/bin/sh\nexec sleep 600\n")
    worker.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(worker))
    handle = execute(
        vertex(count, parallelism=2),
        configuration={"slot.request.timeout": "300 ms", "cluster.shutdown.grace": "100 ms"},
    )
    with pytest.raises(NoResourceAvailableError, match="2 are required in all") as raised:
        handle.result(PATIENCE_S)
    assert "0 TaskExecutors" in "".join(traceback.format_exception(raised.value))


def test_a_malformed_option_names_key_and_value() -> None:
    with pytest.raises(ConfigurationError, match=r"slot\.request\.timeout.*soon"):
        execute(vertex(count), configuration={"slot.request.timeout": "soon"})


# ---- the driver itself ends ------------------------------------------------------------------

PROGRAM = """
import sys
sys.path.insert(0, {tests!r})
from integration import test_local_cluster as t
from integration.fake_jobs import vertex
if __name__ == "__main__":
    handle = t.execute(
        vertex(t.{body}, parallelism=2), configuration={{"cluster.shutdown.grace": "2 s"}}
    )
    print(*t.running(handle, 2), flush=True)
    handle.result()
"""


@pytest.fixture
def start_program(tmp_path: Path) -> Iterator[object]:
    started: list[subprocess.Popen[str]] = []

    def start(body: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
        tests = str(Path(__file__).parent.parent)
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(tests=tests, body=body)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(program)
        assert program.stdout is not None
        line = program.stdout.readline()
        if not line:
            assert program.stderr is not None
            raise AssertionError(program.stderr.read())
        workers = [psutil.Process(int(pid)) for pid in line.split()]
        return program, [*workers, psutil.Process(workers[0].ppid())]  # on Linux they are forked

    yield start
    for program in started:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("body", ["tell_and_wait", "loop_forever"])
def test_ctrl_c_ends_the_job_and_its_workers(start_program: object, body: str) -> None:
    program, processes = start_program(body)  # type: ignore[operator]
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=PATIENCE_S)
    assert "KeyboardInterrupt" in errors
    assert living(processes) == []


@pytest.mark.parametrize("body", ["tell_and_wait", "loop_forever"])
def test_workers_end_with_a_driver_that_is_killed(start_program: object, body: str) -> None:
    program, processes = start_program(body)  # type: ignore[operator]
    program.kill()
    program.wait(PATIENCE_S)
    assert psutil.wait_procs(processes, timeout=PATIENCE_S)[1] == []


def test_results_of_a_collect_sink_arrive_completely() -> None:
    graph = job(vertex(collect_numbers, parallelism=2))
    handle = LocalExecutor().execute(graph, QUIET, ["results"])
    results = handle.collect("results")
    batches: queue.Queue[bytes | None] = queue.Queue()
    while (batch := results.take(PATIENCE_S)) is not None:
        batches.put(batch)
    assert batches.qsize() == 200
    handle.result(PATIENCE_S)


def collect_numbers(task: FakeInvokable) -> None:
    client = task.environment.open_collect_channel("results")
    for number in range(100):
        client.send(bytes(number + 1) * 1000)
    client.finish()
