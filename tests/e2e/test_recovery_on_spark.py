"""A job on Spark continues from its checkpoint, whatever it has lost (internals M52, M45, M49).

Method: one job for each master; its final state is compared with a model (`recovery.chaos`).
"""

from pathlib import Path

import pytest
from e2e.running import ROOT, run_program

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("master", "deaths", "kinds"),
    [
        # Spark's own retries of lost tasks must neither disturb nor duplicate anything.
        ("local-cluster[2,1,1024]", ["worker", "daemon", "worker", "executor", "worker"], []),
        ("local[2]", [], ["rocksdb", "incremental"]),
        ("local-cluster[3,1,1024]", ["worker", "decommissioned"], ["dynamic"]),
    ],
)
def test_the_state_is_exact_after_what_spark_loses(
    master: str, deaths: list[str], kinds: list[str], tmp_path: Path
) -> None:
    """Raised exceptions; then `kill -9` of the worker, of PySpark's daemon and of an executor.

    With dynamic allocation and exclusion of failing executors, one is decommissioned, too.
    """
    program = str(ROOT / "tests/e2e/recovering.py")
    tests = str(ROOT / "tests")
    outcome = run_program([program, master, str(tmp_path), *kinds], PYTHONPATH=tests)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("killed")] == deaths
    # One restart per loss; an orphaned worker reports its tasks, then is lost.  And two exceptions,
    # which may come at once.
    restarts = outcome.err.count("subtasks restart in")
    expected = len(deaths) - deaths.count("daemon")
    executors = deaths.count("executor") + deaths.count("decommissioned")
    assert expected + 1 <= restarts <= expected + 2 + executors
    # The job's progress depends on the machine; a job that is stuck makes none.
    assert int(next(line for line in lines if line.startswith("counted")).split()[1]) > 1_000
    assert "left []" in lines, "files of checkpoints are left"
