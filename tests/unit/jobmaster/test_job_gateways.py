"""Gateways of jobs: a job's end while its cluster still closes, and a former driver's gateway.

Method: a JobMaster that answers at once, in a main thread of its own.
"""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from penstock.common.jobs.job_gateway import SavepointWish
from penstock.common.jobs.job_progress import JobProgress
from penstock.errors import CheckpointError, JobCancelledError, JobExecutionError
from penstock.high_availability.job_result_store import JobResult
from penstock.jobmaster.ended_job_gateway import EndedJobGateway
from penstock.jobmaster.local_job_gateway import JobNotRunningError, LocalJobGateway
from penstock.jobmaster.main_thread import MainThread
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.rpc.session_messages import Path
from penstock.session.remote_job import RemoteJobGateway
from support.patience import PATIENCE_S

WISH = SavepointWish("/nowhere", "CANONICAL")


class Master:
    """Records commands."""

    def __init__(self):
        self.commands = []
        self.on_accumulators = dict

    def cancel(self):
        self.commands.append("cancel")

    def take_savepoint(self, request):
        self.commands.append(("savepoint", request.wish))

    def take_checkpoint(self, *, full):
        done = Future()
        done.set_result(SimpleNamespace(checkpoint_id=7 if full else 6))
        return done

    def rescale(self, wish):
        self.commands.append(("rescale", wish))
        return Future()

    def accumulators(self, vertex_id=None, subtask=None):
        return self.on_accumulators()


@pytest.fixture
def main():
    errors = []
    thread = MainThread("the main thread of a test", errors.append)
    thread.start()
    yield thread
    thread.close()
    assert errors == []


@pytest.fixture
def job(main):
    changes = []
    gateway = LocalJobGateway(
        bytes(16),
        "job",
        main.user("calls", 100),
        None,
        None,
        lambda: JobProgress("job", "RUNNING", 1),
        on_change=lambda: changes.append(1),
    )
    gateway.master, gateway.changes, gateway.main = Master(), changes, main
    gateway.attach(gateway.master)
    return gateway


def in_main(job, action):
    job.main.user("the test", 1).call(action, PATIENCE_S)


def ends(job, status, accumulators=None):
    in_main(job, lambda: job.set_result(status, None, accumulators or {}))


def test_accumulators_stay_when_there_is_nobody_to_ask(job):
    ends(job, JobStatus.FINISHED, {"count": 3})
    assert job.accumulators() == {"count": 3}
    job.complete()
    assert job.accumulators() == {"count": 3}


def test_accumulators_of_a_job_that_ends_during_the_request_are_returned(job):
    def end():
        job.set_result(JobStatus.FINISHED, None, {"count": 3})
        return {}

    job.master.on_accumulators = end
    assert job.accumulators() == {"count": 3}


def test_a_command_is_done_once_the_job_master_has_it(job):
    job.cancel().result(PATIENCE_S)
    assert job.master.commands == ["cancel"]
    assert job.changes == [1]


def test_nobody_commands_a_job_whose_cluster_is_gone(job):
    job.complete()
    job.main.close()
    job.cancel().result(0)
    with pytest.raises(CheckpointError, match="a savepoint needs a job that runs"):
        job.take_savepoint(WISH).result(0)
    assert job.master.commands == []


def test_a_watcher_hears_of_the_end_before_the_cluster_closes_and_a_program_after(job):
    watched, asked = job.take_watched_savepoint(WISH), job.take_savepoint(WISH)
    ends(job, JobStatus.CANCELED)
    in_main(job, job.master_ended)
    assert job.master.commands == [("savepoint", WISH)] * 2
    with pytest.raises(CheckpointError, match="CANCELED"):
        watched.result(0)
    assert not asked.done()
    job.complete()
    with pytest.raises(CheckpointError, match="CANCELED"):
        asked.result(0)


def test_a_job_that_has_ended_takes_no_more_commands(job):
    ends(job, JobStatus.FINISHED)
    in_main(job, job.master_ended)
    job.cancel().result(PATIENCE_S)
    with pytest.raises(CheckpointError, match="FINISHED"):
        job.take_watched_savepoint(WISH).result(PATIENCE_S)
    with pytest.raises(JobNotRunningError):
        job.rescale(2).result(PATIENCE_S)
    with pytest.raises(JobNotRunningError):
        job.take_checkpoint(full=True).result(PATIENCE_S)
    assert job.master.commands == []


def test_checkpoints_and_rescaling_reach_the_job_master(job):
    assert job.take_checkpoint(full=True).result(PATIENCE_S) == 7
    assert job.take_checkpoint(full=False).result(PATIENCE_S) == 6
    assert not job.rescale(3).result(PATIENCE_S).done()
    assert job.master.commands == [("rescale", 3)]


@pytest.mark.parametrize(
    ("status", "kind"),
    [("FINISHED", None), ("CANCELED", JobCancelledError), ("FAILED", JobExecutionError)],
)
def test_a_record_of_a_former_driver_tells_how_the_job_ended(status, kind):
    job = EndedJobGateway(bytes(16), JobResult("job", status, 12, {"count": 3}, "why"))
    assert (job.done(), job.status().value, job.runtime_ms()) == (True, status, 12)
    assert job.accumulators() == {"count": 3}
    assert job.progress() == JobProgress("job", status, 12)
    if kind is None:
        assert job.result() == {"count": 3}
    else:
        with pytest.raises(kind, match="why"):
            job.result()
    job.cancel().result(0)
    with pytest.raises(CheckpointError, match=status):
        job.take_savepoint(WISH).result(0)
    with pytest.raises(KeyError):
        job.collect("results")


def test_a_savepoint_of_a_session_cannot_be_revoked():
    """As that of a local job: its answer finds the future as it was."""
    job, answers = object.__new__(RemoteJobGateway), threading.Event()
    job.job_id = bytes(16)
    job._ask = lambda question, kind: answers.wait(PATIENCE_S) and Path("/savepoint")
    taken = job.take_savepoint(WISH)
    assert not taken.cancel()
    answers.set()
    assert taken.result(PATIENCE_S) == "/savepoint"
