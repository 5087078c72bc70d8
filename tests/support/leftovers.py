"""Leftovers of a test: processes, ports, temporary files, shared memory, Spark jobs.

Every process that a test starts inherits a mark in its environment, so it is found whichever
process is its parent.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

MARK = "PENSTOCK_TESTED_BY"
#: Functions that return processes with the mark that several tests share.
SHARED: list[Callable[[], set[int]]] = []


def without_mark() -> dict[str, str]:
    """Return an environment for resources that several tests share, though one test starts them."""
    return {key: value for key, value in os.environ.items() if key != MARK}


class Leftovers:
    """Resources of this process's tests, compared with those that existed before."""

    def __init__(self) -> None:
        os.environ[MARK] = str(os.getpid())
        self._servers = set(_processes())
        self._before = _resources()

    def check(self) -> None:
        """Wait for resources that are being released; end processes that are left.

        Raises:
            AssertionError: A resource is left.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        left: set[str] = set()
        try:
            while left := self._found() - self._before:
                gc.collect()  # objects that only a cycle keeps alive are harmless
                assert time.monotonic() < deadline_s, f"the test has left: {sorted(left)}"
                time.sleep(0.05)
        except pytest.fail.Exception as limit:  # that of the test, which had waited before
            limit.add_note(f"the test has left: {sorted(left)}")
            raise
        finally:
            if left:
                self._end_processes()

    def _found(self) -> set[str]:
        processes = {f"process {pid}: {text}" for pid, text in self._new_processes().items()}
        return {*processes, *_resources()}

    def _new_processes(self) -> dict[int, str]:
        # Child processes of a server that existed before the test belong to the server.
        return {
            pid: command
            for pid, command in _processes().items()
            if self._servers.isdisjoint(_ancestors(pid))
        }

    def _end_processes(self) -> None:
        """Kill the test's processes: one failure must not fail the tests behind it."""
        for pid in self._new_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _resources() -> set[str]:
    return {*_ports(), *_files(), *_shared_memory(), *_spark_jobs()}


def _processes() -> dict[int, str]:
    """Return the commands of all processes with the mark, except for those that tests share."""
    mark = f"{MARK}={os.getpid()}".encode()
    shared = {os.getpid()}.union(*(pids() for pids in SHARED))
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in shared:
            continue
        # It may end meanwhile, or belong to another user; an ended process has no environment.
        with contextlib.suppress(OSError):
            if mark in _read(f"/proc/{name}/environ").split(b"\0"):
                command = _read(f"/proc/{name}/cmdline").replace(b"\0", b" ").decode()
                found[int(name)] = command[:200]
    return found


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _ancestors(pid: int) -> set[int]:
    """Return a process and its ancestors."""
    found = set()
    # psutil compares the processes' times by the clock of the system, which may be set meanwhile.
    with contextlib.suppress(OSError):
        while pid:
            found.add(pid)
            # The name of a process is in parentheses and may contain anything.
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found


def _descriptors() -> Iterator[tuple[int, str]]:
    """Yield the open descriptors of this process with what each stands for."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield int(descriptor.name), str(descriptor.readlink())


def _ports() -> list[str]:
    # The kernel's table of connections has hundreds of closed ones, which take long to read.
    found = []
    for descriptor, target in _descriptors():
        if target.startswith("socket:"):
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
                of_internet = one.family in (socket.AF_INET, socket.AF_INET6)
                if of_internet and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.append(f"port {one.getsockname()[1]}")
    return found


def _files() -> list[str]:
    # pytest keeps the folders of tests for the analysis of failures.
    return [
        f"temporary file {path}"
        for path in Path(tempfile.gettempdir()).iterdir()
        if not path.name.startswith("pytest-of-")
    ]


def _shared_memory() -> list[str]:
    return [
        f"shared memory {descriptor}: {target}"
        for descriptor, target in _descriptors()
        if target.startswith(("/memfd:", "/dev/shm/"))
    ]


def _spark_jobs() -> list[str]:
    pyspark = sys.modules.get("pyspark")
    context = pyspark.SparkContext._active_spark_context if pyspark is not None else None
    if context is None:
        return []
    return [f"Spark job {job}" for job in context.statusTracker().getActiveJobsIds()]
