"""Host of a Spark task: it starts one TaskExecutor process and supervises it.

The TaskExecutor is a child process with a fresh interpreter, because Spark's Python workers are
forked from a daemon and are reused between tasks.
"""

import os
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.common.options.cluster import check_folders
from penstock.dependencies.worker_environment import worker_environment
from penstock.errors import ConfigurationError, DependencyError
from penstock.rpc.client import local_address_towards
from penstock.taskexecutor.worker.worker_process import WorkerProcess

_STATUS_INTERVAL_S = 5.0


def attempt_number() -> int:
    """Return the number of earlier attempts of this Spark task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.attemptNumber())


def read_to_the_end(elements: Iterable[object]) -> None:
    """Drain the input: Spark does not reuse a Python process that left input unread.

    Otherwise the next task of this executor would wait for another process to start.
    """
    for _ in elements:
        pass


def spark_folders() -> list[str]:
    """Return the folders for temporary files of Spark's executors."""
    folders = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
    return [path for path in folders.split(",") if path]


def host_task_executor(launch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Run one TaskExecutor to its end; yield status rows, the last one with its exit.

    Args:
        launch: the launch specification of ``penstock.taskexecutor``, without the parts that only
            this executor knows (its address, temporary folders, a new executor id per attempt).

    Yields:
        ``{"executor_id", "pid", "state": "running"}`` every few seconds, then
        ``{"executor_id", "pid", "state": "ended", "exit_code", "log_tail"}``; or once
        ``{"executor_id", "pid", "state": "refused", "log_tail"}`` if the job's files are not
        available here, or a temporary folder does not exist.
    """
    if attempt_number() > 0:
        # Spark repeats the task of a lost executor.  But the ResourceManager has noticed the loss
        # itself and requests a replacement under a new name; two workers would occupy two places.
        return
    driver_host, driver_port = launch["driver"]
    executor_id = f"{launch['executor_id']}-{uuid.uuid4().hex[:8]}"
    specification = launch | {
        "executor_id": executor_id,
        "bind_host": local_address_towards(driver_host, driver_port),
    }
    if not specification.get("temp_dirs"):
        specification["temp_dirs"] = spark_folders()
    # Paths that Spark added for this worker (--py-files, archives) are for the job's code, too.
    specification["sys_path"] = [*launch.get("sys_path", ()), *filter(None, sys.path)]
    try:
        check_folders(specification["temp_dirs"])
        environment = worker_environment(specification)
    except (ConfigurationError, DependencyError) as error:
        yield {"executor_id": executor_id, "pid": None, "state": "refused", "log_tail": str(error)}
        return
    try:
        with WorkerProcess(specification, environment=environment) as worker:
            row = {"executor_id": executor_id, "pid": worker.pid}
            while (exit_code := worker.wait(_STATUS_INTERVAL_S)) is None:
                yield row | {"state": "running"}
    finally:
        environment.leave()
    yield row | {"state": "ended", "exit_code": exit_code, "log_tail": worker.log_tail}


class HostingTask:
    """The work of a Spark task.

    The launch specification is part of the task's code.  As an element of a collection, it would be
    written to a file on its way into Spark, together with the job's token.
    """

    def __init__(self, launch: Mapping[str, Any]) -> None:
        self._launch = dict(launch)

    def __call__(self, elements: Iterable[object]) -> Iterator[dict[str, Any]]:
        """Host one TaskExecutor; ignore the records of the partition."""
        read_to_the_end(elements)
        return host_task_executor(self._launch)
