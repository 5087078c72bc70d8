"""A job of one subtask on Spark, whose workers are killed one after the other."""

import contextlib
import os
import time
from pathlib import Path

import psutil
from penstock.common import Types
from penstock.datastream import MapFunction
from penstock.errors import JobCancelledError
from spark_jobs import endless


class Tells(MapFunction):
    """Reports by a file named after its worker that it runs."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        Path(self.folder, str(os.getpid())).touch()

    def map(self, value):
        return value


class Serving:
    """A job of one subtask, and its successive workers."""

    def __init__(self, env, folder):
        self.folder = Path(folder, "workers")
        self.folder.mkdir()
        self.seen = set()
        env.set_parallelism(1)
        env.configure_option("restart-strategy.type", "fixed-delay")
        env.configure_option("restart-strategy.fixed-delay.attempts", "1000")
        env.configure_option("restart-strategy.fixed-delay.delay", "0 s")
        tells = Tells(str(self.folder))
        endless(env).map(tells, Types.LONG()).filter(lambda number: False).print()
        self.client = env.execute_async()
        self.next()

    def next(self):
        """Wait for the worker that continues the job; two at a time are an error."""
        while not (new := {int(path.name) for path in self.folder.iterdir()} - self.seen):
            time.sleep(0.02)
        (pid,) = new
        self.seen.add(pid)
        self.worker = psutil.Process(pid)

    def kill_host(self):
        """Kill PySpark's worker, so that its task fails; the TaskExecutor ends with it."""
        parent_of(self.worker).kill()
        self.next()

    def end(self):
        self.client.cancel().result()
        with contextlib.suppress(JobCancelledError):
            self.client.get_job_execution_result().result()

    @property
    def executor(self):
        """Return the id of the worker's executor."""
        process = self.worker
        while "--executor-id" not in process.cmdline():
            process = parent_of(process)
        return executor_id(process.cmdline())


def parent_of(process):
    """Return the parent, which ``parent()`` does not if the clock has been set meanwhile."""
    return psutil.Process(process.ppid())


def executor_id(words):
    return words[words.index("--executor-id") + 1]


def is_worker(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return "penstock.taskexecutor" in process.cmdline()
    return False
