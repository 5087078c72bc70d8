"""The scheduler of one job (internals M42, M44, M45): events in, actions out."""

import dataclasses

import pytest
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.exception_history import ExceptionHistory
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.restart_strategies import (
    FixedDelayRestartStrategy,
)
from penstock.jobmaster.scheduling.states import JobStatus
from penstock.jobmaster.user_failure import failure_of
from penstock.rpc.messages import TaskFailure
from support.graphs import Program, word_count
from unit.jobmaster.scheduler_driver import BOOM, LOST, Driver, S, only


class TestScheduling:
    def test_nothing_is_deployed_before_every_slot_is_there(self):
        driver = Driver(word_count(parallelism=3).job_graph())
        actions = driver.start()
        assert only(actions, a.RequestSlots) == [a.RequestSlots(required=3, missing=3)]
        assert not only(driver.offer(2), a.Deploy)
        actions = driver.offer(1)
        assert len(only(actions, a.Deploy)) == 7
        assert only(actions, a.RequestSlots) == [a.RequestSlots(required=3, missing=0)]

    def test_deployment_is_in_topological_order_and_after_the_slots_were_accepted(self):
        driver = Driver(word_count().job_graph())
        driver.start()
        actions = driver.offer(2)
        kinds = [type(x) for x in actions]
        last_accept = max(i for i, k in enumerate(kinds) if k is a.AcceptSlot)
        assert last_accept < kinds.index(a.Deploy)
        names = [x.deployment.task_name for x in only(actions, a.Deploy)]
        assert names == ["Source: Text", *["Flat Map"] * 2, *["Count -> Sink: Print"] * 2]

    def test_superfluous_slots_are_rejected(self):
        driver = Driver(word_count().job_graph())
        driver.start()
        actions = driver.offer(3)
        assert len(only(actions, a.AcceptSlot)) == 2
        assert len(only(actions, a.RejectSlot)) == 1

    def test_finishing(self):
        """E-5, E-6: the job finishes once all subtasks have, and returns its slots."""
        driver = Driver(word_count().job_graph()).run()
        driver.report_all(S.FINISHED)
        assert driver.statuses == [JobStatus.CREATED, JobStatus.RUNNING, JobStatus.FINISHED]
        assert len(only(driver.log, a.ReleaseSlot)) == 2
        assert all(s.state is S.FINISHED for s in driver.scheduler.graph.subtasks())
        assert not driver.offer(1) or only(driver.log, a.RejectSlot)

    def test_not_enough_slots_in_time(self):
        driver = Driver(word_count(parallelism=3).job_graph(), slot_request_timeout_ms=1000)
        driver.start()
        driver.offer(1)
        assert driver.scheduler.next_deadline_ms(driver.now) == 1000
        assert not driver.advance(999)
        driver.advance(1)
        assert driver.statuses[-2:] == [JobStatus.FAILING, JobStatus.FAILED]
        failure = driver.scheduler.failure
        assert failure.exception_name == "penstock.errors.NoResourceAvailableError"
        assert "needs 3 slots" in failure.message
        assert "1 were free" in failure.message
        assert len(only(driver.log, a.ReleaseSlot)) == 1

    def test_slots_of_ended_subtasks_are_returned_when_idle(self):
        program = Program(parallelism=1)
        program.source("Short")
        program.source("Long").slot_sharing_group = "other"
        driver = Driver(program.job_graph(), slot_idle_timeout_ms=100).run()
        driver.report(driver.attempt("Source: Short (1/1)"), S.FINISHED)
        assert driver.scheduler.next_deadline_ms(driver.now) == 100
        assert not only(driver.advance(99), a.ReleaseSlot)
        assert len(only(driver.advance(1), a.ReleaseSlot)) == 1
        assert driver.scheduler.status is JobStatus.RUNNING

    def test_blocking_consumers_wait_for_their_producers(self):
        program = word_count(parallelism=2, batch=True, blocking_shuffles=True)
        driver = Driver(program.job_graph())
        driver.start()
        driver.offer(2)
        assert driver.state_of("Flat Map") == [S.CREATED] * 2
        driver.report(driver.attempt("Source: Text (1/1)"), S.FINISHED)
        assert driver.state_of("Flat Map") == [S.DEPLOYING, S.SCHEDULED]
        actions = driver.offer(2)
        assert len(only(actions, a.AcceptSlot)) == 1
        driver.report_all(S.FINISHED)
        driver.report_all(S.FINISHED)
        assert driver.scheduler.status is JobStatus.FINISHED
        assert len(only(driver.log, a.ReleasePartitions)) == 3

    def test_one_slot_is_enough_for_a_batch_job(self):
        """Regions that wait for the slot of a running one do not time out."""
        program = word_count(parallelism=2, batch=True, blocking_shuffles=True)
        driver = Driver(program.job_graph(), slot_request_timeout_ms=10)
        driver.start()
        driver.offer(1)
        for _ in range(5):
            driver.advance(100)
            driver.report_all(S.FINISHED)
        assert driver.scheduler.status is JobStatus.FINISHED


