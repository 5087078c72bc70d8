"""A job that runs with the available slots: how many it uses, and when."""

import pytest
from penstock.common.options.check import check_options, warn_of_idle_options
from penstock.errors import ConfigurationError
from penstock.graph import partitioners as p
from penstock.jobmaster.adaptive.adaptive_scheduler import AdaptiveScheduler
from penstock.jobmaster.adaptive.adaptive_waits import AdaptiveSettings, parallelisms_with
from penstock.jobmaster.adaptive.rescaling import parallelisms_for
from penstock.jobmaster.adaptive.scheduler_factory import create_scheduler
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.restart_strategies import FixedDelayRestartStrategy
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from support.graphs import Program, word_count
from unit.jobmaster.scheduler_driver import BOOM, LOST, Driver, only

S = ExecutionState
STABLE_MS, WAIT_MS, COOLDOWN_MS, MORE_MS = 100, 5_000, 1_000, 2_000
NO_WORKERS = Failure("penstock.NoSlots", "no workers")


class Adaptive(Driver):
    def made(self, job, strategy, settings):
        return AdaptiveScheduler(
            job, strategy, 0, None, AdaptiveSettings(WAIT_MS, STABLE_MS, COOLDOWN_MS, MORE_MS)
        )

    def go(self):
        """Run all deployed tasks."""
        self.report_all(S.INITIALIZING)
        self.report_all(S.RUNNING)
        return self

    def rescaled(self):
        """Act as the job master does when the checkpoint is complete."""
        self.act("rescale", {})
        self.confirm_cancellations()

    @property
    def parallelism(self):
        return max(v.parallelism for v in self.scheduler.graph.job.vertices.values())

    def due(self):
        return self.scheduler.next_deadline_ms(self.now)


def counting(parallelism=4, checkpoints=True):
    job = word_count(parallelism=parallelism).job_graph()
    job.checkpoint_interval_ms = 1_000 if checkpoints else None
    return Adaptive(job, FixedDelayRestartStrategy(10, 0))


def running(slots, parallelism=4, **options):
    driver = counting(parallelism, **options)
    driver.start()
    driver.offer(slots)
    driver.advance(STABLE_MS)
    return driver.go()


