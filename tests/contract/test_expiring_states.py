"""Random accesses to states with a time to live, compared with a model, in both runtimes.

Goal: for any writes, reads and removals, with every kind of clean-up, in both state backends, and
restored from a snapshot that was serialised meanwhile, a state shows what the model shows.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import expiring_states

from contract.codecs import RUNTIMES

RUNS = 200


@pytest.mark.process
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_expiry_is_that_of_the_model(runtime):
    """In another process if the runtime is not the imported one."""
    program = [sys.executable, "-m", expiring_states.__name__, "--runs", str(RUNS)]
    tests = str(Path(expiring_states.__file__).parent.parent)
    done = subprocess.run(
        program,
        env={**os.environ, "PENSTOCK_RUNTIME": runtime, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]
