"""penstock answers as the real PyFlink did when it was recorded, except for known differences."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = ["calls", "values", "programs", "plans"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("cases", "runtime"),
    [
        *((cases, "native") for cases in CASES),
        pytest.param("programs", "pure", marks=pytest.mark.slow),
    ],
)
def test_penstock_answers_as_pyflink(cases, runtime):
    """In a separate process: the calls set global state of the process."""
    everything = ["--all"] if os.environ.get("PENSTOCK_COMPARE") == "all" else []
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pyflink_oracle.run", "compare", cases, *everything],
        cwd=Path(__file__).parent,
        env={**os.environ, "PENSTOCK_RUNTIME": runtime},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.parametrize("cases", CASES)
def test_every_kind_of_difference_has_its_reason(cases):
    """The documentation names each kind, with its number of cases, and the sum of them."""
    here = Path(__file__).parent
    known = json.loads((here / "recorded" / f"{cases}_known_differences.json").read_text())
    documented = (here.parents[1] / "docs" / "pyflink.md").read_text()
    rows = [f"| {len(differing):,} | {kind} | " for kind, differing in known.items()]
    assert [row for row in rows if row not in documented] == []
    assert f"{sum(map(len, known.values())):,} {cases}" in documented
