"""A pytest plugin: the local jobs of a process's tests fork their workers from shared servers.

A job's own server imports penstock for a third of a second of CPU time and ends with the job.
These stay for the jobs of later tests with the same environment, folder, limits and standard
output.  A job's workers are its own, and end with it.

Tests of the processes themselves are marked with `own_fork_server`.
"""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from penstock.taskexecutor.worker.forked_process import END_TIMEOUT_S, ForkServers
from support import leftovers

#: As many servers stay from test to test: jobs of both runtimes may take turns.
KEPT = 2
#: Differs in each test.
OF_PYTEST = "PYTEST_CURRENT_TEST"


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "own_fork_server: its jobs fork their workers from servers of their own"
    )
    leftovers.SHARED.append(SHARED.pids)


def pytest_unconfigure():
    SHARED.keep(0)


class SharedServers:
    """The servers of this process by the surroundings of their workers; any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._servers = {}

    def fork(self, surroundings):
        environment = {k: v for k, v in surroundings.environment.items() if k != OF_PYTEST}
        folder = surroundings.working_directory or os.getcwd()
        surroundings = surroundings._replace(environment=environment, working_directory=folder)
        key = (surroundings.interpreter, folder, *sorted(environment.items()), *_inherited())
        with self._lock:
            # The one that was used last comes last.
            servers = self._servers.pop(key, None) or ForkServers()
            self._servers[key] = servers
        return servers.fork(surroundings)

    def keep(self, number):
        """End all servers but those that were used last."""
        with self._lock:
            ended = [*self._servers][: max(0, len(self._servers) - number)]
            servers = [self._servers.pop(key) for key in ended]
        for one in servers:
            one.close()

    def pids(self):
        with self._lock:
            servers = [*self._servers.values()]
        return {one._process.pid for each in servers for _, one in [*each._servers]}


SHARED = SharedServers()


def _inherited():
    """Return what else workers inherit: the standard output, which tests capture, and limits."""
    output = os.fstat(1)
    status = Path("/proc/self/status").read_text().splitlines()
    umask = next(line for line in status if line.startswith("Umask:"))
    return output.st_dev, output.st_ino, umask, Path("/proc/self/limits").read_text()


class ServersOfJob:
    """Takes the place of a job's `ForkServers`."""

    def __init__(self):
        self._lock = threading.Lock()
        self._workers = []
        self._is_closed = False

    def fork(self, surroundings):
        self._check_open()
        worker = SHARED.fork(surroundings)
        with self._lock:
            self._workers.append(worker)
        try:
            self._check_open()
        except OSError:
            worker.kill()
            raise
        return worker

    def _check_open(self):
        if self._is_closed:
            raise OSError("this host starts no more workers")

    def close(self):
        """End the remaining workers, with their servers if these do not answer."""
        with self._lock:
            self._is_closed = True
            workers = [one for one in self._workers if one.poll() is None]
        for worker in workers:
            worker.kill()
        try:
            for worker in workers:
                worker.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            SHARED.keep(0)


@pytest.fixture(autouse=True)
def shared_fork_servers(request):
    """Let the test's jobs use the shared servers, if it starts processes at all.

    A job that a failed test has left starts no more workers when the test has ended.
    """
    if request.node.get_closest_marker("process") is None:
        yield
        return
    from penstock.per_job import local_driver

    is_own = request.node.get_closest_marker("own_fork_server") is not None
    if is_own:
        SHARED.keep(0)
    of_jobs = []

    def servers_of_job():
        of_jobs.append(ForkServers() if is_own else ServersOfJob())
        return of_jobs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_driver, "ForkServers", servers_of_job)
        yield
    for servers in of_jobs:
        servers.close()
    SHARED.keep(KEPT)
