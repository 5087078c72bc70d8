"""A driver of a scheduler without workers, which records the scheduler's actions."""

from penstock.jobmaster.scheduling import actions as a
from penstock.jobmaster.scheduling.failure import Failure
from penstock.jobmaster.scheduling.restart_strategies import (
    NoRestartStrategy,
)
from penstock.jobmaster.scheduling.scheduler import Scheduler
from penstock.jobmaster.scheduling.scheduler_settings import SchedulerSettings
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.jobmaster.slots.slots import SlotOffer

S = ExecutionState
BOOM = Failure("app.Boom", "boom", payload=object())
LOST = Failure("penstock.errors.TaskExecutorLostError", "worker-0 is gone")


class Driver:
    """Executes a scheduler's actions, as far as a test requires."""

    def __init__(self, job, strategy=None, **settings):
        self.scheduler = self.made(job, strategy or NoRestartStrategy(), settings)
        self.now = 0
        self.log = []
        self.running = {}
        self._slots = 0

    def made(self, job, strategy, settings):
        return Scheduler(job, strategy, 0, SchedulerSettings(**settings))

    def act(self, event, *args, **kwargs):
        actions = getattr(self.scheduler, event)(*args, self.now, **kwargs)
        self.log += actions
        for action in actions:
            if isinstance(action, a.Deploy):
                self.running[action.attempt_id] = action.executor_id
        return actions

    def start(self):
        return self.act("start")

    def offer(self, count, executor="worker-{}"):
        offers = []
        for _ in range(count):
            name = executor.format(self._slots)
            offers.append(SlotOffer(b"slot-%d" % self._slots, name, "h", 1))
            self._slots += 1
        return self.act("slots_offered", offers)

    def report(self, attempt_id, state, failure=None):
        executor = self.running.get(attempt_id, "somewhere")
        actions = self.scheduler.task_state_changed(attempt_id, state, executor, self.now, failure)
        self.log += actions
        for action in actions:
            if isinstance(action, a.Deploy):
                self.running[action.attempt_id] = action.executor_id
        return actions

    def report_all(self, state):
        for subtask in list(self.scheduler.graph.subtasks()):
            if not subtask.state.is_terminal:
                self.report(subtask.current.attempt_id, state)

    def confirm_cancellations(self):
        for subtask in self.scheduler.graph.subtasks():
            if subtask.state is S.CANCELING:
                self.report(subtask.current.attempt_id, S.CANCELED)

    def run(self):
        self.start()
        self.offer(self.scheduler.pool.missing)
        self.report_all(S.INITIALIZING)
        self.report_all(S.RUNNING)
        return self

    def advance(self, ms):
        self.now += ms
        return self.act("tick")

    @property
    def statuses(self):
        return [x.new for x in self.log if isinstance(x, a.JobStatusChanged)]

    def state_of(self, name):
        return [s.state for s in self.scheduler.graph.subtasks() if s.task_name.startswith(name)]

    def attempt(self, name):
        subtasks = self.scheduler.graph.subtasks()
        return next(s for s in subtasks if s.task_name == name).current.attempt_id


def only(actions, kind):
    return [x for x in actions if isinstance(x, kind)]