class TestReports:
    def test_reports_of_unknown_attempts_are_cancelled_on_their_worker(self):
        driver = Driver(word_count().job_graph()).run()
        unknown = driver.attempt("Flat Map (1/2)")._replace(attempt=7)
        assert driver.report(unknown, S.RUNNING) == [a.CancelTask(unknown, "somewhere")]
        assert driver.report(unknown, S.FAILED) == []

    def test_late_reports_are_dropped(self):
        driver = Driver(word_count().job_graph()).run()
        attempt = driver.attempt("Flat Map (1/2)")
        driver.report(attempt, S.FINISHED)
        for state in (S.RUNNING, S.FAILED, S.CANCELED, S.FINISHED):
            assert driver.report(attempt, state) == []
        assert driver.scheduler.status is JobStatus.RUNNING

    def test_a_refused_deployment_fails_the_attempt_and_tells_the_worker(self):
        driver = Driver(word_count().job_graph())
        driver.start()
        driver.offer(2)
        attempt = driver.attempt("Flat Map (1/2)")
        actions = driver.act("deployment_failed", attempt, BOOM)
        assert a.CancelTask(attempt, driver.running[attempt]) in actions
        assert driver.scheduler.status is JobStatus.FAILING
        assert driver.act("deployment_failed", attempt, BOOM) == []

    def test_an_undeliverable_cancellation_ends_the_attempt(self):
        driver = Driver(word_count().job_graph()).run()
        driver.act("cancel")
        for attempt in list(driver.running):
            driver.act("cancellation_failed", attempt)
        assert driver.scheduler.status is JobStatus.CANCELED


class TestCancelling:
    def test_cancel_while_created_waiting_for_slots(self):
        driver = Driver(word_count().job_graph())
        driver.start()
        driver.act("cancel")
        assert driver.statuses[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]

    def test_cancel_before_start(self):
        driver = Driver(word_count().job_graph())
        driver.act("cancel")
        assert driver.statuses == [JobStatus.CREATED, JobStatus.CANCELLING, JobStatus.CANCELED]

    def test_cancel_waits_for_all_subtasks(self):
        driver = Driver(word_count().job_graph()).run()
        assert len(only(driver.act("cancel"), a.CancelTask)) == 5
        assert driver.act("cancel") == []
        assert driver.scheduler.status is JobStatus.CANCELLING
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.CANCELED
        assert driver.act("cancel") == []

    def test_failures_while_cancelling_change_nothing(self):
        driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(9, 1)).run()
        driver.act("cancel")
        driver.act("fail", BOOM)
        for subtask in driver.scheduler.graph.subtasks():
            driver.report(subtask.current.attempt_id, S.FAILED, BOOM)
        assert driver.statuses[-2:] == [JobStatus.CANCELLING, JobStatus.CANCELED]

    def test_cancel_while_failing(self):
        driver = Driver(word_count().job_graph()).run()
        driver.act("fail", BOOM)
        assert driver.scheduler.status is JobStatus.FAILING
        driver.act("cancel")
        driver.confirm_cancellations()
        assert driver.statuses[-3:] == [
            JobStatus.FAILING,
            JobStatus.CANCELLING,
            JobStatus.CANCELED,
        ]

    def test_cancel_while_restarting_waits_for_running_tasks(self):
        driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(9, 100)).run()
        driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
        assert driver.scheduler.status is JobStatus.RESTARTING
        driver.act("cancel")
        assert driver.scheduler.status is JobStatus.CANCELLING
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.CANCELED
        assert not only(driver.advance(1000), a.Deploy)


