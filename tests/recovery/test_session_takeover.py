"""A session whose jobmanager is killed, overtaken or stopped, and another one that takes over.

Method: internals M48 and M49 (JM, JM+RM) with a directory and with a real ZooKeeper.  Jobmanagers
and taskexecutors are processes, killed with kill -9; the program is this process.  A job must write
the same with a FileSink as an undisturbed one.
"""

import contextlib
import json
import os
import shutil
import signal
import threading
import uuid
from pathlib import Path

import pytest
from e2e.running import run_program, start_program
from penstock.common import Configuration, Types
from penstock.datastream import MapFunction, RemoteStreamEnvironment
from penstock.errors import InvalidProgramError, JobCancelledError, JobExecutionError
from penstock.session.files import sessions
from support.leader_places import KINDS, FilePlace, ZooKeeperPlace, serving_zookeeper
from support.rest_client import UntilMarked
from support.sessions import TOKEN, Role, Session, eventually

from recovery.sink_programs import Fate, expected_lines, write_files

ELEMENTS = 4_000
BOTH = pytest.mark.parametrize("kind", KINDS)
LEASE_MS = {"killed": 3_600_000, "stopped": 3_000}


class LeaderFate(Fate):
    """Sends a signal to the leading jobmanager, from within a task."""

    def __init__(self, folder, number):
        super().__init__(folder, "signal")
        self.number = number

    def strike(self, moment):
        try:
            pid = int(Path(self.folder, moment).read_text())
            Path(self.folder, moment).unlink()
        except FileNotFoundError:
            return
        os.kill(pid, self.number)


class Takeover:
    """Jobmanagers of one cluster id, each at its own port, and the clients that find them."""

    def __init__(self, folder, place, lease_ms=LEASE_MS["killed"]):
        self.folder = folder
        self.roles = []
        self.place = place
        self.options = place.with_lease(lease_ms)

    def kept(self, end="", begin=""):
        """Return the names of leaders' files with this beginning and end."""
        names = self.place.names()
        return [name for name in names if name.endswith(end) and name.startswith(begin)]

    def role(self, *arguments):
        options = [text for option in self.options.items() for text in ("-D", "=".join(option))]
        role = Role(*arguments, *options)
        self.roles.append(role)
        return role

    def jobmanager(self, *arguments):
        return self.role("jobmanager", "--port", "0", *arguments)

    def taskexecutor(self, slots=1):
        return self.role("taskexecutor", "--slots", str(slots))

    def job_options(self, **options):
        return {
            **self.options,
            "execution.target": "session",
            "execution.checkpointing.dir": str(self.folder / "checkpoints"),
            **options,
        }

    def environment(self, **options):
        from penstock.datastream import StreamExecutionEnvironment

        configuration = Configuration()
        for key, value in self.job_options(**options).items():
            configuration.set_string(key, value)
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(1)
        return env

    def close(self):
        for role in reversed(self.roles):
            if role.process.poll() is None:
                role.process.send_signal(signal.SIGCONT)
                role.signal(signal.SIGTERM)
            else:
                role.end()
        assert sessions() == []


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory):
    yield from serving_zookeeper(tmp_path_factory)


@pytest.fixture
def kind():
    return "filesystem"


@pytest.fixture
def place(kind, tmp_path, request):
    folder = tmp_path / "high-availability"
    if kind == "filesystem":
        place = FilePlace(folder)
    else:
        server = request.getfixturevalue("zookeeper")
        place = ZooKeeperPlace(folder, server, f"/{uuid.uuid4().hex}")
    yield place
    place.close()


@pytest.fixture
def make(tmp_path, monkeypatch, place):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PENSTOCK_SESSION_TOKEN", TOKEN)
    with contextlib.ExitStack() as stack:

        def made(**arguments):
            takeover = Takeover(tmp_path, place, **arguments)
            stack.callback(takeover.close)
            return takeover

        yield made


@pytest.fixture
def cluster(make):
    return make()


