"""WorkerProcess: a TaskExecutor as a child of the process that hosts it.

The child ends with its host: the kernel kills it with its parent thread, the one that started it,
and it watches the pipe on its standard input.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

import penstock
from penstock.dependencies.worker_environment import WorkerEnvironment
from penstock.taskexecutor.worker.child_processes import (
    end_marked_children,
    end_process_group,
)
from penstock.taskexecutor.worker.forked_process import ForkedProcess, Surroundings, UnforkableError
from penstock.taskexecutor.worker.log_relay import LogRelay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.taskexecutor.worker.forked_process import ForkServers

logger = logging.getLogger(__name__)


class _StartedProcess(subprocess.Popen[bytes]):
    """A process whose end is noticed at once."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait as Popen does, but without its polling every 50 ms, which delays a job's end."""
        if timeout is None or self.poll() is not None or not hasattr(os, "pidfd_open"):
            return super().wait(timeout)
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:  # an old kernel, a sandbox; or another thread has reaped it meanwhile
            return super().wait(timeout)
        try:
            looking = select.poll()
            looking.register(descriptor, select.POLLIN)
            looking.poll(timeout * 1000)
        finally:
            os.close(descriptor)
        return super().wait(0)


class WorkerProcess:
    """One ``python -m penstock.taskexecutor``, started or forked.

    Its log goes to this process's standard error.  Use it in a ``with`` statement: on exit the
    process is killed if it has not ended, and so are the processes that its user code started.
    """

    def __init__(
        self,
        launch: Mapping[str, object],
        *,
        python_path: Iterable[str] = (),
        environment: WorkerEnvironment | None = None,
        servers: ForkServers | None = None,
    ) -> None:
        """Start the process and write its launch line.

        Args:
            launch: The launch specification, see `penstock.taskexecutor.worker.launch.LaunchSpec`.
            python_path: Further module search paths, beside the interpreter's own and penstock.
            environment: The job's code and files on this host.
            servers: Fork servers for the process; None to start a new interpreter.

        Raises:
            OSError: The process could not be started.
        """
        given = environment or WorkerEnvironment()
        line = json.dumps(given.launch(launch)).encode() + b"\n"
        surroundings = surroundings_of(launch, given, python_path)
        self._process = _process(surroundings, servers)
        stdin, stderr = self._process.stdin, self._process.stderr
        assert stdin is not None
        assert stderr is not None
        self._stdin = stdin
        self._log = LogRelay(stderr)
        try:
            stdin.write(line)
            stdin.flush()
        except OSError as error:
            # The log gives the reason, before this line; `wait` reports the end.
            self._log.wait()
            self._log.add(f"it ended before it read its launch line: {error}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        end_process_group(self._process.pid)
        if self._process.poll() != 0:
            end_marked_children(self._process.pid)
        # Buffered input cannot be delivered: the process is gone.
        with contextlib.suppress(OSError):
            self._stdin.close()
        self._log.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def log_tail(self) -> str:
        """The last lines of the log; complete once the ``with`` statement has ended."""
        return self._log.tail

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the exit code, negative for a signal; None if the time is over."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the process if it has not ended; any thread."""
        self._process.kill()

    def end(self) -> None:
        """Let the process end by itself by closing its standard input."""
        with contextlib.suppress(OSError):  # it has ended
            self._stdin.close()


def _process(
    surroundings: Surroundings, servers: ForkServers | None
) -> _StartedProcess | ForkedProcess:
    if servers is not None:
        try:
            return servers.fork(surroundings)
        except UnforkableError as error:
            logger.info("the worker is started instead of forked: %s", error)
    return _start(surroundings)


def surroundings_of(
    launch: Mapping[str, object],
    environment: WorkerEnvironment,
    python_path: Iterable[str] = (),
) -> Surroundings:
    """Return the surroundings of a worker's process; see `WorkerProcess`."""
    folder = Path(penstock.__file__).parent
    # Another interpreter has a penstock of its own.
    own = [str(folder.parent)] if environment.interpreter is None else []
    alias = [str(folder / "pyflink_path")] if launch.get("as_pyflink") else []
    paths = [*environment.python_path, *alias, *own, *python_path]
    scripts = [*environment.scripts, os.environ.get("PATH", os.defpath)]
    return Surroundings(
        environment.interpreter or sys.executable,
        environment.working_directory,
        os.environ
        | {
            "PATH": os.pathsep.join(scripts),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "PENSTOCK_RUNTIME": str(launch["runtime"]),
        },
    )


def _start(surroundings: Surroundings) -> _StartedProcess:
    return _StartedProcess(
        [surroundings.interpreter, "-m", "penstock.taskexecutor"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=surroundings.working_directory,
        env=dict(surroundings.environment),
        process_group=0,
    )
