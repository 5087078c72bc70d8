"""A seeded simulation of several drivers of one job: who leads, and what it leaves to the next.

Goal: two leaders never both commit (internals M48): each number that the job's sources count is
committed once, no checkpoint is complete for two leaders, tasks are notified of none that the next
leader would not know, no file is deleted that the next leader restores from, a job that has ended
is not run again, and it ends once the faults stop. Method: see `leader_world`; the code under test
is production code, from `FileLeaderElectionService` to the `JobMaster`.
"""

import contextlib

import pytest
from penstock.errors import LeadershipLostError
from penstock.high_availability.file_leader_election import FileLeaderElectionService, current_epoch
from penstock.high_availability.job_records import JobRecords
from penstock.high_availability.job_result_store import JobResultStore
from penstock.jobmaster.checkpointing.pointers import CheckpointPointers
from penstock.jobmaster.checkpointing.service import CheckpointService
from penstock.jobmaster.scheduling.execution import Execution
from simulation.parts import ALL_PARTS, check_part
from simulation.schedules import explanation, outcome

SEEDS = 1_000


@pytest.mark.parametrize("part", ALL_PARTS)
def test_a_job_with_several_drivers_ends_once(part):
    """Each seed is one schedule; a failure prints the smallest run that shows it."""
    check_part(part, "leaders")


def test_the_same_seed_is_the_same_run():
    def history(seed):
        trace = []
        outcome(seed, None, trace, "leaders")
        return trace

    assert history(3) == history(3)
    assert history(3) != history(4)


def test_the_seeds_reach_what_may_happen():
    """The simulation is worth little unless its runs differ."""
    taken_up = fenced = late = 0
    ends = set()
    for seed in range(300):
        world, error = outcome(seed, kind="leaders")
        assert error is None
        invariants = world.invariants
        taken_up += invariants.num_begun - 1
        fenced += invariants.num_fenced
        late += invariants.num_late
        ends.add(invariants.result_of.handle.status().name)
    assert taken_up > 100
    assert fenced > 5
    assert late > 0, "tasks of a former leader are told to commit"
    assert ends == {"FINISHED", "CANCELED"}


def has_no_fence(monkeypatch):
    """Let a former leader write to the present leader's directory."""

    def led(self):
        self._check_leads()
        return current_epoch(self._root)[1]

    monkeypatch.setattr(FileLeaderElectionService, "_led", led)


def keeps_no_pointers(monkeypatch):
    """Notify tasks of a checkpoint that the next leader does not know."""
    monkeypatch.setattr(JobRecords, "checkpoint_completed", lambda *args: None)


def tells_before_it_is_known(monkeypatch):
    """Notify tasks of a checkpoint whatever happens to its pointer."""

    def completed(self, checkpoint_id, location):
        self._begun.add(checkpoint_id)
        with contextlib.suppress(OSError, LeadershipLostError):
            self._records.checkpoint_completed(checkpoint_id, location)

    monkeypatch.setattr(CheckpointPointers, "checkpoint_completed", completed)


def reserves_no_ids(monkeypatch):
    monkeypatch.setattr(JobRecords, "checkpoint_begins", lambda *args: None)


def counts_ids_as_reserved_too_early(monkeypatch):
    """Count ids as reserved although the storage has failed."""
    begins = JobRecords.checkpoint_begins

    def early(self, checkpoint_id):
        try:
            begins(self, checkpoint_id)
        except OSError:
            self._reserved = checkpoint_id + 100
            raise

    monkeypatch.setattr(JobRecords, "checkpoint_begins", early)


def deletes_what_others_may_know(monkeypatch):
    """Delete the files of a checkpoint although its pointer may exist."""
    forget = CheckpointPointers.forget

    def forgets(self, checkpoint_id):
        forget(self, checkpoint_id)
        return True

    monkeypatch.setattr(CheckpointPointers, "forget", forgets)


def deletes_pending_files_at_once(monkeypatch):
    """Treat a pointer whose writing has failed as missing."""
    monkeypatch.setattr(CheckpointPointers, "forget_pending", lambda *args: True)


def forgets_the_end(monkeypatch):
    """Do not record that the job has ended, and delete its checkpoints."""

    def record(self, status, result, end):
        self._main_thread.post(lambda: self._delete(status, end, is_resumed=False))

    monkeypatch.setattr(CheckpointService, "_record", record)


def does_not_look_how_it_ended(monkeypatch):
    """Run a job again that has ended."""
    monkeypatch.setattr(JobResultStore, "get", lambda self: None)


def never_hears_that_it_lost(monkeypatch):
    """Let a former leader continue for ever."""
    monkeypatch.setattr(
        FileLeaderElectionService, "_end", lambda self, reason: LeadershipLostError(reason)
    )


def starts_new_attempts_empty(monkeypatch):
    """Lose state between its assignment and the deployment.

    A world that carries out the scheduler's actions itself cannot notice that.
    """
    monkeypatch.setattr(Execution, "take_state", lambda self: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "defect",
    [
        starts_new_attempts_empty,
        has_no_fence,
        keeps_no_pointers,
        tells_before_it_is_known,
        reserves_no_ids,
        counts_ids_as_reserved_too_early,
        deletes_what_others_may_know,
        deletes_pending_files_at_once,
        forgets_the_end,
        does_not_look_how_it_ended,
        never_hears_that_it_lost,
    ],
)
def test_a_defect_is_found(monkeypatch, defect):
    defect(monkeypatch)
    assert first_that_fails() is not None


def test_the_printed_run_is_short(monkeypatch):
    has_no_fence(monkeypatch)
    text = explanation(first_that_fails(), "leaders")
    assert int(text.split("\n")[1].split()[0]) <= 15


def first_that_fails():
    seeds = (seed for seed in range(SEEDS) if outcome(seed, kind="leaders")[1] is not None)
    return next(seeds, None)