class TestWaitingForResources:
    def test_all_slots_are_taken_at_once(self):
        driver = counting(3)
        assert only(driver.start(), a.RequestSlots) == [a.RequestSlots(3, 3)]
        assert driver.scheduler.status is JobStatus.CREATED
        actions = driver.offer(3)
        assert len(only(actions, a.Deploy)) == 7
        assert not only(actions, a.RestoreState)
        assert driver.scheduler.status is JobStatus.RUNNING

    def test_a_job_starts_with_fewer_slots_when_their_number_is_stable(self):
        driver = counting(4)
        driver.start()
        assert driver.due() == WAIT_MS
        assert not only(driver.offer(1), a.Deploy)
        assert driver.due() == STABLE_MS
        driver.advance(STABLE_MS // 2)
        assert not only(driver.offer(1), a.Deploy)
        assert driver.due() == STABLE_MS
        actions = driver.advance(STABLE_MS // 2)
        assert driver.parallelism == 2
        assert only(actions, a.ParallelismChanged)
        # The state that a savepoint holds for four subtasks is divided among two.
        [restored] = only(actions, a.RestoreState)
        assert restored.is_global
        graph = driver.scheduler.graph
        assert restored.subtasks == {subtask.id for subtask in graph.subtasks()}
        assert {s.current.attempt_id.attempt for s in graph.subtasks()} == {0}
        assert len(only(actions, a.Deploy)) == len(restored.subtasks)
        # The other slots are still requested.
        assert driver.scheduler.pool.missing == 2

    def test_the_wait_starts_again_when_the_slots_are_lost(self):
        driver = counting(4)
        driver.start()
        driver.offer(1)
        driver.advance(STABLE_MS // 2)
        driver.act("executor_lost", "worker-0", LOST)
        driver.advance(STABLE_MS // 2)
        assert driver.scheduler.status is JobStatus.CREATED
        driver.offer(1)
        driver.advance(STABLE_MS - 1)
        assert driver.scheduler.status is JobStatus.CREATED
        driver.advance(1)
        assert driver.parallelism == 1

    def test_no_slots_for_long_fail_the_job(self):
        driver = counting(4)
        driver.start()
        assert not only(driver.advance(WAIT_MS - 1), a.JobStatusChanged)
        driver.advance(1)
        assert driver.scheduler.status is JobStatus.FAILED
        assert "needs 1 slots to run, and can use 4; it was given 0" in str(
            driver.scheduler.failure
        )

    def test_a_slot_for_each_sharing_group_is_the_least(self):
        job = two_groups(2).job_graph()
        driver = Adaptive(job, FixedDelayRestartStrategy(10, 0))
        driver.start()
        driver.offer(1)
        driver.advance(STABLE_MS)
        assert driver.scheduler.status is JobStatus.CREATED
        driver.offer(1)
        driver.advance(STABLE_MS)
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.parallelism == 1

    def test_workers_that_cannot_be_started_matter_only_if_nothing_can_run(self):
        driver = counting(4)
        driver.start()
        driver.act("slots_not_available", NO_WORKERS)
        assert driver.scheduler.status is JobStatus.CREATED
        hopeless = Failure("penstock.NoSlots", "never", recoverable=False)
        driver.offer(1)
        driver.act("slots_not_available", hopeless)
        driver.advance(STABLE_MS)
        assert driver.scheduler.status is JobStatus.RUNNING
        other = counting(4)
        other.start()
        other.act("slots_not_available", hopeless)
        assert other.scheduler.status is JobStatus.FAILED

    def test_it_can_be_cancelled(self):
        driver = counting(4)
        driver.start()
        driver.offer(1)
        actions = driver.act("cancel")
        assert driver.scheduler.status is JobStatus.CANCELED
        assert len(only(actions, a.ReleaseSlot)) == 1
        assert driver.due() is None


class TestLosses:
    def test_the_job_continues_with_the_slots_that_are_left(self):
        driver = running(3, 3)
        driver.act("executor_lost", "worker-1", LOST)
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.RESTARTING
        assert driver.scheduler.pool.missing == 1
        actions = driver.advance(STABLE_MS)
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.parallelism == 2
        assert only(actions, a.RestoreState)[-1].is_global
        assert driver.scheduler.graph.num_restarts == 1
        assert driver.scheduler.pool.missing == 1

    def test_a_slot_that_comes_in_time_is_waited_for(self):
        driver = running(3, 3)
        driver.act("executor_lost", "worker-1", LOST)
        driver.confirm_cancellations()
        driver.advance(STABLE_MS // 2)
        actions = driver.offer(1)
        assert driver.parallelism == 3
        assert len(only(actions, a.Deploy)) == 7

    def test_a_job_that_runs_with_fewer_does_not_wait_for_all(self):
        """A failure of user code frees no slot."""
        driver = running(2, 4)
        attempt = next(iter(driver.scheduler.graph.subtasks())).current.attempt_id
        driver.report(attempt, S.FAILED, BOOM)
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.parallelism == 2

    def test_every_failure_restarts_all(self):
        program = Program(parallelism=2)
        for number in range(2):
            program.map(program.source(f"S{number}", 2), f"M{number}", 2)
        job = program.job_graph()
        driver = Adaptive(job, FixedDelayRestartStrategy(10, 0)).run()
        attempt = next(iter(driver.scheduler.graph.subtasks())).current.attempt_id
        actions = driver.report(attempt, S.FAILED, BOOM)
        assert (
            len(only(actions, a.CancelTask))
            == sum(1 for _ in driver.scheduler.graph.subtasks()) - 1
        )

    def test_nothing_left_waits_and_fails(self):
        driver = running(1, 2)
        driver.act("executor_lost", "worker-0", LOST)
        driver.confirm_cancellations()
        driver.advance(WAIT_MS)
        assert driver.scheduler.status is JobStatus.FAILED


class TestExecuting:
    def test_all_slots_are_taken_after_the_cooldown(self):
        driver = running(2)
        assert not only(driver.offer(2), a.AskForRescaling)
        assert driver.due() == driver.now + COOLDOWN_MS
        actions = driver.advance(COOLDOWN_MS)
        assert len(only(actions, a.AskForRescaling)) == 1
        assert driver.due() is None
        assert not driver.advance(MORE_MS)
        driver.rescaled()
        assert driver.parallelism == 4
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.scheduler.graph.num_restarts == 0

    def test_a_few_more_slots_are_used_after_a_while(self):
        driver = running(2)
        driver.advance(COOLDOWN_MS)
        driver.offer(1)
        assert not only(driver.advance(MORE_MS - 1), a.AskForRescaling)
        assert only(driver.advance(1), a.AskForRescaling)
        driver.rescaled()
        assert driver.parallelism == 3

    def test_changes_during_the_cooldown_count_from_then(self):
        driver = running(2)
        driver.offer(1)
        assert driver.due() == driver.now + COOLDOWN_MS + MORE_MS

    def test_a_slot_that_goes_again_is_forgotten(self):
        driver = running(2)
        driver.offer(1)
        driver.act("executor_lost", "worker-2", LOST)
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.due() is None

    def test_a_refused_rescaling_is_tried_again(self):
        driver = running(2)
        driver.offer(2)
        driver.advance(COOLDOWN_MS)
        driver.act("rescaling_refused")
        assert only(driver.advance(COOLDOWN_MS), a.AskForRescaling)

    def test_tasks_that_start_are_not_disturbed(self):
        driver = counting()
        driver.start()
        driver.offer(2)
        driver.advance(STABLE_MS)
        driver.offer(2)
        assert not only(driver.advance(COOLDOWN_MS), a.AskForRescaling)
        assert driver.due() is None
        driver.report_all(S.INITIALIZING)
        *_, last = list(driver.scheduler.graph.subtasks())
        driver.report_all(S.RUNNING)
        assert last.state is S.RUNNING
        assert only(driver.log, a.AskForRescaling)

    def test_a_job_without_checkpoints_would_start_again(self):
        driver = running(2, checkpoints=False)
        driver.offer(2)
        assert not only(driver.advance(COOLDOWN_MS + MORE_MS), a.AskForRescaling)

    def test_users_change_the_bounds(self):
        driver = running(3, 4)
        scheduler = driver.scheduler
        changed = parallelisms_for(scheduler.graph.job, 2, scheduler.wanted_parallelisms)
        driver.act("rescale", changed)
        driver.confirm_cancellations()
        assert driver.parallelism == 2
        assert scheduler.pool.required == 2
        driver.go()
        changed = parallelisms_for(scheduler.graph.job, 5, scheduler.wanted_parallelisms)
        driver.act("rescale", changed)
        assert scheduler.status is JobStatus.RUNNING
        assert scheduler.pool.missing == 2
        driver.offer(2)
        assert only(driver.advance(COOLDOWN_MS), a.AskForRescaling)
        driver.rescaled()
        assert driver.parallelism == 5

    def test_more_subtasks_may_need_no_more_slots(self):
        """Checkpoints continue until the job restarts, and are aborted then."""
        driver = running(4, 4)
        job = driver.scheduler.graph.job
        [source] = [id_ for id_, v in job.vertices.items() if v.parallelism == 1]
        driver.now += COOLDOWN_MS
        actions = driver.act("rescale", {source: 2})
        assert not only(actions, a.AbortCheckpoints)
        assert only(actions, a.AskForRescaling)
        assert only(driver.act("rescale", {}), a.AbortCheckpoints)
        driver.confirm_cancellations()
        assert job.vertices[source].parallelism == 2


def two_groups(parallelism):
    program = Program(parallelism=parallelism)
    first = program.source("S", parallelism)
    program.map(first, "M", parallelism).slot_sharing_group = "other"
    return program


class TestParallelisms:
    @pytest.mark.parametrize(
        ("slots", "shares"), [(2, (1, 1)), (3, (2, 1)), (4, (2, 2)), (9, (4, 4))]
    )
    def test_groups_share_the_slots(self, slots, shares):
        program = Program(parallelism=4)
        shuffled = program.partition(program.source("S", 4), p.REBALANCE)
        program.map(shuffled, "M", 4).slot_sharing_group = "other"
        job = program.job_graph()
        most = {v.id: v.parallelism for v in job.vertices.values()}
        found = parallelisms_with(job, most, slots)
        by_name = {job.vertices[id_].name: n for id_, n in found.items()}
        assert tuple(by_name.values()) == shares

    def test_tied_parallelisms_stay_equal(self):
        job = two_groups(4).job_graph()
        most = {v.id: v.parallelism for v in job.vertices.values()}
        assert set(parallelisms_with(job, most, 3).values()) == {1}


class TestConfiguration:
    def test_it_is_chosen_by_the_job(self):
        job = word_count().job_graph()
        assert type(create_scheduler(job, 1, 0)) is Scheduler
        job.configuration["jobmanager.scheduler"] = "adaptive"
        assert isinstance(create_scheduler(job, 1, 0), AdaptiveScheduler)

    def test_other_schedulers_are_refused(self):
        with pytest.raises(ConfigurationError, match="derives no parallelism"):
            check_options({"jobmanager.scheduler": "AdaptiveBatch"})
        with pytest.raises(ConfigurationError, match="must be Default or Adaptive"):
            check_options({"jobmanager.scheduler": "ng"})

    def test_options_without_effect_are_reported(self, caplog):
        cooldown = "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling"
        warn_of_idle_options({cooldown: "1 s"}, "local")
        assert f"without jobmanager.scheduler Adaptive; without effect: {cooldown}" in caplog.text
        caplog.clear()
        adaptive = {cooldown: "1 s", "jobmanager.scheduler": "adaptive"}
        warn_of_idle_options(adaptive, "local")
        assert (
            "is not rescaled to more slots without execution.checkpointing.interval" in caplog.text
        )
        caplog.clear()
        warn_of_idle_options({**adaptive, "execution.checkpointing.interval": "1 s"}, "local")
        assert "without effect" not in caplog.text
