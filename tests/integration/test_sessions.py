"""Sessions (internals M50): several jobs in a long-lived cluster, and what programs see of them.

Method: the jobmanager is a process with slots of its own; the programs are this process, and
further processes where their end matters.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from e2e.running import start_program
from penstock import __version__
from penstock.command_line.main import main
from penstock.common import Types
from penstock.datastream import MapFunction, RemoteStreamEnvironment
from penstock.errors import (
    CheckpointError,
    ConfigurationError,
    IllegalStateError,
    JobCancelledError,
    JobExecutionError,
    NoResourceAvailableError,
    StateReadError,
)
from penstock.rest.run_files import running_clusters
from penstock.rpc.control_credentials import ControlCredentials
from penstock.rpc.host_messages import Versions
from penstock.rpc.session_messages import AskJob, JobState
from penstock.session.files import find_session, sessions
from penstock.session.session_client import SessionClient
from penstock.taskexecutor.worker.host import TaskExecutorHost
from support.own_process import restored_process
from support.rest_client import Client, UntilMarked
from support.sessions import TOKEN, Session, eventually, running, status_of
from support.thread_signals import signal_another_thread

ELSEWHERE = (
    "from penstock.datastream import StreamExecutionEnvironment\n"
    + """
import os, sys
from pathlib import Path
from support.own_process import restored_process
from support.rest_client import UntilMarked

env = StreamExecutionEnvironment.get_execution_environment()
env.add_source(UntilMarked(Path(sys.argv[1]))).map(lambda x: x).print()
"""
)
RUN = ["-m", "penstock", "run", "--target", "session"]
TESTS = str(Path(__file__).parent.parent)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the files of the module's session's processes."""
    return tmp_path_factory.mktemp("session")


@pytest.fixture(scope="module", autouse=True)
def surroundings(folder):
    with restored_process():
        os.environ["PENSTOCK_RUN_DIR"] = str(folder / "run")
        os.environ.pop("PENSTOCK_SESSION_TOKEN", None)
        os.environ.pop("PENSTOCK_REST_TOKEN", None)
        yield


@pytest.fixture(scope="module")
def session(folder, surroundings):
    (folder / "temporary").mkdir()
    made = Session()
    try:
        made.jobmanager("-D", f"io.tmp.dirs={folder / 'temporary'}", slots=3)
        yield made
    finally:
        made.close()
    assert os.listdir(folder / "temporary") == [], "files of jobs go with them"


@pytest.fixture
def marks(tmp_path):
    """Yield a source that runs until it is stopped, at the latest at the end of the test."""
    path = tmp_path / "stop"
    yield path
    path.touch()


def started(session, path, **options):
    """Return a job that runs until a file exists."""
    env = session.environment(**options)
    env.add_source(UntilMarked(path)).map(lambda x: x, output_type=Types.LONG()).print()
    return env.execute_async(path.parent.name)


def taken_slots():
    own = next(one for one in running_clusters())
    found = Client(own).get("/overview")
    return found["slots-total"] - found["slots-available"]


def test_jobs_share_the_slots_and_free_them(session, marks, tmp_path):
    """Two jobs run at a time; an ended job's slots are reused."""
    other = tmp_path / "other"
    first = started(session, marks)
    second = started(session, other, **{"parallelism.default": "2"})
    running(first)
    running(second)
    jobs = Client(running_clusters()[0]).get("/jobs/overview")["jobs"]
    assert [job["state"] for job in jobs if job["jid"] in map(str, ids(first, second))] == [
        "RUNNING",
        "RUNNING",
    ]
    other.touch()
    assert second.get_job_execution_result().result().get_net_runtime() > 0
    third = session.environment(**{"parallelism.default": "2"})
    stream = third.from_collection([3, 1, 2]).map(lambda x: x * 10).rebalance().map(lambda x: x)
    with stream.execute_and_collect() as results:
        assert sorted(results) == [10, 20, 30]
    assert status_of(first) == "RUNNING"
    marks.touch()
    first.get_job_execution_result().result()
    eventually(lambda: taken_slots() == 0, "no slot is taken")


def ids(*jobs):
    return [job.get_job_id() for job in jobs]


