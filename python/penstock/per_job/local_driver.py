"""TaskExecutors as processes of this machine (a MiniCluster), or as threads for debugging."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

from penstock.dependencies.worker_environment import SharedEnvironment
from penstock.errors import DependencyError
from penstock.jobmaster.workers.resource_manager import (
    ResourceManagerDriver,
    WorkerExit,
    WorkerSpec,
)
from penstock.taskexecutor.logs.speaker import name_records, unname_records
from penstock.taskexecutor.worker.forked_process import ForkServers
from penstock.taskexecutor.worker.worker_process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.taskexecutor.worker.task_executor import TaskExecutor

logger = logging.getLogger(__name__)

KILL_TIMEOUT_S = 5.0


class LocalDriver(ResourceManagerDriver):
    """Runs each TaskExecutor as a process of its own, all started at once.

    On Linux they are forked from one process that has imported everything.
    """

    def __init__(self, on_exit: Callable[[WorkerExit], None]) -> None:
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._workers: list[_WorkerHost] = []
        self._failures: list[str] = []
        self._granted = 0
        self._stopped = False
        self._environment = SharedEnvironment()
        self._servers = ForkServers() if sys.platform == "linux" else None

    def start(self, requests: Sequence[WorkerSpec]) -> None:
        """Start the processes, each from a thread that lives as long as its process.

        The kernel's parent-death signal follows the *thread* that forked: if that thread ended, it
        would take its worker along.
        """
        for spec in requests:
            with self._lock:
                if self._stopped:
                    return
                worker = _WorkerHost(
                    spec, self._environment, self._servers, self._started, self._ended
                )
                self._workers.append(worker)
            worker.start()

    def places(self) -> None:
        """Return None: this machine runs any number of processes."""

    def granted(self) -> int:
        """Return the number of started processes."""
        return self._granted

    def failures(self) -> Sequence[str]:
        """Return the reasons of workers that exited without being told to."""
        with self._lock:
            return list(self._failures)

    def stop(self, grace_s: float) -> None:
        """Wait for the processes, which were told to end, and kill those that did not."""
        with self._lock:
            self._stopped = True
            workers = list(self._workers)
        deadline_s = time.monotonic() + grace_s
        for worker in workers:
            if not worker.join(max(0.0, deadline_s - time.monotonic())):
                logger.warning("%s did not end within %g s: killed", worker, grace_s)
                worker.kill()
        if self._servers is not None:
            self._servers.close()  # a worker may wait for one that does not answer
        for worker in workers:
            if not worker.join(KILL_TIMEOUT_S):
                logger.error("%s cannot be killed", worker)
        self._environment.close()

    def kill(self, job_id: bytes) -> None:
        """Kill all workers at once, which belong to the one job; each loss is reported."""
        del job_id
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            worker.kill()

    def _started(self) -> None:
        with self._lock:
            self._granted += 1

    def _ended(self, worker: _WorkerHost, end: WorkerExit) -> None:
        with self._lock:
            self._workers.remove(worker)
            stopped = self._stopped
            if not stopped:
                self._failures.append(f"{end.executor_id}: {end}")
        if not stopped:
            self._on_exit(end)


class _WorkerHost:
    """One process and the thread that started it and waits for it."""

    def __init__(
        self,
        spec: WorkerSpec,
        environment: SharedEnvironment,
        servers: ForkServers | None,
        on_started: Callable[[], None],
        on_ended: Callable[[_WorkerHost, WorkerExit], None],
    ) -> None:
        self._spec = spec
        self._environment = environment
        self._servers = servers
        self._on_started = on_started
        self._on_ended = on_ended
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._killed = False
        self._thread = threading.Thread(
            target=self._run, name=f"host of {spec.executor_id}", daemon=True
        )

    def __str__(self) -> str:
        pid = None if self._process is None else self._process.pid
        return f"TaskExecutor {self._spec.executor_id} (pid {pid})"

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def kill(self) -> None:
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        end = WorkerExit(self._spec.executor_id, None, None)
        try:
            end = self._host()
        except OSError as error:
            end = WorkerExit(self._spec.executor_id, None, None, str(error))
        except DependencyError as error:
            end = WorkerExit(self._spec.executor_id, None, None, str(error), hopeless=True)
        finally:
            self._on_ended(self, end)

    def _host(self) -> WorkerExit:
        executor_id = self._spec.executor_id
        environment = self._environment.of(self._spec.launch)
        with WorkerProcess(
            self._spec.launch,
            python_path=filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
            environment=environment,
            servers=self._servers,
        ) as process:
            # Not locked before: the process may take a while to start, and `kill` does not wait.
            with self._lock:
                self._process = process
                if self._killed:
                    process.kill()
            self._on_started()
            exit_code = process.wait()
        return WorkerExit(executor_id, process.pid, exit_code, process.log_tail)


class InProcessDriver(ResourceManagerDriver):
    """Runs TaskExecutors in threads of this process, so that a debugger reaches user code."""

    def __init__(self, on_exit: Callable[[WorkerExit], None]) -> None:
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._executors: list[TaskExecutor] = []
        self._failures: list[str] = []
        self._stopped = False
        self._environment = SharedEnvironment()
        self._python_path: list[str] = []
        self._names_records = False

    def start(self, requests: Sequence[WorkerSpec]) -> None:
        """Start a thread for each worker."""
        if not self._names_records:
            self._names_records = True
            name_records()
        for spec in requests:
            thread = threading.Thread(
                target=self._run, args=(spec,), name=spec.executor_id, daemon=True
            )
            with self._lock:
                if self._stopped:
                    return
                self._threads.append(thread)
            thread.start()

    def places(self) -> None:
        """Return None: this machine runs any number of threads."""

    def granted(self) -> int:
        """Return the number of started threads."""
        return len(self._threads)

    def failures(self) -> Sequence[str]:
        """Return the reasons of workers that exited without being told to."""
        return list(self._failures)

    def stop(self, grace_s: float) -> None:
        """Stop the workers; user code that never returns keeps its daemon thread."""
        with self._lock:
            self._stopped = True
            executors, threads = list(self._executors), list(self._threads)
        for executor in executors:
            executor.stop("the cluster is shutting down", clean=True)
        deadline_s = time.monotonic() + grace_s + KILL_TIMEOUT_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
            if thread.is_alive():
                logger.error("%s did not end: its user code does not return", thread.name)
        for entry in self._python_path:
            with contextlib.suppress(ValueError):  # the program changed its path
                sys.path.remove(entry)
        if self._names_records:
            self._names_records = False
            unname_records()
        self._environment.close()

    def kill(self, job_id: bytes) -> None:
        """Stop the workers, which belong to the one job; a thread cannot be killed."""
        del job_id
        with self._lock:
            executors = list(self._executors)
        for executor in executors:
            executor.stop("killed")

    def _run(self, spec: WorkerSpec) -> None:
        tail = ""
        clean = hopeless = False
        try:
            executor = self._executor(spec)
            clean = executor is None or executor.run()
        except DependencyError as error:
            tail, hopeless = str(error), True
        except Exception as error:
            logger.exception("TaskExecutor %s failed", spec.executor_id)
            tail = f"{type(error).__name__}: {error}"
        if not self._stopped:
            end = WorkerExit(spec.executor_id, os.getpid(), 0 if clean else 1, tail, hopeless)
            self._failures.append(f"{spec.executor_id}: {end}")
            self._on_exit(end)

    def _executor(self, spec: WorkerSpec) -> TaskExecutor | None:
        """Create the worker in the job's environment; return None if the cluster is ending."""
        from penstock.taskexecutor.worker.launch import launch_spec_of
        from penstock.taskexecutor.worker.task_executor import TaskExecutor

        environment = self._environment.of(spec.launch)
        # The worker finds the folder through this driver.
        launch = environment.launch(spec.launch) | {"job_folder": None}
        executor = TaskExecutor(launch_spec_of(launch))
        with self._lock:
            if self._stopped:
                return None
            if not self._python_path:
                self._python_path = list(environment.python_path)
                sys.path[:0] = self._python_path
            self._executors.append(executor)
        return executor