class Running:
    """The program, in a thread."""

    def __init__(self, do):
        self.error = None
        self._do = do
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self._do()
        except BaseException as error:
            self.error = error

    def end(self):
        self._thread.join()
        if self.error is not None:
            raise self.error


def written(folder):
    paths = [path for path in (folder / "out").iterdir() if not path.name.startswith(".")]
    return sorted(line for path in paths for line in path.read_text().split("\n")[:-1])


def begin_files(cluster, tmp_path, leader, number):
    (tmp_path / "fates").mkdir()
    (tmp_path / "fates" / "on the way").write_text(str(leader.pid))
    fate = LeaderFate(tmp_path / "fates", number)
    options = cluster.job_options()
    return Running(lambda: write_files(tmp_path / "out", ELEMENTS, "on checkpoint", fate, options))


@BOTH
def test_the_jobmanager_that_stands_by_takes_over(cluster, tmp_path):
    """JM+RM: taskexecutors survive and find the next one, which continues at the last checkpoint.

    The program that waits for its job follows it there.
    """
    leader = cluster.jobmanager("--name", "first")
    leader.says("jobmanager at")
    served = cluster.taskexecutor(2)
    served.says("is registered")
    standby = cluster.jobmanager("--name", "second")
    standby.says("stands by")
    program = begin_files(cluster, tmp_path, leader, signal.SIGKILL)
    assert leader.end() == -signal.SIGKILL
    program.end()
    standby.says("is resumed")
    served.says("is registered", times=2)
    assert written(tmp_path) == expected_lines(ELEMENTS)
    eventually(lambda: not cluster.kept("-submission"), "the job is forgotten")
    eventually(lambda: not cluster.kept(begin="blob-"), "and then its code")
    assert not list((tmp_path / "checkpoints").iterdir()), "a finished job keeps none"


@pytest.mark.stops_processes
@BOTH
def test_a_jobmanager_that_hangs_is_overtaken(make, tmp_path):
    """When it wakes up it has lost: it completes no checkpoint, and ends."""
    cluster = make(lease_ms=LEASE_MS["stopped"])
    leader = cluster.jobmanager("--name", "first")
    leader.says("jobmanager at")
    served = cluster.taskexecutor(2)
    served.says("is registered")
    standby = cluster.jobmanager("--name", "second")
    standby.says("stands by")
    program = begin_files(cluster, tmp_path, leader, signal.SIGSTOP)
    served.says("another jobmanager leads")
    served.says("is registered", times=2)
    os.kill(leader.pid, signal.SIGCONT)
    assert leader.end() == 1
    assert "no longer leads" in leader.log
    program.end()
    assert written(tmp_path) == expected_lines(ELEMENTS)


MODULES = {
    "program.py": (
        "import sys\n"
        "from pathlib import Path\n"
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "from support.rest_client import UntilMarked\n"
        "from penstock.common import Types\n"
        "import own\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.set_parallelism(1)\n"
        "stream = env.add_source(UntilMarked(Path(sys.argv[1], 'stop')))\n"
        "stream.map(own.Notes(sys.argv[1]), output_type=Types.LONG()).print()\n"
        "env.execute('detached')\n"
    ),
    "own.py": (
        "import os\n"
        "from pathlib import Path\n"
        "from penstock.datastream import MapFunction\n"
        "class Notes(MapFunction):\n"
        "    def __init__(self, folder):\n"
        "        self.folder = folder\n"
        "    def open(self, runtime_context):\n"
        "        Path(self.folder, f'ran-{os.getpid()}').touch()\n"
        "    def map(self, value):\n"
        "        return value\n"
    ),
}


