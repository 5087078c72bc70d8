"""Workers of a session's host whose processes take a while to start.

Method: a process starts when the test lets it, and ends when it is killed.
"""

import queue
import threading
from types import SimpleNamespace

import pytest
from penstock.rpc.host_messages import StartWorker
from penstock.taskexecutor.worker import host
from support.patience import PATIENCE_S


class SlowProcess:
    pid, log_tail = 7, ""

    def __init__(self, *_, **__):
        self.killed = threading.Event()
        self.starting.set()
        assert self.may_start.wait(PATIENCE_S), "somebody waits for the start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def kill(self):
        self.killed.set()

    def wait(self):
        assert self.killed.wait(PATIENCE_S)
        return -9


@pytest.mark.parametrize("method", ["end", "kill"])
def test_nobody_waits_for_a_start_to_end_a_worker(monkeypatch, method):
    SlowProcess.starting, SlowProcess.may_start = threading.Event(), threading.Event()
    monkeypatch.setattr(host, "WorkerProcess", SlowProcess)
    ends = queue.Queue()
    link = SimpleNamespace(
        launch=lambda message: {},
        environment=lambda job_id: SimpleNamespace(of=lambda launch: None),
        servers_for=lambda environment: None,
        ended=ends.put,
    )
    worker = host._Worker(link, StartWorker("worker", bytes(16), b"{}"))
    worker.start()
    assert SlowProcess.starting.wait(PATIENCE_S)
    getattr(worker, method)()
    SlowProcess.may_start.set()
    end = ends.get(timeout=PATIENCE_S)
    assert (end.executor_id, end.exit_code) == ("worker", -9)