class TestFailing:
    def test_without_restart_the_first_failure_is_the_jobs(self):
        driver = Driver(word_count().job_graph()).run()
        driver.report(driver.attempt("Flat Map (2/2)"), S.FAILED, BOOM)
        assert driver.scheduler.status is JobStatus.FAILING
        driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, LOST)
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.FAILED
        assert driver.scheduler.failure is BOOM
        assert only(driver.log, a.JobStatusChanged)[-1].failure is BOOM

    def test_an_unrecoverable_failure_does_not_restart(self):
        driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(9, 1)).run()
        hopeless = dataclasses.replace(BOOM, recoverable=False)
        driver.report(driver.attempt("Flat Map (2/2)"), S.FAILED, hopeless)
        assert driver.scheduler.status is JobStatus.FAILING

    def test_failure_before_scheduling(self):
        driver = Driver(word_count().job_graph())
        driver.act("fail", BOOM)
        assert driver.statuses == [JobStatus.CREATED, JobStatus.FAILING, JobStatus.FAILED]


class TestRestarting:
    def driver(self, job=None, attempts=9, delay=100):
        job = job or word_count().job_graph()
        return Driver(job, FixedDelayRestartStrategy(attempts, delay)).run()

    def test_waits_for_the_backoff_and_for_the_tasks(self):
        driver = self.driver()
        actions = driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
        (restart,) = only(actions, a.ScheduleRestart)
        assert (restart.at_ms, len(restart.subtasks), restart.is_global) == (100, 5, False)
        assert len(only(actions, a.CancelTask)) == 4
        assert only(actions, a.AbortCheckpoints)
        assert driver.scheduler.next_deadline_ms(driver.now) is None
        driver.advance(150)
        assert driver.scheduler.status is JobStatus.RESTARTING
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.state_of("Flat Map") == [S.DEPLOYING] * 2

    def test_new_attempts_in_the_old_slots_after_the_state_was_restored(self):
        driver = self.driver()
        before = {s.id: s.current.slot.allocation_id for s in driver.scheduler.graph.subtasks()}
        driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
        driver.confirm_cancellations()
        assert driver.scheduler.next_deadline_ms(driver.now) == 100
        assert not only(driver.advance(99), a.Deploy)
        actions = driver.advance(1)
        kinds = [type(x) for x in actions]
        assert kinds.index(a.RestoreState) < kinds.index(a.Deploy)
        assert {x.attempt_id.attempt for x in only(actions, a.Deploy)} == {1}
        after = {s.id: s.current.slot.allocation_id for s in driver.scheduler.graph.subtasks()}
        assert before == after
        assert driver.scheduler.graph.num_restarts == 1

    def test_slots_are_kept_while_restarting(self):
        driver = self.driver()
        driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
        driver.confirm_cancellations()
        assert driver.scheduler.pool.required == 2
        assert not only(driver.log, a.ReleaseSlot)

    def test_gives_up_after_the_last_attempt(self):
        driver = self.driver(attempts=2)
        for _ in range(3):
            driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
            driver.confirm_cancellations()
            driver.advance(100)
            driver.report_all(S.RUNNING)
        assert driver.scheduler.status is JobStatus.FAILED
        assert driver.scheduler.graph.num_restarts == 2

    def test_only_the_failed_region_restarts(self):
        program = Program(parallelism=2)
        program.reduce(program.source("A"), "CountA")
        program.reduce(program.source("B"), "CountB")
        driver = self.driver(program.job_graph())
        driver.report(driver.attempt("CountA (1/2)"), S.FAILED, BOOM)
        assert driver.state_of("Source: B") == [S.RUNNING] * 2
        driver.confirm_cancellations()
        actions = driver.advance(100)
        assert {x.deployment.task_name for x in only(actions, a.Deploy)} == {
            "Source: A",
            "CountA",
        }
        assert driver.state_of("CountB") == [S.RUNNING] * 2

    def test_the_full_strategy_restarts_everything(self):
        program = Program(parallelism=1)
        program.source("A")
        program.source("B")
        driver = Driver(
            program.job_graph(), FixedDelayRestartStrategy(9, 0), failover_strategy="full"
        ).run()
        driver.report(driver.attempt("Source: A (1/1)"), S.FAILED, BOOM)
        assert driver.state_of("Source: B") == [S.CANCELING]

    def test_two_regions_fail_one_after_the_other(self):
        program = Program(parallelism=1)
        program.source("A")
        program.source("B")
        driver = self.driver(program.job_graph())
        driver.report(driver.attempt("Source: A (1/1)"), S.FAILED, BOOM)
        driver.now = 50
        driver.report(driver.attempt("Source: B (1/1)"), S.FAILED, BOOM)
        driver.now = 100
        assert len(only(driver.act("tick"), a.Deploy)) == 1
        assert driver.scheduler.status is JobStatus.RESTARTING
        driver.now = 150
        assert len(only(driver.act("tick"), a.Deploy)) == 1
        assert driver.scheduler.status is JobStatus.RUNNING
        restarts = [x for x in driver.statuses if x is JobStatus.RESTARTING]
        assert len(restarts) == 1

    def test_a_global_failure_takes_over_pending_restarts(self):
        program = Program(parallelism=1)
        program.source("A")
        program.source("B")
        driver = self.driver(program.job_graph())
        driver.report(driver.attempt("Source: A (1/1)"), S.FAILED, BOOM)
        driver.now = 50
        (restart,) = only(driver.act("fail", BOOM), a.ScheduleRestart)
        assert restart.is_global
        assert len(restart.subtasks) == 2
        driver.confirm_cancellations()
        driver.now = 100
        assert not only(driver.act("tick"), a.Deploy)
        driver.now = 150
        actions = driver.act("tick")
        assert only(actions, a.RestoreState)[0].is_global
        assert len(only(actions, a.Deploy)) == 2
        assert driver.scheduler.status is JobStatus.RUNNING

    def test_reports_of_the_attempt_before_are_unknown(self):
        driver = self.driver()
        old = driver.attempt("Flat Map (2/2)")
        driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
        driver.confirm_cancellations()
        driver.advance(100)
        assert driver.report(old, S.FAILED, BOOM) == []
        assert only(driver.report(old, S.RUNNING), a.CancelTask)
        assert driver.scheduler.status is JobStatus.RUNNING

    def test_failed_again_while_waiting_for_slots(self):
        """A restart that does not get its slots is a failure like any other."""
        driver = Driver(
            word_count().job_graph(),
            FixedDelayRestartStrategy(1, 0),
            slot_request_timeout_ms=1000,
        )
        driver.start()
        driver.advance(1000)
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.state_of("Source: Text") == [S.SCHEDULED]
        driver.advance(1000)
        assert driver.scheduler.status is JobStatus.FAILED

    def test_a_blocking_producer_restarts_only_when_its_data_is_gone(self):
        program = word_count(parallelism=1, batch=True, blocking_shuffles=True)
        program.transformations[1].set_parallelism(2)
        for missing in (False, True):
            driver = Driver(program.job_graph(), FixedDelayRestartStrategy(9, 0))
            driver.start()
            driver.offer(2)
            deploy = only(driver.log, a.Deploy)[0].deployment
            driver.report(driver.attempt("Source: Text (1/1)"), S.FINISHED)
            lost = frozenset({deploy.partitions[0].partition_id}) if missing else frozenset()
            driver.offer(1)
            driver.report(driver.attempt("Flat Map (1/2)"), S.RUNNING)
            driver.report(
                driver.attempt("Flat Map (1/2)"),
                S.FAILED,
                dataclasses.replace(BOOM, missing_partitions=lost),
            )
            driver.confirm_cancellations()
            source = driver.attempt("Source: Text (1/1)")
            assert source.attempt == (1 if missing else 0)

    def test_a_missing_file_restarts_the_producers_of_its_worker_only(self):
        """A consumer names a missing file; other results in the same place are lost as well."""
        program = word_count(parallelism=1, batch=True, blocking_shuffles=True)
        program.transformations[0].set_parallelism(3)
        driver = Driver(program.job_graph(), FixedDelayRestartStrategy(9, 0))
        driver.start()
        driver.offer(2, executor="a")
        driver.offer(1, executor="b")
        names = [f"Source: Text ({n}/3)" for n in (1, 2, 3)]
        for name in names:
            driver.report(driver.attempt(name), S.FINISHED)
        deployed = [action.deployment for action in only(driver.log, a.Deploy)]
        [first] = [d.partitions[0].partition_id for d in deployed if d.subtask == 0][:1]
        driver.offer(driver.scheduler.pool.missing, executor="c")
        driver.report(driver.attempt("Flat Map (1/1)"), S.RUNNING)
        text = f"partition {first.hex()} was not registered in time (at remote task manager 'a')"
        gone = TaskFailure("penstock.errors", "PartitionNotFoundError", text, "", "", -1)
        failure = failure_of(gone, "Flat Map (1/1)", "c")
        assert failure.missing_partitions == {first}
        driver.report(driver.attempt("Flat Map (1/1)"), S.FAILED, failure)
        driver.confirm_cancellations()
        assert [driver.attempt(name).attempt for name in names] == [1, 1, 0]


