"""A TaskExecutor as a child process: its launch line, its log and its end."""

import errno
import os
import signal
import socket
import subprocess
import time
from types import SimpleNamespace

import psutil
import pytest
from penstock.taskexecutor.worker.worker_process import WorkerProcess
from support.patience import PATIENCE_S

pytestmark = pytest.mark.process


def test_a_process_that_ends_leaves_its_exit_code_and_log(capfd):
    with WorkerProcess({"runtime": "pure"}) as worker:
        assert worker.wait() == 1
    assert "the launch line is not valid" in worker.log_tail
    assert "the launch line is not valid" in capfd.readouterr().err
    assert not psutil.pid_exists(worker.pid)


@pytest.mark.parametrize("descriptors", ["there", "not in this Python", "not in this kernel"])
def test_its_end_is_noticed_when_it_comes(monkeypatch, descriptors):
    """There is no polling, unless the system lacks process descriptors."""

    def not_there(pid):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    looks = []
    # Not `time.sleep` itself: other threads of this process may sleep, too.
    clock = SimpleNamespace(sleep=lambda s: (looks.append(s), time.sleep(s)))
    monkeypatch.setattr(subprocess, "time", clock)
    if descriptors == "not in this Python":
        monkeypatch.delattr(os, "pidfd_open")
    elif descriptors == "not in this kernel":
        monkeypatch.setattr(os, "pidfd_open", not_there)
    with WorkerProcess({"runtime": "pure"}) as worker:
        assert worker.wait(PATIENCE_S) == 1
        assert worker.wait(PATIENCE_S) == 1
    if descriptors == "there":
        assert looks == []


def test_a_process_that_does_not_end_is_killed():
    with socket.create_server(("127.0.0.1", 0)) as driver:
        launch = {
            "driver": driver.getsockname(),
            "token": "00" * 32,
            "executor_id": "worker",
            "slots": 1,
            "runtime": "pure",
        }
        with WorkerProcess(launch) as worker:
            connection, _ = driver.accept()
            # It has read its launch line and waits for the challenge.
            assert worker.wait(0) is None
        connection.close()
        assert worker.wait() == -signal.SIGKILL
        assert not psutil.pid_exists(worker.pid)
