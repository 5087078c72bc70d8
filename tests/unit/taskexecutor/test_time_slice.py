"""Time slices: which threads get short ones, and that nothing else about a thread changes."""

import os
import subprocess
import sys

import pytest
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.taskexecutor.worker import task_executor
from penstock.taskexecutor.worker.time_slice import wants_short_slices
from support.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("buffer_timeout_ms", "wanted"), [(-1, False), (0, True), (1, True), (10, True), (100, False)]
)
@pytest.mark.parametrize("asked", [None, True, False])
def test_time_slices_are_short_by_option_or_by_a_short_buffer_timeout(
    buffer_timeout_ms, wanted, asked
):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_buffer_timeout(buffer_timeout_ms)
    config = env.get_configuration().to_dict()
    if asked is not None:
        config["penstock.short-time-slices"] = str(asked).lower()
    assert wants_short_slices(config) is (wanted if asked is None else asked)


@pytest.mark.parametrize("asked", [True, False])
def test_a_worker_shortens_its_slices_at_its_start(monkeypatch, asked):
    """The kind of its tasks does not matter."""
    calls = []
    monkeypatch.setattr(task_executor, "shorten_time_slices", lambda: calls.append(1))
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    configuration.set_boolean("penstock.short-time-slices", asked)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.set_buffer_timeout(100 if asked else 0)
    assert list(env.from_collection([1, 2]).execute_and_collect()) == [1, 2]
    assert calls == [1] * asked


PROGRAM = """
import os
from penstock.taskexecutor.worker.time_slice import shorten_time_slices
before = os.sched_getscheduler(0), os.nice(0)
shorten_time_slices()
assert (os.sched_getscheduler(0), os.nice(0)) == before, before
"""


@pytest.mark.process
@pytest.mark.parametrize("prefix", [[], ["nice", "-n", "7"]])
def test_policy_and_niceness_stay(prefix):
    command = [*prefix, sys.executable, "-c", PROGRAM]
    subprocess.run(command, check=True, env=os.environ, timeout=PATIENCE_S)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="other policies are Linux's")
def test_a_thread_of_another_policy_is_left_alone():
    program = (
        "import os\n"
        "from penstock.taskexecutor.worker.time_slice import shorten_time_slices\n"
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
        "assert not shorten_time_slices()\n"
        "assert os.sched_getscheduler(0) == os.SCHED_BATCH\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ, timeout=PATIENCE_S)