class TestLostWorkers:
    def test_all_subtasks_of_a_lost_worker_fail_at_once_and_count_once(self):
        driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(1, 0)).run()
        driver.act("executor_lost", "worker-0", LOST)
        failed = [s.current for s in driver.scheduler.graph.subtasks() if s.state is S.FAILED]
        assert len(failed) == 3
        cancelled = {x.executor_id for x in only(driver.log, a.CancelTask)}
        assert cancelled == {"worker-1"}
        assert len(driver.scheduler.exceptions.entries) == 1
        assert len(driver.scheduler.exceptions.entries[0].concurrent) == 2
        driver.confirm_cancellations()
        assert driver.scheduler.status is JobStatus.RUNNING
        assert driver.scheduler.pool.missing == 1
        assert only(driver.log, a.RequestSlots)[-1] == a.RequestSlots(required=2, missing=1)
        assert len(only(driver.offer(1), a.Deploy)) == 5

    def test_losing_it_twice_is_losing_it_once(self):
        driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(1, 0)).run()
        driver.act("executor_lost", "worker-0", LOST)
        assert driver.act("executor_lost", "worker-0", LOST) == []

    def test_cancelling_subtasks_of_a_lost_worker_are_cancelled(self):
        driver = Driver(word_count().job_graph()).run()
        driver.act("cancel")
        driver.act("executor_lost", "worker-0", LOST)
        driver.act("executor_lost", "worker-1", LOST)
        assert driver.scheduler.status is JobStatus.CANCELED

    def test_a_slot_taken_back_fails_what_is_in_it(self):
        driver = Driver(word_count().job_graph()).run()
        driver.act("slot_failed", b"slot-1", LOST)
        assert driver.scheduler.status is JobStatus.FAILING
        assert driver.act("slot_failed", b"slot-1", LOST) == []


