"""Workers that are forked from a process that has imported everything."""

import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from penstock.taskexecutor.worker.forked_process import ForkServers, Surroundings
from penstock.taskexecutor.worker.worker_process import WorkerProcess
from support.patience import PATIENCE_S
from support.processes import children

pytestmark = [
    pytest.mark.process,
    pytest.mark.own_fork_server,
    pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone"),
]


@pytest.fixture(params=["native", "pure"])
def runtime(request):
    if request.param == "native":
        pytest.importorskip("penstock._core")
    return request.param


@pytest.fixture
def servers():
    before = children("--fork-server")
    servers = ForkServers()
    yield servers
    servers.close()
    assert [one for one in children("--fork-server") if one not in before] == []


def launch(driver, runtime, number=0):
    return {
        "driver": driver.getsockname(),
        "token": "00" * 32,
        "executor_id": f"worker-{number}",
        "slots": 1,
        "runtime": runtime,
    }


def test_a_forked_worker_leaves_its_exit_code_and_log(servers, runtime, capfd):
    with WorkerProcess({"runtime": runtime}, servers=servers) as worker:
        assert worker.wait() == 1
    assert "the launch line is not valid" in worker.log_tail
    assert "the launch line is not valid" in capfd.readouterr().err
    assert not psutil.pid_exists(worker.pid)


def test_forked_workers_serve_and_are_killed_at_the_end(servers, runtime):
    with socket.create_server(("127.0.0.1", 0)) as driver:
        workers = [WorkerProcess(launch(driver, runtime, n), servers=servers) for n in range(3)]
        connections = [driver.accept()[0] for _ in workers]
        (parent,) = {psutil.Process(worker.pid).ppid() for worker in workers}
        assert psutil.Process(parent).ppid() == os.getpid()
        assert {os.getpgid(worker.pid) for worker in workers} == {w.pid for w in workers}
        for worker in workers:
            assert worker.wait(0) is None
            with worker:
                pass
            assert worker.wait() == -signal.SIGKILL
        for connection in connections:
            connection.close()


def test_workers_end_with_the_process_they_were_forked_from(servers, runtime):
    with socket.create_server(("127.0.0.1", 0)) as driver:
        with WorkerProcess(launch(driver, runtime), servers=servers) as worker:
            connection, _ = driver.accept()
            process = psutil.Process(worker.pid)
            psutil.Process(process.ppid()).kill()
            assert worker.wait() == -signal.SIGKILL
            connection.close()
        process.wait()
        # The next worker is forked from another process.
        with WorkerProcess(launch(driver, runtime), servers=servers) as worker:
            connection, _ = driver.accept()
            assert worker.wait(0) is None
            connection.close()


def test_an_interpreter_that_is_not_there(servers):
    with pytest.raises(FileNotFoundError, match="no-such-python"):
        servers.fork(Surroundings("/no-such-python", None, dict(os.environ)))


def test_a_server_that_cannot_start_is_named(servers, capfd):
    surroundings = Surroundings(sys.executable, None, os.environ | {"PENSTOCK_RUNTIME": "fast"})
    with pytest.raises(OSError, match=r"exit code 1; its log:\n(.|\n)*PENSTOCK_RUNTIME is 'fast'"):
        servers.fork(surroundings)
    assert "PENSTOCK_RUNTIME is 'fast'" in capfd.readouterr().err


def test_a_server_that_does_not_answer_delays_nobody(tmp_path):
    interpreter = tmp_path / "interpreter"
    interpreter.write_text("#!/bin/sh\nexec sleep 600\n")
    interpreter.chmod(0o700)
    surroundings = Surroundings(str(interpreter), None, dict(os.environ))
    servers = ForkServers()
    servers.prepare(surroundings)
    with ThreadPoolExecutor(1) as threads:
        forked = threads.submit(servers.fork, surroundings)
        servers.close()
        with pytest.raises(OSError, match=r"exit code -9|starts no more workers"):
            forked.result(PATIENCE_S)
    with pytest.raises(OSError, match="starts no more workers"):
        servers.fork(surroundings)
    assert children("600") == []


def test_workers_are_started_where_imports_start_threads(servers, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as driver:
        for number in range(2):
            with WorkerProcess(
                launch(driver, "pure", number), python_path=[str(tmp_path)], servers=servers
            ) as worker:
                driver.accept()[0].close()
                assert psutil.Process(worker.pid).ppid() == os.getpid()


def test_other_surroundings_have_another_server(servers):
    pids = []
    for value in ("a", "b", "a"):
        environment = os.environ | {"PENSTOCK_RUNTIME": "pure", "SOME_VARIABLE": value}
        worker = servers.fork(Surroundings(sys.executable, None, environment))
        pids.append(psutil.Process(worker.pid).ppid())
        worker.stdin.close()
        assert worker.wait() == 1  # it had no launch line
        worker.stderr.close()
    assert pids[0] == pids[2] != pids[1]


def test_nothing_runs_in_a_server_beside_its_one_thread(servers):
    surroundings = Surroundings(sys.executable, None, os.environ | {"PENSTOCK_RUNTIME": "native"})
    worker = servers.fork(surroundings)
    server = psutil.Process(psutil.Process(worker.pid).ppid())
    assert server.num_threads() == 1
    worker.kill()
    assert worker.wait() == -signal.SIGKILL
    worker.stdin.close()
    worker.stderr.close()
