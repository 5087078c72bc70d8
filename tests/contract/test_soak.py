"""A short soak, by counts: nothing grows and nothing is lost between two processes."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S

SOAK = Path(__file__).resolve().parents[2] / "benchmarks" / "soak.py"


@pytest.mark.process
@pytest.mark.parametrize("link", ["same-host", "tcp"])
def test_short_soak(plane, link):
    """A-16, C-11: the pool's accounts hold under load and resident sizes stay flat."""
    records = 60_000 if plane.kind == "native" else 6_000
    command = [sys.executable, str(SOAK), f"--records={records}", f"--runtime={plane.kind}"]
    if link == "tcp":
        command.append("--tcp")
    soak = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert soak.returncode == 0, soak.stderr
    assert soak.stdout.startswith(f"{records:,} records"), soak.stdout
