"""The parallelisms that a running job can have, and how the scheduler applies them."""

import pytest
from penstock.errors import ConfigurationError, RescalingError
from penstock.jobmaster.adaptive.rescaling import (
    override_parallelism,
    parallelisms_for,
    rescale_as_before,
)
from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.execution_graph import IllegalJobStateError
from penstock.jobmaster.scheduling.restart_strategies import FixedDelayRestartStrategy
from penstock.jobmaster.scheduling.states import ExecutionState, JobStatus
from support.graphs import word_count
from unit.jobmaster.scheduler_driver import BOOM, LOST, Driver, only

S = ExecutionState


def widened(driver, parallelism):
    job = driver.scheduler.graph.job
    return {id_: parallelism for id_, v in job.vertices.items() if v.parallelism > 1}


def overriding(parallelisms):
    """Return the job whose options set the parallelism of its vertices, by their positions."""
    job = word_count(parallelism=2).job_graph()
    ids = [id_.hex() for id_ in job.vertices]
    job.configuration["pipeline.jobvertex-parallelism-overrides"] = ",".join(
        f"{ids[one] if isinstance(one, int) else one}:{number}"
        for one, number in parallelisms.items()
    )
    return job


def test_the_options_say_another_parallelism_than_the_program():
    job = overriding({1: 3})
    before = [vertex.parallelism for vertex in job.vertices.values()]
    override_parallelism(job)
    assert [vertex.parallelism for vertex in job.vertices.values()] == [before[0], 3, *before[2:]]


@pytest.mark.parametrize(
    ("parallelisms", "words"),
    [
        ({"cbc3": 2}, "has no vertex 'cbc3'; it has [0-9a-f]{32} '"),
        ({1: 2000}, "can have 1 to 128 subtasks, its max parallelism, not 2000"),
    ],
)
def test_a_parallelism_that_cannot_be_is_an_error(parallelisms, words):
    with pytest.raises(ConfigurationError, match=f"^pipeline.jobvertex.*{words}"):
        override_parallelism(overriding(parallelisms))


def test_a_running_job_gets_slots_and_attempts_for_the_new_parallelism():
    driver = Driver(word_count(parallelism=2).job_graph()).run()
    graph = driver.scheduler.graph
    before = {s.current.attempt_id for s in graph.subtasks()}
    wide = widened(driver, 3)
    actions = driver.act("rescale", wide)
    assert len(only(actions, a.CancelTask)) == len(before)
    assert not only(actions, a.Deploy)
    driver.confirm_cancellations()
    assert driver.scheduler.pool.missing == 1
    driver.offer(1)
    driver.report_all(S.INITIALIZING)
    driver.report_all(S.RUNNING)
    assert {id_: len(v.subtasks) for id_, v in graph.vertices.items() if id_ in wide} == wide
    assert driver.statuses[-2:] == [JobStatus.RESTARTING, JobStatus.RUNNING]
    assert graph.num_restarts == 0
    after = {s.current.attempt_id for s in graph.subtasks()}
    assert not before & after
    # And back: the third subtask's report does not apply to a later third subtask.
    for parallelism in (2, 3):
        driver.act("rescale", widened(driver, parallelism))
        driver.confirm_cancellations()
        driver.report_all(S.RUNNING)
    again = {s.current.attempt_id for s in graph.subtasks()}
    assert len(again) == len(after)
    assert not after & again
    late = driver.scheduler.task_state_changed(next(iter(after)), S.FAILED, "w", driver.now, BOOM)
    assert late == []


def test_workers_lost_meanwhile_are_no_failure():
    driver = Driver(word_count(parallelism=2).job_graph()).run()
    driver.act("rescale", widened(driver, 1))
    driver.act("executor_lost", "worker-0", LOST)
    driver.confirm_cancellations()
    driver.offer(driver.scheduler.pool.missing)
    assert driver.scheduler.status is JobStatus.RUNNING
    assert driver.scheduler.pool.required == 1
    assert only(driver.log, a.RestoreState)[-1].is_global


def test_a_failure_of_the_job_meanwhile_restarts_it_with_the_new_parallelism():
    strategy = FixedDelayRestartStrategy(3, 50)
    driver = Driver(word_count(parallelism=2).job_graph(), strategy).run()
    wide = widened(driver, 4)
    driver.act("rescale", wide)
    driver.act("fail", BOOM)
    driver.confirm_cancellations()
    assert {len(v.subtasks) for v in driver.scheduler.graph.vertices.values()} != {4}
    driver.advance(50)
    graph = driver.scheduler.graph
    assert {id_: len(v.subtasks) for id_, v in graph.vertices.items() if id_ in wide} == wide


def test_only_a_running_job_is_rescaled():
    driver = Driver(word_count().job_graph())
    with pytest.raises(IllegalJobStateError, match="cannot be rescaled"):
        driver.act("rescale", {})


def test_fixed_parallelisms_stay():
    job = word_count(parallelism=2).job_graph()
    first, *others = job.vertices.values()
    first.has_own_parallelism = True
    assert first.id not in parallelisms_for(job, 3)
    with pytest.raises(RescalingError, match="has fixed the parallelism of"):
        parallelisms_for(job, {first.id: 3})
    for vertex in others:
        vertex.has_own_parallelism = True
    with pytest.raises(RescalingError, match="every operator"):
        parallelisms_for(job, 3)


@pytest.mark.parametrize(
    ("vertices", "fits"), [("of this program", True), ("too wide", False), ("another's", False)]
)
def test_requests_to_a_former_driver_apply_if_they_still_fit(vertices, fits, caplog):
    job = word_count(parallelism=2).job_graph()
    before = {id_: vertex.parallelism for id_, vertex in job.vertices.items()}
    wanted = {id_: 3 if number > 1 else 1 for id_, number in before.items()}
    if vertices == "too wide":
        wanted = {id_: 1 + job.vertices[id_].max_parallelism for id_ in wanted}
    elif vertices == "another's":
        wanted[b"x" * 16] = 3
    rescale_as_before(job, wanted)
    given = {id_: vertex.parallelism for id_, vertex in job.vertices.items()}
    assert given == (wanted if fits else before)
    assert ("has the parallelism of its program again" in caplog.text) != fits
