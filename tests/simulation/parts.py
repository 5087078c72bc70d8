"""The seeds of a simulation in parts, each with all cores.

`PENSTOCK_SIMULATION_SEEDS=7` or `=0-999` runs other seeds.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Each part takes a share of a test's time limit, even on a machine with other work.
PARTS = 2
#: The numbers of all parts; `make test` runs one of them, 1,000 seeds.
ALL_PARTS = [pytest.param(part, marks=[pytest.mark.slow] * (part >= 1)) for part in range(PARTS)]


def seeds():
    """Return the seeds that were requested."""
    text = os.environ.get("PENSTOCK_SIMULATION_SEEDS", "0-1999")
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def check_part(part, kind):
    """Run a part of the seeds, with all cores, and fail with their failures."""
    chosen = seeds()[part::PARTS]
    cores = os.cpu_count() or 1
    step = PARTS * cores
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    share = [sys.executable, "-m", "simulation.schedules", kind]
    shares = [
        subprocess.Popen(
            [*share, str(seed), str(chosen.stop), str(step)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in chosen[:cores]
    ]
    try:
        reports = [share.communicate()[0] for share in shares]
    finally:
        for share in shares:
            share.kill()
            share.wait()
            share.stdout.close()
    failed = [
        report for share, report in zip(shares, reports, strict=True) if share.returncode != 0
    ]
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