def test_a_job_outlives_its_program_its_code_and_its_jobmanager(cluster, tmp_path):
    """All its data is stored where the next jobmanager reads it; the job ends once."""
    first = cluster.jobmanager()
    first.says("jobmanager at")
    served = cluster.taskexecutor()
    served.says("is registered")
    (tmp_path / "program").mkdir()
    for name, text in MODULES.items():
        (tmp_path / "program" / name).write_text(text)
    options = [f"-D{key}={value}" for key, value in cluster.options.items()]
    run = ["-m", "penstock", "run", "--target", "session", "-d", *options]
    tests = str(Path(__file__).parent.parent)
    path = str(tmp_path / "program" / "program.py")
    program = start_program([*run, path, str(tmp_path)], PYTHONPATH=tests)
    _, err = program.communicate()
    assert program.returncode == 0, err
    eventually(lambda: len(list(tmp_path.glob("ran-*"))) == 1, "it runs")
    shutil.rmtree(tmp_path / "program")
    first.signal(signal.SIGKILL)
    second = cluster.jobmanager()
    second.says("job detached .* is resumed")
    eventually(lambda: len(list(tmp_path.glob("ran-*"))) == 2, "it runs again")
    (tmp_path / "stop").touch()
    eventually(lambda: cluster.kept("-result"), "it has ended")
    second.signal(signal.SIGKILL)
    third = cluster.jobmanager()
    third.says("jobmanager at")
    assert "is resumed" not in third.log
    assert not cluster.kept("-submission")
    assert len(list(tmp_path.glob("ran-*"))) == 2


def test_a_jobmanager_that_ends_on_a_signal_leaves_its_jobs_to_the_next(cluster, tmp_path):
    """As for an update; the next one need not wait for the lease.

    The first one listens on all addresses, and is configured with the one to publish.
    """
    everywhere = ("--host", "0.0.0.0", "-D", "jobmanager.rpc.address=localhost")
    first = cluster.jobmanager(*everywhere)
    first.says("jobmanager at")
    cluster.taskexecutor().says("is registered")
    env = cluster.environment()
    env.add_source(UntilMarked(tmp_path / "stop")).print()
    job = env.execute_async("long")
    assert first.signal(signal.SIGTERM) == 0
    cluster.jobmanager().says("job long .* is resumed")
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


class NotesParallelism(MapFunction):
    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        number = runtime_context.get_number_of_parallel_subtasks()
        (self.folder / f"{number}-{uuid.uuid4().hex}").touch()

    def map(self, value):
        return value


@pytest.mark.parametrize("scheduler", ["Default", "Adaptive"])
def test_a_job_keeps_the_parallelism_that_it_was_rescaled_to(cluster, tmp_path, scheduler):
    first = cluster.jobmanager()
    first.says("jobmanager at")
    cluster.taskexecutor(2).says("is registered")
    often = {"execution.checkpointing.interval": "100 ms", "jobmanager.scheduler": scheduler}
    env = cluster.environment(**often)
    stream = env.add_source(UntilMarked(tmp_path / "stop"))
    noted = NotesParallelism(tmp_path)
    stream.rebalance().map(noted, output_type=Types.LONG()).print()
    job = env.execute_async("rescaled")
    eventually(lambda: len(list(tmp_path.glob("1-*"))) == 1, "it runs")
    rescaled = Role("rescale", "-p", "2", str(job.get_job_id()))
    assert rescaled.end() == 0, rescaled.log
    eventually(lambda: len(list(tmp_path.glob("2-*"))) == 2, "it is rescaled")
    first.signal(signal.SIGKILL)
    cluster.jobmanager().says("job rescaled .* is resumed")
    eventually(lambda: len(list(tmp_path.glob("2-*"))) == 4, "it is resumed so")
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()
    assert len(list(tmp_path.glob("1-*"))) == 1


def test_a_session_that_is_stopped_leaves_no_jobs(cluster, tmp_path):
    first = cluster.jobmanager("--slots", "1")
    first.says("jobmanager at")
    env = cluster.environment()
    env.add_source(UntilMarked(tmp_path / "stop")).print()
    job = env.execute_async("long")
    stopped = Role("cluster", "stop")
    assert stopped.end() == 0, stopped.log
    assert first.end() == 0
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result()
    second = cluster.jobmanager()
    second.says("jobmanager at")
    assert "is resumed" not in second.log


