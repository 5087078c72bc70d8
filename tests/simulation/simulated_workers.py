"""Workers of the world, and the tasks deployed to them."""

from penstock.graph.ids import ExecutionAttemptID
from penstock.jobmaster.scheduling.states import ExecutionState
from penstock.rpc.messages import TaskFailure
from simulation.simulated_task import SimulatedTask, queue

S = ExecutionState


class SimulatedWorkers:
    """The workers of the world that it is a part of."""

    def channel(self, partition_id, subpartition):
        key = (bytes(partition_id), subpartition)
        if key not in self.channels:
            self.channels[key] = queue()
        return self.channels[key]

    def task_arrives(self, executor, deployment):
        if self.faulty("task refused", 0.01):
            attempt = ExecutionAttemptID.from_bytes(deployment.attempt_id)
            failed = failure("penstock.errors.JobExecutionError", "refused")
            self.send((executor, "up"), self.report, attempt, S.FAILED, executor, failed)
            return
        task = SimulatedTask(self, executor, deployment)
        assert task.restored == self.assigned[task.attempt], "state was lost on its way"
        self.tasks[task.attempt] = task
        self.send((executor, "up"), self.report, task.attempt, S.INITIALIZING, executor)
        for dead in sorted(task.reads_from - self.workers):
            self.later(
                self.delay(f"{task.name} connects", (1, 20)), self.notice, task, f"loss of {dead}"
            )
        self.later(self.delay(f"start of {task.name}", (1, 10, 100)), self.begin, task)

    def keep_final(self, task):
        """Store the final counts of a task that has no state any more."""
        self.final[(task.shape, task.id)] = (list(task.read), list(task.written))

    def begin(self, task):
        if task.is_over or task.executor not in self.workers or self.scheduler.status.is_terminal:
            return
        task.restore()
        if self.faulty(f"{task.name} fails at its start", 0.02):
            self.end(task.attempt, S.FAILED)
            return
        task.is_running = True
        self.send((task.executor, "up"), self.report, task.attempt, S.RUNNING, task.executor)
        self.later(1, self.work, task)

    def work(self, task):
        if task.is_over or task.executor not in self.workers or self.scheduler.status.is_terminal:
            return
        if self.faulty(f"{task.name} fails", 0.004):
            self.end(task.attempt, S.FAILED)
        elif self.is_batch:
            if self.dice.choice(f"end of {task.name}", (True, False)):
                self.end(task.attempt, S.FINISHED)
            else:
                self.later(self.pace_ms, self.work, task)
        elif task.work():
            self.later(self.pace_ms, self.work, task)

    def end(self, attempt, state, failed=None):
        task = self.tasks.pop(attempt)
        task.is_over = True
        if state is S.FAILED and failed is None:
            cause = f"failure of {task.name}"
            hopeless = self.faulty("a failure without remedy", 0.02)
            kind = "penstock.errors.InvalidProgramError" if hopeless else "app.Boom"
            failed = failure(kind, cause)
            self.spread(task, cause)
        link = (task.executor, "up")
        self.send(link, self.report, attempt, state, task.executor, failed)
        if self.faulty(f"end of {task.name} reported twice", 0.03):
            self.send(link, self.report, attempt, state, task.executor, failed)

    def spread(self, task, cause):
        """Fail, sooner or later, the tasks that exchange data with a lost task."""
        if self.is_batch:
            return  # its readers read files
        for other in self.tasks.values():
            if task.shares_data_with(other) and self.faulty(f"{other.name} notices", 0.5):
                delay = self.delay(f"{other.name} notices after", (1, 20, 500))
                self.later(delay, self.notice, other, cause)

    def spread_to_readers(self, executor):
        """Fail the tasks that read files of a dead worker."""
        if not self.is_batch:
            return
        for other in self.tasks.values():
            if executor in other.reads_from and self.faulty(f"{other.name} notices", 0.5):
                delay = self.delay(f"{other.name} notices after", (1, 20, 500))
                self.later(delay, self.notice, other, f"loss of {executor}")

    def notice(self, task, cause):
        if not task.is_over and task.executor in self.workers:
            name = "penstock.errors.ProducerFailedError"
            self.end(task.attempt, S.FAILED, failure(name, cause))

    def cancel_arrives(self, attempt):
        if attempt in self.tasks:
            state = self.dice.choice("cancelled", (S.CANCELED, S.CANCELED, S.FAILED))
            self.end(attempt, state)

    def checkpoint_message(self, kind, executor, message, *args):
        """Deliver a trigger, or the outcome of a checkpoint, to tasks of one worker."""
        for attempt_id in message.attempt_ids:
            attempt = ExecutionAttemptID.from_bytes(attempt_id)
            if self.loses_messages and self.faulty(f"{kind} to {attempt} is lost", 0.02):
                continue
            task = self.tasks.get(attempt)
            if task is not None and task.executor == executor:
                getattr(task, kind)(*args)


def failure(exception_name, message):
    module, _, name = exception_name.rpartition(".")
    return TaskFailure(module, name, message, "", "", -1)
