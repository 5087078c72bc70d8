"""print() writes the lines that the real PyFlink wrote when it was recorded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyflink_comparison.pyflink_oracle import prints

HERE = Path(__file__).parent


@pytest.mark.process
@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_lines_are_those_of_pyflink(runtime):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pyflink_oracle.prints", "compare"],
        cwd=HERE,
        env={**os.environ, "PENSTOCK_RUNTIME": runtime},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_each_case_is_recorded_and_each_difference_has_its_reason():
    assert list(map(prints.key_of, prints.cases())) == list(prints.recorded())
    documented = (HERE.parents[1] / "docs" / "pyflink.md").read_text()
    assert [reason for reason in prints.MEANT if f"- {reason}" not in documented] == []
