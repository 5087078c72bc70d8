"""Programs whose results are known, with a checkpoint every 20 ms and no restart (F1, F4, F14).

Goal: checkpoints change no result, at whatever moment of a program they come, its end included.
Method: tests of whole programs run again, in a process of their own, with other defaults.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROGRAMS = [
    "test_functions_beyond_pyflink.py",
    "test_pyflink_behaviour_side_outputs.py",
    "test_pyflink_behaviour_windows.py",
    "test_time_beyond_pyflink.py",
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("runtime", "backend"), [("native", "hashmap"), ("pure", "hashmap"), ("native", "rocksdb")]
)
def test_checkpoints_change_no_result(runtime, backend):
    options = {
        "execution.checkpointing.interval": "20 ms",
        "restart-strategy.type": "none",
        "state.backend.type": backend,
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        + [str(TESTS / "integration" / name) for name in PROGRAMS],
        cwd=TESTS.parent,
        env={
            **os.environ,
            "PENSTOCK_RUNTIME": runtime,
            "PENSTOCK_CONFIGURATION": json.dumps(options),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=880,
    )
    assert done.returncode == 0, done.stdout[-10_000:]