def test_a_job_that_finds_too_few_slots_fails_with_their_number(session):
    """Method: a session without any slot, where a job waits only briefly."""
    empty = Session("empty")
    try:
        empty.jobmanager("-D", "slot.request.timeout=1 ms")
        env = empty.environment()
        env.from_collection([1]).print()
        with pytest.raises(NoResourceAvailableError, match="has 0 slots at 0 taskexecutors") as it:
            env.execute()
        assert "start another `penstock taskexecutor`" in str(it.value)
    finally:
        for role in empty.roles:
            assert role.signal(signal.SIGTERM) == 0


class OddError(Exception):
    """An exception that only the program knows."""


def raise_odd(value):
    raise OddError(f"odd: {value}")


def test_a_signal_that_another_thread_takes_ends_a_process():
    """Python's handlers run in the first thread, but the system may choose another one."""
    session = Session("signalled")
    jobmanager = session.jobmanager(slots=1)
    taskexecutor = session.taskexecutor(1)
    for role in (taskexecutor, jobmanager):
        signal_another_thread(role.pid, signal.SIGTERM)
    assert [role.end() for role in (taskexecutor, jobmanager)] == [0, 0]


def test_an_exception_comes_to_the_program_as_itself(session):
    """The jobmanager does not unpickle it: the class is in the program."""
    env = session.environment()
    env.from_collection([7]).map(raise_odd).print()
    with pytest.raises(OddError, match="odd: 7") as caught:
        env.execute()
    assert any("in operator" in note for note in caught.value.__notes__)
    assert "raise_odd" in str(caught.value.__cause__)


def test_a_job_is_asked_cancelled_and_counted(session, marks):
    job = started(session, marks)
    running(job)
    assert job.get_progress().status == "RUNNING"
    assert job.get_accumulators().result() == {}
    job.cancel().result()
    with pytest.raises(JobCancelledError, match="was cancelled"):
        job.get_job_execution_result().result()
    assert status_of(job) == "CANCELED"


def test_a_program_reads_the_state_of_its_job(session, marks):
    numbers = session.environment().add_source(UntilMarked(marks), "numbers", Types.LONG())
    latest = numbers.key_by(lambda n: n % 3, Types.LONG()).reduce(lambda old, new: new)
    latest.uid("latest").print()
    job = latest.get_execution_environment().execute_async("latest")
    running(job)
    state = job.state("latest", "_reduce_state")
    eventually(lambda: len(state.get_many(range(4))) == 3, "all keys have state")
    batches = list(state.scan([("key", ">", 0)], batch_rows=1))
    assert sorted(batch["key"][0].as_py() for batch in batches if batch.num_rows) == [1, 2]
    with pytest.raises(StateReadError, match="no keyed state 'first', but: _reduce_state"):
        job.state("latest", "first").get(1)
    marks.touch()
    job.get_job_execution_result().result()
    with pytest.raises(StateReadError, match="FINISHED"):
        state.get(2)


def test_a_job_that_ends_while_it_is_asked_is_asked_no_more(session, tmp_path, monkeypatch):
    """The session has forgotten it before the question arrives; its program knows how it ended.

    Method: connections for questions are opened once the session no longer knows the job.
    """

    class Late(SessionClient):
        def __init__(self, address):
            if not marks.exists():
                marks.touch()
                job.get_job_execution_result().result()
                question = AskJob(bytes.fromhex(str(job.get_job_id())))
                eventually(lambda: is_forgotten(address, question), "the job is forgotten")
            super().__init__(address)

    def is_forgotten(address, question):
        with SessionClient(address) as client:
            try:
                client.ask(question, JobState)
            except JobExecutionError:
                return True
        return False

    for name in ("cancel", "accumulators", "savepoint"):
        marks = tmp_path / name / "stop"
        marks.parent.mkdir()
        job = started(session, marks)
        running(job)
        with monkeypatch.context() as patch:
            patch.setattr("penstock.session.remote_job.SessionClient", Late)
            if name == "cancel":
                job.cancel().result()
            elif name == "accumulators":
                assert job.get_accumulators().result() == {}
            else:
                with pytest.raises(CheckpointError, match="is FINISHED: a savepoint needs a job"):
                    job.trigger_savepoint(str(tmp_path)).result()


