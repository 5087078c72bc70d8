"""The guide's programs for Spark run as printed."""

import re
from pathlib import Path

import pytest
from e2e.running import ROOT, run_program

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUNNER = str(ROOT / "tests/e2e/several_programs.py")
PROGRAMS = {
    str(page.relative_to(ROOT)): programs
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if (programs := re.findall(r"^```py spark\n(.*?)^```", page.read_text(), re.M | re.S))
}


@pytest.mark.parametrize("page", PROGRAMS)
def test_programs_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One after the other, on one Spark."""
    paths = []
    for number, program in enumerate(PROGRAMS[page]):
        paths.append(tmp_path / f"program_{number}.py")
        paths[-1].write_text(program)
    monkeypatch.chdir(tmp_path)
    settings = str(ROOT / "tests/e2e/spark_conf")
    outcome = run_program([RUNNER, *map(str, paths)], SPARK_CONF_DIR=settings)
    assert outcome.code == 0, outcome.err
    # One that exits would end the others, too.
    assert outcome.err.count(f"program {tmp_path}") == len(paths), outcome.err
