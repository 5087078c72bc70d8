"""Workers of one machine, which are forked from one process."""

import os
import signal
import subprocess
import sys

import pytest
from integration.fake_jobs import FakeInvokable, job, vertex
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.per_job.local_driver import LocalDriver
from penstock.per_job.per_job_cluster import PerJobCluster
from support.patience import PATIENCE_S
from support.processes import children

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux alone"),
    pytest.mark.own_fork_server,
]


def own_processes():
    return children("penstock.taskexecutor")


def with_workers(number):
    """Return an environment whose jobs have that many workers, with one slot each."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("taskmanager.numberOfTaskSlots", "1")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(number)
    return env


def test_fifty_workers_of_one_slot_connect():
    env = with_workers(50)
    counts = (
        env.from_collection(list(range(1000)))
        .rebalance()
        .map(lambda x: (x % 50, os.getpid()))
        .key_by(lambda x: x[0])
        .map(lambda x: (*x, os.getpid()))
    )
    with counts.execute_and_collect() as results:
        values = list(results)
    assert len(values) == 1000
    assert len({mapped for _, mapped, _ in values}) == 50
    assert own_processes() == []


def test_a_worker_has_what_it_needs_from_the_start():
    """Otherwise each of hundreds would import these modules."""
    code = (
        "import sys; import penstock.taskexecutor.__main__;"
        "from penstock.taskexecutor.worker.fork_server import preload; preload();"
        "print(*sys.modules)"
    )
    preloaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    env = with_workers(8)
    modules = (
        env.from_collection(list(range(8)))
        .rebalance()
        .map(lambda x: (x, sorted(sys.modules), sys.argv[1:]))
        .key_by(lambda x: x[0])
        .reduce(lambda one, _: one)
    )
    with modules.execute_and_collect() as results:
        found = list(results)
    assert [arguments for _, _, arguments in found if arguments] == []
    seen = {name for _, names, _ in found for name in names}
    late = seen - {*preloaded}
    assert [name for name in late if name.startswith(("penstock.", "encodings."))] == []


@pytest.mark.parametrize("victim", ["worker", "server"])
def test_lost_workers_are_forked_again(victim):
    """From the same server, or from another if that was lost, with all of its workers."""

    def kill(task: FakeInvokable) -> None:
        environment = task.environment
        if environment.attempt_number == 0 and environment.subtask == 0:
            os.kill(os.getpid() if victim == "worker" else os.getppid(), signal.SIGKILL)
            signal.pause()
        environment.report_accumulators({"subtasks": 1})

    graph = job(vertex(kill, parallelism=6))
    graph.configuration.update(
        {
            "restart-strategy.type": "fixed-delay",
            # The workers die one after the other: a subtask may start on the next one to die.
            "restart-strategy.fixed-delay.attempts": "36",
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    )
    handle = PerJobCluster(
        {"penstock.runtime": "pure", "taskmanager.numberOfTaskSlots": "1"}, LocalDriver
    ).execute(graph)
    assert handle.result(PATIENCE_S)["subtasks"] == 6
    assert own_processes() == []
