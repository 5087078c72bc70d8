"""TaskExecutors as Spark tasks: one plain Spark job with one task for each of them.

Each job has its own job group, so that one TaskExecutor can be ended without the others, and a
description that names it in Spark's UI.  Barrier mode is not used: it forbids dynamic allocation
and fails as a whole with one task.
"""

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError
from penstock.jobmaster.workers.resource_manager import (
    ResourceManagerDriver,
    WorkerExit,
    WorkerSpec,
)
from penstock.spark.host import HostingTask
from penstock.spark.places import task_places
from penstock.spark.ready_executors import ReadyExecutors
from penstock.spark.session import cancel_group, is_local, is_stopped

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT_S = 10.0
_LONGEST_SPARK_ERROR = 2000
_SIZE_OF_THE_REST = 4096
"""An upper bound of the number of bytes that Spark adds to a task's code."""


class SparkDriver(ResourceManagerDriver):
    """Starts and stops TaskExecutors on the executors of a Spark application."""

    def __init__(self, context: "SparkContext", on_exit: Callable[[WorkerExit], None]) -> None:
        self._context = context
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._groups: dict[str, threading.Thread] = {}
        self._failures: list[str] = []
        self._ready: ReadyExecutors | None = None
        self._stopped = False

    def start(self, requests: Sequence[WorkerSpec]) -> None:
        """Submit a Spark job for each worker, each from a separate thread; return at once."""
        from pyspark import InheritableThread

        if is_stopped(self._context):
            for spec in requests:
                self._on_exit(self._without_spark(spec))
            return
        for spec in requests:
            group = f"penstock-{spec.executor_id}-{uuid.uuid4().hex[:8]}"
            thread = InheritableThread(target=self._host, args=(spec, group), daemon=True)
            with self._lock:
                if self._stopped:
                    return
                self._groups[group] = thread
            thread.start()
        is_cluster = not is_local(self._context.getConf().get("spark.master"))
        with self._lock:
            if is_cluster and self._ready is None and not self._stopped:
                self._ready = ReadyExecutors(self._context)
                self._ready.start()

    def places(self) -> int | None:
        """Return how many tasks Spark runs at the same time, if its configuration says so."""
        runtime = self._context._jvm.java.lang.Runtime  # type: ignore[union-attr]
        return task_places(
            dict(self._context.getConf().getAll()), runtime.getRuntime().availableProcessors()
        )

    def granted(self) -> int:
        """Return the number of tasks that Spark is running for this driver's jobs."""
        if is_stopped(self._context):
            return 0
        tracker = self._context.statusTracker()
        with self._lock:
            groups = list(self._groups)
        active = 0
        for group in groups:
            for job_id in tracker.getJobIdsForGroup(group):
                job = tracker.getJobInfo(job_id)
                for stage_id in job.stageIds if job is not None else ():
                    stage = tracker.getStageInfo(stage_id)
                    active += stage.numActiveTasks if stage is not None else 0
        return active

    def failures(self) -> Sequence[str]:
        """Return the reasons of workers that exited unasked, or that Spark rejected."""
        with self._lock:
            return list(self._failures)

    def stop(self, grace_s: float) -> None:
        """Wait for the workers, which were told to end, then cancel their Spark jobs."""
        with self._lock:
            self._stopped = True
            groups = dict(self._groups)
        if self._ready is not None:
            self._ready.stop()
        deadline_s = time.monotonic() + grace_s
        for thread in groups.values():
            thread.join(max(0.0, deadline_s - time.monotonic()))
        late = {group: thread for group, thread in groups.items() if thread.is_alive()}
        for group in late:
            logger.warning("Spark job group %s did not end within %g s: cancelled", group, grace_s)
            cancel_group(self._context, group)
        for group, thread in late.items():
            thread.join(CANCEL_TIMEOUT_S)
            if thread.is_alive():
                logger.error("Spark does not end job group %s", group)

    def kill(self, job_id: bytes) -> None:
        """Cancel all Spark jobs at once: all their workers belong to the same job."""
        del job_id
        with self._lock:
            groups = list(self._groups)
        for group in groups:
            cancel_group(self._context, group)

    def _host(self, spec: WorkerSpec, group: str) -> None:
        """Run one Spark job to its end and report how its worker ended."""
        end = WorkerExit(spec.executor_id, None, None)
        try:
            self._context.setJobGroup(
                group, f"penstock TaskExecutor {spec.executor_id}", interruptOnCancel=True
            )
            task = HostingTask(spec.launch)
            self._check_size(task)
            rows = self._context.parallelize([0], 1).mapPartitions(task)
            end = self._exit_of(spec, rows.collect())
        except Exception as error:  # reported: an error of Spark ends only this worker
            end = (
                self._without_spark(spec)
                if is_stopped(self._context)
                else WorkerExit(spec.executor_id, None, None, self._explanation(str(error)))
            )
        finally:
            with self._lock:
                del self._groups[group]
                stopped = self._stopped
                if not stopped:
                    self._failures.append(f"{end.executor_id}: {end}")
            if not stopped:
                self._on_exit(end)

    @staticmethod
    def _without_spark(spec: WorkerSpec) -> WorkerExit:
        """Return the end of a worker that no other one can replace."""
        words = "the SparkContext that it was to run on is stopped"
        return WorkerExit(spec.executor_id, None, None, words, hopeless=True, platform_lost=True)

    def _check_size(self, task: HostingTask) -> None:
        """Reject a task whose code Spark would write to a file.

        Raises:
            ConfigurationError: The code is too large.
        """
        jvm = self._context._jvm
        assert jvm is not None
        limit = int(jvm.PythonUtils.getBroadcastThreshold(self._context._jsc))
        from pyspark.serializers import CloudPickleSerializer

        pickled = CloudPickleSerializer().dumps(task)  # type: ignore[no-untyped-call]
        size = len(pickled) + _SIZE_OF_THE_REST
        if size > limit:
            raise ConfigurationError(
                f"the launch specification of a worker takes about {size} bytes; Spark would write "
                f"one of more than {limit} bytes to a file, with the job's token: shorten the "
                "configuration or the module search path, or raise "
                "spark.broadcast.UDFCompressionThreshold"
            )

    def _explanation(self, spark_error: str) -> str:
        """Return the error that Spark raised, or a remedy if the cause is known."""
        # Of another version, or of the other project called penstock, only a module is missing.
        if missing := re.search(r"No module named '(penstock[\w.]*)'", spark_error):
            return (
                f"the Python of Spark's executors, {self._context.pythonExec!r}, cannot import "
                f"{missing[1]}: install penstock-engine there, or name another interpreter by "
                "PYSPARK_PYTHON or spark.pyspark.python before Spark starts"
            )
        lines = (line for line in spark_error.splitlines() if not line.startswith("\tat "))
        return "\n".join(lines).strip()[:_LONGEST_SPARK_ERROR]

    @staticmethod
    def _exit_of(spec: WorkerSpec, rows: Sequence[dict[str, Any]]) -> WorkerExit:
        if rows and rows[-1]["state"] == "refused":
            return WorkerExit(
                rows[-1]["executor_id"], None, None, rows[-1]["log_tail"], hopeless=True
            )
        if not rows or rows[-1]["state"] != "ended":
            return WorkerExit(spec.executor_id, None, None, "Spark lost the executor that ran it")
        last = rows[-1]
        return WorkerExit(last["executor_id"], last["pid"], last["exit_code"], last["log_tail"])
