"""Sessions for tests: jobmanagers and taskexecutors as processes, and jobs submitted to them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from e2e.running import assert_nothing_left
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.rest.run_files import running_clusters
from penstock.session.files import find_session, sessions
from support.patience import PATIENCE_S, eventually
from support.rest_client import Client

TOKEN = "a token of the tests, which is long enough"


class Spoken:
    """A process in a process group of its own, whose log is read continuously."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        with self._changed:
            return "".join(self._lines)

    def says(self, pattern: str, times: int = 1) -> None:
        """Wait until the process has logged a pattern a number of times."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over or len(re.findall(pattern, "".join(self._lines))) >= times,
                PATIENCE_S,
            )
        count = len(re.findall(pattern, self.log))
        assert count >= times, f"{pattern!r} {count} times in\n{self.log}"

    def signal(self, number: int) -> int:
        """Send a signal, and return the exit code after the whole process group has ended."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for the process to end and return its exit code."""
        try:
            code = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            raise AssertionError(f"it has not ended\n{self.log}") from None
        assert_nothing_left(self.pid)
        self._reader.join(PATIENCE_S)
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


class Role(Spoken):
    """A process of a session: `penstock` and its arguments.

    Args:
        arguments: The arguments.
        inside: A command prefix that runs the process elsewhere, for example on another host.
        environment: Additional environment variables.
    """

    def __init__(self, *arguments: str, inside: Sequence[str] = (), **environment: str) -> None:
        command = [*inside, sys.executable, "-m", "penstock", *arguments]
        super().__init__(command, **{"PENSTOCK_SESSION_TOKEN": TOKEN, **environment})


class Session:
    """A session for one test, and the processes started for it."""

    def __init__(self, name: str = "test") -> None:
        self.name = name
        self.roles: list[Role] = []
        self.port = 0

    def jobmanager(self, *arguments: str, slots: int = 0, **environment: str) -> Role:
        """Start a jobmanager, at the previous one's port if there was one."""
        role = Role(
            *("jobmanager", "--name", self.name, "--port", str(self.port)),
            *("--slots", str(slots), *arguments),
            **environment,
        )
        self.roles.append(role)
        role.says("jobmanager at")
        found = find_session(self.name)
        assert found.pid == role.pid
        self.port = found.port
        return role

    def taskexecutor(self, slots: int, *arguments: str, **environment: str) -> Role:
        """Start a taskexecutor."""
        role = Role(
            *("taskexecutor", "--jobmanager", f"127.0.0.1:{self.port}"),
            *("--slots", str(slots), *arguments),
            **environment,
        )
        self.roles.append(role)
        role.says("is registered")
        return role

    def environment(self, **options: str) -> StreamExecutionEnvironment:
        """Return an environment whose jobs go to the session."""
        configuration = Configuration()
        for key, value in {
            "execution.target": "session",
            "penstock.session": self.name,
            "parallelism.default": "1",
            **options,
        }.items():
            configuration.set_string(key, value)
        return StreamExecutionEnvironment.get_execution_environment(configuration)

    def close(self) -> None:
        """End the remaining processes, the jobmanagers first; all, though one does not end."""
        with contextlib.ExitStack() as stack:
            for role in reversed(self.roles):
                stack.callback(role.signal, signal.SIGTERM)
        assert sessions() == []


def status_of(job) -> str:
    return job.get_job_status().result().name


def running(job) -> None:
    """Wait until all tasks of a job run."""
    client = Client(running_clusters()[0])

    def do() -> bool:
        vertices = client.get(f"/jobs/{job.get_job_id()}")["vertices"]
        return all(vertex["status"] == "RUNNING" for vertex in vertices)

    eventually(do, "the job runs")


def wait_for(path: Path) -> None:
    eventually(path.exists, f"{path} is there")
