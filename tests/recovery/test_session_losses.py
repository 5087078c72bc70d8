"""The failure matrix of FLIP-6 (internals M49) in a session: processes are killed with kill -9.

A session's ResourceManager and its JobMasters are one process, the jobmanager, which loses both by
kill -9.  For other processes, only one of them is lost when their connections to it are cut: a
taskexecutor is connected to the ResourceManager, its worker processes to the JobMaster.  A
taskexecutor that is killed takes its workers along.
"""

import os
import signal
from pathlib import Path

import pytest
from penstock.common import Types
from penstock.datastream import MapFunction
from penstock.errors import JobExecutionError
from support.relay import Relay
from support.rest_client import UntilMarked
from support.sessions import Session, eventually, running


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("PENSTOCK_SESSION_TOKEN", raising=False)
    made = Session()
    try:
        yield made
    finally:
        made.close()


class Tells(MapFunction):
    """Reports by a file named after its worker that it runs."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        Path(self.folder, str(os.getpid())).touch()

    def map(self, value):
        return value


@pytest.fixture
def relay(session):
    """Run a relay between a running jobmanager and processes started with the relay's port."""
    session.jobmanager()
    made = Relay(("127.0.0.1", session.port))
    session.port = made.address[1]
    yield made
    made.close()


def long_job(session, folder, **options):
    """Start a job until ``folder
    "stop"`` exists, whose workers write their pids into a folder.
    """
    pids = folder / "pids"
    pids.mkdir(exist_ok=True)
    env = session.environment(
        **{
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "100",
            "restart-strategy.fixed-delay.delay": "0 s",
            **options,
        }
    )
    stream = env.add_source(UntilMarked(folder / "stop"))
    stream.map(Tells(str(pids)), output_type=Types.LONG()).print()
    return env.execute_async("long"), pids


def workers(pids, number):
    """Wait until so many workers have run the job; return the last one's pid."""
    eventually(lambda: len(os.listdir(pids)) == number, f"{number} workers")
    return int(max(pids.iterdir(), key=lambda path: path.stat().st_mtime_ns).name)


def test_a_killed_worker_is_replaced(session, tmp_path):
    """TM, the worker alone: its tasks restart in another worker, in the freed slot."""
    session.jobmanager(slots=1)
    job, pids = long_job(session, tmp_path)
    os.kill(workers(pids, 1), signal.SIGKILL)
    workers(pids, 2)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_the_loss_of_a_taskexecutor_moves_its_tasks(session, tmp_path):
    """TM: the ResourceManager drops its slots and tells the JobMaster, which fails its tasks.

    The region waits for a slot of another taskexecutor, and restarts.
    """
    session.jobmanager()
    first = session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    session.taskexecutor(1)
    first.signal(signal.SIGKILL)
    workers(pids, 2)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_a_job_waits_for_the_taskexecutor_that_replaces_a_lost_one(session, tmp_path):
    """TM, the only one: its job waits until there is another."""
    session.jobmanager()
    first = session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    first.signal(signal.SIGKILL)
    session.taskexecutor(1)
    workers(pids, 2)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_a_taskexecutor_that_loses_the_resource_manager_registers_again(session, relay, tmp_path):
    """RM: it registers as a new one, and the JobMaster's job continues there in its slots.

    In FLIP-6 tasks continue meanwhile.  Here they end: a taskexecutor without the ResourceManager
    has also lost the process of the JobMaster, which has lost the taskexecutor and restarts the
    tasks.
    """
    served = session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    relay.cut()
    served.says("is registered", times=2)
    workers(pids, 2)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_a_worker_that_loses_the_job_master_leaves_its_slot_to_the_next(session, relay, tmp_path):
    """JM: it fails its tasks and ends; its taskexecutor, still registered, starts another one.

    The slot stays the job's: the ResourceManager is only asked for a worker.
    """
    served = session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    relay.cut(but=2)  # the taskexecutor's own, and its heartbeats
    workers(pids, 2)
    assert served.log.count("is registered") == 1
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_the_loss_of_the_jobmanager_ends_its_jobs_and_no_taskexecutor(session, tmp_path):
    """JM+RM: taskexecutors end the tasks, find the next jobmanager and register with it.

    The lost jobmanager's jobs end, and their programs are notified; with high availability the next
    jobmanager continues them (`test_session_takeover`).
    """
    first = session.jobmanager()
    served = session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    first.signal(signal.SIGKILL)
    with pytest.raises(JobExecutionError, match="connection to the session test is lost"):
        job.get_job_execution_result().result()
    session.jobmanager()
    served.says("is registered", times=2)
    again, pids = long_job(session, tmp_path)
    workers(pids, 2)
    (tmp_path / "stop").touch()
    again.get_job_execution_result().result()


def test_jobs_go_to_what_comes_after_a_loss_of_both(session, tmp_path):
    """TM+RM: nothing is left behind, and new processes of both kinds run the program's jobs."""
    first, served = session.jobmanager(), session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    for role in (first, served):
        role.process.kill()
    first.end()
    served.end()
    with pytest.raises(JobExecutionError):
        job.get_job_execution_result().result()
    session.jobmanager()
    session.taskexecutor(1)
    again, pids = long_job(session, tmp_path)
    workers(pids, 2)
    (tmp_path / "stop").touch()
    again.get_job_execution_result().result()


@pytest.mark.stops_processes
def test_a_taskexecutor_that_is_silent_is_lost(session, tmp_path):
    """Heartbeats reveal a suspended process; when it continues, it registers again."""
    heartbeats = ("-D", "heartbeat.interval=100 ms", "-D", "heartbeat.timeout=2 s")
    master = session.jobmanager(*heartbeats)
    silent = session.taskexecutor(1)
    silent.process.send_signal(signal.SIGSTOP)
    try:
        master.says("is lost: no heartbeat")
    finally:
        silent.process.send_signal(signal.SIGCONT)
    silent.says("is registered", times=2)


def test_processes_shut_down_in_order_on_a_signal(session, tmp_path):
    """SIGTERM: the job fails with a message, both exit with 0, and nothing is left."""
    master, served = session.jobmanager(), session.taskexecutor(1)
    job, pids = long_job(session, tmp_path)
    workers(pids, 1)
    running(job)
    assert master.signal(signal.SIGTERM) == 0
    with pytest.raises(JobExecutionError, match="cluster was shut down"):
        job.get_job_execution_result().result()
    assert served.signal(signal.SIGTERM) == 0


def test_a_taskexecutor_without_a_jobmanager_gives_up(session):
    """After taskmanager.registration.timeout, with exit code 3."""
    master = session.jobmanager()
    served = session.taskexecutor(1, "-D", "taskmanager.registration.timeout=3 s")
    master.signal(signal.SIGKILL)
    assert served.end() == 3
    assert "no jobmanager has answered" in served.log
