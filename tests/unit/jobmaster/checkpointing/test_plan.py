"""F14: the tasks that start a checkpoint when others have finished.

Method: a scheduler brings the tasks of sources and maps, four each, to their states.
"""

import pytest
from penstock.common.jobs.checkpoint_failure_reason import CheckpointFailureReason as Reason
from penstock.graph import partitioners
from penstock.jobmaster.checkpointing.plan import NotPossibleError, plan_checkpoint
from penstock.jobmaster.scheduling import actions as scheduling
from penstock.jobmaster.scheduling.restart_strategies import NoRestartStrategy
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.states import ExecutionState as State
from penstock.jobmaster.slots.slots import SlotOffer
from support.graphs import Program


class Job:
    """Four sources and four maps; with ``rescale`` each map has one source."""

    def __init__(self, partitioner):
        program = Program(parallelism=4)
        source = program.source("Source", 4)
        program.sink(program.map(program.partition(source, partitioner)))
        self.scheduler = Scheduler(program.job_graph(job_id=bytes(16)), NoRestartStrategy(), 0)
        self.graph = self.scheduler.graph
        todo = self.scheduler.start(0)
        [wanted] = [x for x in todo if isinstance(x, scheduling.RequestSlots)]
        offers = [SlotOffer(b"%d" % i, f"worker-{i}", "h", 1, 0) for i in range(wanted.required)]
        self.scheduler.slots_offered(offers, 0)
        self.sources, self.maps = ([], [])
        for task in self.graph.subtasks():
            (self.sources if task.job_vertex.is_source else self.maps).append(task)
            self.bring(task, State.INITIALIZING, State.RUNNING)

    def bring(self, task, *states):
        for state in states:
            execution = task.current
            self.scheduler.task_state_changed(
                execution.attempt_id, state, execution.slot.executor_id, 0
            )

    def plan(self):
        """Return the triggered subtasks of sources and of maps, and how many report."""
        plan = plan_checkpoint(self.graph, after_tasks_finish=True)
        triggered = {participant.subtask for participant in plan.trigger}
        numbers = [
            [task.subtask for task in tasks if task.id in triggered]
            for tasks in (self.sources, self.maps)
        ]
        assert len(plan.wait_for) + len(plan.finished) == 8
        assert {task.id for task in self.graph.subtasks() if task.state is State.FINISHED} == set(
            plan.finished
        )
        return numbers


def test_tasks_behind_finished_sources():
    """Each map has one source: the map is triggered once its source has finished."""
    job = Job(partitioners.RESCALE)
    assert job.plan() == [[0, 1, 2, 3], []]
    for task in job.sources[:2]:
        job.bring(task, State.FINISHED)
    assert job.plan() == [[2, 3], [0, 1]]
    job.bring(job.maps[0], State.FINISHED)
    assert job.plan() == [[2, 3], [1]]
    for task in (*job.sources[2:], *job.maps[1:]):
        job.bring(task, State.FINISHED)
    assert job.plan() == [[], []]


def test_tasks_behind_all_sources():
    """Each map has every source: the last running source sends its barrier."""
    job = Job(partitioners.REBALANCE)
    for task in job.sources[:3]:
        job.bring(task, State.FINISHED)
    assert job.plan() == [[3], []]
    job.bring(job.sources[3], State.FINISHED)
    assert job.plan() == [[], [0, 1, 2, 3]]


def test_no_plan_after_the_end_of_a_task_where_that_is_off():
    job = Job(partitioners.RESCALE)
    job.bring(job.sources[0], State.FINISHED)
    with pytest.raises(NotPossibleError, match="FINISHED") as raised:
        plan_checkpoint(job.graph, after_tasks_finish=False)
    assert raised.value.reason is Reason.NOT_ALL_REQUIRED_TASKS_RUNNING


def test_no_plan_while_a_task_starts():
    job = Job(partitioners.RESCALE)
    job.bring(job.maps[2], State.FAILED)
    with pytest.raises(NotPossibleError):
        plan_checkpoint(job.graph, after_tasks_finish=True)