def test_a_standby_has_imported_all_modules_of_a_leader(tmp_path, monkeypatch):
    """Jobs are interrupted for as long as it lacks these modules."""
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    program = (
        "import sys\n"
        "from penstock.session.session_cluster import prepare\n"
        "prepare()\n"
        "before = set(sys.modules)\n"
        "from penstock.session.session_cluster import SessionCluster\n"
        "port = {'jobmanager.rpc.port': '0'}\n"
        "cluster = SessionCluster('lead', port, 'a token which is long enough')\n"
        "cluster.start()\n"
        "cluster.stop()\n"
        "print([name for name in set(sys.modules) - before if name.startswith('penstock.')])\n"
    )
    outcome = run_program(["-c", program])
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[]\n"


def test_a_standby_ends_on_a_signal(cluster):
    cluster.jobmanager("--name", "first").says("jobmanager at")
    standby = cluster.jobmanager("--name", "second")
    standby.says("stands by")
    assert standby.signal(signal.SIGTERM) == 0


def test_a_standby_is_started_in_the_background(cluster):
    """The caller is told that the new one stands by, and does not wait for the leader's end."""
    first = cluster.jobmanager("--name", "first")
    first.says("jobmanager at")
    options = [f"-D{key}={value}" for key, value in cluster.options.items()]
    start = ["-m", "penstock", "cluster", "start", "--slots", "1", "--name", "second", *options]
    outcome = run_program([*start, "--json"])
    assert outcome.code == 0, outcome.err
    started = json.loads(outcome.out)
    log = Path(started["log"])
    try:
        assert started["jobmanager"] is None
        assert f"process {first.pid} on" in started["leader"]
        first.signal(signal.SIGKILL)
        eventually(lambda: "jobmanager at" in log.read_text(), "it leads")
        assert run_program(["-m", "penstock", "cluster", "stop", "second"]).code == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(started["pid"], signal.SIGKILL)
        log.unlink()


def test_jobs_that_cannot_be_taken_up_are_refused(cluster, tmp_path):
    cluster.jobmanager("--slots", "1").says("jobmanager at")
    env = cluster.environment()
    with pytest.raises(InvalidProgramError, match="results that a program collects"):
        env.from_collection([1], Types.LONG()).execute_and_collect()
    assert not cluster.kept("-submission")
    assert not cluster.kept(begin="blob-")


@pytest.mark.parametrize(
    ("arguments", "token", "words"),
    [
        (["jobmanager"], None, "hold the same token"),
        (["jobmanager", "--host", "0.0.0.0"], TOKEN, "is not an address that others can reach"),
        (["taskexecutor"], None, "needs the session's token"),
        (["cluster", "start"], None, "hold the same token"),
    ],
)
def test_a_jobmanager_that_nobody_could_find_is_rejected(
    cluster, monkeypatch, arguments, token, words
):
    if token is None:
        monkeypatch.delenv("PENSTOCK_SESSION_TOKEN")
    options = [f"-D{key}={value}" for key, value in cluster.options.items()]
    outcome = run_program(["-m", "penstock", *arguments, *options])
    assert outcome.code == 1
    assert words in " ".join(outcome.err.split())


def test_a_taskexecutor_needs_the_address_of_a_jobmanager():
    outcome = run_program(["-m", "penstock", "taskexecutor"])
    assert outcome.code == 2
    assert "name the jobmanager by" in outcome.err


def test_a_lost_job_of_a_session_without_high_availability_is_lost_at_once(tmp_path, monkeypatch):
    """No process searches for a successor."""
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    session = Session()
    try:
        first = session.jobmanager(slots=1)
        env = RemoteStreamEnvironment("127.0.0.1", session.port, token=TOKEN)
        env.add_source(UntilMarked(tmp_path / "stop")).print()
        job = env.execute_async("long")
        first.signal(signal.SIGKILL)
        with pytest.raises(JobExecutionError, match="is lost"):
            job.get_job_execution_result().result()
    finally:
        session.close()