class TestSuspending:
    """ExecutionGraphSuspendTest: from every status."""

    def suspended(self, driver):
        actions = driver.act("suspend", LOST)
        assert driver.scheduler.status is JobStatus.SUSPENDED
        assert all(s.state.is_terminal for s in driver.scheduler.graph.subtasks())
        assert not driver.act("suspend", LOST)
        assert not driver.act("cancel")
        assert not driver.act("fail", BOOM)
        for attempt in list(driver.running):
            driver.report(attempt, S.CANCELED)
        assert driver.statuses[-1] is JobStatus.SUSPENDED
        return actions

    def test_before_start(self):
        self.suspended(Driver(word_count().job_graph()))

    def test_scheduled(self):
        driver = Driver(word_count().job_graph())
        driver.start()
        self.suspended(driver)

    def test_deploying(self):
        driver = Driver(word_count().job_graph())
        driver.start()
        driver.offer(2)
        assert len(only(self.suspended(driver), a.CancelTask)) == 5

    def test_running_with_a_finished_subtask(self):
        driver = Driver(word_count().job_graph()).run()
        driver.report(driver.attempt("Source: Text (1/1)"), S.FINISHED)
        actions = self.suspended(driver)
        assert len(only(actions, a.CancelTask)) == 4
        assert not only(actions, a.ReleasePartitions), "what is pipelined goes with its task"
        assert len(only(actions, a.ReleaseSlot)) == 2

    def test_with_a_finished_blocking_partition(self):
        driver = Driver(word_count(batch=True, blocking_shuffles=True).job_graph())
        driver.start()
        driver.offer(2)
        driver.report(driver.attempt("Source: Text (1/1)"), S.FINISHED)
        assert len(only(self.suspended(driver), a.ReleasePartitions)) == 1

    def test_failing(self):
        driver = Driver(word_count().job_graph()).run()
        driver.act("fail", BOOM)
        self.suspended(driver)

    def test_cancelling(self):
        driver = Driver(word_count().job_graph()).run()
        driver.act("cancel")
        self.suspended(driver)

    def test_restarting(self):
        driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(1, 5)).run()
        driver.act("fail", BOOM)
        self.suspended(driver)
        assert not driver.advance(1000)

    @pytest.mark.parametrize("end", ["finished", "failed", "cancelled"])
    def test_globally_terminal_jobs_stay_what_they_are(self, end):
        driver = Driver(word_count().job_graph()).run()
        if end == "finished":
            driver.report_all(S.FINISHED)
        else:
            driver.act("fail", BOOM) if end == "failed" else driver.act("cancel")
            driver.confirm_cancellations()
        status = driver.scheduler.status
        assert status.is_globally_terminal
        driver.act("suspend", LOST)
        assert driver.scheduler.status is status


