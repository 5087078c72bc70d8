"""Prepares idle executors to host, so that a lost TaskExecutor is replaced quickly.

The first Python task of an executor is slow: its JVM loads classes, and starts the process from
which it forks Python workers.  An empty task, run once in each new idle executor, does this in
advance.
"""

import logging
import threading
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.spark.host import read_to_the_end
from penstock.spark.session import cancel_group, is_stopped

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

FIRST_S: Final = 5.0
"""The delay of the first search: short jobs need none, and a job's own tasks come first."""

LOOK_S: Final = 1.0
"""The interval of the search for new executors."""

MOST: Final = 100
"""The number of executors to prepare at a time: usually no more are lost at once."""

LIMIT_S: Final = 20.0
"""The time limit of the tasks: they wait if a TaskExecutor has taken their place meanwhile."""

GRACE_S: Final = 2.0
"""The time that the tasks have to end with the job; Spark warns of cancelled tasks."""

_LONGEST_ERROR: Final = 500


class ReadyExecutors:
    """Prepares the executors of a Spark application, in its own thread."""

    def __init__(self, context: "SparkContext") -> None:
        """Create the object; `start` starts the thread."""
        from pyspark import InheritableThread

        self._context = context
        self._group = f"penstock-ready-{uuid.uuid4().hex[:8]}"
        self._seen: set[str] = set()
        self._stopping = threading.Event()
        self._thread = InheritableThread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start searching after a delay."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and its Spark job, if there is one."""
        self._stopping.set()
        self._thread.join(GRACE_S)
        if self._thread.is_alive():
            cancel_group(self._context, self._group)
            self._thread.join(LIMIT_S)

    def _run(self) -> None:
        pause_s = FIRST_S
        while not self._stopping.wait(pause_s):
            pause_s = LOOK_S
            try:
                if idle := self._idle_newcomers():
                    self._make_ready(min(idle, MOST))
            except Exception as error:
                if self._stopping.is_set() or is_stopped(self._context):
                    return
                # The task that will host a worker reports the error, if it persists; or it takes
                # longer.
                why = str(error)[:_LONGEST_ERROR]
                logger.info("idle executors of Spark cannot be prepared: %s", why)

    def _idle_newcomers(self) -> int:
        """Return the number of new executors that run no task."""
        spark = self._context._jsc.sc()
        present = set(filter(None, spark.getExecutorIds().mkString(",").split(",")))
        new, self._seen = present - self._seen, present
        if not new:
            return 0
        executors = spark.statusStore().executorList(True)
        found = [executors.apply(index) for index in range(executors.length())]
        return sum(one.activeTasks() == 0 and one.id() in new for one in found)

    def _make_ready(self, idle: int) -> None:
        """Run a task in each: Spark gives every executor one task before any gets a second."""
        self._context.setJobGroup(self._group, f"penstock: {idle} idle executors", True)
        limit = threading.Timer(LIMIT_S, cancel_group, (self._context, self._group))
        limit.start()
        try:
            self._context.parallelize(range(idle), idle).mapPartitions(_nothing).collect()
        finally:
            limit.cancel()


def _nothing(elements: Iterable[object]) -> Iterator[object]:
    read_to_the_end(elements)
    return iter(())
