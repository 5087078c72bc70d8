"""Spark's data as sources: the contract of all sources, with the program's own Spark."""

import re
from pathlib import Path

import pytest
from e2e.running import run_program

# Starting Spark takes minutes on a busy machine.
pytestmark = pytest.mark.spark

PROGRAM = str(Path(__file__).with_name("spark_source_programs.py"))


@pytest.mark.parametrize("scenarios", [["kill"], ["savepoint", "failure"]], ids="-".join)
def test_each_row_once_whatever_happens(scenarios: list[str], tmp_path: Path) -> None:
    """After the kill of a worker, from a savepoint at another parallelism, after a failure."""
    outcome = run_program([PROGRAM, str(tmp_path), *scenarios])
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("others are kept\n")
    found = re.findall(r"(frame|batches) (savepoint|failure|kill)$", outcome.out, re.MULTILINE)
    assert found == [(source, name) for source in ("frame", "batches") for name in scenarios]