def test_e6_listeners_see_each_transition_once_and_in_order():
    """E-6: every transition begins in the state in which the previous one ended."""
    driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(1, 0)).run()
    driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
    driver.confirm_cancellations()
    driver.report_all(S.RUNNING)
    driver.report_all(S.FINISHED)
    changes = only(driver.log, a.JobStatusChanged)
    assert [x.old for x in changes[1:]] == [x.new for x in changes[:-1]]
    by_attempt = {}
    for change in only(driver.log, a.TaskStateChanged):
        by_attempt.setdefault(change.attempt_id, []).append(change)
    for moves in by_attempt.values():
        assert moves[0].old is S.CREATED
        assert [m.old for m in moves[1:]] == [m.new for m in moves[:-1]]


def test_equal_failures_are_counted_whatever_came_between():
    history = ExceptionHistory()

    def add(message, line, task_name="Map (1/2)", operator="Map"):
        trace = f'File "user.py", line 3, in a\n    b()\n  File "user.py", line {line}, in b\nE\n'
        failure = Failure("E", message, trace, task_name=task_name, labels={"operator": operator})
        history.add_root(failure, 0)
        return history.entries[-1].occurrences

    assert add("<a.B object at 0x7f00aa>", 5) == 1
    assert add("other", 5) == 1
    assert add("<a.B object at 0x7f00bb>", 5, task_name="Map (2/2)") == 2
    assert history.entries[-1].repetition == ""
    assert add("<a.B object at 0x7f00aa>", 6) == 1
    assert add("<a.B object at 0x7f00aa>", 5, operator="Filter") == 1
    assert add("<a.B object at 0x7f00aa>", 5) == 3
    assert history.entries[-1].repetition == "failed 3 times at the same place with the same error"


def test_exception_history_keeps_sixteen_roots():
    driver = Driver(word_count().job_graph(), FixedDelayRestartStrategy(99, 0)).run()
    for _ in range(20):
        driver.report(driver.attempt("Flat Map (1/2)"), S.FAILED, BOOM)
        driver.confirm_cancellations()
        driver.report_all(S.RUNNING)
    assert len(driver.scheduler.exceptions.entries) == 16
    assert driver.scheduler.exceptions.truncated
