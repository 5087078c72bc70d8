"""The guide's programs for Spark run as printed."""

import re
from pathlib import Path

import pytest
from e2e.running import ROOT, run_program

pytestmark = pytest.mark.spark

PROGRAMS = [
    pytest.param(program, id=f"{page.relative_to(ROOT)}-{number}")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for number, program in enumerate(
        re.findall(r"^```py spark\n(.*?)^```", page.read_text(), re.M | re.S)
    )
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_runs(program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program)
    monkeypatch.chdir(tmp_path)
    outcome = run_program([str(path)])
    assert outcome.code == 0, outcome.err
