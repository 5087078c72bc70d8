"""Workers die 64 times, and the state is that of an unfailed job (M51, M54, M58, M45, M49).

Method: see `chaos`; each job has a process of its own, so that its leftovers are visible. `make
chaos` kills 840.  `nemesis` shows the same for a session whose processes die, hang or are cut off.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("runtime", "mode", "kinds"),
    [
        ("native", "EXACTLY_ONCE", []),
        ("native", "AT_LEAST_ONCE", []),
        ("pure", "EXACTLY_ONCE", []),
        ("pure", "AT_LEAST_ONCE", []),
        ("native", "EXACTLY_ONCE", ["rocksdb", "incremental"]),
        ("native", "EXACTLY_ONCE", ["unaligned"]),
        ("native", "EXACTLY_ONCE", ["changelog"]),
        ("pure", "EXACTLY_ONCE", ["changelog", "rocksdb"]),
    ],
)
def test_state_survives_the_death_of_workers(runtime, mode, kinds):
    command = [sys.executable, "-m", "recovery.chaos", "--kills", "8", "--mode", mode]
    run([*command, "--kind", *kinds], runtime)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "seed", "jobs"),
    [
        (9, 1, ["counts", "rocksdb"]),
        (4, 2, ["sessions", "broadcast"]),
        (4, 3, ["async", "files"]),
    ],
)
@pytest.mark.stops_processes
def test_files_are_exact_whatever_a_session_loses(faults, seed, jobs):
    """JM+RM, TM and both: each of the faults once with counts, some with the other jobs."""
    nemesis = [sys.executable, "-m", "recovery.nemesis", "--faults", str(faults)]
    run([*nemesis, "--seed", str(seed), "--jobs", *jobs], "native")


def run(command, runtime):
    tests = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": tests, "PENSTOCK_RUNTIME": runtime}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr[-10_000:])
    assert done.returncode == 0