class Counting(MapFunction):
    """Adds its records to an accumulator."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_int_counter("sum")

    def map(self, value):
        self.sum.add(value)
        return value


def test_nothing_of_an_ended_job_stays_in_its_program(session):
    """Neither its connection to the program nor those for its results."""

    def connections():
        found = psutil.Process().net_connections("tcp")
        return [one for one in found if one.raddr and one.raddr[1] == session.port]

    env = session.environment()
    with env.from_collection([1, 2]).execute_and_collect() as results:
        assert sorted(results) == [1, 2]
    env.from_collection([1]).print()
    env.execute()
    eventually(lambda: connections() == [], "no connection to the session")


def test_accumulators_come_with_the_result(session):
    env = session.environment(**{"parallelism.default": "2"})
    env.from_collection([1, 2, 3]).rebalance().map(Counting()).print()
    assert env.execute().get_all_accumulator_results() == {"sum": 6}


def test_savepoints_are_taken_on_request(session, marks, tmp_path):
    job = started(session, marks, **{"execution.checkpointing.dir": str(tmp_path / "c")})
    running(job)
    path = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    assert (Path(path.removeprefix("file:")) / "_metadata").exists()
    assert status_of(job) == "FINISHED"


def test_a_job_whose_checkpoints_have_no_place_fails_before_it_begins(session, marks, tmp_path):
    (tmp_path / "file").touch()
    places = {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.dir": str(tmp_path / "file"),
    }
    job = started(session, marks, **places)
    with pytest.raises(ConfigurationError, match=r"checkpointing\.dir: .*file' cannot store"):
        job.get_job_execution_result().result()
    assert status_of(job) == "FAILED"


def test_a_folder_for_databases_that_a_worker_cannot_make_fails_the_job(session, tmp_path):
    """Whatever its restart strategy: the worker would find the same the next time."""
    (tmp_path / "file").touch()
    env = session.environment(
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000000",
            "state.backend.type": "rocksdb",
            "state.backend.rocksdb.localdir": str(tmp_path / "file" / "below"),
        }
    )
    sums = env.from_collection([1, 2]).key_by(lambda x: x).reduce(lambda x, y: x + y)
    with (
        pytest.raises(ConfigurationError, match=r"file/below: Not a directory; state\.backend"),
        sums.execute_and_collect() as results,
    ):
        list(results)


def test_each_job_has_modules_and_files_of_its_own(session, tmp_path):
    """One name means another thing in each of two jobs, which no interpreter ever mixes."""
    outputs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "tools.py").write_text(f"def say(x):\n    return f'{name} {{x}}'\n")
        (folder / "added.py").write_text(f"NAME = 'added {name}'\n")
        (folder / "extra").mkdir()
        (folder / "added.py").rename(folder / "extra" / "added.py")
        (folder / "cached.txt").write_text(f"cached {name}")
        (folder / "program.py").write_text(
            "import os\n"
            "from penstock.datastream import MapFunction, StreamExecutionEnvironment\n"
            "from tools import say\n"
            "class Reads(MapFunction):\n"
            "    def open(self, context):\n"
            "        import added\n"
            "        path = context.get_distributed_cache().get_file('cached')\n"
            "        self.text = added.NAME + ', ' + open(path).read()\n"
            "    def map(self, value):\n"
            "        return say(value) + ', ' + self.text\n"
            "env = StreamExecutionEnvironment.get_execution_environment()\n"
            "env.set_parallelism(1)\n"
            f"env.add_python_file({str(folder / 'extra')!r})\n"
            f"env.register_cached_file({str(folder / 'cached.txt')!r}, 'cached')\n"
            "with env.from_collection([1]).map(Reads()).execute_and_collect() as results:\n"
            "    print(list(results))\n"
        )
        outputs.append(start_program([*RUN, str(folder / "program.py")]))
    for name, process in zip(("one", "two"), outputs, strict=True):
        out, err = process.communicate(timeout=240)
        assert out == f"['{name} 1, added {name}, cached {name}']\n", err
        assert process.returncode == 0


# ---- programs that end before their jobs ---------------------------------------------------------


def program(tmp_path, ending):
    path = tmp_path / "program.py"
    path.write_text(ELSEWHERE + ending)
    return str(path)


def last_job():
    found = Client(running_clusters()[0]).get("/jobs/overview")["jobs"]
    return max(found, key=lambda job: job["start-time"])


def test_a_detached_job_continues_without_its_program(session, marks, tmp_path):
    ending = "result = env.execute('detached')\nprint(result)\nos.kill(os.getpid(), 9)\n"
    process = start_program(
        [*RUN, "-d", program(tmp_path, ending), str(marks)],
        PYTHONPATH=TESTS,
        PYTHONUNBUFFERED="1",
    )
    out, err = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, err
    job = last_job()
    submitted = f"Job has been submitted with JobID {job['jid']}"
    dashboard = f"Dashboard: {running_clusters()[0].dashboard}"
    # The last line is what the program prints.
    watch = f"penstock status --watch {job['jid'][:8]}"
    assert out.splitlines() == [submitted, dashboard, watch, submitted]
    assert job["state"] in ("CREATED", "RUNNING")
    client = Client(running_clusters()[0])
    eventually(lambda: client.get(f"/jobs/{job['jid']}/status")["status"] == "RUNNING", "it runs")
    done = CliRunner().invoke(main, ["cancel", job["jid"]])
    assert done.exit_code == 0, done.output
    eventually(lambda: taken_slots() == 0, "its slot is free")
    assert client.get(f"/jobs/{job['jid']}/status")["status"] == "CANCELED"


def test_a_job_is_cancelled_when_its_program_is_killed(session, marks, tmp_path):
    ending = (
        "job = env.execute_async('attached')\n"
        "while job.get_job_status().result().name != 'RUNNING': pass\n"
        "os.kill(os.getpid(), 9)\n"
    )
    process = start_program(
        [*RUN, program(tmp_path, ending), str(marks)],
        PYTHONPATH=TESTS,
    )
    _, err = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, err
    # A job that waits for its slot counts as running, too.
    eventually(lambda: last_job()["state"] == "CANCELED", "the job is cancelled")
    assert last_job()["name"] == "attached"
    eventually(lambda: taken_slots() == 0, "its slot is free")


def test_a_job_continues_when_its_program_ends_by_itself(session, marks, tmp_path):
    process = start_program(
        [*RUN, program(tmp_path, "env.execute_async('left')\n"), str(marks)],
        PYTHONPATH=TESTS,
    )
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    job = last_job()
    client = Client(running_clusters()[0])
    eventually(lambda: client.get(f"/jobs/{job['jid']}/status")["status"] == "RUNNING", "it runs")
    marks.touch()
    eventually(lambda: last_job()["state"] == "FINISHED", "it finishes")


def test_a_detached_job_gives_no_result_and_collects_none(session):
    env = session.environment(**{"execution.attached": "false"})
    env.from_collection([1]).print()
    result = env.execute()
    assert not result.is_job_execution_result()
    with pytest.raises(IllegalStateError, match="detached"):
        result.get_net_runtime()
    with pytest.raises(ConfigurationError, match="results are collected"):
        env.from_collection([1]).execute_and_collect()


def test_detaching_is_refused_where_jobs_end_with_their_program():
    env = Session().environment(**{"execution.target": "local", "execution.attached": "false"})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="on target local a job ends with its program"):
        env.execute()


# ---- rejected peers ------------------------------------------------------------------------------


def test_a_session_that_is_not_there_is_named(session):
    env = session.environment(**{"penstock.session": "nobody"})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match=r"no session 'nobody'.*running are test"):
        env.execute()


def test_a_wrong_token_is_refused(session, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", "x" * 32)
    env = session.environment(**{"penstock.session": f"127.0.0.1:{session.port}"})
    env.from_collection([1]).print()
    with pytest.raises(
        ConfigurationError, match=r"does not accept this token.*; set PENSTOCK_SESSION_TOKEN"
    ):
        env.execute()
    address = ("127.0.0.1", session.port)
    host = TaskExecutorHost(lambda: address, ControlCredentials.of_session(b"x" * 32), 1)
    assert host.run() == 1


def test_a_program_names_a_session_by_its_address(session, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", TOKEN)
    env = session.environment(**{"penstock.session": f"penstock://127.0.0.1:{session.port}"})
    with env.from_collection([1]).execute_and_collect() as results:
        assert list(results) == [1]


@pytest.mark.parametrize(
    "versions", [Versions("0.0.1", "3.11"), Versions(__version__, "2.7")], ids=str
)
def test_another_penstock_or_python_is_refused_naming_both(session, monkeypatch, versions, caplog):
    monkeypatch.setattr("penstock.session.session_client.own_versions", lambda: versions)
    monkeypatch.setattr("penstock.taskexecutor.worker.host.own_versions", lambda: versions)
    env = session.environment()
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="the session runs penstock") as refused:
        env.execute()
    assert str(versions) in str(refused.value)
    address = ("127.0.0.1", session.port)
    host = TaskExecutorHost(lambda: address, ControlCredentials.of_session(TOKEN.encode()), 1)
    assert host.run() == 1
    assert f"and this taskexecutor {versions}" in caplog.text


def test_options_of_the_cluster_are_not_the_jobs_to_set(session):
    env = session.environment(**{"taskmanager.memory.segment-size": "64 kb"})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="options belong to the cluster"):
        env.execute()


def test_the_sessions_files_are_the_users_alone(session, folder):
    path = folder / "run" / "test.session"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert TOKEN not in repr(find_session("test"))
    for process in psutil.process_iter():
        if process.pid == find_session("test").pid:
            assert TOKEN not in " ".join(process.cmdline())


def test_workers_do_not_inherit_the_token(session):
    """User code finds it neither in the environment nor among its options."""
    env = session.environment()
    stream = env.from_collection([1]).map(lambda _: "|".join(os.environ.values()))
    with stream.execute_and_collect() as results:
        assert TOKEN not in next(iter(results))


# ---- the command line ----------------------------------------------------------------------------


def penstock(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_session_is_started_and_stopped_by_name(session):
    log = None
    said = penstock("cluster", "start", "--name", "another", "--slots", "1")
    try:
        log = Path(said.split("log ")[1].split("\n")[0])
        assert "--cluster another" in said
        assert "runs already" in penstock("cluster", "start", "--name", "another", code=1)
        assert "another" in penstock("cluster", "list")
        refused = penstock("cluster", "stop", code=1)
        assert (
            "several sessions: running are another, test; name one by `penstock cluster stop"
            in (refused)
        )
        pid = find_session("another").pid
        env = session.environment(**{"penstock.session": "another"})
        with env.from_collection([1]).execute_and_collect() as results:
            assert list(results) == [1]
    finally:
        assert "is stopped" in penstock("cluster", "stop", "another")
        if log is not None:
            log.unlink()
    with contextlib.suppress(psutil.NoSuchProcess):  # the exit code may not have been read
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert [one.name for one in sessions()] == ["test"]


def test_a_remote_environment_names_a_session_by_its_address(session):
    env = RemoteStreamEnvironment("127.0.0.1", session.port, token=TOKEN)
    with env.from_collection([2]).map(lambda x: x + 1).execute_and_collect() as results:
        assert list(results) == [3]
    for wrong, words in ((("nowhere:1", 1), "host:port"), (("nowhere", 0), "host:port")):
        with pytest.raises(ConfigurationError, match=words):
            RemoteStreamEnvironment(*wrong)
    with pytest.raises(ConfigurationError, match="at least 32 characters"):
        RemoteStreamEnvironment("127.0.0.1", session.port, token="short")


def test_the_rest_interface_ends_a_session(session):
    """Its jobmanager has logged which options of its machine it ignores."""
    last = Session("last")
    configuration = {"execution.checkpointing.interval": "1 s", "s3.region": "somewhere"}
    role = last.jobmanager(PENSTOCK_CONFIGURATION=json.dumps(configuration))
    role.says("has options of jobs, execution.checkpointing.interval, which only apply to programs")
    try:
        client = next(Client(one) for one in running_clusters() if one.pid == role.pid)
        assert client.ask("/cluster", "DELETE")[0] == 200
        assert role.end() == 0
    finally:
        role.process.kill()
