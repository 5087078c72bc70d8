"""Time slices: who gets short ones, and that nothing else about a thread changes."""

import os
import subprocess
import sys

import pytest
from penstock.taskexecutor.worker.time_slice import wants_short_slices


@pytest.mark.parametrize(
    ("buffer_timeout_ms", "wanted"), [(-1, False), (0, True), (1, True), (10, True), (100, False)]
)
def test_only_short_buffer_timeouts_want_them(buffer_timeout_ms, wanted):
    assert wants_short_slices(buffer_timeout_ms) is wanted


PROGRAM = """
import os
from penstock.taskexecutor.worker.time_slice import shorten_time_slices
before = os.sched_getscheduler(0), os.nice(0)
shorten_time_slices()
assert (os.sched_getscheduler(0), os.nice(0)) == before, before
"""


@pytest.mark.parametrize("prefix", [[], ["nice", "-n", "7"]])
def test_policy_and_niceness_stay(prefix):
    command = [*prefix, sys.executable, "-c", PROGRAM]
    subprocess.run(command, check=True, env=os.environ, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="other policies are Linux's")
def test_a_thread_of_another_policy_is_left_alone():
    program = (
        "import os\n"
        "from penstock.taskexecutor.worker.time_slice import shorten_time_slices\n"
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
        "assert not shorten_time_slices()\n"
        "assert os.sched_getscheduler(0) == os.SCHED_BATCH\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ, timeout=60)
